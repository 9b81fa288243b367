//! One file and device on the screen, with the place in every view of it.

use std::sync::Arc;

use ratatui::layout::Rect;
use vramscope_analysis::{AllocIdx, Moment};
use vramscope_snapshot::StackId;

use crate::branches::{Branches, Towards};
use crate::calls::Calls;
use crate::document::{Document, Subject};
use crate::keys::{Action, View};
use crate::list::List;
use crate::live::{ActiveFilter, Glance, Live, Scope};
use crate::load::Question;
use crate::views;
use crate::views::allocations::Allocations;
use crate::views::events::Events;
use crate::views::info::Info;
use crate::views::pools::Pools;
use crate::views::segments::Segments;
use crate::views::timeline::{NO_OOM, Timeline, next_oom};
use crate::views::{Shape, insights, timeline_layout};
use crate::whatif::{Shown, WhatIf};

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
    /// Which of the files that were named.
    pub(crate) file: usize,
    pub(crate) view: View,
    /// Views to go back to.
    came_from: Vec<View>,
    /// Where it is drawn.
    pub(crate) area: Rect,
    pub(crate) shape: Shape,
    pub(crate) timeline: Timeline,
    pub(crate) scope: Scope,
    pub(crate) calls: Calls,
    pub(crate) allocations: Allocations,
    pub(crate) segments: Segments,
    pub(crate) events: Events,
    pub(crate) pools: Pools,
    pub(crate) insights: List,
    /// The first line that is shown of the selected finding.
    pub(crate) insight_top: usize,
    pub(crate) whatif: WhatIf,
    /// The file is another than the one that was read.
    pub(crate) has_changed: bool,
}

impl Pane {
    pub(crate) fn new(doc: Arc<Document>, file: usize) -> Self {
        let device = doc.main_device();
        Self::of_device(doc, file, device)
    }

    fn of_device(doc: Arc<Document>, file: usize, device: usize) -> Self {
        let subject = Subject { doc: &doc, device };
        let timeline = Timeline::new(subject);
        // Without events there is one moment, and nothing to draw over time: the map says most.
        let is_one_moment = subject.replay().events() == 0 && subject.has_map();
        let view = if is_one_moment { View::Segments } else { View::Timeline };
        Self {
            scope: Scope::new(timeline.at()),
            timeline,
            device,
            file,
            // A recording of C++ frames alone would show nothing.
            calls: Calls::new(doc.has_own_frames()),
            doc,
            view,
            came_from: Vec::new(),
            area: Rect::default(),
            shape: Shape::default(),
            allocations: Allocations::default(),
            segments: Segments::default(),
            events: Events::default(),
            pools: Pools::default(),
            insights: List::default(),
            insight_top: 0,
            whatif: WhatIf::default(),
            has_changed: false,
        }
    }

    /// Shows what another pane showed, where this one has it. Returns a message about what it lacks.
    fn take_view(&mut self, old: &mut Self) -> Option<String> {
        (self.view, self.area, self.shape) = (old.view, old.area, old.shape);
        self.came_from = std::mem::take(&mut old.came_from);
        self.calls.hide_internal = old.calls.hide_internal;
        self.calls.detail = old.calls.detail;
        match ActiveFilter::new(&old.scope.filter.text, self.subject()) {
            Ok(filter) => {
                self.scope.filter = filter;
                None
            }
            Err(why) => Some(format!("the filter is cleared: {why}")),
        }
    }

    /// Goes on where another pane of the same file was: the device, the view, the filter and the moment.
    pub(crate) fn carry_on(&mut self, old: &mut Self) {
        if old.device < self.doc.opened.devices.len() {
            *self = Self::of_device(Arc::clone(&self.doc), self.file, old.device);
        }
        self.take_view(old);
        let at = old.moment();
        self.go_to(at.min(self.subject().replay().end()));
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { doc: &self.doc, device: self.device }
    }

    /// Columns of the chart.
    pub(crate) fn columns(&self) -> usize {
        timeline_layout(self.area, self.shape).chart.width.into()
    }

    /// The moment that the view shows.
    pub(crate) fn moment(&self) -> Moment {
        if self.view == View::Timeline { self.timeline.at() } else { self.scope.at }
    }

