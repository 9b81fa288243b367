//! Where in the run each allocation is made and let go, and by whom: what findings about programs start from.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Allocation, Counter, Moment, signed};
use vramscope_snapshot::{Frame, FrameId, StackId};

use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::conclusions::cycles::{Cycles, Thread};
use crate::conclusions::stacks::Role;
use crate::questions::frames::{callers, is_of_program, user_frame};

/// The share of the peak from which on a finding is worth acting on, and from which on it decides whether a run fits.
pub(super) const MEDIUM: f64 = 0.05;
const HIGH: f64 = 0.25;
/// The share of the program's allocations that a function is on the stack of, if it is that of the loop.
const LOOP_SHARE: f64 = 0.8;
/// Lines that a finding names.
const NAMED_LINES: usize = 4;

/// The allocations of a device in its cycles.
pub(super) struct Ledger<'a> {
    pub(super) case: &'a Case<'a>,
    pub(super) cycles: &'a Cycles,
    /// Highest requested bytes.
    pub(super) peak: u64,
    /// The moment of that.
    pub(super) peak_at: Moment,
    stacks: Vec<Place>,
}

/// A stack as findings see it.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    thread: Thread,
    /// Whether it is inside the call of a module.
    in_module: bool,
    role: Role,
    /// The innermost line of the program.
    own: Option<Frame>,
    /// The line of the program's loop.
    of_loop: Option<Frame>,
}

