//! The trace, event by event.

use hashbrown::HashMap;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::Moment;
use vramscope_analysis::query::Pattern;
use vramscope_format::{bytes, count, elide_place, fit, plural, printable, size, width};
use vramscope_snapshot::{Action as Did, EventIdx, StackId};

use super::{matches_frame, put, row_of, select};
use crate::document::Subject;
use crate::keys::Action;
use crate::list::List;
use crate::live::ActiveFilter;
use crate::pane::{Pane, Reply, act_in_list};
use crate::theme::{Role, Theme};

#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) list: List,
    /// Events that pass the filter; all of them without one.
    rows: Option<Vec<u32>>,
    /// The event to select when the rows are known.
    wanted: Option<u32>,
    len: usize,
    is_filtered: bool,
    needs_filter: bool,
    /// Events that a search found, in order.
    pub(crate) found: Option<Vec<u32>>,
    /// How many events a search that is being typed would find.
    pub(crate) would_find: Option<usize>,
    /// How many events there are of each action and stack: made once, so that typing does not go through the trace.
    kinds: Vec<(Did, StackId, usize)>,
}

/// What a pattern matches: actions by number, and stacks.
struct Matching {
    actions: Vec<bool>,
    stacks: Vec<bool>,
}

impl Matching {
    fn new(subject: Subject<'_>, pattern: &Pattern) -> Self {
        let snapshot = subject.snapshot();
        let stacks = snapshot.stacks.ids();
        let is_match = |stack| snapshot.frames(stack).any(|frame| matches_frame(pattern, snapshot, frame));
        Self {
            actions: Did::ALL.iter().map(|action| pattern.is_match(action.name())).collect(),
            stacks: stacks.map(is_match).collect(),
        }
    }

    fn has(&self, action: Did, stack: StackId) -> bool {
        let is = |all: &[bool], at: usize| all.get(at).copied().unwrap_or(false);
        is(&self.actions, action as usize) || is(&self.stacks, stack.index())
    }
}

impl Events {
    /// Selects the event that a moment follows.
    pub(crate) fn show(&mut self, at: Moment) {
        self.wanted = Some(at.0.saturating_sub(1));
    }

    pub(crate) fn refilter(&mut self) {
        self.wanted = Some(self.selected_row() as u32);
        self.needs_filter = true;
    }

    pub(crate) fn refresh(&mut self, subject: Subject<'_>, filter: &ActiveFilter, height: usize) {
        if self.needs_filter || self.is_filtered == filter.is_empty() {
            let (replay, events) = (subject.replay(), subject.events());
            self.rows = filter.selection().map(|selection| {
                let keeps = |row: &u32| {
                    let event = events.get(*row as usize);
                    selection.keeps_event(replay, EventIdx(*row), &event)
                };
                (0..events.len() as u32).filter(keeps).collect()
            });
            self.needs_filter = false;
            self.is_filtered = !filter.is_empty();
        }
        self.len = self.rows.as_ref().map_or(subject.events().len(), Vec::len);
        if let Some(wanted) = self.wanted.take() {
            self.list.selected = match &self.rows {
                Some(rows) => rows.partition_point(|&row| row < wanted),
                None => wanted as usize,
            };
            // The selected event has neighbors on both sides.
            self.list.top = self.list.selected.saturating_sub(height / 2);
        }
        self.list.scroll(self.len, height);
    }

    fn event_at(&self, row: usize) -> usize {
        match &self.rows {
            Some(rows) => rows.get(row).map_or(0, |&event| event as usize),
            None => row,
        }
    }

