//! One file and device on the screen, with the place in every view of it.

use std::sync::Arc;

use ratatui::layout::Rect;
use vramscope_analysis::{AllocIdx, Direction, Line, Moment};
use vramscope_snapshot::{FrameId, StackId};

use crate::branches::{Branches, Towards};
use crate::document::{Document, Subject};
use crate::filter::Filter;
use crate::keys::{Action, View};
use crate::list::List;
use crate::live::{Ends, Glance, Live, Members};
use crate::outline::NodeId;
use crate::views::allocations::Allocations;
use crate::views::events::Events;
use crate::views::info::{Info, Sources};
use crate::views::pools::Pools;
use crate::views::segments::Segments;
use crate::views::timeline::{Timeline, next_oom};
use crate::views::{Shape, insights, timeline_layout};

/// What a pane asks of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nothing,
    Say(String),
    /// Leave the view.
    Leave,
}

pub(crate) struct Pane {
    pub(crate) doc: Arc<Document>,
    pub(crate) device: usize,
    pub(crate) view: View,
    /// Views to go back to.
    came_from: Vec<View>,
    /// Where it is drawn.
    pub(crate) area: Rect,
    pub(crate) shape: Shape,
    pub(crate) timeline: Timeline,
    /// The moment that the views of a moment show.
    pub(crate) at: Moment,
    /// The moment to compare with.
    pub(crate) mark: Option<Moment>,
    /// The phases that a search looks for.
    pub(crate) phase: Option<regex_lite::Regex>,
    pub(crate) hide_internal: bool,
    pub(crate) inverted: bool,
    pub(crate) show_info: bool,
    pub(crate) filter: Filter,
    pub(crate) live: Option<Live>,
    pub(crate) tree: Branches,
    ends: Ends,
    /// What the tree was made with.
    tree_is: Option<(bool, bool)>,
    members: Option<Members>,
    /// Whether to go to what was looked for, once the tree is made.
    wants_match: bool,
    pub(crate) info: Option<Info>,
    sources: Sources,
    pub(crate) glance: Option<Glance>,
    /// What the flame graph has under its cursor.
    pub(crate) flame_at: NodeId,
    pub(crate) allocations: Allocations,
    pub(crate) segments: Segments,
    pub(crate) events: Events,
    pub(crate) pools: Pools,
    pub(crate) insights: List,
}

impl Pane {
    pub(crate) fn new(doc: Arc<Document>) -> Self {
        let device = doc.main_device();
        let subject = Subject { doc: &doc, device };
        let timeline = Timeline::new(subject);
        let at = timeline.moment(subject, 1);
        // A recording of C++ frames alone would show nothing.
        let doc_has_own = doc.has_own_frames();
        Self {
            timeline,
            at,
            device,
            doc,
            view: View::Timeline,
            came_from: Vec::new(),
            area: Rect::default(),
            shape: Shape::default(),
            mark: None,
            phase: None,
            hide_internal: doc_has_own,
            inverted: false,
            show_info: true,
            filter: Filter::default(),
            live: None,
            tree: Branches::default(),
            ends: Ends::default(),
            tree_is: None,
            members: None,
            wants_match: false,
            info: None,
            sources: Sources::default(),
            glance: None,
            flame_at: 0,
            allocations: Allocations::default(),
            segments: Segments::default(),
            events: Events::default(),
            pools: Pools::default(),
            insights: List::default(),
        }
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { doc: &self.doc, device: self.device }
    }

    /// Columns of the chart.
    pub(crate) fn columns(&self) -> usize {
        timeline_layout(self.area, self.shape).chart.width.into()
    }

    /// The moment under the cursor of the timeline.
    pub(crate) fn cursor(&self) -> Moment {
        self.timeline.moment(self.subject(), self.columns())
    }

    pub(crate) fn set_device(&mut self, device: usize) {
        if device < self.doc.opened.replays.len() && device != self.device {
            let view = self.view;
            let (area, hide, info) = (self.area, self.hide_internal, self.show_info);
            *self = Self::new(Arc::clone(&self.doc));
            self.device = device;
            let subject = Subject { doc: &self.doc, device };
            self.timeline = Timeline::new(subject);
            self.at = self.timeline.moment(subject, 1);
            (self.area, self.hide_internal, self.show_info, self.view) = (area, hide, info, view);
        }
    }