    /// Shows another device of the file, in the same view and with the same filter.
    fn set_device(&mut self, device: usize) -> Reply {
        let count = self.doc.opened.devices.len();
        if count == 1 {
            return Reply::Say(format!("{} is the only device in this file", self.subject().device_name()));
        }
        if device >= count {
            return Reply::Say("there is no other device in this direction".into());
        }
        let mut other = Self::of_device(Arc::clone(&self.doc), self.file, device);
        let mut words = format!("{}, {} of {count}", other.subject().device_name(), device + 1);
        if let Some(lost) = other.take_view(self) {
            words = format!("{words}; {lost}");
        }
        *self = other;
        Reply::Say(words)
    }

    /// Shows a view, and remembers where to go back to.
    pub(crate) fn open(&mut self, view: View) {
        if view == self.view {
            return;
        }
        if self.view == View::Timeline && !matches!(view, View::Insights | View::Ranks) {
            self.set_moment(self.timeline.at());
        }
        if view == View::Allocations {
            self.list_selected();
        }
        if view == View::Events {
            self.events.show(self.scope.at);
        }
        // Going to a view that is on the way back is going back.
        match self.came_from.iter().position(|&earlier| earlier == view) {
            Some(at) => self.came_from.truncate(at),
            None => self.came_from.push(self.view),
        }
        self.view = view;
    }

    /// Whether there is a view to go back to.
    pub(crate) fn has_back(&self) -> bool {
        !self.came_from.is_empty()
    }

    /// Leaves the view. Says whether there was one to go back to.
    pub(crate) fn back(&mut self) -> bool {
        let Some(view) = self.came_from.pop() else { return false };
        self.view = view;
        true
    }

