//! Who backward memory belongs to: the forward line that an allocation of a backward pass answers to.
//!
//! Recorded where anomaly detection was on (`forward_frames`). Otherwise the autograd engine's own order tells: it frees
//! what a node had kept as soon as the node is done, so an allocation belongs to the forward allocation that the pass
//! frees next.

use hashbrown::HashMap;
use vramscope_format::{backward_function, place};
use vramscope_mapped::Buffer;
use vramscope_replay::{AllocIdx, Link, Moment, Replay};
use vramscope_snapshot::{Additions, Frame, FrameId, Snapshot, StackId, StrId};

use crate::conclusions::known::KnownBy;
use crate::conclusions::passes::{Part, Passes};
use crate::questions::frames::{autograd_node, is_internal, user_frame};

/// For each allocation of a backward pass the forward allocation that the pass frees next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(pub(crate) Buffer<u32>);

impl Answers {
    pub(crate) fn new(replay: &Replay, passes: &Passes) -> Self {
        let allocations = replay.allocations();
        if !passes.has(Part::Backward) {
            return Self::default();
        }
        let mut answers = vec![0; allocations.len()];
        let mut waiting: Vec<AllocIdx> = Vec::new();
        let (opened, released): (&[Moment], &[Moment]) = (&allocations.opened, &allocations.released);
        let links: &[Link] = replay.source().links;
        for pass in passes.of(Part::Backward) {
            let mut last = 0;
            let rows = links.iter().enumerate().take(pass.to.0 as usize).skip(pass.from.0 as usize);
            for (row, link) in rows {
                let Some(index) = link.as_allocation() else { continue };
                let (opened, released) = (opened[index.index()], released[index.index()]);
                let now = Moment(row as u32 + 1);
                if opened == now {
                    waiting.push(index);
                } else if released == now && opened <= pass.from && opened > Moment::START {
                    last = index.0 + 1;
                    waiting.drain(..).for_each(|index| answers[index.index()] = last);
                }
            }
            // After the last of them the pass finishes what it is at.
            waiting.drain(..).for_each(|index| answers[index.index()] = last);
        }
        Self(answers.into())
    }

    /// The forward allocation that an allocation answers to.
    pub(crate) fn of(&self, allocation: AllocIdx) -> Option<AllocIdx> {
        self.0.get(allocation.index())?.checked_sub(1).map(AllocIdx)
    }
}

/// The forward line that an allocation of a backward pass belongs to, and how that is known.
pub(crate) fn forward_line(
    snapshot: &Snapshot,
    replay: &Replay,
    answers: &Answers,
    index: AllocIdx,
) -> Option<(String, KnownBy)> {
    if let Some(traceback) = traceback(snapshot, replay, index) {
        let lines = lines(snapshot.text(traceback));
        if let Some(&(file, line, name)) = own_line(&lines).and_then(|at| lines.get(at)) {
            return Some((place(file, line, name), KnownBy::Recorded));
        }
    }
    let answered = replay.allocation(answers.of(index)?);
    let frame = user_frame(snapshot, answered.recorded)?;
    let line = place(snapshot.text(frame.file), frame.line, snapshot.text(frame.name));
    Some((line, KnownBy::Likely))
}

/// The traceback of the forward pass that an allocation was recorded with.
fn traceback(snapshot: &Snapshot, replay: &Replay, index: AllocIdx) -> Option<StrId> {
    let event = replay.allocations().opened[index.index()].event()?;
    let meta = snapshot.events(replay.device()).get(event.index()).meta;
    Some(snapshot.meta(meta).forward).filter(|text| *text != StrId::EMPTY)
}

/// The lines of a Python traceback, outermost first: `  File "train.py", line 88, in forward`.
fn lines(traceback: &str) -> Vec<(&str, u32, &str)> {
    let parse = |line| {
        let (file, rest) = str::trim_start(line).strip_prefix("File \"")?.split_once("\", line ")?;
        let (number, name) = rest.split_once(", in ")?;
        Some((file, number.parse::<u32>().ok()?, name.trim_end()))
    };
    traceback.lines().filter_map(parse).collect()
}

/// The innermost line that is the user's own, else the innermost.
fn own_line(lines: &[(&str, u32, &str)]) -> Option<usize> {
    let own = lines.iter().rposition(|(file, _, name)| !is_internal(name, file));
    own.or(lines.len().checked_sub(1))
}

/// Gives memory of backward passes that was recorded without a line of the user's own the stack of the forward pass
/// that it belongs to. Its innermost frame is the forward line, marked: `model.py:66 forward (MmBackward0, inferred)`.
pub(crate) fn attribute<'a>(
    snapshot: &Snapshot,
    replays: impl Iterator<Item = (&'a mut Replay, &'a Passes)>,
) {
    let mut owners = Owners::new(snapshot);
    let candidate = |stack| stack != StackId::ABSENT && owners.own_at(stack).is_none();
    let candidates: Vec<bool> = snapshot.stacks.recorded().map(candidate).collect();
    let lacks_line = |stack: &StackId| candidates.get(stack.index()) == Some(&true);
    for (replay, passes) in replays {
        let stacks = &replay.allocations().stack;
        if !stacks.iter().any(lacks_line) {
            continue;
        }
        let answers = Answers::new(replay, passes);
        let mut attributed = stacks.clone();
        for (row, stack) in attributed.iter_mut().enumerate().filter(|(_, stack)| lacks_line(stack)) {
            let index = AllocIdx(row as u32);
            let traced = if owners.has_tracebacks { traceback(snapshot, replay, index) } else { None };
            let forward = match (traced, answers.of(index)) {
                (Some(text), _) => Forward::Traceback(text),
                (None, Some(answered)) => Forward::Stack(replay.allocations().stack[answered.index()]),
                (None, None) => continue,
            };
            *stack = owners.stack(*stack, forward).unwrap_or(*stack);
        }
        replay.set_stacks(attributed);
    }
    owners.additions.finish();
}