/// A line with what it made.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeBy {
    pub(super) frame: Frame,
    pub(super) bytes: u64,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(case: &'a Case<'a>) -> Self {
        let cycles = case.device.cycles();
        let peak = case.replay.peak(Counter::Requested);
        let mut ledger = Self {
            case,
            cycles,
            peak: peak.bytes.max(0).unsigned_abs(),
            peak_at: peak.at,
            stacks: Vec::new(),
        };
        ledger.stacks = ledger.places();
        ledger
    }

    fn places(&self) -> Vec<Place> {
        let Case { snapshot, device, .. } = *self.case;
        let table = &snapshot.stacks;
        let of_loop = self.loop_function();
        let place = |stack: StackId| {
            let frames = table.get(stack);
            let frame = |id: &FrameId| table.frame(*id);
            let own = |frame: &Frame| is_of_program(snapshot.text(frame.name), snapshot.text(frame.file));
            let is_call = |frame: Frame| {
                snapshot.text(frame.name).ends_with("_call_impl")
                    && snapshot.text(frame.file).replace('\\', "/").ends_with("torch/nn/modules/module.py")
            };
            Place {
                thread: self.cycles.thread(stack),
                in_module: frames.iter().map(frame).any(is_call),
                role: device.stacks().role(stack),
                own: frames.iter().map(frame).find(own),
                of_loop: frames
                    .iter()
                    .map(frame)
                    .find(|frame| of_loop == Some((snapshot.text(frame.file), snapshot.text(frame.name)))),
            }
        };
        table.ids().map(place).collect()
    }

    /// The deepest function of the program that most of its allocations come through, by file and name.
    fn loop_function(&self) -> Option<(&'a str, &'a str)> {
        let Case { snapshot, replay, .. } = *self.case;
        let mut by_stack: HashMap<StackId, u64> = HashMap::new();
        for &stack in &replay.allocations().stack {
            if self.cycles.thread(stack) == Thread::Main {
                *by_stack.entry(stack).or_default() += 1;
            }
        }
        let all: u64 = by_stack.values().sum();
        // How many allocations come through each, and how far it lies from the beginning of the program.
        let mut functions: HashMap<(&str, &str), (u64, usize)> = HashMap::new();
        for (stack, count) in by_stack {
            let frames: Vec<Frame> = snapshot.frames(stack).collect();
            let mut seen = HashSet::new();
            for (depth, frame) in frames.iter().rev().enumerate() {
                let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
                if is_of_program(name, file) && seen.insert((file, name)) {
                    let (through, deepest) = functions.entry((file, name)).or_default();
                    *through += count;
                    *deepest = (*deepest).max(depth);
                }
            }
        }
        let is_usual = |(_, (through, _)): &(_, (u64, usize))| *through as f64 >= all as f64 * LOOP_SHARE;
        let found = functions.into_iter().filter(is_usual).max_by_key(|(name, (_, depth))| (*depth, *name));
        found.map(|(name, _)| name)
    }

    /// Whether stacks tell the threads of the program, so that what is not found in its cycles is not there.
    pub(super) fn tells(&self) -> bool {
        self.stacks.iter().any(|place| place.thread == Thread::Main)
    }

    fn place(&self, stack: StackId) -> Place {
        self.stacks.get(stack.index()).copied().unwrap_or_default()
    }

    /// The thread that made an allocation.
    pub(super) fn thread(&self, block: &Allocation) -> Thread {
        self.place(block.recorded).thread
    }

    /// The thread that lets something go, by the stack of the free.
    pub(super) fn freed_on(&self, stack: StackId) -> Thread {
        if self.cycles.frees_have_stacks { self.place(stack).thread } else { Thread::Unknown }
    }

    /// Whether a free comes from inside the call of a module: what a function lets go when it returns.
    pub(super) fn freed_in_module(&self, stack: StackId) -> bool {
        self.place(stack).in_module
    }

    /// Whether an allocation was made inside the call of a module.
    pub(super) fn in_module(&self, block: &Allocation) -> bool {
        let place = self.place(block.recorded);
        place.in_module && !matches!(place.role, Role::Parameters | Role::Optimizer)
    }

    pub(super) fn role(&self, block: &Allocation) -> Role {
        self.place(block.recorded).role
    }

    pub(super) fn is_of_optimizer(&self, block: &Allocation) -> bool {
        self.place(block.recorded).role == Role::Optimizer
    }

    /// The innermost line of the program that an allocation comes through.
    pub(super) fn own(&self, stack: StackId) -> Option<Frame> {
        self.place(stack).own
    }

    /// The line of the program's loop that an allocation comes through.
    pub(super) fn of_loop(&self, stack: StackId) -> Option<Frame> {
        self.place(stack).of_loop
    }

    /// When an allocation is let go; never, if that is after the last allocation of the run.
    pub(super) fn freed(&self, block: &Allocation) -> Moment {
        if block.released > self.cycles.last { Moment::NEVER } else { block.released }
    }

    /// All allocations that the trace shows beginning.
    pub(super) fn made(&self) -> impl Iterator<Item = (AllocIdx, Allocation)> + '_ {
        self.case.replay.allocations().iter().filter(|(_, block)| block.opened > Moment::START)
    }

    /// Those of them whose stack passes: of the others nothing but the stack is looked at.
    pub(super) fn made_by(
        &self,
        is_wanted: impl Fn(Thread, Role) -> bool,
    ) -> impl Iterator<Item = (AllocIdx, Allocation)> + '_ {
        let wanted: Vec<bool> = self.stacks.iter().map(|place| is_wanted(place.thread, place.role)).collect();
        let table = self.case.replay.allocations();
        let rows = table.stack.iter().zip(&table.opened).enumerate();
        rows.filter(move |(_, (stack, opened))| {
            wanted.get(stack.index()) == Some(&true) && **opened > Moment::START
        })
        .map(move |(row, _)| {
            let index = AllocIdx(row as u32);
            (index, table.get(index))
        })
    }

    /// Those of them that are never freed.
    pub(super) fn left(&self) -> impl Iterator<Item = (AllocIdx, Allocation)> + '_ {
        let table = self.case.replay.allocations();
        let last = self.cycles.last;
        let rows = table.released.iter().zip(&table.opened).enumerate();
        rows.filter(move |(_, (released, opened))| **released > last && **opened > Moment::START).map(
            move |(row, _)| {
                let index = AllocIdx(row as u32);
                (index, table.get(index))
            },
        )
    }

    pub(super) fn bytes(&self, set: &[AllocIdx]) -> u64 {
        set.iter().fold(0, |sum, index| sum.saturating_add(self.case.replay.allocation(*index).requested))
    }

    /// Bytes by which the peak would be lower without a set, and the moment at which most of the set is live.
    pub(super) fn gain(&self, set: &[AllocIdx]) -> Gain {
        self.gain_while(set.iter().map(|&index| {
            let block = self.case.replay.allocation(index);
            (block.opened, block.closed, block.requested)
        }))
    }

    /// Bytes by which the peak would be lower without parts that are there from one moment to another.
    pub(super) fn gain_while(&self, parts: impl Iterator<Item = (Moment, Moment, u64)>) -> Gain {
        let mut changes: Vec<(Moment, i64)> = Vec::new();
        for (from, to, bytes) in parts {
            changes.push((from, signed(bytes)));
            changes.push((to, -signed(bytes)));
        }
        changes.sort_unstable_by_key(|(at, _)| *at);
        let replay = self.case.replay;
        let mut changes = changes.into_iter().peekable();
        let (mut held, mut without, mut found) = (0_i64, 0_i64, Gain::default());
        let all = std::iter::once(replay.counters(Moment::START)).chain(replay.all_counters());
        for (row, counters) in all.enumerate() {
            let at = Moment(row as u32);
            while let Some((_, change)) = changes.next_if(|(moment, _)| *moment <= at) {
                held = held.saturating_add(change);
            }
            without = without.max(counters.requested.saturating_sub(held));
            if held > found.most {
                (found.most, found.at) = (held, at);
            }
        }
        found.bytes = self.peak.saturating_sub(without.max(0).unsigned_abs());
        found
    }

    /// How bad it is that the peak is higher by some bytes.
    pub(super) fn severity(&self, gain: u64) -> Severity {
        match gain as f64 / self.peak.max(1) as f64 {
            share if share >= HIGH => Severity::High,
            share if share >= MEDIUM => Severity::Medium,
            _ => Severity::Low,
        }
    }

    /// Whether some bytes are at least a share of the peak.
    pub(super) fn is_share(&self, bytes: u64, share: f64) -> bool {
        bytes as f64 >= self.peak as f64 * share && bytes > 0
    }

    /// The lines that made a set, most bytes first; `line` says which line of a stack counts.
    pub(super) fn lines(&self, set: &[AllocIdx], line: impl Fn(StackId) -> Option<Frame>) -> Vec<MadeBy> {
        let mut sums: HashMap<Frame, u64> = HashMap::new();
        for &index in set {
            let block = self.case.replay.allocation(index);
            if let Some(frame) = line(block.recorded).or_else(|| line(block.stack)) {
                let bytes = sums.entry(frame).or_default();
                *bytes = bytes.saturating_add(block.requested);
            }
        }
        let mut lines: Vec<_> = sums.into_iter().map(|(frame, bytes)| MadeBy { frame, bytes }).collect();
        lines.sort_by_key(|line| (Reverse(line.bytes), line.frame.file, line.frame.line));
        lines
    }

    /// The line to look at for a set: that of the loop, where most of the set comes through one of it, else the innermost
    /// of the program.
    pub(super) fn line(&self, set: &[AllocIdx]) -> Option<Frame> {
        let inner = self.lines(set, |stack| self.own(stack));
        inner.first().map(|line| line.frame)
    }

    /// A finding about a set: its bytes are those that are live at once, and it names who made them.
    pub(super) fn finding(&self, kind: Kind, set: &[AllocIdx], gain: Gain) -> Finding {
        let Case { snapshot, replay, .. } = *self.case;
        let blocks = set.iter().map(|&index| replay.allocation(index));
        let from = blocks.clone().map(|block| block.opened).min().unwrap_or(gain.at).min(gain.at);
        let heaviest = blocks.max_by_key(|block| (block.requested, Reverse(block.opened)));
        let stack = heaviest.map(|block| block.recorded).filter(|stack| *stack != StackId::EMPTY);
        let inner = self.lines(set, |stack| self.own(stack));
        let outer = self.lines(set, |stack| self.of_loop(stack));
        let line = inner.first().map(|line| line.frame).or_else(|| {
            let stack = stack?;
            user_frame(snapshot, stack)
        });
        let mut finding =
            Finding::new(kind, self.severity(gain.bytes), gain.most.unsigned_abs(), (from, gain.at))
                .on(Site { stack, line: self.case.line(line), ..Site::default() })
                .likely();
        finding = finding
            .with("live at once", Amount::Bytes(gain.most.unsigned_abs()))
            .shown_by(format!("top --at {}", super::moment(gain.at)))
            .with("the peak would be lower by", Amount::Bytes(gain.bytes));
        for made in inner.iter().take(NAMED_LINES) {
            finding = finding.at("made by", self.case.place(made.frame), made.bytes);
        }
        let mut named: Vec<Frame> = inner.iter().take(NAMED_LINES).map(|line| line.frame).collect();
        for made in outer.iter().take(NAMED_LINES) {
            if !named.contains(&made.frame) {
                finding = finding.at("called by", self.case.place(made.frame), made.bytes);
                named.push(made.frame);
            }
        }
        // Lines of libraries say which part of a model it is.
        for made in self.lines(set, |stack| user_frame(snapshot, stack)).into_iter().take(2) {
            if !named.contains(&made.frame) {
                finding = finding.at("allocated by", self.case.place(made.frame), made.bytes);
                named.push(made.frame);
            }
        }
        // Where every line goes through a helper, its callers are what can be changed.
        for frame in stack.map(|stack| callers(snapshot, stack)).unwrap_or_default() {
            if !named.contains(&frame) {
                finding = finding.at("called by", self.case.place(frame), gain.most.unsigned_abs());
                named.push(frame);
            }
        }
        finding
    }

    /// `train.py:18` for sentences.
    pub(super) fn name(&self, frame: Option<Frame>) -> String {
        frame.map_or_else(|| "a line without a stack".to_owned(), |frame| self.case.place(frame))
    }
}

/// Cost of a set of allocations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    /// Bytes by which the peak would be lower.
    pub(super) bytes: u64,
    /// Most bytes of the set that are live at once.
    pub(super) most: i64,
    /// The moment of that.
    pub(super) at: Moment,
}