    /// Chooses the moment that the views of a moment show.
    pub(crate) fn set_moment(&mut self, at: Moment) {
        if at != self.scope.at || self.scope.live.is_none() {
            self.scope.at = at;
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

    /// Goes to the next phase that a search found.
    pub(crate) fn go_to_phase(&mut self, towards: Towards) -> bool {
        let at = self.timeline.phases.as_ref().and_then(|found| found.find(self.timeline.at(), towards));
        at.is_some_and(|at| {
            self.go_to(at);
            true
        })
    }

    pub(crate) fn set_filter(&mut self, filter: ActiveFilter) {
        self.scope.filter = filter;
        self.events.refilter();
        self.segments.refilter();
        self.forget_live();
    }

    /// Shows all events of the address of what is selected.
    fn show_history(&mut self) -> Reply {
        let subject = self.subject();
        let of = |index: AllocIdx| subject.replay().allocation(index).addr;
        let addr = match self.view {
            View::Allocations => self.allocations.selected().map(of),
            View::Events => Some(subject.events().get(self.events.selected_row()).addr),
            _ => self.segments.selected_piece().map(|piece| piece.addr),
        };
        let Some(addr) = addr.filter(|_| subject.has_map()) else {
            return Reply::Say("nothing here has an address".into());
        };
        match ActiveFilter::new(&format!("{addr:#x}"), subject) {
            Ok(filter) => {
                self.set_filter(filter);
                self.open(View::Events);
                Reply::Nothing
            }
            Err(why) => Reply::Say(why),
        }
    }

    /// Shows what is concluded about the file now.
    pub(crate) fn take_analysis(&mut self) {
        self.timeline.forget_columns();
    }

    fn forget_live(&mut self) {
        self.scope.live = None;
        self.calls.forget();
    }

    /// What of a simulation is on the screen.
    fn shown(&self) -> Shown {
        Shown {
            device: self.device,
            stretch: self.timeline.stretch(self.subject(), self.columns()),
            at: self.scope.at,
            table: self.view == View::WhatIf,
        }
    }

    /// Reserved bytes under the selected settings, in the columns of the chart.
    pub(crate) fn simulated(&self) -> Option<&[Option<u64>]> {
        self.whatif.curve(self.shown().stretch)
    }

    /// What to ask the threads for: a simulation that is looked at.
    pub(crate) fn ask(&mut self) -> Option<Question> {
        let is_seen =
            self.view == View::WhatIf || self.view == View::Timeline && self.whatif.selected().is_some();
        let shown = self.shown();
        if is_seen && self.area.width > 0 { self.whatif.ask(&self.doc, shown) } else { None }
    }

    /// Works out what is about to be drawn.
    pub(crate) fn refresh(&mut self) {
        let doc = Arc::clone(&self.doc);
        let subject = Subject { doc: &doc, device: self.device };
        let height = usize::from(self.area.height);
        match self.view {
            View::Timeline | View::WhatIf => {
                let columns = self.columns();
                self.timeline.refresh(subject, columns);
                if self.view == View::WhatIf {
                    self.refresh_live(subject);
                    let rows = self.whatif.rows();
                    self.whatif.list.scroll(rows, rows);
                }
            }
            view if view.is_of_a_moment() => self.refresh_live(subject),
            View::Events => self.events.refresh(subject, &self.scope.filter, height.saturating_sub(2)),
            View::Insights => {
                self.insights.scroll(subject.insights().len(), insights::list_height(self.area));
            }
            _ => {}
        }
    }

    fn refresh_live(&mut self, subject: Subject<'_>) {
        let filter = &self.scope.filter;
        let live = match self.scope.live.take() {
            Some(live) => live,
            None => Live::new(subject, self.scope.at, filter),
        };
        if matches!(self.view, View::Tree | View::Flame | View::Allocations) {
            self.calls.refresh(subject, &live, filter, self.view, self.area);
        }
        match self.view {
            View::Allocations => {
                let rows = views::tree::rows_height(self.area, views::allocations::detail(&self.calls))
                    .saturating_sub(1);
                let members = self.calls.members.take().unwrap_or_default();
                self.allocations.refresh(subject, &live, &members, &self.calls.tree.outline, rows);
                self.calls.members = Some(members);
                let sources = &mut self.calls.sources;
                let chosen = self.allocations.selected();
                self.calls.info =
                    chosen.map(|index| Info::of_allocation(subject, index, &live.state, sources));
            }
            View::Segments => self.segments.refresh(subject, &live.state, filter, self.area),
            View::Pools => self.pools.refresh(subject, &live.state),
            _ => {}
        }
        self.scope.live = Some(live);
    }

    /// Works out what may take longer than a key should: the heaviest lines under the cursor. Says whether
    /// anything changed.
    pub(crate) fn settle(&mut self) -> bool {
        if self.view != View::Timeline || self.area.height == 0 {
            return false;
        }
        let at = self.timeline.at();
        if self.timeline.glance.as_ref().is_some_and(|glance| glance.at == at) {
            return false;
        }
        self.timeline.glance = Some(Glance::new(self.subject(), at));
        true
    }

    /// Lists the allocations below what is selected in the tree or the flame graph; all from elsewhere.
    fn list_selected(&mut self) {
        let below = match self.view {
            View::Tree => self
                .calls
                .tree
                .selected()
                .map(|row| (self.calls.tree.outline.path(self.calls.tree.last_of(row)), row.is_own)),
            View::Flame => Some((self.calls.tree.outline.path(self.calls.flame_at), false)),
            _ => None,
        };
        self.allocations.show_below(below.unwrap_or_default());
    }

    /// The stack of what is selected, innermost frame first.
    pub(crate) fn selected_stack(&self) -> Vec<String> {
        let of_stack = |stack: StackId| {
            let snapshot = self.subject().snapshot();
            let long = |frame: vramscope_snapshot::Frame| views::frame_long(snapshot, frame);
            snapshot.frames(stack).map(long).collect::<Vec<_>>()
        };
        let of_allocation = |index: AllocIdx| of_stack(self.subject().replay().allocation(index).stack);
        match self.view {
            View::Tree => self.calls.info.as_ref().map(|info| info.stack.clone()).unwrap_or_default(),
            View::Allocations => self.allocations.selected().map(of_allocation).unwrap_or_default(),
            View::Segments => self.segments.selected_allocation().map(of_allocation).unwrap_or_default(),
            View::Events => {
                let event = self.subject().events().get(self.events.selected_row());
                of_stack(event.stack)
            }
            View::Flame => {
                let names = views::Names::Snapshot(self.subject().snapshot());
                self.calls
                    .tree
                    .outline
                    .path(self.calls.flame_at)
                    .iter()
                    .rev()
                    .map(|&place| names.long(place))
                    .collect()
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
            Action::NextDevice => return self.set_device(self.device + 1),
            Action::PreviousDevice => return self.set_device(self.device.wrapping_sub(1)),
            Action::Mark => {
                let at = self.moment();
                self.scope.mark = Some(at);
                return Reply::Say(format!(
                    "marked {}: D compares another moment with it",
                    subject.moment_name(at)
                ));
            }
            Action::Internal => self.calls.hide_internal = !self.calls.hide_internal,
            Action::Invert => self.calls.inverted = !self.calls.inverted,
            Action::History => return self.show_history(),
            Action::Info => self.calls.detail = self.calls.detail.next(self.view, self.area),
            _ if self.view == View::Timeline => {
                if action == Action::Enter {
                    self.open(View::Tree);
                } else if let Some(words) = self.timeline.act(subject, action, self.columns()) {
                    return Reply::Say(words);
                }
            }
            Action::Peak => self.go_to(subject.replay().peak(self.timeline.counter).at),
            Action::End => self.go_to(subject.replay().end()),
            Action::NextEvent => self.go_to(Moment(self.scope.at.0.saturating_add(1))),
            Action::PreviousEvent => self.go_to(Moment(self.scope.at.0.saturating_sub(1))),
            Action::NextOom | Action::PreviousOom => {
                match next_oom(subject, self.scope.at, action == Action::NextOom) {
                    Some(at) => self.go_to(at),
                    None => return Reply::Say(NO_OOM.into()),
                }
            }
            _ => return self.act_in_view(subject, action, height),
        }
        Reply::Nothing
    }

    fn act_in_view(&mut self, subject: Subject<'_>, action: Action, height: isize) -> Reply {
        match self.view {
            View::Tree => {
                let is_leaf = self.calls.tree.selected().is_some_and(|row| !self.calls.tree.can_open(row));
                if action == Action::Enter && is_leaf {
                    self.open(View::Allocations);
                } else if action == Action::Back && self.calls.tree.unfocus() {
                    return Reply::Nothing;
                } else {
                    return act_in_tree(&mut self.calls.tree, action, height);
                }
            }
            View::Flame => return views::flame::act(self, action),
            View::Allocations => {
                if action == Action::Enter {
                    let Some(index) = self.allocations.selected() else { return Reply::Nothing };
                    let opened = subject.replay().allocation(index).opened;
                    if opened == Moment::START {
                        return Reply::Say("it was allocated before the recording began".into());
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
            View::WhatIf => {
                if action == Action::Enter {
                    if !self.whatif.go_on() && self.whatif.selected().is_some() {
                        self.open(View::Timeline);
                    }
                    return Reply::Nothing;
                }
                return views::whatif::act(&mut self.whatif, action, height);
            }
            View::Insights => {
                let found = subject.insights();
                if action == Action::Enter {
                    if let Some(insight) = found.get(self.insights.selected) {
                        self.go_to(insight.at);
                        self.open(if insight.is_of_segments { View::Segments } else { View::Tree });
                        self.calls.look_for(subject, insight.line.as_ref());
                    }
                    return Reply::Nothing;
                }
                // A page is one of the text: the list is short.
                self.insight_top = match action {
                    Action::PageDown | Action::PageUp => {
                        let top = insights::turned(self, action == Action::PageDown);
                        self.insight_top = top;
                        return Reply::Nothing;
                    }
                    _ => 0,
                };
                return act_in_list(&mut self.insights, found.len(), action, height);
            }
            View::Timeline | View::Ranks | View::Diff => {}
        }
        Reply::Nothing
    }
}

/// What a search says that finds nothing.
pub(crate) const NOTHING_FOUND: &str = "nothing found";

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
                return Reply::Say(NOTHING_FOUND.into());
            }
        }
        _ => return act_in_list(&mut tree.list, tree.rows.len(), action, height),
    }
    Reply::Nothing
}
