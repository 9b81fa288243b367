//! Weights of different files, or different moments, side by side.
//!
//! Ids of stacks belong to one file, so stacks are matched by what they say: file, line and function of
//! every frame. Lines are matched the same way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vramscope_format::{plural, size};
use vramscope_snapshot::{Frame, FrameId, Snapshot, StackId};

use crate::questions::frames::{no_frame, user_frame};
use crate::questions::weights::Weight;

/// A frame that means the same in every file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Line {
    /// File path.
    pub file: String,
    /// Line number.
    pub line: u32,
    /// Function.
    pub name: String,
}

impl Line {
    /// A frame of a snapshot.
    pub fn new(snapshot: &Snapshot, frame: Frame) -> Self {
        let (file, name) = (snapshot.text(frame.file).to_owned(), snapshot.text(frame.name).to_owned());
        Self { file, line: frame.line, name }
    }

    /// The user's own line of a stack; where there is none, the reason takes the place of the function.
    pub fn of(snapshot: &Snapshot, stack: StackId) -> Self {
        user_frame(snapshot, stack).map_or_else(
            || Self { file: String::new(), line: 0, name: no_frame(snapshot, stack).to_owned() },
            |frame| Self::new(snapshot, frame),
        )
    }

    /// Whether this is the reason why there is no line.
    pub fn is_missing(&self) -> bool {
        self.file.is_empty() && self.name.starts_with('(')
    }

    /// The whole path, the line and the function: what regular expressions are matched against.
    pub fn full(&self) -> String {
        vramscope_format::frame_text(&self.file, self.line, &self.name)
    }

    /// `train.py:88 forward`: the file without its folders.
    pub fn short(&self) -> String {
        vramscope_format::place(&self.file, self.line, &self.name)
    }
}

/// Bytes and allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Bytes.
    pub bytes: u64,
    /// Allocations.
    pub count: u64,
}

impl Sum {
    /// In words: `59 allocations, 712 MiB`.
    pub fn words(&self) -> String {
        format!("{}, {}", plural(self.count, "allocation"), size(self.bytes))
    }

    fn add(&mut self, weight: &Weight) {
        self.bytes = self.bytes.saturating_add(weight.bytes);
        self.count += weight.count;
    }

    /// With one more allocation.
    pub(crate) fn add_one(&mut self, bytes: u64) {
        self.add(&Weight { bytes, count: 1, ..Weight::default() });
    }
}

/// Weights by the user's own line.
pub fn by_line(snapshot: &Snapshot, weights: &[Weight]) -> BTreeMap<Line, Sum> {
    let mut sums: BTreeMap<_, Sum> = BTreeMap::new();
    for weight in weights {
        sums.entry(Line::of(snapshot, weight.stack)).or_default().add(weight);
    }
    sums
}

/// Weights by stack, innermost frame first, of the frames that `keep` keeps.
pub fn by_stack(
    snapshot: &Snapshot,
    weights: &[Weight],
    keep: impl Fn(FrameId) -> bool,
) -> BTreeMap<Vec<Line>, Sum> {
    let mut sums: BTreeMap<_, Sum> = BTreeMap::new();
    for weight in weights {
        let frames = snapshot.stacks.get(weight.stack).iter().filter(|&&frame| keep(frame));
        let stack = frames.map(|&frame| Line::new(snapshot, snapshot.stacks.frame(frame))).collect();
        sums.entry(stack).or_default().add(weight);
    }
    sums
}

/// What changed between two sums of the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<K> {
    /// What.
    pub key: K,
    /// Before.
    pub before: Sum,
    /// After.
    pub after: Sum,
}

impl<K> Change<K> {
    /// Bytes more than before.
    pub fn bytes(&self) -> i64 {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        signed(self.after.bytes) - signed(self.before.bytes)
    }
}

/// What differs, what grew most first.
pub fn changes<K: Ord + Clone>(before: &BTreeMap<K, Sum>, after: &BTreeMap<K, Sum>) -> Vec<Change<K>> {
    let mut keys: Vec<&K> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let get = |sums: &BTreeMap<K, Sum>, key: &K| sums.get(key).copied().unwrap_or_default();
    let change = |key: &K| Change { key: key.clone(), before: get(before, key), after: get(after, key) };
    let mut changes: Vec<_> =
        keys.into_iter().map(change).filter(|change| change.before != change.after).collect();
    changes.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.key.cmp(&b.key)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_comes_first_and_what_is_equal_is_left_out() {
        let sum = |bytes, count| Sum { bytes, count };
        let before = BTreeMap::from([("same", sum(5, 1)), ("shrinks", sum(9, 3)), ("goes", sum(4, 1))]);
        let after = BTreeMap::from([("same", sum(5, 1)), ("shrinks", sum(8, 3)), ("comes", sum(7, 2))]);
        let found: Vec<_> =
            changes(&before, &after).iter().map(|change| (change.key, change.bytes())).collect();
        assert_eq!(found, [("comes", 7), ("shrinks", -1), ("goes", -4)]);
        assert_eq!(changes(&before, &before), []);
    }
}
