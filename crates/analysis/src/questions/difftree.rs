//! Two call trees as one: what grew, and where.
//!
//! Frames of different files are matched by what they say: file, line and function. A node stands for
//! the same calls in both trees, with what it weighs in each, so at every level the changes of the
//! children and of what is a node's own add up to the change of the node.

use std::hash::Hash;

use hashbrown::HashMap;
use vramscope_snapshot::{FrameId, Snapshot};

use crate::questions::compare::{Line, Sum};
use crate::questions::tree::{CallTree, Place};

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffNode<P = Place> {
    /// What it stands for; a frame is a row of [`DiffTree::lines`].
    pub place: P,
    /// What it weighs in the first tree.
    pub before: Sum,
    /// What it weighs in the second.
    pub after: Sum,
    /// Rows of [`DiffTree::nodes`], the largest change first.
    pub children: Vec<usize>,
}

impl<P> DiffNode<P> {
    /// Bytes more than before.
    pub fn change(&self) -> i64 {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        signed(self.after.bytes) - signed(self.before.bytes)
    }
}

/// Two call trees as one. Row 0 is the root.
#[derive(Clone, Debug)]
pub struct DiffTree {
    /// Distinct lines of both.
    pub lines: Vec<Line>,
    /// All nodes.
    pub nodes: Vec<DiffNode>,
}

impl DiffTree {
    /// Lays one tree over the other; both must grow the same way.
    pub fn new(before: (&Snapshot, &CallTree), after: (&Snapshot, &CallTree)) -> Self {
        let mut lines = Lines::default();
        let nodes = lay_over(|is_after, row| {
            let (snapshot, tree) = if is_after { after } else { before };
            let node = &tree.nodes[row];
            let weight = Sum { bytes: node.bytes, count: node.count };
            (lines.place(is_after, snapshot, node.place), weight, node.children.clone())
        });
        Self { lines: lines.all, nodes }
    }
}

/// Lays one tree over another; row 0 is the root of each. `node` says what a row of the second or the first tree
/// stands for, what it weighs, and which rows are its children.
pub fn lay_over<P: Copy + Eq + Hash>(
    mut node: impl FnMut(bool, usize) -> (P, Sum, Vec<usize>),
) -> Vec<DiffNode<P>> {
    let (place, before, first) = node(false, 0);
    let (_, after, second) = node(true, 0);
    let mut nodes = vec![DiffNode { place, before, after, children: Vec::new() }];
    // Children of nodes that stand for the same, and where they go.
    let mut open = vec![(first, second, 0)];
    while let Some((a, b, at)) = open.pop() {
        let first = nodes.len();
        let mut known: HashMap<P, usize> = HashMap::new();
        let mut pairs: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (is_after, rows) in [(false, a), (true, b)] {
            for row in rows {
                let (place, weight, children) = node(is_after, row);
                let row = *known.entry(place).or_insert_with(|| {
                    let (before, after) = (Sum::default(), Sum::default());
                    nodes.push(DiffNode { place, before, after, children: Vec::new() });
                    pairs.push((Vec::new(), Vec::new()));
                    pairs.len() - 1
                });
                if is_after {
                    (pairs[row].1, nodes[first + row].after) = (children, weight);
                } else {
                    (pairs[row].0, nodes[first + row].before) = (children, weight);
                }
            }
        }
        let mut children: Vec<usize> = (first..nodes.len()).collect();
        children.sort_by_key(|&child| {
            let node = &nodes[child];
            (std::cmp::Reverse(node.change().unsigned_abs()), std::cmp::Reverse(node.after.bytes), child)
        });
        nodes[at].children = children;
        open.extend(pairs.into_iter().enumerate().map(|(row, (a, b))| (a, b, first + row)));
    }
    nodes
}

/// Frames of both files as rows of one table.
#[derive(Default)]
struct Lines {
    all: Vec<Line>,
    known: HashMap<Line, FrameId>,
    /// What was looked up before, so that texts are compared once per frame.
    frames: HashMap<(bool, FrameId), FrameId>,
}

impl Lines {
    fn place(&mut self, is_after: bool, snapshot: &Snapshot, place: Place) -> Place {
        let Place::Frame(frame) = place else { return place };
        let (all, known) = (&mut self.all, &mut self.known);
        Place::Frame(*self.frames.entry((is_after, frame)).or_insert_with(|| {
            let line = Line::new(snapshot, snapshot.stacks.frame(frame));
            *known.entry(line).or_insert_with_key(|line| {
                all.push(line.clone());
                FrameId::from_index(all.len() - 1)
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tree::Direction;
    use crate::questions::weights::Weight;
    use vramscope_snapshot::Reader;

    /// A file with one event per stack, frames innermost first, and a weight for each.
    fn example(stacks: &[(&[&str], u64)]) -> (Snapshot, CallTree) {
        let frame = |name: &&str| format!(r#"{{"name": "{name}", "filename": "x.py", "line": 1}}"#);
        let event = |(frames, _): &(&[&str], u64)| {
            let frames: Vec<_> = frames.iter().map(frame).collect();
            format!(r#"{{"action": "alloc", "addr": 0, "size": 1, "frames": [{}]}}"#, frames.join(","))
        };
        let events: Vec<_> = stacks.iter().map(event).collect();
        let json = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, events.join(","));
        let mut reader = Reader::new();
        reader.feed(json.as_bytes()).unwrap();
        let snapshot = reader.finish().unwrap();
        let weights: Vec<_> = snapshot.traces[0]
            .events
            .iter()
            .zip(stacks)
            .map(|(event, (_, bytes))| Weight { stack: event.stack, bytes: *bytes, count: 1 })
            .collect();
        let tree = CallTree::new(&snapshot, &weights, Direction::TopDown, |_| true);
        (snapshot, tree)
    }

    #[test]
    fn frames_are_matched_by_what_they_say() {
        // The ids differ: `b` is the first frame of the one and the last of the other.
        let (old, before) = example(&[(&["b", "main"], 10), (&["a", "main"], 30)]);
        let (new, after) = example(&[(&["a", "main"], 35), (&["b", "main"], 2), (&["c"], 4)]);
        let diff = DiffTree::new((&old, &before), (&new, &after));
        let line = |node: &DiffNode| match node.place {
            Place::Frame(frame) => diff.lines[frame.index()].name.clone(),
            other => format!("{other:?}"),
        };
        let mut found = Vec::new();
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            let node = &diff.nodes[node];
            found.push((line(node), node.before.bytes, node.after.bytes, node.change()));
            open.extend(node.children.iter().rev());
        }
        let expected =
            [("Root", 40, 41, 1), ("c", 0, 4, 4), ("main", 40, 37, -3), ("b", 10, 2, -8), ("a", 30, 35, 5)];
        assert_eq!(found, expected.map(|(name, a, b, change)| (name.to_owned(), a, b, change)));
        assert_eq!(diff.lines.len(), 4, "each line once");
    }
}