/// Where the forward pass was.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Forward {
    /// As anomaly detection recorded it.
    Traceback(StrId),
    /// The stack of the forward allocation that is freed next.
    Stack(StackId),
}

/// Stacks of the forward pass for memory of the backward pass.
struct Owners<'a> {
    snapshot: &'a Snapshot,
    has_tracebacks: bool,
    /// For each frame whether it is the user's own.
    is_own: Vec<bool>,
    additions: Additions<'a>,
    /// Frames that may be added: no more than the file has itself.
    room: usize,
    known: HashMap<(Option<&'a str>, Forward), Option<StackId>>,
    /// The same by the stack that was recorded, which is what all but a few are found by.
    seen: HashMap<(StackId, Forward), Option<StackId>>,
}

impl<'a> Owners<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let table = &snapshot.stacks;
        let is_own = |id| {
            let frame = table.frame(id);
            !is_internal(snapshot.text(frame.name), snapshot.text(frame.file))
        };
        Self {
            snapshot,
            has_tracebacks: snapshot.metas.iter().any(|meta| meta.forward != StrId::EMPTY),
            is_own: (0..table.frame_count()).map(FrameId::from_index).map(is_own).collect(),
            additions: Additions::new(snapshot),
            room: table.recorded().map(|stack| table.get(stack).len()).sum::<usize>()
                + snapshot.strings.len(),
            known: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    /// Which frame of a stack is the innermost of the user's own.
    fn own_at(&self, stack: StackId) -> Option<usize> {
        let frames = self.snapshot.stacks.get(stack);
        frames.iter().position(|frame| self.is_own.get(frame.index()) == Some(&true))
    }

    /// The stack for memory that was recorded with `stack`.
    fn stack(&mut self, stack: StackId, forward: Forward) -> Option<StackId> {
        if let Some(seen) = self.seen.get(&(stack, forward)) {
            return *seen;
        }
        let made = self.made(autograd_node(self.snapshot, stack), forward);
        self.seen.insert((stack, forward), made);
        made
    }

    /// The stack for memory of a node.
    fn made(&mut self, node: Option<&'a str>, forward: Forward) -> Option<StackId> {
        if let Some(known) = self.known.get(&(node, forward)) {
            return *known;
        }
        let frames = match forward {
            Forward::Traceback(text) => self.of_traceback(text, node),
            Forward::Stack(stack) => self.of_stack(stack, node),
        };
        let made = frames
            .filter(|frames| self.additions.len() + frames.len() <= self.room)
            .map(|frames| self.additions.stack(&frames));
        self.known.insert((node, forward), made);
        made
    }

    fn of_stack(&mut self, stack: StackId, node: Option<&str>) -> Option<Vec<FrameId>> {
        let snapshot = self.snapshot;
        let at = self.own_at(stack)?;
        let (own, callers) = snapshot.stacks.get(stack).get(at..)?.split_first()?;
        let frame = snapshot.stacks.frame(*own);
        let name = self.additions.text(backward_function(snapshot.text(frame.name), node, true));
        let marked = self.additions.frame(Frame { name, ..frame });
        Some(std::iter::once(marked).chain(callers.iter().copied()).collect())
    }

    fn of_traceback(&mut self, text: StrId, node: Option<&str>) -> Option<Vec<FrameId>> {
        let lines = lines(self.snapshot.text(text));
        let at = own_line(&lines)?;
        let (own, callers) = lines.get(..=at)?.split_last()?;
        let mut add = |&(file, line, name): &(&str, u32, &str), name_of: Option<String>| {
            let name = self.additions.text(name_of.unwrap_or_else(|| name.to_owned()));
            let file = self.additions.text(file.to_owned());
            self.additions.frame(Frame { name, file, line, fx: 0 })
        };
        let marked = add(own, Some(backward_function(own.2, node, false)));
        Some(std::iter::once(marked).chain(callers.iter().rev().map(|line| add(line, None))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_line_of_a_traceback() {
        let text = "  File \"/home/me/train.py\", line 166, in step\n    loss = model(x).mean()\n  \
                    File \"/opt/venv/lib/python3.12/site-packages/torch/nn/functional.py\", line 9, in relu\n";
        let lines = lines(text);
        assert_eq!(own_line(&lines).map(|at| lines[at]), Some(("/home/me/train.py", 166, "step")));
        assert_eq!(own_line(&[]), None);
    }
}
