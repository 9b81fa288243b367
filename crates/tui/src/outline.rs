//! A call tree laid out for walking: nodes in the order in which a fully opened tree shows them.
//!
//! In this order the nodes below a node follow it directly, so a subtree is a stretch of rows, the next sibling is
//! where it ends, and search results in order of their numbers are in order on the screen. Built without
//! recursion: stacks can be as deep as the file likes.

use vramscope_analysis::{CallTree, DiffTree, Place, Sum};

/// A number of a node. The root is 0.
pub(crate) type NodeId = u32;

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) place: Place,
    /// What it weighs; in a diff, in the second tree.
    pub(crate) now: Sum,
    /// In a diff, what it weighs in the first tree.
    pub(crate) before: Sum,
    /// What it has beyond its children.
    pub(crate) own: Sum,
    /// The same in the first tree.
    pub(crate) own_before: Sum,
    pub(crate) parent: NodeId,
    /// The number after the last node below it.
    pub(crate) end: NodeId,
    /// The last node of the chain that begins here: as long as one child has everything.
    pub(crate) chain: NodeId,
    /// The path from the root as a number that is the same in every tree of this file.
    pub(crate) path: u64,
}

/// A tree in the order of its rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    items: Vec<Item>,
}

/// A node of either kind of tree.
struct Source<'a> {
    place: Place,
    now: Sum,
    before: Sum,
    children: &'a [usize],
}

impl Outline {
    /// Lays out a call tree. The second value gives the new number of each of its rows.
    pub(crate) fn of_tree(tree: &CallTree) -> (Self, Vec<NodeId>) {
        Self::new(tree.nodes.len(), |row| {
            let node = &tree.nodes[row];
            let now = Sum { bytes: node.bytes, count: node.count };
            Source { place: node.place, now, before: Sum::default(), children: &node.children }
        })
    }

    pub(crate) fn of_diff(tree: &DiffTree) -> Self {
        let of_row = |row: usize| {
            let node = &tree.nodes[row];
            Source { place: node.place, now: node.after, before: node.before, children: &node.children }
        };
        Self::new(tree.nodes.len(), of_row).0
    }

    fn new<'a>(len: usize, of_row: impl Fn(usize) -> Source<'a>) -> (Self, Vec<NodeId>) {
        let mut items: Vec<Item> = Vec::with_capacity(len);
        let mut numbers = vec![0; len];
        let mut open = vec![(0, 0)];
        while let Some((row, parent)) = open.pop() {
            let id = items.len() as NodeId;
            let Source { place, now, before, children } = of_row(row);
            numbers[row] = id;
            let above = items.get(parent as usize).map_or(0, |parent: &Item| parent.path);
            let path = mixed(above, place);
            let (own, own_before) = (now, before);
            items.push(Item { place, now, before, own, own_before, parent, end: id + 1, chain: id, path });
            open.extend(children.iter().rev().map(|&child| (child, id)));
        }
        // Parents come before their children, so going backwards every child is finished before its parent.
        for id in (1..items.len()).rev() {
            let Item { now, before, parent, end, chain, .. } = items[id];
            let parent_id = parent as usize;
            let above = &mut items[parent_id];
            above.end = above.end.max(end);
            take(&mut above.own, now);
            take(&mut above.own_before, before);
            if parent_id + 1 == id && above.end == end && above.now == now && above.before == before {
                above.chain = chain;
            }
        }
        (Self { items }, numbers)
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Item> {
        self.items.get(node as usize)
    }

    pub(crate) fn root(&self) -> Option<&Item> {
        self.items.first()
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(crate) fn has_children(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|item| item.end > node + 1)
    }

    /// The children of a node, in order.
    pub(crate) fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.get(node).map_or(0, |item| item.end);
        let mut next = node + 1;
        std::iter::from_fn(move || {
            let child = next;
            next = self.get(child).filter(|_| child < end)?.end;
            Some(child)
        })
    }

    /// From the node to the child of the root that it lies in.
    pub(crate) fn upwards(&self, mut node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::from_fn(move || {
            let this = self.get(node).filter(|_| node != 0)?;
            let found = node;
            node = this.parent;
            Some(found)
        })
    }

    /// The places from the root to a node, without the root.
    pub(crate) fn path(&self, node: NodeId) -> Vec<Place> {
        let mut path: Vec<Place> =
            self.upwards(node).filter_map(|node| self.get(node)).map(|item| item.place).collect();
        path.reverse();
        path
    }

    /// The node that a path leads to: places that are not there are skipped, as when frames are hidden.
    pub(crate) fn find(&self, path: &[Place]) -> NodeId {
        let mut at = 0;
        for place in path {
            let child = self.children(at).find(|&child| self.get(child).is_some_and(|c| c.place == *place));
            at = child.unwrap_or(at);
        }
        at
    }
}

