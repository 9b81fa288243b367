//! Passes: the stretches of a trace in which a program runs forward, runs backward, or steps its optimizer.
//!
//! Stacks tell them apart. Where they do not, the marks that PyTorch's optimizers and programs leave do. A recording
//! with neither is split at its peaks: memory rises in a forward pass and falls in a backward pass.
//!
//! A pass begins with an allocation. Frees only lengthen it: the autograd engine's thread frees what it held while the
//! next pass has begun.

use std::cell::Cell;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{Counter, Moment, Replay};
use vramscope_snapshot::{Action, DeviceId, EventTable, Snapshot};

use crate::conclusions::known::KnownBy;
use crate::conclusions::stacks::Stacks;
use crate::questions::spans::Span;
use crate::questions::spans::phase_name;

/// A part of a program's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// A forward pass.
    Forward,
    /// A backward pass, with what it computes again.
    Backward,
    /// A step of an optimizer.
    Optimizer,
}

impl Part {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Forward, Self::Backward, Self::Optimizer];

    /// The word that JSON, tables and people read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }

    /// What the name of an annotation says.
    fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        if name.starts_with("optimizer.step") || name == "optimizer" || name == "optimizer_step" {
            Some(Self::Optimizer)
        } else if name == "backward" || name == "bwd" {
            Some(Self::Backward)
        } else if name == "forward" || name == "fwd" {
            Some(Self::Forward)
        } else {
            None
        }
    }
}

/// One pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Which part of the work.
    pub part: Part,
    /// The moment before its first event.
    pub from: Moment,
    /// The moment after its last event.
    pub to: Moment,
}

/// All passes of a device in order. They do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    list: Vec<Pass>,
    /// The same by part.
    by_part: [Vec<Pass>; 3],
    known_by: KnownBy,
}

impl Passes {
    /// What the events of a device alone say; `spans` are its annotations.
    pub(crate) fn of_events(
        snapshot: &Snapshot,
        device: DeviceId,
        stacks: &Stacks,
        spans: &[Span],
    ) -> Vec<Pass> {
        let events = snapshot.events(device);
        let marks = marks(snapshot, spans);
        let mut list = from_events(events, stacks, &marks);
        insert_idle_optimizers(&mut list, &marks);
        if stacks.tell_parts() { split_at_restarts(events, stacks, &list) } else { list }
    }

    /// The passes, from those of [`Passes::of_events`]: where nothing tells forward from backward, the levels do.
    pub(crate) fn settled(mut list: Vec<Pass>, replay: &Replay, stacks: &Stacks) -> Self {
        let has = |part: Part| list.iter().any(|pass| pass.part == part);
        let has_backward = has(Part::Backward);
        if !has_backward && !stacks.tell_parts() && has(Part::Optimizer) {
            list = split_at_peaks(replay, &list);
        }
        let known_by = match () {
            () if list.is_empty() => KnownBy::Unknown,
            () if has_backward => KnownBy::Certain,
            () => KnownBy::Likely,
        };
        let by_part = Part::ALL.map(|part| list.iter().filter(|pass| pass.part == part).copied().collect());
        Self { list, by_part, known_by }
    }

    /// In order.
    pub fn list(&self) -> &[Pass] {
        &self.list
    }

    /// How they are known.
    pub fn known_by(&self) -> KnownBy {
        self.known_by
    }

    /// Whether any is of a part.
    pub fn has(&self, part: Part) -> bool {
        !self.of(part).is_empty()
    }

    /// Those of a part, in order.
    pub fn of(&self, part: Part) -> &[Pass] {
        &self.by_part[part as usize]
    }

    /// The pass that a moment lies in or, between passes, the last before it.
    pub fn at(&self, at: Moment) -> Option<Pass> {
        let begun = self.list.partition_point(|pass| pass.from < at);
        self.list.get(begun.checked_sub(1)?).copied()
    }

    /// The pass that the event before a moment belongs to.
    pub fn inside(&self, at: Moment) -> Option<Pass> {
        self.at(at).filter(|pass| at <= pass.to)
    }

    /// The first pass of a part that begins at a moment or later.
    pub fn next(&self, part: Part, at: Moment) -> Option<Pass> {
        let passes = self.of(part);
        passes.get(passes.partition_point(|pass| pass.from < at)).copied()
    }
}

/// Passes as a walk through time asks for them: what was found last is looked at first.
pub(crate) struct Nearby<'a> {
    passes: &'a Passes,
    begun: Cell<usize>,
    next_backward: Cell<usize>,
}

