//! A call tree: bytes by where the program was, summed from the innermost frames up.
//!
//! Top-down, the children of the root are the outermost frames, and a node's bytes are those of
//! everything allocated below it. Inverted, they are the innermost, and below each one are its
//! callers. Either way the children of a node, with what it has of its own, add up to it exactly.

use hashbrown::HashMap;
use vramscope_snapshot::{FrameId, Has, Snapshot, StackId};

use crate::questions::frames::no_frame;
use crate::questions::weights::Weight;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Everything.
    Root,
    /// A line of the program.
    Frame(FrameId),
    /// Allocations whose stack was not recorded.
    NoStack,
    /// Allocations made where there was no Python frame, or none that is shown.
    NoFrame,
}

impl Place {
    /// What is shown where there is no line; `None` for a line.
    pub fn words(self, has: Has) -> Option<&'static str> {
        match self {
            Self::Frame(_) => None,
            Self::Root => Some("all"),
            // What a profile's totals count and none of its rows names.
            Self::NoStack | Self::NoFrame if !has.addresses => Some("(not named in this file)"),
            Self::NoStack => Some("(no stack)"),
            Self::NoFrame => Some("(no frame)"),
        }
    }

    /// The same where the file can be asked why.
    pub fn words_in(self, snapshot: &Snapshot) -> Option<&'static str> {
        match self {
            Self::Frame(_) => None,
            Self::Root => Some("all"),
            Self::NoStack => Some(no_frame(snapshot, StackId::ABSENT)),
            Self::NoFrame => Some(no_frame(snapshot, StackId::EMPTY)),
        }
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it stands for.
    pub place: Place,
    /// Bytes of everything below it and its own.
    pub bytes: u64,
    /// Allocations likewise.
    pub count: u64,
    /// Rows of [`CallTree::nodes`], heaviest first.
    pub children: Vec<usize>,
}

/// A call tree. Row 0 is the root.
#[derive(Clone, Debug)]
pub struct CallTree {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Rows of `nodes`: where the stack of each weight ends, in their order.
    pub ends: Vec<usize>,
}

/// Which way a tree grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the outermost frame in.
    TopDown,
    /// From the innermost frame out.
    Inverted,
}

impl CallTree {
    /// The tree of some weights, of the frames that `keep` keeps.
    pub fn new(
        snapshot: &Snapshot,
        weights: &[Weight],
        direction: Direction,
        keep: impl Fn(FrameId) -> bool,
    ) -> Self {
        let root = Node { place: Place::Root, bytes: 0, count: 0, children: Vec::new() };
        let mut tree = Self { nodes: vec![root], ends: Vec::with_capacity(weights.len()) };
        let mut known: HashMap<(usize, Place), usize> = HashMap::new();
        let mut path = Vec::new();
        for weight in weights {
            path.clear();
            path.extend(
                snapshot
                    .stacks
                    .get(weight.stack)
                    .iter()
                    .copied()
                    .filter(|&frame| keep(frame))
                    .map(Place::Frame),
            );
            if path.is_empty() {
                path.push(if weight.stack == StackId::ABSENT { Place::NoStack } else { Place::NoFrame });
            }
            if direction == Direction::TopDown {
                path.reverse();
            }
            let mut at = 0;
            tree.add(at, weight);
            for &place in &path {
                at = *known.entry((at, place)).or_insert_with(|| {
                    let new = tree.nodes.len();
                    tree.nodes.push(Node { place, bytes: 0, count: 0, children: Vec::new() });
                    tree.nodes[at].children.push(new);
                    new
                });
                tree.add(at, weight);
            }
            tree.ends.push(at);
        }
        for node in 0..tree.nodes.len() {
            let mut children = std::mem::take(&mut tree.nodes[node].children);
            children.sort_by_key(|&child| (std::cmp::Reverse(tree.nodes[child].bytes), child));
            tree.nodes[node].children = children;
        }
        tree
    }

    fn add(&mut self, node: usize, weight: &Weight) {
        let node = &mut self.nodes[node];
        node.bytes = node.bytes.saturating_add(weight.bytes);
        node.count += weight.count;
    }

    /// The root.
    pub fn root(&self) -> &Node {
        &self.nodes[0]
    }

