//! Who backward memory belongs to: the forward line that an allocation of a backward pass answers to.
//!
//! Recorded where anomaly detection was on (`forward_frames`). Otherwise the autograd engine's own order tells: it frees
//! what a node had kept as soon as the node is done, so an allocation belongs to the forward allocation that the pass
//! frees next.

use vramscope_format::place;
use vramscope_snapshot::{EventIdx, Snapshot};

use crate::conclusions::known::KnownBy;
use crate::conclusions::passes::{Part, Passes};
use crate::questions::frames::{is_internal, user_frame};
use crate::replay::Replay;
use crate::replay::allocations::{AllocIdx, Moment};

/// For each allocation of a backward pass the forward allocation that the pass frees next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Vec<u32>);

impl Answers {
    pub(crate) fn new(replay: &Replay, passes: &Passes) -> Self {
        let allocations = replay.allocations();
        if !passes.has(Part::Backward) {
            return Self::default();
        }
        let mut answers = vec![0; allocations.len()];
        let mut waiting: Vec<AllocIdx> = Vec::new();
        for pass in passes.of(Part::Backward) {
            let mut last = 0;
            for row in pass.from.0..pass.to.0 {
                let Some(index) = replay.allocation_of(EventIdx(row)) else { continue };
                let (opened, released) =
                    (allocations.opened[index.index()], allocations.released[index.index()]);
                let now = Moment(row + 1);
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
        Self(answers)
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
    let event = replay.allocation(index).opened.event()?;
    let meta = snapshot.meta(snapshot.events(replay.device()).get(event.index()).meta);
    if let Some(line) = last_own_line(snapshot.text(meta.forward)) {
        return Some((line, KnownBy::Recorded));
    }
    let answered = replay.allocation(answers.of(index)?);
    let frame = user_frame(snapshot, answered.stack)?;
    let line = place(snapshot.text(frame.file), frame.line, snapshot.text(frame.name));
    Some((line, KnownBy::Likely))
}

/// The innermost line of a Python traceback that is the user's own: `  File "train.py", line 88, in forward`.
fn last_own_line(traceback: &str) -> Option<String> {
    let parse = |line: &str| {
        let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
        let (number, name) = rest.split_once(", in ")?;
        Some((file.to_owned(), number.parse::<u32>().ok()?, name.trim_end().to_owned()))
    };
    let lines: Vec<_> = traceback.lines().filter_map(parse).collect();
    let own = lines.iter().rev().find(|(file, _, name)| !is_internal(name, file));
    own.or(lines.last()).map(|(file, line, name)| place(file, *line, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_line_of_a_traceback() {
        let text = "  File \"/home/me/train.py\", line 166, in step\n    loss = model(x).mean()\n  \
                    File \"/opt/venv/lib/python3.12/site-packages/torch/nn/functional.py\", line 9, in relu\n";
        assert_eq!(last_own_line(text).as_deref(), Some("train.py:166 step"));
        assert_eq!(last_own_line(""), None);
    }
}