impl<'a> Nearby<'a> {
    pub(crate) fn new(passes: &'a Passes) -> Self {
        Self { passes, begun: Cell::new(0), next_backward: Cell::new(0) }
    }

    /// The same as [`Passes::inside`].
    pub(crate) fn inside(&self, at: Moment) -> Option<Pass> {
        let begun = begun_before(&self.passes.list, at, &self.begun);
        self.passes.list.get(begun.checked_sub(1)?).copied().filter(|pass| at <= pass.to)
    }

    /// The same as [`Passes::next`] of backward passes.
    pub(crate) fn next_backward(&self, at: Moment) -> Option<Pass> {
        let passes = self.passes.of(Part::Backward);
        passes.get(begun_before(passes, at, &self.next_backward)).copied()
    }
}

/// How many passes have begun before a moment. `last` is what it was of the moment before.
fn begun_before(passes: &[Pass], at: Moment, last: &Cell<usize>) -> usize {
    let begun = last.get();
    let is_past = begun.checked_sub(1).and_then(|row| passes.get(row)).is_none_or(|pass| pass.from < at);
    if is_past && passes.get(begun).is_none_or(|pass| pass.from >= at) {
        return begun;
    }
    last.set(passes.partition_point(|pass| pass.from < at));
    last.get()
}

/// What annotations say: stretches in order of beginning, the inner after the outer.
fn marks(snapshot: &Snapshot, spans: &[Span]) -> Vec<Pass> {
    let mark = |span: &Span| {
        let part = Part::of_name(phase_name(snapshot.text(span.name)))?;
        Some(Pass { part, from: span.from, to: span.to })
    };
    spans.iter().filter_map(mark).collect()
}

/// Joins events of the same part; marks of the same part stay apart.
fn from_events(events: &EventTable, stacks: &Stacks, marks: &[Pass]) -> Vec<Pass> {
    let mut list: Vec<Pass> = Vec::new();
    let mut marks = marks.iter().enumerate().peekable();
    let mut open: Vec<(usize, &Pass)> = Vec::new();
    // Which mark the last pass was found by.
    let mut last_mark = None;
    // Where a run of frees of one part begins: a backward pass lets go of the logits before it allocates.
    let mut frees: Option<(Part, Moment)> = None;
    for (row, (action, &stack)) in events.actions().zip(events.stacks()).enumerate() {
        let before = Moment(row as u32);
        while let Some(mark) = marks.next_if(|(_, mark)| mark.from <= before) {
            open.push(mark);
        }
        while open.pop_if(|(_, mark)| mark.to <= before).is_some() {}
        let by_stack = stacks.part(stack).map(|part| (part, None));
        let marked = || open.last().map(|(number, mark)| (mark.part, Some(*number)));
        let Some((part, mark)) = by_stack.or_else(marked) else { continue };
        let to = Moment(row as u32 + 1);
        match list.last_mut() {
            Some(last) if last.part == part && (mark.is_none() || mark == last_mark) => last.to = to,
            _ if action == Action::Alloc => {
                let from = frees.filter(|(freed, _)| *freed == part).map_or(before, |(_, from)| from);
                list.push(Pass { part, from, to });
                last_mark = mark;
            }
            _ => {
                frees = frees.filter(|(freed, _)| *freed == part).or(Some((part, before)));
                continue;
            }
        }
        frees = None;
    }
    list
}

/// Adds the steps of optimizers that allocated nothing.
fn insert_idle_optimizers(list: &mut Vec<Pass>, marks: &[Pass]) {
    let marks = marks.iter().filter(|mark| mark.part == Part::Optimizer);
    let busy: Vec<Pass> = list.iter().filter(|pass| pass.part == Part::Optimizer).copied().collect();
    let is_busy = |mark: &&Pass| {
        let next = busy.partition_point(|pass| pass.to <= mark.from);
        busy.get(next).is_some_and(|pass| pass.from < mark.to.max(Moment(mark.from.0 + 1)))
    };
    let idle: Vec<Pass> = marks.filter(|mark| !is_busy(mark)).copied().collect();
    if idle.is_empty() {
        return;
    }
    // A pass that such a step lies in ends there: what comes after belongs to the next step.
    let mut cuts = idle.iter().peekable();
    let mut whole = Vec::with_capacity(list.len() + idle.len());
    for pass in list.drain(..) {
        let mut rest = pass;
        while let Some(mark) = cuts.next_if(|mark| mark.from < rest.to) {
            if mark.from > rest.from {
                whole.push(Pass { to: mark.from, ..rest });
            }
            whole.push(*mark);
            rest.from = mark.to.max(rest.from);
        }
        if rest.from < rest.to {
            whole.push(rest);
        }
    }
    whole.extend(cuts);
    *list = whole;
}