    /// What a node has beyond its children: allocations made right there.
    pub fn own_bytes(&self, node: &Node) -> u64 {
        node.children.iter().fold(node.bytes, |rest, &child| rest.saturating_sub(self.nodes[child].bytes))
    }

    /// The chain that begins at a node: as long as there is one child that has everything.
    pub fn chain(&self, mut node: usize) -> Vec<usize> {
        let mut chain = vec![node];
        while let [only] = *self.nodes[node].children.as_slice()
            && self.nodes[only].bytes == self.nodes[node].bytes
            && self.nodes[only].count == self.nodes[node].count
        {
            chain.push(only);
            node = only;
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_snapshot::Reader;

    /// Two allocations in `a` called from `main`, one in `b` called from `a`, one without a stack.
    fn example() -> (Snapshot, Vec<Weight>) {
        let frame = |name| format!(r#"{{"name": "{name}", "filename": "x.py", "line": 1}}"#);
        let (main, a, b) = (frame("main"), frame("a"), frame("b"));
        let event = |frames: &str| format!(r#"{{"action": "alloc", "addr": 0, "size": 1 {frames}}}"#);
        let events = [
            event(&format!(r#", "frames": [{a}, {main}]"#)),
            event(&format!(r#", "frames": [{b}, {a}, {main}]"#)),
            event(""),
        ];
        let json = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, events.join(","));
        let mut reader = Reader::new();
        reader.feed(json.as_bytes()).unwrap();
        let snapshot = reader.finish().unwrap();
        let stacks: Vec<_> = snapshot.traces[0].events.iter().map(|event| event.stack).collect();
        let weights = [(20, 2), (30, 1), (5, 1)];
        let weights =
            stacks.iter().zip(weights).map(|(&stack, (bytes, count))| Weight { stack, bytes, count });
        let weights = weights.collect();
        (snapshot, weights)
    }

    fn lines(snapshot: &Snapshot, tree: &CallTree) -> Vec<String> {
        fn walk(snapshot: &Snapshot, tree: &CallTree, node: usize, depth: usize, lines: &mut Vec<String>) {
            let Node { place, bytes, count, children } = &tree.nodes[node];
            let name = match place {
                Place::Frame(frame) => snapshot.text(snapshot.stacks.frame(*frame).name).to_owned(),
                other => format!("{other:?}"),
            };
            lines.push(format!("{}{name} {bytes}/{count}", " ".repeat(depth)));
            for &child in children {
                walk(snapshot, tree, child, depth + 1, lines);
            }
        }
        let mut lines = Vec::new();
        walk(snapshot, tree, 0, 0, &mut lines);
        lines
    }

    #[test]
    fn top_down_and_inverted_add_up() {
        let (snapshot, weights) = example();
        let tree = CallTree::new(&snapshot, &weights, Direction::TopDown, |_| true);
        assert_eq!(
            lines(&snapshot, &tree),
            ["Root 55/4", " main 50/3", "  a 50/3", "   b 30/1", " NoStack 5/1"]
        );
        assert_eq!(tree.own_bytes(&tree.nodes[tree.chain(1)[1]]), 20, "what `a` has of its own");
        assert_eq!(tree.chain(1).len(), 2, "main and a are one chain");
        assert_eq!(tree.ends, [2, 3, 4], "the three stacks end in a, b, and nowhere");
        let tree = CallTree::new(&snapshot, &weights, Direction::Inverted, |_| true);
        let expected =
            ["Root 55/4", " b 30/1", "  a 30/1", "   main 30/1", " a 20/2", "  main 20/2", " NoStack 5/1"];
        assert_eq!(lines(&snapshot, &tree), expected);
    }

    #[test]
    fn frames_that_are_not_kept_pass_their_bytes_on() {
        let (snapshot, weights) = example();
        let keep = |frame| snapshot.text(snapshot.stacks.frame(frame).name) == "b";
        let tree = CallTree::new(&snapshot, &weights, Direction::TopDown, keep);
        assert_eq!(lines(&snapshot, &tree), ["Root 55/4", " b 30/1", " NoFrame 20/2", " NoStack 5/1"]);
    }
}
