//! Steps of a run: the repetitions that a program consists of.
//!
//! A program that marks its steps is taken at its word (`ProfilerStep#7`, `step`, `iteration`). Otherwise a training
//! step ends where its optimizer's step does, or its backward pass if no optimizer shows; and a step of inference is one
//! forward pass. Recordings without stacks and marks are cut at the troughs of the curve.
//!
//! What happens between two steps counts to the later one, so that steps cover the trace from the first on.

use std::cmp::Reverse;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{Moment, Replay};
use vramscope_snapshot::{Snapshot, StrId};

use crate::conclusions::known::KnownBy;
use crate::conclusions::passes::{Part, Pass, Passes};
use crate::conclusions::troughs::troughs;
use crate::questions::spans::{Span, is_internal_phase};
use crate::shelf::Small;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its number: the program's own (`ProfilerStep#7` is 7), else counted from 0.
    pub number: u64,
    /// The moment before its first event.
    pub from: Moment,
    /// The moment after its last event.
    pub to: Moment,
    /// Whether the trace shows its end.
    pub is_complete: bool,
}

/// What steps were found by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsBy {
    /// Annotations of the program.
    Annotations,
    /// Steps of an optimizer.
    Optimizer,
    /// Backward passes.
    Backward,
    /// Forward passes that come again.
    Forward,
    /// Troughs of the curve.
    Troughs,
    /// No steps were found.
    #[default]
    Nothing,
}

impl StepsBy {
    /// The words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Annotations => "the program's annotations",
            Self::Optimizer => "steps of the optimizer",
            Self::Backward => "backward passes",
            Self::Forward => "forward passes that recur",
            Self::Troughs => "troughs of the curve",
            Self::Nothing => "nothing",
        }
    }
}

/// The steps of a device in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// In order; each begins where the one before ends.
    pub list: Vec<Step>,
    /// What they were found by.
    pub by: StepsBy,
    /// The annotation, where annotations mark them.
    pub annotation: Option<StrId>,
    /// How they are known.
    pub known_by: KnownBy,
}

impl Steps {
    pub(crate) fn new(snapshot: &Snapshot, replay: &Replay, spans: &[Span], passes: &Passes) -> Self {
        annotated(snapshot, replay, spans).unwrap_or_else(|| {
            let (by, list) = match () {
                () if passes.has(Part::Optimizer) => (StepsBy::Optimizer, ended_by(passes, Part::Optimizer)),
                () if passes.has(Part::Backward) => (StepsBy::Backward, ended_by(passes, Part::Backward)),
                () => (StepsBy::Forward, ended_by(passes, Part::Forward)),
            };
            match list.len() {
                0 | 1 if by == StepsBy::Forward => by_troughs(replay),
                _ => Self { list, by, annotation: None, known_by: passes.known_by() },
            }
        })
    }

    /// The step that a moment lies in: that of the event before it.
    pub fn at(&self, at: Moment) -> Option<Step> {
        let ended = self.list.partition_point(|step| step.to < at);
        self.list.get(ended).copied().filter(|step| step.from < at)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What programs call a step, without its number: `ProfilerStep#7`, `step3` and `iteration 12` are steps. A step of the
/// optimizer alone is none.
pub(crate) fn step_name(name: &str) -> Option<&str> {
    let name = vramscope_format::phase(name).trim_end_matches(|last: char| last.is_ascii_digit());
    let name = name.trim_end_matches(['#', '_', '-', ' ', ':', '=', '/']);
    let lower = name.to_ascii_lowercase();
    let is_step = ["step", "iter", "iteration"].iter().any(|word| lower.ends_with(word));
    (is_step && !lower.contains("optim") && !is_internal_phase(name)).then_some(name)
}

/// Steps that the program marks: of the names that mean a step the outermost, then the most frequent.
fn annotated(snapshot: &Snapshot, replay: &Replay, spans: &[Span]) -> Option<Steps> {
    let mut names: HashMap<&str, (u32, Vec<&Span>)> = HashMap::new();
    for span in spans {
        let Some(name) = step_name(snapshot.text(span.name)) else { continue };
        if span.from < span.to {
            let (depth, found) = names.entry(name).or_insert((span.depth, Vec::new()));
            *depth = (*depth).min(span.depth);
            found.push(span);
        }
    }
    let order = |(name, (depth, found)): &(&str, (u32, Vec<&Span>))| {
        (Reverse(*depth), found.len(), Reverse((*name).to_owned()))
    };
    let (_, (_, spans)) = names.into_iter().max_by_key(order)?;
    let mut list: Vec<Step> = Vec::with_capacity(spans.len());
    for (row, span) in spans.iter().enumerate() {
        // Spans of several threads can overlap; a step begins where the last one began.
        let from = span.from.max(list.last().map_or(Moment::START, |last: &Step| last.to));
        let next = spans.get(row + 1).map(|next| next.from);
        let to = next.unwrap_or(span.to).max(from);
        let number = number(snapshot.text(span.name)).unwrap_or(row as u64);
        let is_complete = span.end_us.is_some() || to < replay.end();
        list.push(Step { number, from, to, is_complete });
    }
    let annotation = spans.first().map(|span| span.name);
    Some(Steps { list, by: StepsBy::Annotations, annotation, known_by: KnownBy::Recorded })
}

/// The number at the end of a name.
fn number(name: &str) -> Option<u64> {
    let name = vramscope_format::phase(name);
    name[name.trim_end_matches(|last: char| last.is_ascii_digit()).len()..].parse().ok()
}

/// Steps that end with the last pass of a part before another part begins.
fn ended_by(passes: &Passes, part: Part) -> Vec<Step> {
    let mut list: Vec<Step> = Vec::new();
    let mut begin: Option<Moment> = None;
    let mut row = passes.list().iter().peekable();
    while let Some(pass) = row.next() {
        let from = *begin.get_or_insert(list.last().map_or(pass.from, |last| last.to));
        // Two optimizers that step after one backward pass belong to one step.
        let goes_on = |next: &&Pass| next.part == part && part == Part::Optimizer;
        if pass.part == part && !row.peek().is_some_and(goes_on) {
            list.push(Step { number: list.len() as u64, from, to: pass.to, is_complete: true });
            begin = None;
        }
    }
    if let (Some(from), Some(last)) = (begin, passes.list().last()) {
        list.push(Step { number: list.len() as u64, from, to: last.to, is_complete: false });
    }
    list
}

fn by_troughs(replay: &Replay) -> Steps {
    let troughs = troughs(replay);
    let stretches = troughs.windows(2).enumerate();
    let list: Vec<Step> = stretches
        .map(|(row, pair)| Step { number: row as u64, from: pair[0], to: pair[1], is_complete: true })
        .collect();
    if list.is_empty() {
        return Steps::default();
    }
    Steps { list, by: StepsBy::Troughs, annotation: None, known_by: KnownBy::Likely }
}

impl Small for Steps {
    const NAME: &'static str = "steps";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps() {
        let name = |text| step_name(text);
        assert_eq!(name("ProfilerStep#12"), Some("ProfilerStep"));
        assert_eq!(name("## train_step ##"), Some("train_step"));
        assert_eq!(name("Iteration 3"), Some("Iteration"));
        assert_eq!(name("step0"), Some("step"));
        assert_eq!(name("Optimizer.step#AdamW.step"), None);
        assert_eq!(name("optimizer_step"), None);
        assert_eq!(name("forward"), None);
        assert_eq!(number("ProfilerStep#12"), Some(12));
        assert_eq!(number("step"), None);
    }
}
