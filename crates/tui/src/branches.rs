//! A tree on the screen: which branches are open, where the selection is, what is in focus, what a search found.
//!
//! What the user opened and closed is remembered by path, so it is still so after the tree was built anew for
//! another moment.

use hashbrown::HashMap;
use vramscope_analysis::{Place, Sum};

use crate::list::List;
use crate::outline::{Item, NodeId, Outline};

/// Nodes that have at least this share of everything are open at first.
const OPEN_SHARE: f64 = 0.10;

/// One row of the screen: a node with the chain that begins at it, or what a node has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) node: NodeId,
    pub(crate) depth: u32,
    pub(crate) is_own: bool,
    /// The last node that is shown in this row or before it; grows from row to row.
    until: NodeId,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// For each frame whether it matches.
    pub(crate) frames: Vec<bool>,
    /// Nodes whose frame matches, in the order of rows.
    pub(crate) nodes: Vec<NodeId>,
}

impl Found {
    pub(crate) fn matches(&self, place: Place) -> bool {
        matches!(place, Place::Frame(frame) if self.frames.get(frame.index()).copied().unwrap_or(false))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Branches {
    pub(crate) outline: Outline,
    pub(crate) rows: Vec<Row>,
    pub(crate) list: List,
    /// Paths that were focused one after the other.
    focus: Vec<Vec<Place>>,
    root: NodeId,
    /// Whether chains of calls without a branch are one row.
    pub(crate) unfolded: bool,
    is_open: Vec<bool>,
    /// What the user opened and closed, by path.
    chosen: HashMap<u64, bool>,
    pub(crate) found: Option<Found>,
}

impl Branches {
    /// Takes another tree, with everything where it was as far as it is still there.
    pub(crate) fn replace(&mut self, outline: Outline) {
        let (path, is_own) = (self.selected_path(), self.selected().is_some_and(|row| row.is_own));
        self.outline = outline;
        let total = self.outline.root().map_or(0, |root| root.now.bytes.max(root.before.bytes)) as f64;
        let heavy = |item: &Item| {
            let bytes = item.now.bytes.max(item.before.bytes);
            bytes > 0 && bytes as f64 >= total * OPEN_SHARE
        };
        self.is_open = self
            .outline
            .items()
            .iter()
            .map(|item| self.chosen.get(&item.path).copied().unwrap_or_else(|| heavy(item)))
            .collect();
        self.root = self.focus.last().map_or(0, |path| self.outline.find(path));
        self.search_again();
        self.rebuild();
        if !path.is_empty() {
            self.show(self.outline.find(&path), is_own);
        }
    }

    /// Works out the rows from what is open.
    fn rebuild(&mut self) {
        self.rows.clear();
        let outline = &self.outline;
        let chain = |node: NodeId| match outline.get(node) {
            Some(item) if !self.unfolded => item.chain,
            _ => node,
        };
        let end = |node: NodeId| outline.get(node).map_or(0, |item| item.end);
        // The root of the tree is not a call: below it there may be one chain, which is a row.
        let top = if self.root == 0 { 0 } else { chain(self.root) };
        let own =
            |node: NodeId| outline.get(node).is_some_and(|item| item.own.count + item.own_before.count > 0);
        // Nodes that are open: whose children are being listed, where these end, and whether what it has of its own
        // is still to come.
        let mut open = vec![(top, end(top), own(top))];
        let mut next = top + 1;
        while let Some((node, end_of_node, has_own)) = open.last_mut() {
            let is_over = next >= *end_of_node;
            // What a node has of its own stands among its children by its weight.
            let is_heavier = || {
                let of_own = outline.get(*node).map(|item| weight(item.own, item.own_before));
                of_own > outline.get(next).map(|item| weight(item.now, item.before))
            };
            if *has_own && (is_over || is_heavier()) {
                *has_own = false;
                let row = Row { node: *node, depth: 0, is_own: true, until: next - 1 };
                self.rows.push(Row { depth: open.len() as u32 - 1, ..row });
                continue;
            }
            if is_over {
                open.pop();
                continue;
            }
            self.rows.push(Row { node: next, depth: open.len() as u32 - 1, is_own: false, until: next });
            let last = chain(next);
            if self.is_open.get(next as usize).copied().unwrap_or(false) && outline.has_children(last) {
                open.push((last, end(next), own(last)));
                next = last + 1;
            } else {
                next = end(next).max(next + 1);
            }
        }
        self.list.selected = self.list.selected.min(self.rows.len().saturating_sub(1));
    }

    pub(crate) fn selected(&self) -> Option<Row> {
        self.rows.get(self.list.selected).copied()
    }

    /// The last node of the chain that a row shows.
    pub(crate) fn last_of(&self, row: Row) -> NodeId {
        match self.outline.get(row.node) {
            Some(item) if !self.unfolded && !row.is_own => item.chain,
            _ => row.node,
        }
    }

    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        self.is_open.get(node as usize).copied().unwrap_or(false)
    }

    pub(crate) fn can_open(&self, row: Row) -> bool {
        !row.is_own && self.outline.has_children(self.last_of(row))
    }

    fn selected_path(&self) -> Vec<Place> {
        self.selected().map(|row| self.outline.path(row.node)).unwrap_or_default()
    }

    /// The node that is in focus; the root if none is.
    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    /// Opens or closes a node, and remembers that.
    fn set_open(&mut self, node: NodeId, open: bool) {
        if let (Some(is_open), Some(item)) = (self.is_open.get_mut(node as usize), self.outline.get(node)) {
            *is_open = open;
            self.chosen.insert(item.path, open);
        }
    }

    /// Opens the selected row if it is closed, and the other way. Says whether it can.
    pub(crate) fn toggle(&mut self) -> bool {
        let Some(row) = self.selected().filter(|&row| self.can_open(row)) else { return false };
        self.set_open(row.node, !self.is_open(row.node));
        self.rebuild();
        true
    }

    /// Goes to the first child, opening the row if need be.
    pub(crate) fn into(&mut self) {
        if let Some(row) = self.selected().filter(|&row| self.can_open(row)) {
            if !self.is_open(row.node) {
                self.set_open(row.node, true);
                self.rebuild();
            }
            self.list.selected += 1;
        }
    }

    /// Goes to the row that the selected one lies in.
    pub(crate) fn out(&mut self) {
        let Some(row) = self.selected() else { return };
        let above = self.rows.get(..self.list.selected).unwrap_or_default();
        if let Some(parent) = above.iter().rposition(|other| other.depth < row.depth) {
            self.list.selected = parent;
        }
    }

    /// Goes to the next row of the same parent, or the one before.
    pub(crate) fn sibling(&mut self, forwards: bool) {
        let Some(row) = self.selected() else { return };
        let at = self.list.selected;
        let found = if forwards {
            let after = self.rows.get(at + 1..).unwrap_or_default();
            after.iter().position(|other| other.depth <= row.depth).map(|offset| at + 1 + offset)
        } else {
            self.rows.get(..at).unwrap_or_default().iter().rposition(|other| other.depth <= row.depth)
        };
        if let Some(found) = found.filter(|&found| self.rows[found].depth == row.depth) {
            self.list.selected = found;
        }
    }

    /// Opens or closes the selected row and all below it.
    pub(crate) fn set_below(&mut self, open: bool) {
        if let Some(row) = self.selected().filter(|row| !row.is_own) {
            self.set_range(row.node, open);
            self.show(row.node, false);
        }
    }

    /// Opens or closes everything that is in focus.
    pub(crate) fn set_all(&mut self, open: bool) {
        let at = self.selected();
        self.set_range(self.root, open);
        self.rebuild();
        // A row that was closed away gives its place to the one it lies in.
        if let Some(row) = at {
            let found = self.outline.upwards(row.node).find_map(|node| self.row_of(node));
            self.list.selected = found.unwrap_or(0);
        }
    }

    fn set_range(&mut self, node: NodeId, open: bool) {
        let end = self.outline.get(node).map_or(node, |item| item.end);
        for id in node..end {
            self.set_open(id, open);
        }
    }

    /// Makes the selected row the root.
    pub(crate) fn focus(&mut self) {
        if let Some(row) = self.selected().filter(|row| !row.is_own) {
            self.focus_on(row.node);
        }
    }

    pub(crate) fn focus_on(&mut self, node: NodeId) {
        if node != self.root {
            self.focus.push(self.outline.path(node));
            self.root = node;
            self.list = List::default();
            self.rebuild();
        }
    }

    /// Goes back to what was in focus before, with the selection on what was. Says whether there was any.
    pub(crate) fn unfocus(&mut self) -> bool {
        if self.focus.pop().is_none() {
            return false;
        }
        let was = self.root;
        self.root = self.focus.last().map_or(0, |path| self.outline.find(path));
        self.rebuild();
        self.show(was, false);
        true
    }

    pub(crate) fn toggle_chains(&mut self) {
        let path = self.selected_path();
        self.unfolded = !self.unfolded;
        self.rebuild();
        self.show(self.outline.find(&path), false);
    }

    /// The row that shows a node, alone or in a chain.
    fn row_of(&self, node: NodeId) -> Option<usize> {
        let mut at = self.rows.partition_point(|row| row.until <= node);
        while at > 0 {
            at -= 1;
            let row = self.rows[at];
            if !row.is_own {
                return (row.node..=self.last_of(row)).contains(&node).then_some(at);
            }
        }
        None
    }

    /// Opens what a node lies in, and selects it.
    pub(crate) fn show(&mut self, node: NodeId, is_own: bool) {
        let (from, to) = (self.root, self.outline.get(self.root).map_or(0, |item| item.end));
        if !(from..to).contains(&node) {
            return;
        }
        let above: Vec<_> =
            self.outline.upwards(node).skip(1).take_while(|&above| above != self.root).collect();
        for above in above {
            if !self.is_open(above) {
                self.set_open(above, true);
            }
        }
        self.rebuild();
        if let Some(row) = self.row_of(node) {
            self.list.selected = row;
        }
        if is_own && let Some(row) = self.rows.iter().position(|row| row.is_own && row.node == node) {
            self.list.selected = row;
        }
    }

    /// Searches: `frames` says of each frame whether it matches.
    pub(crate) fn search(&mut self, frames: Vec<bool>) {
        self.found = Some(Found { frames, nodes: Vec::new() });
        self.search_again();
    }

    fn search_again(&mut self) {
        let Some(mut found) = self.found.take() else { return };
        let items = self.outline.items().iter().enumerate();
        found.nodes =
            items.filter(|(_, item)| found.matches(item.place)).map(|(id, _)| id as NodeId).collect();
        self.found = Some(found);
    }

    /// Which of the matches in focus the selection is at or after, and how many there are.
    pub(crate) fn standing(&self) -> Option<(usize, usize)> {
        self.standing_at(self.selected().map_or(0, |row| self.last_of(row)))
    }

    /// The same for a node.
    pub(crate) fn standing_at(&self, at: NodeId) -> Option<(usize, usize)> {
        let nodes = self.matches_in_focus()?;
        Some((nodes.partition_point(|&node| node <= at), nodes.len()))
    }

    fn matches_in_focus(&self) -> Option<&[NodeId]> {
        let nodes = &self.found.as_ref()?.nodes;
        let end = self.outline.get(self.root).map_or(0, |item| item.end);
        let (from, to) =
            (nodes.partition_point(|&node| node < self.root), nodes.partition_point(|&node| node < end));
        nodes.get(from..to)
    }

    /// Goes to the first match at or after the selected row, or to the next in either direction, around the end.
    pub(crate) fn go_to_match(&mut self, towards: Towards) -> bool {
        let Some(row) = self.selected() else { return false };
        let Some(node) = self.find_match(towards, (row.node, self.last_of(row))) else { return false };
        self.show(node, false);
        true
    }

    /// The first match at or after some nodes that follow each other, or the next in either direction, around the end.
    pub(crate) fn find_match(&self, towards: Towards, (first, last): (NodeId, NodeId)) -> Option<NodeId> {
        let nodes = self.matches_in_focus().filter(|nodes| !nodes.is_empty())?;
        let at = match towards {
            Towards::Here => nodes.partition_point(|&node| node < first) % nodes.len(),
            Towards::Next => nodes.partition_point(|&node| node <= last) % nodes.len(),
            Towards::Previous => {
                nodes.partition_point(|&node| node < first).checked_sub(1).unwrap_or(nodes.len() - 1)
            }
        };
        nodes.get(at).copied()
    }
}

/// What siblings are sorted by, the most first: the change, then the bytes after it.
fn weight(now: Sum, before: Sum) -> (u64, u64) {
    (now.bytes.abs_diff(before.bytes), now.bytes)
}

/// Where to look for a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    Here,
    Next,
    Previous,
}
