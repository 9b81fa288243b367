//! The trace, event by event.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::Moment;
use vramscope_snapshot::{Action as Did, EventIdx, StackId};

use super::{put, row_of};
use crate::document::Subject;
use crate::filter::Filter;
use crate::keys::Action;
use crate::list::List;
use crate::pane::{Pane, Reply, act_in_list};
use crate::theme::{Role, Theme};
use crate::words::{bytes, count, fit};

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

    pub(crate) fn refresh(&mut self, subject: Subject<'_>, filter: &Filter, height: usize) {
        if self.needs_filter || self.is_filtered == filter.is_empty() {
            let (snapshot, events) = (subject.snapshot(), subject.events());
            let keeps = |row: &u32| filter.keeps_event(snapshot, &events.get(*row as usize));
            self.rows = (!filter.is_empty()).then(|| (0..events.len() as u32).filter(keeps).collect());
            self.needs_filter = false;
            self.is_filtered = !filter.is_empty();
        }
        self.len = self.rows.as_ref().map_or(subject.events().len(), Vec::len);
        if let Some(wanted) = self.wanted.take() {
            self.list.selected = match &self.rows {
                Some(rows) => rows.partition_point(|&row| row < wanted),
                None => wanted as usize,
            };
            // What is looked at has neighbours on both sides.
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
    pub(crate) fn search(&mut self, subject: Subject<'_>, regex: &regex_lite::Regex) -> usize {
        let (snapshot, events) = (subject.snapshot(), subject.events());
        let stacks: Vec<bool> = snapshot
            .stacks
            .ids()
            .map(|stack: StackId| {
                snapshot.frames(stack).any(|frame| {
                    crate::filter::is_match(
                        regex,
                        snapshot.text(frame.file),
                        frame.line,
                        snapshot.text(frame.name),
                    )
                })
            })
            .collect();
        let actions = Did::ALL.map(|action| regex.is_match(action.name()));
        let is_match = |row: &u32| {
            let event = events.get(*row as usize);
            actions.get(event.action as usize).copied().unwrap_or(false)
                || stacks.get(event.stack.index()).copied().unwrap_or(false)
        };
        let found: Vec<u32> = (0..events.len() as u32).filter(is_match).collect();
        let len = found.len();
        self.found = Some(found);
        len
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
    let mut words = format!("{} events", count(view.len() as u64));
    if !pane.filter.is_empty() {
        words = format!("{words} of {} pass {}", count(events.len() as u64), pane.filter.text);
    }
    if let Some(found) = &view.found {
        words = format!("{words} · {} found", count(found.len() as u64));
    }
    put(buffer, area, area.x, area.y, &words, text);
    // What there is less room for is written shorter, and the least important is left out.
    let (is_narrow, is_wide) = (area.width < 70, area.width >= 110);
    let header = match (is_narrow, is_wide) {
        (true, _) => format!("{:>9} {:14} {:>10}", "event", "action", "size"),
        (false, false) => {
            format!("{:>9} {:>8} {:14} {:>8} {:>9}  where", "event", "seconds", "action", "size", "requested")
        }
        (false, true) => format!(
            "{:>9}  {:>12}  {:14}  {:>10}  {:>10}  where",
            "event", "seconds", "action", "size", "requested"
        ),
    };
    put(buffer, row_of(area, 1), area.x, area.y + 1, &header, dim);
    let list = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    for row in 0..list.height {
        let Some(at) = view.list.at(row, view.len()) else { break };
        let number = view.event_at(at);
        let event = events.get(number);
        let moment = Moment(number as u32 + 1);
        let line = row_of(list, row);
        let role = match event.action {
            Did::Oom => Role::Danger,
            Did::SegmentAlloc | Did::SegmentMap => Role::Fine,
            Did::SegmentFree | Did::SegmentUnmap => Role::Warm,
            Did::Alloc => Role::Text,
            _ => Role::Dim,
        };
        let decimals = if is_wide { 6 } else { 3 };
        let seconds =
            subject.seconds(moment).map_or(String::new(), |seconds| format!("{seconds:+.decimals$}"));
        let action = match event.action {
            Did::Unknown => {
                fit(&crate::words::printable(snapshot.text(snapshot.meta(event.meta).unknown_action)), 14)
            }
            known => known.name().to_owned(),
        };
        let size = bytes(event.size);
        let after = crate::words::signed(subject.replay().counters(moment).requested);
        let numbers = match (is_narrow, is_wide) {
            (true, _) => format!("{number:>9} {action:14} {size:>10} "),
            (false, false) => format!("{number:>9} {seconds:>8} {action:14} {size:>8} {after:>9}  "),
            (false, true) => {
                format!("{number:>9}  {seconds:>12}  {action:14}  {size:>10}  {after:>10}  ")
            }
        };
        let x = put(buffer, line, line.x, line.y, &numbers, theme.style(role));
        let place = match event.action {
            Did::Oom => format!("{} free on the device", bytes(event.addr)),
            _ => place_of(subject, number, event.stack, event.addr),
        };
        let room = usize::from(line.right().saturating_sub(x));
        put(buffer, line, x, line.y, &fit(&place, room), if role == Role::Dim { dim } else { text });
        if at == view.list.selected {
            buffer.set_style(line, theme.style(Role::Selected));
        }
    }
    if view.len() == 0 {
        put(buffer, list, list.x + 2, list.y, "no events", dim);
    }
}
