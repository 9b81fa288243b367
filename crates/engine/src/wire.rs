//! Messages as bytes, and what a transport with several sessions has to know of them.

use hashbrown::HashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answers::{DiffTree, DiffTreeNode, Label, Tree, TreeNode};
use crate::protocol::{Request, Source};

/// A message as bytes, for a worker or a socket.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // Writing to memory fails only for types without a known length, which no message has.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// A message from bytes; `None` if they are none.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

impl Request {
    /// The devices that it is about, to be renumbered.
    pub fn sources(&mut self) -> Vec<&mut Source> {
        match self {
            Self::Summary(of)
            | Self::Insights(of)
            | Self::Rank(of)
            | Self::Tile { of, .. }
            | Self::Lanes { of, .. }
            | Self::Outline { of, .. }
            | Self::Curve { of, .. }
            | Self::Moment { of, .. }
            | Self::Details { of, .. }
            | Self::State { of, .. }
            | Self::Tree { of, .. }
            | Self::Allocations { of, .. }
            | Self::Stacks { of, .. }
            | Self::Lifetimes { of, .. }
            | Self::Search { of, .. }
            | Self::Convert { of, .. } => vec![of],
            Self::Diff { before, after, .. } => vec![&mut before.0, &mut after.0],
        }
    }
}

impl DiffTree {
    /// Two trees as one, for files of different sessions. It is what [`Request::Diff`] gives for files of one.
    pub fn of(before: &Tree, after: &Tree) -> Self {
        let mut merged = Self::default();
        let mut labels: HashMap<(&str, &str, u32), u32> = HashMap::new();
        let weight = |node: &TreeNode| (node.bytes, node.count);
        // Pairs of nodes that stand for the same, and where they go.
        let mut open = vec![(Some(0_u32), Some(0_u32), None::<usize>)];
        let mut known: HashMap<u32, usize> = HashMap::new();
        while let Some((a, b, parent)) = open.pop() {
            let of = |tree: &'_ Tree, row: Option<u32>| -> Vec<u32> {
                let node = row.and_then(|row| tree.nodes.get(row as usize));
                match parent {
                    None => row.into_iter().collect(),
                    Some(_) => node.map_or_else(Vec::new, |node| node.children.clone()),
                }
            };
            known.clear();
            let first = merged.nodes.len();
            let mut pairs: Vec<(Option<u32>, Option<u32>)> = Vec::new();
            for (is_after, tree, rows) in [(false, before, of(before, a)), (true, after, of(after, b))] {
                for row in rows {
                    let Some(node) = tree.nodes.get(row as usize) else { continue };
                    let Some(label) = tree.labels.get(node.label as usize) else { continue };
                    let Label { name, file, line, .. } = label;
                    let label = *labels.entry((name, file, *line)).or_insert_with(|| {
                        merged.labels.push(label.clone());
                        merged.labels.len() as u32 - 1
                    });
                    let at = *known.entry(label).or_insert_with(|| {
                        merged.nodes.push(DiffTreeNode { label, ..DiffTreeNode::default() });
                        pairs.push((None, None));
                        pairs.len() - 1
                    });
                    let (Some(pair), Some(made)) = (pairs.get_mut(at), merged.nodes.get_mut(first + at))
                    else {
                        continue;
                    };
                    if is_after {
                        (pair.1, made.after) = (Some(row), weight(node));
                    } else {
                        (pair.0, made.before) = (Some(row), weight(node));
                    }
                }
            }
            let mut children: Vec<u32> = (first..merged.nodes.len()).map(|row| row as u32).collect();
            children.sort_by_key(|&row| {
                let made = merged.nodes.get(row as usize).map(|made| (made.before.0, made.after.0));
                let (before, after) = made.unwrap_or_default();
                (std::cmp::Reverse(before.abs_diff(after)), std::cmp::Reverse(after), row)
            });
            if let Some(parent) = parent.and_then(|parent| merged.nodes.get_mut(parent)) {
                parent.children = children;
            }
            open.extend(pairs.into_iter().enumerate().map(|(at, (a, b))| (a, b, Some(first + at))));
        }
        merged
    }
}