    /// Shows a view, and remembers where to go back to.
    pub(crate) fn open(&mut self, view: View) {
        if view == self.view {
            return;
        }
        if self.view == View::Timeline && !matches!(view, View::Insights | View::Ranks) {
            self.set_moment(self.cursor());
        }
        if view == View::Allocations {
            self.list_selected();
        }
        if view == View::Events {
            self.events.show(self.at);
        }
        // Going to a view that is on the way back is going back.
        match self.came_from.iter().position(|&earlier| earlier == view) {
            Some(at) => self.came_from.truncate(at),
            None => self.came_from.push(self.view),
        }
        self.view = view;
    }

    /// Leaves the view. Says whether there was one to go back to.
    pub(crate) fn back(&mut self) -> bool {
        let Some(view) = self.came_from.pop() else { return false };
        self.view = view;
        true
    }

    /// Chooses the moment that the views of a moment show.
    pub(crate) fn set_moment(&mut self, at: Moment) {
        if at != self.at || self.live.is_none() {
            self.at = at;
            self.forget_live();
        }
    }

    /// Goes to a moment everywhere.
    pub(crate) fn go_to(&mut self, at: Moment) {
        let subject = Subject { doc: &self.doc, device: self.device };
        self.timeline.go_to(subject, at);
        self.set_moment(at.min(subject.replay().end()));
        self.events.show(at);
    }

    /// Goes to the next phase that the search looks for.
    pub(crate) fn go_to_phase(&mut self, forwards: bool) -> bool {
        let doc = Arc::clone(&self.doc);
        let subject = Subject { doc: &doc, device: self.device };
        let regex = self.phase.as_ref();
        let at = regex.and_then(|regex| crate::prompt::phase(subject, regex, self.cursor(), forwards));
        at.is_some_and(|at| {
            self.go_to(at);
            true
        })
    }

