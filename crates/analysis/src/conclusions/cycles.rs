//! Cycles of a run: its backward passes, and the units of work that repeat.
//!
//! The autograd engine runs backward passes on threads of its own. Their stacks have no Python frames, or begin in
//! PyTorch's own files (checkpointing, compiled code) or in a hook, and not where the program begins. A backward pass is
//! a run of such events with at least one allocation; it ends with the next event of the program outside the call of
//! `backward`, or where that call makes the gradient of the next loss. This needs no modules, no optimizer and no
//! annotation, and a recording that began late has it as well.
//!
//! A *unit* is what repeats: the work up to the end of a backward pass, else a step, else the stretch from one return of
//! a line to the next. Without stacks, or with stacks that were cut, there are none.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{Moment, Replay};
use vramscope_snapshot::{Action, FrameId, Snapshot, StackId};

use crate::conclusions::steps::{Steps, StepsBy};
use crate::questions::frames::{is_internal, is_of_program};

/// The thread that a stack is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Thread {
    /// Not known: the stack does not tell.
    #[default]
    Unknown,
    /// The thread that the program begins on, outside of `backward`.
    Main,
    /// The program's thread inside the call of `backward`.
    BackwardCall,
    /// A thread of the autograd engine.
    Engine,
    /// A thread that the program started.
    Other,
}

/// How units were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CyclesBy {
    /// Backward passes.
    Backward,
    /// The steps of the run.
    Steps,
    /// A line that returns evenly.
    Recurrence,
    /// No units were found.
    #[default]
    Nothing,
}

/// A stretch of events, both ends as moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The moment before the first event.
    pub from: Moment,
    /// The moment after the last event.
    pub to: Moment,
}

/// The cycles of a device.
#[derive(Clone, Debug, Default)]
pub struct Cycles {
    /// Backward passes in order.
    pub backward: Vec<Stretch>,
    /// The end of each unit. What comes after the last belongs to a unit that has no end.
    pub ends: Vec<Moment>,
    /// How units were found.
    pub by: CyclesBy,
    /// The moment after the last allocation: what is freed later was kept until the program ended.
    pub last: Moment,
    /// Whether frees have stacks: some recorders leave them out.
    pub(crate) frees_have_stacks: bool,
    /// For each stack its thread.
    threads: Vec<Thread>,
}

/// Fewer backward passes make no rhythm.
const LEAST_BACKWARD: usize = 3;
/// Fewer steps, where nothing runs backward, make no rhythm.
const LEAST_STEPS: usize = 6;
/// A line that comes back fewer times is no rhythm.
const LEAST_RETURNS: usize = 8;
/// The longest gap between two returns of a line, in gaps that are usual.
const LONGEST_GAP: u32 = 5;
/// The share of allocations with frames that has to begin where the program does. With stacks that were cut it does not.
const MAIN_SHARE: f64 = 0.6;

impl Cycles {
    pub(crate) fn new(snapshot: &Snapshot, replay: &Replay, steps: &Steps) -> Self {
        let events = snapshot.events(replay.device());
        let last = events.actions().rposition(|action| action == Action::Alloc);
        let last = Moment(last.map_or(0, |row| row as u32 + 1));
        let Some(threads) = threads(snapshot, replay) else { return Self { last, ..Self::default() } };
        let mut frees =
            events.actions().zip(events.stacks()).filter(|(action, _)| *action == Action::FreeRequested);
        let frees_have_stacks = frees.any(|(_, &stack)| !snapshot.stacks.get(stack).is_empty());
        let mut cycles = Self { last, threads, frees_have_stacks, ..Self::default() };
        cycles.backward = cycles.backward_passes(snapshot, replay);
        if cycles.backward.len() >= LEAST_BACKWARD {
            cycles.ends = cycles.backward.iter().map(|pass| pass.to).collect();
            cycles.by = CyclesBy::Backward;
            return cycles;
        }
        let is_usable = steps.list.len() >= LEAST_STEPS && steps.by != StepsBy::Troughs;
        let is_marked = steps.by == StepsBy::Annotations;
        let returns = if is_usable && is_marked { None } else { cycles.returns(snapshot, replay) };
        if let Some(ends) = returns {
            cycles.ends = ends;
            cycles.by = CyclesBy::Recurrence;
        } else if is_usable {
            cycles.ends = steps.list.iter().map(|step| step.to).collect();
            cycles.by = CyclesBy::Steps;
        }
        cycles
    }

    /// The thread of a stack.
    pub(crate) fn thread(&self, stack: StackId) -> Thread {
        self.threads.get(stack.index()).copied().unwrap_or_default()
    }

    /// Number of the unit that the event before a moment belongs to.
    pub fn unit(&self, at: Moment) -> usize {
        self.ends.partition_point(|end| *end < at)
    }

    /// Number of units, the one without an end left out.
    pub fn units(&self) -> usize {
        self.ends.len()
    }

