//! Call trees: live bytes at a moment, bytes over a stretch, and two of them side by side.

use hashbrown::HashMap;
use vramscope_analysis as analysis;
use vramscope_analysis::{
    CallTree, DiffNode, Direction, Line, Moment, Place, Sum, lay_over, lifetime_weights, live_weights,
};
use vramscope_snapshot::{FrameId, Has};

use crate::answers::{DiffTree, DiffTreeNode, Label, LineId, Tree, TreeNode};
use crate::device::{DeviceIndex, File};
use crate::protocol::Weigh;

fn call_tree(file: &File, device: &DeviceIndex, weigh: Weigh, direction: Direction, own: bool) -> CallTree {
    let replay = &device.replay;
    let weights = match weigh {
        Weigh::Live(at) => live_weights(&replay.state(at.min(replay.end())), |_, _| true),
        Weigh::Lifetime(from, to) => lifetime_weights(replay, from, to, |_, _| true),
    };
    let keep = |frame: FrameId| {
        let frame = file.snapshot.stacks.frame(frame);
        !own || !analysis::is_internal(file.snapshot.text(frame.name), file.snapshot.text(frame.file))
    };
    CallTree::new(&file.snapshot, &weights, direction, keep)
}

/// Labels of places, each once.
#[derive(Default)]
struct Labels {
    all: Vec<Label>,
    known: HashMap<Place, u32>,
}

impl Labels {
    fn get(&mut self, place: Place, has: Has, line: impl Fn(FrameId) -> Line) -> u32 {
        *self.known.entry(place).or_insert_with(|| {
            self.all.push(match place {
                Place::Frame(frame) => label(line(frame)),
                other => {
                    let name = other.words(has).unwrap_or_default().to_owned();
                    Label { at: Line { name, ..Line::default() }, ..Label::default() }
                }
            });
            self.all.len() as u32 - 1
        })
    }
}

fn label(at: Line) -> Label {
    Label { color: LineId::of(&at.short()), at }
}

fn rows(children: &[usize]) -> Vec<u32> {
    children.iter().map(|&child| child as u32).collect()
}

pub(crate) fn tree(file: &File, device: &DeviceIndex, weigh: Weigh, inverted: bool, own: bool) -> Tree {
    let direction = if inverted { Direction::Inverted } else { Direction::TopDown };
    let tree = call_tree(file, device, weigh, direction, own);
    let line = |frame| Line::new(&file.snapshot, file.snapshot.stacks.frame(frame));
    let mut labels = Labels::default();
    let node = |node: &analysis::Node| TreeNode {
        label: labels.get(node.place, file.snapshot.has, line),
        bytes: node.bytes,
        count: node.count,
        own: tree.own_bytes(node),
        children: rows(&node.children),
    };
    let nodes = tree.nodes.iter().map(node).collect();
    Tree { labels: labels.all, nodes }
}

pub(crate) fn diff(
    before: ((&File, &DeviceIndex), Moment),
    after: ((&File, &DeviceIndex), Moment),
    own: bool,
) -> DiffTree {
    let [before, after] =
        [before, after].map(|((file, device), at)| tree(file, device, Weigh::Live(at), false, own));
    DiffTree::of(&before, &after)
}

impl DiffTree {
    /// Two trees as one, also for files of different sessions.
    pub fn of(before: &Tree, after: &Tree) -> Self {
        let (mut labels, empty) = (Vec::new(), Label::default());
        let mut known: HashMap<&Label, u32> = HashMap::new();
        let nodes = lay_over(|is_after, row| {
            let tree = if is_after { after } else { before };
            let Some(node) = tree.nodes.get(row) else { return (0, Sum::default(), Vec::new()) };
            let label = tree.labels.get(node.label as usize).unwrap_or(&empty);
            let label = *known.entry(label).or_insert_with(|| {
                labels.push(label.clone());
                labels.len() as u32 - 1
            });
            let children = node.children.iter().map(|&child| child as usize).collect();
            (label, Sum { bytes: node.bytes, count: node.count }, children)
        });
        let node = |node: DiffNode<u32>| DiffTreeNode {
            label: node.place,
            before: node.before,
            after: node.after,
            children: rows(&node.children),
        };
        Self { labels, nodes: nodes.into_iter().map(node).collect() }
    }
}