    pub(crate) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.events.refilter();
        self.forget_live();
    }

    fn forget_live(&mut self) {
        self.live = None;
        self.tree_is = None;
        self.members = None;
    }

    /// Works out what is about to be drawn.
    pub(crate) fn refresh(&mut self) {
        let doc = Arc::clone(&self.doc);
        let subject = Subject { doc: &doc, device: self.device };
        let height = usize::from(self.area.height);
        match self.view {
            View::Timeline => {
                let columns = self.columns();
                self.timeline.refresh(subject, columns);
            }
            view if view.is_of_a_moment() => self.refresh_live(subject),
            View::Events => self.events.refresh(subject, &self.filter, height.saturating_sub(2)),
            View::Insights => {
                self.insights.scroll(subject.index().insights.len(), insights::list_height(self.area));
            }
            _ => {}
        }
    }

    fn refresh_live(&mut self, subject: Subject<'_>) {
        let live = match self.live.take() {
            Some(live) => live,
            None => Live::new(subject, self.at, &self.filter),
        };
        if matches!(self.view, View::Tree | View::Flame | View::Allocations) {
            let kind = (self.hide_internal, self.inverted);
            if self.tree_is != Some(kind) {
                let direction = if self.inverted { Direction::Inverted } else { Direction::TopDown };
                let (outline, ends) = live.tree(subject, direction, self.hide_internal);
                let flame_path = self.tree.outline.path(self.flame_at);
                self.tree.replace(outline);
                self.flame_at = self.tree.outline.find(&flame_path);
                self.ends = ends;
                self.tree_is = Some(kind);
                self.members = None;
            }
            if std::mem::take(&mut self.wants_match) {
                self.tree.go_to_match(Towards::Here);
            }
            self.tree
                .list
                .scroll(self.tree.rows.len(), crate::views::tree::rows_height(self.area, self.show_info));
            let wants_members = self.view == View::Allocations || self.show_info;
            if wants_members && self.members.is_none() {
                self.members = Some(live.members(subject, &self.filter, &self.ends));
            }
        }
        match self.view {
            View::Tree => self.info = self.tree_info(subject),
            View::Allocations => {
                let rows = crate::views::tree::rows_height(self.area, true).saturating_sub(1);
                let members = self.members.take().unwrap_or_default();
                self.allocations.refresh(subject, &live, &members, &self.tree.outline, rows);
                self.members = Some(members);
                let chosen = self.allocations.selected();
                self.info =
                    chosen.map(|index| Info::of_allocation(subject, index, self.at, &mut self.sources));
            }
            View::Segments => self.segments.refresh(subject, &live.state, &self.filter, self.area),
            View::Pools => self.pools.refresh(subject, &live.state),
            _ => {}
        }
        self.live = Some(live);
    }

    fn tree_info(&mut self, subject: Subject<'_>) -> Option<Info> {
        let row = self.tree.selected().filter(|_| self.show_info)?;
        let node = self.tree.last_of(row);
        let members = self.members.as_ref()?.of(&self.tree.outline, node, row.is_own);
        let node = if self.inverted { row.node } else { node };
        Some(Info::of_node(
            subject,
            &self.tree.outline,
            (node, self.tree.last_of(row)),
            members,
            self.at,
            self.inverted,
            &mut self.sources,
        ))
    }

    /// Marks a line in the tree and goes there, once the tree is made.
    fn look_for(&mut self, subject: Subject<'_>, line: Option<&Line>) {
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

    /// Works out what may take longer than a key should: the heaviest lines under the cursor. Says whether
    /// anything changed.
    pub(crate) fn settle(&mut self) -> bool {
        if self.view != View::Timeline || self.area.height == 0 {
            return false;
        }
        let at = self.cursor();
        if self.glance.as_ref().is_some_and(|glance| glance.at == at) {
            return false;
        }
        self.glance = Some(Glance::new(self.subject(), at));
        true
    }

    /// Lists the allocations below what is selected in the tree or the flame graph; all from elsewhere.
    fn list_selected(&mut self) {
        let scope = match self.view {
            View::Tree => {
                self.tree.selected().map(|row| (self.tree.outline.path(self.tree.last_of(row)), row.is_own))
            }
            View::Flame => Some((self.tree.outline.path(self.flame_at), false)),
            _ => None,
        };
        self.allocations.set_scope(scope.unwrap_or_default());
    }

    /// The stack of what is selected, innermost frame first.
    pub(crate) fn selected_stack(&self) -> Vec<String> {
        let of_stack = |stack: StackId| {
            let snapshot = self.subject().snapshot();
            let long = |frame: vramscope_snapshot::Frame| {
                crate::words::long(snapshot.text(frame.file), frame.line, snapshot.text(frame.name))
            };
            snapshot.frames(stack).map(long).collect::<Vec<_>>()
        };
        let of_allocation = |index: AllocIdx| of_stack(self.subject().replay().allocation(index).stack);
        match self.view {
            View::Tree => self.info.as_ref().map(|info| info.stack.clone()).unwrap_or_default(),
            View::Allocations => self.allocations.selected().map(of_allocation).unwrap_or_default(),
            View::Segments => self.segments.selected_allocation().map(of_allocation).unwrap_or_default(),
            View::Events => {
                let event = self.subject().events().get(self.events.selected_row());
                of_stack(event.stack)
            }
            View::Flame => {
                let names = crate::views::Names::Snapshot(self.subject().snapshot());
                self.tree.outline.path(self.flame_at).iter().rev().map(|&place| names.long(place)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Does what a key asks of the view.
    pub(crate) fn act(&mut self, action: Action) -> Reply {
        let doc = Arc::clone(&self.doc);
        let subject = Subject { doc: &doc, device: self.device };
        let height = isize::try_from(self.area.height.saturating_sub(3).max(1)).unwrap_or(1);
        match action {
            Action::View(view) => self.open(view),
            Action::NextDevice => self.set_device(self.device + 1),
            Action::PreviousDevice => self.set_device(self.device.wrapping_sub(1)),
            Action::Mark => {
                let at = if self.view == View::Timeline { self.cursor() } else { self.at };
                self.mark = Some(at);
                return Reply::Say(format!(
                    "marked {}: D compares another moment with it",
                    subject.moment_name(at)
                ));
            }
            Action::Internal => self.hide_internal = !self.hide_internal,
            Action::Invert => self.inverted = !self.inverted,
            Action::Info => self.show_info = !self.show_info,
            _ if self.view == View::Timeline => {
                if action == Action::Enter {
                    self.open(View::Tree);
                } else if let Some(words) = self.timeline.act(subject, action, self.columns()) {
                    return Reply::Say(words);
                }
            }
            Action::Peak => self.go_to(subject.replay().peak(self.timeline.counter).at),
            Action::End => self.go_to(subject.replay().end()),
            Action::NextEvent => self.go_to(Moment(self.at.0.saturating_add(1))),
            Action::PreviousEvent => self.go_to(Moment(self.at.0.saturating_sub(1))),
            Action::NextOom | Action::PreviousOom => {
                match next_oom(subject, self.at, action == Action::NextOom) {
                    Some(at) => self.go_to(at),
                    None => return Reply::Say("memory never ran out in this recording".into()),
                }
            }
            _ => return self.act_in_view(subject, action, height),
        }
        Reply::Nothing
    }

    fn act_in_view(&mut self, subject: Subject<'_>, action: Action, height: isize) -> Reply {
        match self.view {
            View::Tree => {
                let is_leaf = self.tree.selected().is_some_and(|row| !self.tree.can_open(row));
                if action == Action::Enter && is_leaf {
                    self.open(View::Allocations);
                } else if action == Action::Back && self.tree.unfocus() {
                    return Reply::Nothing;
                } else {
                    return act_in_tree(&mut self.tree, action, height);
                }
            }
            View::Flame => return crate::views::flame::act(self, action),
            View::Allocations => {
                if action == Action::Enter {
                    let Some(index) = self.allocations.selected() else { return Reply::Nothing };
                    let opened = subject.replay().allocation(index).opened;
                    if opened == Moment::START {
                        return Reply::Say("it was there before the first event".into());
                    }
                    self.open(View::Events);
                    self.events.show(opened);
                    return Reply::Nothing;
                }
                return self.allocations.act(action, height);
            }
            View::Segments => {
                if action == Action::Enter {
                    let chosen = self.segments.selected_allocation();
                    let Some(index) = chosen else { return Reply::Say("this is free".into()) };
                    self.open(View::Allocations);
                    self.allocations.choose(index);
                    return Reply::Nothing;
                }
                return self.segments.act(action, height);
            }
            View::Events => {
                if action == Action::Enter {
                    let at = Moment(self.events.selected_row() as u32 + 1);
                    self.go_to(at);
                    self.open(View::Tree);
                    return Reply::Nothing;
                }
                return self.events.act(subject, action, height);
            }
            View::Pools => {
                if action == Action::Enter {
                    if let Some(pool) = self.pools.selected() {
                        self.segments.only_pool(pool);
                    }
                    self.open(View::Segments);
                    return Reply::Nothing;
                }
                return self.pools.act(action, height);
            }
            View::Insights => {
                let found = &subject.index().insights;
                if action == Action::Enter {
                    if let Some(insight) = found.get(self.insights.selected) {
                        self.go_to(insight.at);
                        self.open(if insight.is_of_segments { View::Segments } else { View::Tree });
                        self.look_for(subject, insight.line.as_ref());
                    }
                    return Reply::Nothing;
                }
                return act_in_list(&mut self.insights, found.len(), action, height);
            }
            View::Timeline | View::Ranks | View::Diff => {}
        }
        Reply::Nothing
    }
}

/// Movement in a list.
pub(crate) fn act_in_list(list: &mut List, len: usize, action: Action, height: isize) -> Reply {
    match action {
        Action::Up => list.step(-1, len),
        Action::Down => list.step(1, len),
        Action::PageUp => list.step(-height, len),
        Action::PageDown => list.step(height, len),
        Action::HalfUp => list.step(-(height / 2).max(1), len),
        Action::HalfDown => list.step((height / 2).max(1), len),
        Action::First | Action::Top => list.selected = 0,
        Action::Last => list.selected = len.saturating_sub(1),
        Action::Back | Action::Escape => return Reply::Leave,
        _ => {}
    }
    Reply::Nothing
}

/// What keys do in any tree.
pub(crate) fn act_in_tree(tree: &mut Branches, action: Action, height: isize) -> Reply {
    match action {
        Action::Enter => {
            tree.toggle();
        }
        Action::Left => tree.out(),
        Action::Right => tree.into(),
        Action::Previous => tree.sibling(false),
        Action::Next => tree.sibling(true),
        Action::ExpandBelow => tree.set_below(true),
        Action::Collapse => tree.set_below(false),
        Action::ExpandAll => tree.set_all(true),
        Action::CollapseAll => tree.set_all(false),
        Action::Focus => tree.focus(),
        Action::Chains => tree.toggle_chains(),
        Action::SearchNext | Action::SearchPrevious => {
            let towards = if action == Action::SearchNext { Towards::Next } else { Towards::Previous };
            if !tree.go_to_match(towards) {
                return Reply::Say("nothing found".into());
            }
        }
        _ => return act_in_list(&mut tree.list, tree.rows.len(), action, height),
    }
    Reply::Nothing
}