    /// The selected event's number.
    pub(crate) fn selected_row(&self) -> usize {
        self.event_at(self.list.selected)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn act(&mut self, _: Subject<'_>, action: Action, height: isize) -> Reply {
        act_in_list(&mut self.list, self.len, action, height)
    }

    /// Looks for events whose action or whose stack matches: once, so that going from one to the next is quick.
    pub(crate) fn search(&mut self, subject: Subject<'_>, pattern: &Pattern) -> usize {
        let (events, matching) = (subject.events(), Matching::new(subject, pattern));
        let is_match = |row: &u32| {
            let event = events.get(*row as usize);
            matching.has(event.action, event.stack)
        };
        let found: Vec<u32> = (0..events.len() as u32).filter(is_match).collect();
        let len = found.len();
        self.found = Some(found);
        self.would_find = None;
        len
    }

    /// Counts what a search would find, while it is typed.
    pub(crate) fn count(&mut self, subject: Subject<'_>, pattern: Option<&Pattern>) {
        let Some(pattern) = pattern else {
            self.would_find = None;
            return;
        };
        if self.kinds.is_empty() {
            let mut kinds: HashMap<(Did, StackId), usize> = HashMap::new();
            for event in subject.events().iter() {
                *kinds.entry((event.action, event.stack)).or_default() += 1;
            }
            self.kinds = kinds.into_iter().map(|((action, stack), count)| (action, stack, count)).collect();
        }
        let matching = Matching::new(subject, pattern);
        let kinds = self.kinds.iter().filter(|(action, stack, _)| matching.has(*action, *stack));
        self.would_find = Some(kinds.map(|(.., count)| count).sum());
    }

    /// Goes to the next event that was found, around the end.
    pub(crate) fn go_to_match(&mut self, forwards: bool, is_here: bool) -> bool {
        let at = self.selected_row() as u32;
        let Some(found) = self.found.as_ref().filter(|found| !found.is_empty()) else { return false };
        let row = match (forwards, is_here) {
            (true, true) => found.partition_point(|&row| row < at) % found.len(),
            (true, false) => found.partition_point(|&row| row <= at) % found.len(),
            (false, _) => found.partition_point(|&row| row < at).checked_sub(1).unwrap_or(found.len() - 1),
        };
        self.wanted = Some(found[row]);
        true
    }
}

/// Where an event is from: its own stack, or that of the block that it is about.
fn place_of(subject: Subject<'_>, row: usize, stack: StackId, addr: u64) -> String {
    let of_block = || {
        let index = subject.replay().allocation_of(EventIdx::from_index(row))?;
        Some(subject.replay().allocation(index).stack)
    };
    let stack = Some(stack).filter(|stack| stack.has_frames()).or_else(of_block).unwrap_or(stack);
    if stack == StackId::ABSENT { format!("{addr:#x}") } else { subject.place(stack) }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (view, subject) = (&pane.events, pane.subject());
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let (snapshot, events) = (subject.snapshot(), subject.events());
    let mut words = plural(view.len(), "event");
    if !pane.scope.filter.is_empty() {
        let all = plural(events.len(), "event");
        words = format!("{} of {all} pass {}", count(view.len()), printable(&pane.scope.filter.text));
    }
    if let Some(found) = view.would_find.or(view.found.as_ref().map(Vec::len)) {
        words = format!("{words} · {} found", count(found));
    }
    put(buffer, area, area.x, area.y, &words, text);
    // What there is less room for is written shorter, and the least important is left out.
    let (is_narrow, is_wide) = (area.width < 70, area.width >= 110);
    let digits = width(&count(events.len())).max(6);
    let header = match (is_narrow, is_wide) {
        (true, _) => format!("{:>digits$} {:14} {:>10}", "event", "action", "size"),
        (false, false) => {
            format!(
                "{:>digits$} {:>9} {:14} {:>8} {:>9}  where",
                "event", "time", "action", "size", "requested"
            )
        }
        (false, true) => format!(
            "{:>digits$}  {:>12}  {:14}  {:>10}  {:>10}  where",
            "event", "time", "action", "size", "requested"
        ),
    };
    put(buffer, row_of(area, 1), area.x, area.y + 1, &header, dim);
    let list = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    for row in 0..list.height {
        let Some(at) = view.list.at(row, view.len()) else { break };
        let number = view.event_at(at);
        let event = events.get(number);
        let moment = Moment(number as u32 + 1);
        let name = count(number);
        let line = row_of(list, row);
        let role = match event.action {
            Did::Oom => Role::Danger,
            Did::SegmentAlloc | Did::SegmentMap => Role::Fine,
            Did::SegmentFree | Did::SegmentUnmap => Role::Warm,
            Did::Alloc => Role::Text,
            _ => Role::Dim,
        };
        let decimals = if is_wide { 6 } else { 3 };
        let time = subject.since(moment, decimals).unwrap_or_default();
        let action = match event.action {
            Did::Unknown => fit(&printable(snapshot.text(snapshot.meta(event.meta).unknown_action)), 14),
            known => known.name().to_owned(),
        };
        let bytes_size = size(event.size);
        let after = bytes(subject.replay().counters(moment).requested);
        let numbers = match (is_narrow, is_wide) {
            (true, _) => format!("{name:>digits$} {action:14} {bytes_size:>10} "),
            (false, false) => {
                format!("{name:>digits$} {time:>9} {action:14} {bytes_size:>8} {after:>9}  ")
            }
            (false, true) => {
                format!("{name:>digits$}  {time:>12}  {action:14}  {bytes_size:>10}  {after:>10}  ")
            }
        };
        let x = put(buffer, line, line.x, line.y, &numbers, theme.style(role));
        let place = match event.action {
            Did::Oom => format!("{} free on the device", size(event.addr)),
            _ => place_of(subject, number, event.stack, event.addr),
        };
        let room = usize::from(line.right().saturating_sub(x));
        let shown = if event.action == Did::Oom { fit(&place, room) } else { elide_place(&place, room) };
        put(buffer, line, x, line.y, &shown, if role == Role::Dim { dim } else { text });
        if at == view.list.selected {
            select(buffer, line, theme);
        }
    }
    if view.len() == 0 {
        put(
            buffer,
            list,
            list.x + 2,
            list.y,
            if pane.scope.filter.is_empty() {
                "no events"
            } else {
                "no event passes the filter; Esc clears it"
            },
            dim,
        );
    }
}
