//! The calls that hold memory at a moment, as a tree, as a flame graph, and with what is known about the selected one.

use ratatui::layout::Rect;
use vramscope_analysis::{Direction, Line};
use vramscope_snapshot::FrameId;

use crate::branches::{Branches, Towards};
use crate::document::Subject;
use crate::keys::View;
use crate::live::{ActiveFilter, Ends, Live, Members};
use crate::outline::NodeId;
use crate::views::info::{Info, Sources};
use crate::views::tree::{is_beside, rows_height};

/// How much of what is known about the selected call is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Detail {
    None,
    /// As much as has room beside the list, or below it.
    #[default]
    Some,
    /// All of it, with less of the list.
    All,
}

impl Detail {
    /// After another press of the key. Where all has room beside the list, there is nothing more to show.
    pub(crate) fn next(self, view: View, area: Rect) -> Self {
        match self {
            // A list of allocations always says something about the selected one.
            Self::All if view == View::Allocations => Self::Some,
            _ if view == View::Allocations => Self::All,
            Self::None => Self::Some,
            Self::Some if is_beside(area) => Self::None,
            Self::Some => Self::All,
            Self::All => Self::None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) tree: Branches,
    pub(crate) hide_internal: bool,
    pub(crate) inverted: bool,
    pub(crate) detail: Detail,
    /// What the flame graph has under its cursor.
    pub(crate) flame_at: NodeId,
    pub(crate) info: Option<Info>,
    ends: Ends,
    /// What the tree was made with: whether internal frames are hidden, and whether it is inverted.
    made_with: Option<(bool, bool)>,
    pub(crate) members: Option<Members>,
    /// Whether to go to what was searched for, once the tree is made.
    wants_match: bool,
    pub(crate) sources: Sources,
}

impl Calls {
    pub(crate) fn new(hide_internal: bool) -> Self {
        Self { hide_internal, ..Self::default() }
    }

    /// The tree has to be made again: another moment, or another filter.
    pub(crate) fn forget(&mut self) {
        self.made_with = None;
        self.members = None;
    }

    /// Makes the tree of what is live, unless it is the same as before.
    pub(crate) fn refresh(
        &mut self,
        subject: Subject<'_>,
        live: &Live,
        filter: &ActiveFilter,
        view: View,
        area: Rect,
    ) {
        let kind = (self.hide_internal, self.inverted);
        if self.made_with != Some(kind) {
            let direction = if self.inverted { Direction::Inverted } else { Direction::TopDown };
            let (outline, ends) = live.tree(subject, direction, self.hide_internal);
            let flame_path = self.tree.outline.path(self.flame_at);
            self.tree.replace(outline);
            self.flame_at = self.tree.outline.find(&flame_path);
            self.ends = ends;
            self.made_with = Some(kind);
            self.members = None;
        }
        if std::mem::take(&mut self.wants_match) {
            self.tree.go_to_match(Towards::Here);
        }
        self.tree.list.scroll(self.tree.rows.len(), rows_height(area, self.detail));
        let wants_members = view == View::Allocations || self.detail != Detail::None;
        if wants_members && self.members.is_none() {
            self.members = Some(live.members(subject, filter, &self.ends));
        }
        if view == View::Tree {
            self.info = self.tree_info(subject, live);
        }
    }

    fn tree_info(&mut self, subject: Subject<'_>, live: &Live) -> Option<Info> {
        let row = self.tree.selected().filter(|_| self.detail != Detail::None)?;
        let node = self.tree.last_of(row);
        let members = self.members.as_ref()?.of(&self.tree.outline, node, row.is_own);
        let node = if self.inverted { row.node } else { node };
        let nodes = (node, self.tree.last_of(row));
        let outline = &self.tree.outline;
        Some(Info::of_node(subject, outline, nodes, members, &live.state, self.inverted, &mut self.sources))
    }

    /// Goes to a match from what is under the cursor of the flame graph.
    pub(crate) fn go_to_match_in_flame(&mut self, towards: Towards) -> bool {
        let Some(node) = self.tree.find_match(towards, (self.flame_at, self.flame_at)) else { return false };
        self.tree.show(node, false);
        self.flame_at = node;
        true
    }

    /// Marks a line in the tree and goes there, once the tree is made.
    pub(crate) fn look_for(&mut self, subject: Subject<'_>, line: Option<&Line>) {
        let snapshot = subject.snapshot();
        let Some(line) = line else { return };
        let is_same = |row: usize| {
            let frame = snapshot.stacks.frame(FrameId::from_index(row));
            frame.line == line.line
                && snapshot.text(frame.file) == line.file
                && snapshot.text(frame.name) == line.name
        };
        self.tree.search((0..snapshot.stacks.frame_count()).map(is_same).collect());
        self.wants_match = true;
    }

    /// Which match the cursor of a view is at or after, and how many there are.
    pub(crate) fn standing(&self, view: View) -> Option<(usize, usize)> {
        match view {
            View::Flame => self.tree.standing_at(self.flame_at),
            _ => self.tree.standing(),
        }
    }
}