/// The number of a path that goes on to a place.
fn mixed(above: u64, place: Place) -> u64 {
    let code = match place {
        Place::Root => 1,
        Place::NoStack => 2,
        Place::NoFrame => 3,
        Place::Frame(frame) => u64::from(frame.0) + 4,
    };
    (above.rotate_left(23) ^ code).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn take(from: &mut Sum, what: Sum) {
    from.bytes = from.bytes.saturating_sub(what.bytes);
    from.count = from.count.saturating_sub(what.count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_analysis::Node;
    use vramscope_snapshot::FrameId;

    /// main calls a (which calls b) and c; all of it through main.
    fn example() -> CallTree {
        let node = |frame: Option<u32>, bytes, children: &[usize]| Node {
            place: frame.map_or(Place::Root, |frame| Place::Frame(FrameId(frame))),
            bytes,
            count: 1,
            children: children.to_vec(),
        };
        let nodes = vec![
            node(None, 100, &[1]),
            node(Some(0), 100, &[3, 2]),
            node(Some(3), 30, &[]),
            node(Some(1), 60, &[4]),
            node(Some(2), 40, &[]),
        ];
        CallTree { nodes, ends: vec![2, 4] }
    }

    #[test]
    fn nodes_are_in_the_order_of_rows() {
        let (outline, numbers) = Outline::of_tree(&example());
        assert_eq!(numbers, [0, 1, 4, 2, 3], "c comes after a and b");
        let ends: Vec<_> = outline.items().iter().map(|item| item.end).collect();
        assert_eq!(ends, [5, 5, 4, 4, 5]);
        assert_eq!(outline.children(1).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(outline.upwards(3).collect::<Vec<_>>(), [3, 2, 1]);
        // main has 100 − 60 − 30 of its own, a has 60 − 40.
        let own: Vec<_> = outline.items().iter().map(|item| item.own.bytes).collect();
        assert_eq!(own, [0, 10, 20, 40, 30]);
        assert_eq!(outline.get(0).map(|root| root.chain), Some(1), "everything goes through main");
        assert_eq!(outline.get(2).map(|a| a.chain), Some(2), "a has bytes of its own");
    }

    #[test]
    fn paths_lead_back_even_if_frames_are_gone() {
        let (outline, _) = Outline::of_tree(&example());
        let path = outline.path(3);
        assert_eq!(outline.find(&path), 3);
        let with_a_hidden_frame = [path[0], Place::Frame(FrameId(77)), path[1], path[2]];
        assert_eq!(outline.find(&with_a_hidden_frame), 3);
        assert_eq!(outline.find(&[Place::NoStack]), 0);
    }

    #[test]
    fn a_stack_of_a_million_frames_is_no_deeper_than_any_other() {
        let mut nodes = vec![Node { place: Place::Root, bytes: 1, count: 1, children: vec![1] }];
        nodes.extend((0..1_000_000).map(|depth| Node {
            place: Place::Frame(FrameId(depth)),
            bytes: 1,
            count: 1,
            children: if depth < 999_999 { vec![depth as usize + 2] } else { Vec::new() },
        }));
        let (outline, _) = Outline::of_tree(&CallTree { nodes, ends: Vec::new() });
        assert_eq!(outline.get(0).map(|root| root.chain), Some(1_000_000));
    }
}