    fn backward_passes(&self, snapshot: &Snapshot, replay: &Replay) -> Vec<Stretch> {
        let events = snapshot.events(replay.device());
        let is_seed = |stack: StackId| {
            snapshot.frames(stack).next().is_some_and(|frame| snapshot.text(frame.name) == "_make_grads")
        };
        let seeds: Vec<bool> = snapshot.stacks.ids().map(is_seed).collect();
        let mut list: Vec<Stretch> = Vec::new();
        let mut is_open = false;
        // Where a run of the engine's events begins: it lets go of the loss before it allocates.
        let mut begins: Option<Moment> = None;
        for (row, (action, &stack)) in events.actions().zip(events.stacks()).enumerate() {
            let (before, after) = (Moment(row as u32), Moment(row as u32 + 1));
            match (self.thread(stack), action) {
                (Thread::Main, Action::Alloc | Action::FreeRequested) => (is_open, begins) = (false, None),
                (Thread::Engine | Thread::BackwardCall, Action::Alloc) => {
                    if seeds.get(stack.index()) == Some(&true) {
                        is_open = false;
                    }
                    match list.last_mut().filter(|_| is_open) {
                        Some(pass) => pass.to = after,
                        None => list.push(Stretch { from: begins.unwrap_or(before), to: after }),
                    }
                    is_open = true;
                }
                (Thread::Engine | Thread::BackwardCall, Action::FreeRequested | Action::FreeCompleted) => {
                    match list.last_mut().filter(|_| is_open) {
                        Some(pass) => pass.to = after,
                        None => begins = begins.or(Some(before)),
                    }
                }
                _ => {}
            }
        }
        list
    }

    /// The returns of the rarest stack of the program that returns evenly over half of the run.
    fn returns(&self, snapshot: &Snapshot, replay: &Replay) -> Option<Vec<Moment>> {
        let events = snapshot.events(replay.device());
        let mut rows: HashMap<StackId, Vec<u32>> = HashMap::new();
        for (row, (action, &stack)) in events.actions().zip(events.stacks()).enumerate() {
            if action == Action::Alloc && self.thread(stack) == Thread::Main {
                rows.entry(stack).or_default().push(row as u32);
            }
        }
        let is_even = |rows: &Vec<u32>| {
            let mut gaps: Vec<u32> = rows.windows(2).map(|pair| pair[1] - pair[0]).collect();
            gaps.sort_unstable();
            let (Some(first), Some(last), Some(longest)) = (rows.first(), rows.last(), gaps.last()) else {
                return false;
            };
            let usual = gaps.get(gaps.len() / 2).copied().unwrap_or_default().max(1);
            *longest <= usual.saturating_mul(LONGEST_GAP) && (last - first) as usize * 2 >= events.len()
        };
        let found = rows
            .into_iter()
            .filter(|(_, rows)| rows.len() >= LEAST_RETURNS && is_even(rows))
            .min_by_key(|(stack, rows)| (rows.len(), *stack))?;
        Some(found.1.into_iter().map(Moment).collect())
    }
}

/// For each stack its thread; `None` where stacks do not tell.
fn threads(snapshot: &Snapshot, replay: &Replay) -> Option<Vec<Thread>> {
    let events = snapshot.events(replay.device());
    let mut allocs = vec![0_u32; snapshot.stacks.ids().count()];
    for (action, stack) in events.actions().zip(events.stacks()) {
        if action == Action::Alloc
            && let Some(count) = allocs.get_mut(stack.index())
        {
            *count += 1;
        }
    }
    let words = |id: &FrameId| {
        let frame = snapshot.stacks.frame(*id);
        (snapshot.text(frame.name), snapshot.text(frame.file))
    };
    let root = |stack: StackId| snapshot.stacks.get(stack).last().map(words);
    let mut roots: HashMap<(&str, &str), u64> = HashMap::new();
    let mut with_frames = 0;
    for (stack, count) in snapshot.stacks.ids().zip(&allocs) {
        let Some((name, file)) = root(stack).filter(|(name, file)| !is_internal(name, file)) else {
            continue;
        };
        *roots.entry((name, file)).or_default() += u64::from(*count);
        with_frames += u64::from(*count);
    }
    let (&main, &count) = roots.iter().max_by_key(|(root, count)| (**count, std::cmp::Reverse(**root)))?;
    if (count as f64) < with_frames as f64 * MAIN_SHARE || !is_of_program(main.0, main.1) {
        return None;
    }
    let thread = |stack: StackId| {
        let frames = snapshot.stacks.get(stack);
        let Some((name, file)) = root(stack) else {
            return if stack == StackId::EMPTY { Thread::Engine } else { Thread::Unknown };
        };
        if frames.iter().map(words).any(|(name, file)| is_backward_call(name, file)) {
            return Thread::BackwardCall;
        }
        match () {
            () if (name, file) == main => Thread::Main,
            () if file.ends_with("threading.py") || name == "_bootstrap" => Thread::Other,
            () if file.is_empty() || file == "??" => Thread::Unknown,
            () => Thread::Engine,
        }
    };
    Some(snapshot.stacks.ids().map(thread).collect())
}

/// Whether a frame is PyTorch's entry to the autograd engine.
fn is_backward_call(name: &str, file: &str) -> bool {
    name == "_engine_run_backward"
        || name == "_make_grads"
        || file.replace('\\', "/").ends_with("torch/autograd/__init__.py")
}