/// Between two steps of an optimizer, memory rises in the forward pass and falls in the backward pass.
fn split_at_peaks(replay: &Replay, optimizers: &[Pass]) -> Vec<Pass> {
    let mut list = Vec::new();
    let usual = optimizers.windows(2).map(|pair| pair[1].from.0.saturating_sub(pair[0].to.0)).max();
    let mut begin = Moment::START;
    for (number, optimizer) in optimizers.iter().enumerate() {
        if number == 0 {
            // The model was built before the first step, which is about as long as the others.
            begin = Moment(optimizer.from.0.saturating_sub(usual.unwrap_or(optimizer.from.0)));
        }
        if begin < optimizer.from {
            let top = replay.highest(Counter::Requested, begin, optimizer.from);
            list.push(Pass { part: Part::Forward, from: begin, to: top });
            list.push(Pass { part: Part::Backward, from: top, to: optimizer.from });
        }
        list.push(*optimizer);
        begin = optimizer.to;
    }
    list.retain(|pass| pass.part == Part::Optimizer || pass.from < pass.to);
    list
}

/// Stacks looked at to find the one with which each forward pass begins.
const FIRST_STACKS: usize = 8;

/// Forward passes that follow each other directly: each begins with what the first began with.
fn split_at_restarts(events: &EventTable, stacks: &Stacks, list: &[Pass]) -> Vec<Pass> {
    let all = events.stacks();
    let keys = |pass: &Pass| {
        let rows = pass.from.0 as usize..pass.to.0 as usize;
        rows.filter_map(|row| {
            let is_forward =
                events.action(row) == Some(Action::Alloc) && stacks.part(all[row]) == Some(Part::Forward);
            is_forward.then(|| stacks.within_pass(all[row]))
        })
    };
    let mut split = Vec::with_capacity(list.len());
    for pass in list {
        if pass.part != Part::Forward {
            split.push(*pass);
            continue;
        }
        let mut first = Vec::with_capacity(FIRST_STACKS);
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let mut last = None;
        for key in keys(pass) {
            // Several blocks of one call are one.
            if last.replace(key) == Some(key) {
                continue;
            }
            let count = counts.entry(key).or_default();
            if *count == 0 && first.len() < FIRST_STACKS {
                first.push(key);
            }
            *count += 1;
        }
        // A line that runs for each layer comes often in one pass; what comes last in each pass comes as often as passes do.
        let ends = last.map_or(0, |key| counts[&key]);
        let restarts = |key: &&u32| (2..=ends.saturating_add(1)).contains(&counts[*key]);
        let Some(&anchor) =
            first.iter().filter(restarts).min_by_key(|key| counts[*key]).filter(|_| ends >= 2)
        else {
            split.push(*pass);
            continue;
        };
        // Each ends with its last event of the forward pass: what the program does between two is in neither.
        let mut piece = Pass { to: pass.from, ..*pass };
        let mut has_begun = false;
        let (from, to) = (pass.from.0 as usize, pass.to.0 as usize);
        for (row, &stack) in all.iter().enumerate().take(to).skip(from) {
            let action = events.action(row);
            if stacks.part(stack) != Some(Part::Forward) {
                continue;
            }
            if action == Some(Action::Alloc) && stacks.within_pass(stack) == anchor {
                if has_begun {
                    split.push(piece);
                    piece.from = Moment(row as u32);
                }
                has_begun = true;
            }
            piece.to = Moment(row as u32 + 1);
        }
        split.push(Pass { to: pass.to, ..piece });
    }
    split
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::device::Device;
    use std::path::Path;
    use vramscope_snapshot::Reader;

    /// Recordings of three training steps: each is one forward pass, one backward pass and one step of the optimizer,
    /// whatever runs several times within a pass. `vit_ckpt` computes forward again within its backward passes.
    #[test]
    fn a_step_has_each_pass_once() {
        for name in ["llama_adamw", "gpt2_amp", "conv_sgd", "t5_adafactor", "fsdp2", "vit_ckpt"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/roles");
            let mut reader = Reader::new();
            reader.feed(&std::fs::read(folder.join(format!("{name}.pickle.xz"))).unwrap()).unwrap();
            let device = Device::new(reader.finish().unwrap(), DeviceId(0));
            let parts: Vec<_> = device.passes().list().iter().map(|pass| pass.part).collect();
            let step = [Part::Forward, Part::Backward, Part::Optimizer];
            assert_eq!(parts, [step, step, step].concat(), "{name}");
        }
    }
}
