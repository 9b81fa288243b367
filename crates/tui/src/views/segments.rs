//! The map of memory at a moment: every segment as a bar of blocks and holes.

use std::cmp::Reverse;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use vramscope_analysis::pools::known_pool;
use vramscope_analysis::{AllocIdx, Gap, Moment, Range, State, gap};
use vramscope_format::{bytes, count, elide_place, fit, plural, printable, size, stream, width, wrap};
use vramscope_snapshot::PoolId;

use super::{put, put_no_map, put_right, row_of};
use crate::document::Subject;
use crate::keys::Action;
use crate::list::List;
use crate::live::ActiveFilter;
use crate::pane::{Pane, Reply, act_in_list};
use crate::theme::{Colors, Role, Theme};

/// Lines below the list: a rule, the selected block, its segment, the gap in up to two lines.
const FOOT: u16 = 5;
/// The same on a low screen.
const LOW_FOOT: u16 = 4;

/// A stretch of a segment: a block, or a hole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) allocation: Option<AllocIdx>,
}

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) range: Range,
    /// By address, without a gap.
    pub(crate) pieces: std::ops::Range<usize>,
    pub(crate) free: u64,
    pub(crate) largest_hole: u64,
    pub(crate) blocks: usize,
    /// The block that asked for most.
    largest: Option<AllocIdx>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Free,
    Address,
    Size,
}

impl Order {
    const fn words(self) -> &'static str {
        match self {
            Self::Free => "sorted by free bytes",
            Self::Address => "sorted by address",
            Self::Size => "sorted by size",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Segments {
    pub(crate) rows: Vec<Segment>,
    pieces: Vec<Piece>,
    pub(crate) list: List,
    order: Order,
    /// Whether segments are as long as they are large.
    true_scale: bool,
    /// Whether the selected segment takes the whole screen.
    zoomed: bool,
    /// The selected piece of the selected segment.
    piece: usize,
    only: Option<PoolId>,
    made_for: Option<(Moment, Order, Option<PoolId>)>,
    /// Why more is reserved than requested.
    gap: Gap,
}

impl Segments {
    /// The rows have to be made again.
    pub(crate) fn refilter(&mut self) {
        self.made_for = None;
    }

    pub(crate) fn only_pool(&mut self, pool: PoolId) {
        self.only = Some(pool);
    }

    pub(crate) fn refresh(&mut self, subject: Subject<'_>, state: &State, filter: &ActiveFilter, area: Rect) {
        let key = (state.at, self.order, self.only);
        if self.made_for.as_ref() != Some(&key) {
            self.made_for = Some(key);
            self.build(subject, state);
            self.gap = gap(subject.replay(), state);
            if let Some(selection) = filter.selection() {
                let snapshot = subject.snapshot();
                self.rows.retain(|Segment { range, .. }| {
                    let pool = known_pool(snapshot, range.pool);
                    selection.keeps_segment(pool, snapshot.stream(range.stream), range.size)
                });
            }
        }
        self.list.scroll(self.rows.len(), usize::from(list_area(area).height / self.lines(area)));
    }

    /// Lines that each segment takes: a gap between them, where there is room for it.
    pub(crate) fn lines(&self, area: Rect) -> u16 {
        if self.rows.len() * 2 <= usize::from(list_area(area).height) + 1 { 2 } else { 1 }
    }

    fn build(&mut self, subject: Subject<'_>, state: &State) {
        self.rows.clear();
        self.pieces.clear();
        let mut holes = state.holes.iter().peekable();
        let mut live = state.live.iter().peekable();
        for (number, range) in state.ranges.iter().enumerate() {
            let start = self.pieces.len();
            let (mut free, mut largest_hole, mut blocks) = (0_u64, 0, 0);
            let mut largest: Option<(u64, AllocIdx)> = None;
            while let Some(hole) = holes.next_if(|hole| hole.range == number) {
                self.pieces.push(Piece { addr: hole.addr, size: hole.size, allocation: None });
                free = free.saturating_add(hole.size);
                largest_hole = largest_hole.max(hole.size);
            }
            while let Some(&index) =
                live.next_if(|index| subject.replay().allocation(**index).addr < range.end())
            {
                let allocation = subject.replay().allocation(index);
                if allocation.addr >= range.addr {
                    self.pieces.push(Piece {
                        addr: allocation.addr,
                        size: allocation.size,
                        allocation: Some(index),
                    });
                    blocks += 1;
                    if largest.is_none_or(|(most, _)| allocation.requested > most) {
                        largest = Some((allocation.requested, index));
                    }
                }
            }
            let pieces = start..self.pieces.len();
            if let Some(pieces) = self.pieces.get_mut(pieces.clone()) {
                pieces.sort_by_key(|piece| piece.addr);
            }
            let largest = largest.map(|(_, index)| index);
            self.rows.push(Segment { range: *range, pieces, free, largest_hole, blocks, largest });
        }
        if let Some(only) = self.only {
            self.rows.retain(|segment| segment.range.pool == only);
        }
        match self.order {
            Order::Free => self.rows.sort_by_key(|segment| (Reverse(segment.free), segment.range.addr)),
            Order::Address => self.rows.sort_by_key(|segment| segment.range.addr),
            Order::Size => self.rows.sort_by_key(|segment| (Reverse(segment.range.size), segment.range.addr)),
        }
    }

    fn pieces_of(&self, segment: &Segment) -> &[Piece] {
        self.pieces.get(segment.pieces.clone()).unwrap_or_default()
    }

    pub(crate) fn selected_piece(&self) -> Option<Piece> {
        let pieces = self.pieces_of(self.rows.get(self.list.selected)?);
        pieces.get(self.piece.min(pieces.len().saturating_sub(1))).copied()
    }

    pub(crate) fn selected_allocation(&self) -> Option<AllocIdx> {
        self.selected_piece()?.allocation
    }

    pub(crate) fn act(&mut self, action: Action, height: isize) -> Reply {
        let pieces = self.rows.get(self.list.selected).map_or(0, |segment| segment.pieces.len());
        match action {
            Action::Left => self.piece = self.piece.min(pieces).saturating_sub(1),
            Action::Right => self.piece = (self.piece + 1).min(pieces.saturating_sub(1)),
            Action::Sort => {
                self.order = match self.order {
                    Order::Free => Order::Address,
                    Order::Address => Order::Size,
                    Order::Size => Order::Free,
                };
                return Reply::Say(self.order.words().into());
            }
            Action::Axis => {
                self.true_scale = !self.true_scale;
                let words = if self.true_scale { "as long as they are large" } else { "all equally long" };
                return Reply::Say(words.into());
            }
            Action::Fit => self.zoomed = !self.zoomed,
            Action::Back | Action::Escape if self.zoomed => self.zoomed = false,
            Action::Back | Action::Escape if self.only.is_some() => self.only = None,
            _ => {
                let before = self.list.selected;
                let reply = act_in_list(&mut self.list, self.rows.len(), action, height);
                if self.list.selected != before {
                    self.piece = 0;
                }
                return reply;
            }
        }
        Reply::Nothing
    }
}

/// Where the segments are, between the header and what the cursor is on.
fn list_area(area: Rect) -> Rect {
    Rect { y: area.y + 2, height: area.height.saturating_sub(2 + foot_lines(area)), ..area }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (view, subject) = (&pane.segments, pane.subject());
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let Some(live) = &pane.scope.live else { return };
    if !subject.has_map() {
        return put_no_map(buffer, area, subject, theme);
    }
    let counters = live.state.counters;
    let mut header = format!(
        "{} reserved · {} active · largest hole {} · {}",
        bytes(counters.reserved),
        bytes(counters.active),
        size(live.state.largest_hole()),
        subject.moment_name(pane.scope.at)
    );
    if let Some(only) = view.only {
        header += &format!(" · pool {} only", subject.pool_name(only));
    }
    if !pane.scope.filter.is_empty() {
        let all = plural(live.state.ranges.len(), "segment");
        header +=
            &format!(" · {} of {all} pass {}", count(view.rows.len()), printable(&pane.scope.filter.text));
    }
    let order = format!("{} (S)", view.order.words());
    // What is free is also a column, so the order is said as far as there is room.
    if width(&header) + width(&order) + 3 <= area.width.into() && !view.zoomed {
        put_right(buffer, area, area.x, area.y, &order, dim);
    }
    put(buffer, area, area.x, area.y, &fit(&header, area.width.into()), text);
    if let Some(segment) = view.rows.get(view.list.selected).filter(|_| view.zoomed) {
        draw_zoomed(buffer, area, (subject, view, segment), theme);
        return draw_piece(buffer, area, pane, theme);
    }
    let is_narrow = area.width < 70;
    let cells = if is_narrow {
        area.width.saturating_sub(24)
    } else {
        (area.width.saturating_sub(38) * 3 / 5).min(160)
    };
    let titles = match is_narrow {
        true => format!("{:>10} {:>10} {}", "size", "free", legend(cells)),
        false => format!(
            "{:>10}  {:>10}  {:>10}  {:cells$}  what pins it",
            "size",
            "free",
            "largest",
            legend(cells),
            cells = usize::from(cells)
        ),
    };
    put(buffer, row_of(area, 1), area.x, area.y + 1, &titles, dim);
    let (list, lines) = (list_area(area), view.lines(area));
    let largest = view.rows.iter().map(|segment| segment.range.size).max().unwrap_or(1).max(1);
    for row in 0..list.height.div_ceil(lines) {
        let Some(at) = view.list.at(row, view.rows.len()) else { break };
        let segment = &view.rows[at];
        let line = row_of(list, row * lines);
        let is_selected = at == view.list.selected;
        let share = segment.free as f64 / segment.range.size.max(1) as f64;
        let numbers = match is_narrow {
            true => format!("{:>10} {:>10} ", size(segment.range.size), size(segment.free)),
            false => format!(
                "{:>10}  {:>10}  {:>10}  ",
                size(segment.range.size),
                size(segment.free),
                size(segment.largest_hole)
            ),
        };
        let style = if share > 0.5 { theme.style(Role::Warm) } else { text };
        let x = put(buffer, line, line.x, line.y, &numbers, style);
        if is_selected {
            buffer.set_style(Rect { width: x - line.x, ..line }, theme.style(Role::Selected));
        }
        let bar = Rect { x, width: cells.min(line.right().saturating_sub(x)), ..line };
        let right = bar.right();
        let bar = match view.true_scale {
            true => {
                let share = segment.range.size as f64 / largest as f64;
                Rect {
                    width: ((f64::from(bar.width) * share).round() as u16).clamp(1, bar.width.max(1)),
                    ..bar
                }
            }
            false => bar,
        };
        draw_bar(buffer, bar, (subject, view, segment), (0, segment.range.size), is_selected, theme);
        // Rows without a line between them are told apart by a hairline.
        for x in (bar.left()..bar.right()).filter(|_| lines == 1) {
            if let Some(cell) = buffer.cell_mut((x, line.y)).filter(|cell| cell.symbol() == "█") {
                cell.set_symbol("▇");
            }
        }
        if !is_narrow {
            let x = right + 2;
            let label = pins(subject, segment);
            let room = usize::from(line.right().saturating_sub(x));
            put(buffer, line, x, line.y, &elide_place(&label, room), if is_selected { text } else { dim });
        }
    }
    draw_piece(buffer, area, pane, theme);
}

/// What keeps a segment from being given back.
fn pins(subject: Subject<'_>, segment: &Segment) -> String {
    let kind = if segment.range.expandable { " (expandable)" } else { "" };
    match segment.largest {
        None => format!("nothing, completely unused{kind}"),
        Some(largest) => {
            let place = subject.place(subject.replay().allocation(largest).stack);
            match segment.blocks {
                1 => format!("{place}{kind}"),
                n => format!("{place}{kind}, largest of {}", plural(n, "block")),
            }
        }
    }
}

/// One segment over the whole screen, line after line: each begins with its place in the segment.
fn draw_zoomed(
    buffer: &mut Buffer,
    area: Rect,
    about @ (_, _, segment): (Subject<'_>, &Segments, &Segment),
    theme: &Theme,
) {
    let (dim, range) = (theme.style(Role::Dim), segment.range);
    let words = format!(
        "segment {:#x} · {} · {} free · z shows all · {}, largest hole {}",
        range.addr,
        size(range.size),
        size(segment.free),
        plural(segment.blocks, "block"),
        size(segment.largest_hole)
    );
    let line = row_of(area, 1);
    put(buffer, line, line.x, line.y, &fit(&words, line.width.into()), dim);
    let list = list_area(area);
    let lines = u64::from(list.height.max(1));
    let start = |line: u64| (range.size as f64 / lines as f64 * line as f64) as u64;
    for row in 0..list.height {
        let line = row_of(list, row);
        let (from, to) = (start(row.into()), start(u64::from(row) + 1));
        let x = put(buffer, line, line.x, line.y, &format!("{:>11} ", format!("+{}", size(from))), dim);
        let bar = Rect { x, width: line.right().saturating_sub(x), ..line };
        draw_bar(buffer, bar, about, (from, to), true, theme);
    }
}

/// A part of a segment as cells: each has the color of what takes most of it, and is as full as what is in use in it.
fn draw_bar(
    buffer: &mut Buffer,
    area: Rect,
    (subject, view, segment): (Subject<'_>, &Segments, &Segment),
    (first, last): (u64, u64),
    is_selected: bool,
    theme: &Theme,
) {
    let pieces = view.pieces_of(segment);
    let cells = u64::from(area.width).max(1);
    let size = last.saturating_sub(first).max(1);
    let chosen = view.selected_piece().filter(|_| is_selected);
    // Where a cell begins: with more bytes than 64 bits can multiply, in floating point.
    let edge = |cell: u64| first.saturating_add((size as f64 / cells as f64 * cell as f64) as u64);
    // Of a part, what lies before it is passed over.
    let end = |piece: &Piece| piece.addr.saturating_sub(segment.range.addr).saturating_add(piece.size);
    let mut at = pieces.partition_point(|piece| end(piece) <= first);
    let mut before = None;
    // Neighbouring cells mostly belong to the same block.
    let mut known: Option<(AllocIdx, Option<ratatui::style::Color>)> = None;
    for cell in 0..area.width {
        let (from, to) = (edge(cell.into()), edge(u64::from(cell) + 1).max(edge(cell.into()) + 1));
        let part = |piece: &Piece| {
            let start = piece.addr.saturating_sub(segment.range.addr);
            start.saturating_add(piece.size).min(to).saturating_sub(start.max(from))
        };
        while pieces.get(at).is_some_and(|piece: &Piece| {
            piece.addr.saturating_sub(segment.range.addr).saturating_add(piece.size) <= from
        }) {
            at += 1;
        }
        let inside = pieces.get(at..).unwrap_or_default().iter();
        let inside = inside.take_while(|piece| piece.addr.saturating_sub(segment.range.addr) < to);
        let (mut used, mut most, mut is_chosen) = (0, (0, None), false);
        for piece in inside {
            is_chosen |= chosen.is_some_and(|chosen| chosen.addr == piece.addr);
            if let Some(index) = piece.allocation {
                used += part(piece);
                if part(piece) > most.0 {
                    most = (part(piece), Some(index));
                }
            }
        }
        let share = used as f64 / (to - from) as f64;
        let symbol = match share {
            s if s <= 0.001 => "·",
            s if s >= 0.999 => "█",
            s if s < 0.34 => "░",
            s if s < 0.67 => "▒",
            _ => "▓",
        };
        let mut style = theme.style(Role::Dim);
        if let Some(index) = most.1
            && theme.colors != Colors::None
        {
            let color = match known {
                Some((last, color)) if last == index => color,
                _ => theme.of_name(&subject.place(subject.replay().allocation(index).stack)).bg,
            };
            known = Some((index, color));
            if let Some(color) = color {
                style = Style::new().fg(color);
            }
        }
        if is_chosen {
            style = theme.style(Role::Cursor);
        }
        // What is selected shows without colors, and a hole stays a hole.
        let symbol = match symbol {
            "·" if is_chosen => "─",
            _ if is_chosen && theme.colors == Colors::None => "▚",
            symbol => symbol,
        };
        // Where few colors tell neighbors apart, a gap between them does.
        let is_next = most.1.is_some() && before.is_some() && most.1 != before;
        if theme.colors <= Colors::Sixteen
            && is_next
            && let Some(cell) = buffer.cell_mut((area.x + cell - 1, area.y))
            && cell.symbol() == "█"
        {
            cell.set_symbol("▉");
        }
        before = most.1;
        if let Some(cell) = buffer.cell_mut((area.x + cell, area.y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    }
}

fn foot_lines(area: Rect) -> u16 {
    if area.height >= 18 { FOOT } else { LOW_FOOT }
}

/// What the cells of a bar mean, above the bars.
fn legend(cells: u16) -> &'static str {
    let all = ["█ in use  ▓▒░ partly  · free", "█ in use ▒ partly · free", "█ in use · free"];
    all.into_iter().find(|words| width(words) <= usize::from(cells)).unwrap_or_default()
}

/// What the cursor is on.
fn draw_piece(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height < 7 || !pane.subject().has_map() {
        return;
    }
    let (view, subject) = (&pane.segments, pane.subject());
    let dim = theme.style(Role::Dim);
    let lines = foot_lines(area);
    let foot = Rect { y: area.bottom() - lines, height: lines, ..area };
    put(buffer, foot, foot.x, foot.y, &"─".repeat(area.width.into()), dim);
    let (Some(segment), Some(piece)) = (view.rows.get(view.list.selected), view.selected_piece()) else {
        let filtered = !pane.scope.filter.is_empty();
        let words =
            if filtered { "no segment passes the filter; Esc clears it" } else { "nothing is reserved" };
        put(buffer, foot, foot.x, foot.y + 1, words, dim);
        return draw_gap(buffer, foot, &view.gap, dim);
    };
    let snapshot = subject.snapshot();
    let what = match piece.allocation {
        None => format!("free {} at {:#x}", size(piece.size), piece.addr),
        Some(index) => {
            let allocation = subject.replay().allocation(index);
            let awaits = if allocation.released <= pane.scope.at { ", free requested" } else { "" };
            let block = format!(
                "{} in a block of {} at {:#x}{awaits}  ",
                size(allocation.requested),
                size(piece.size),
                piece.addr
            );
            let room = usize::from(foot.width).saturating_sub(width(&block));
            let place = subject.place(allocation.stack);
            // On a narrow screen the line says more than the address.
            match room >= 12 {
                true => block + &elide_place(&place, room),
                false => elide_place(&format!("{place}  {block}"), foot.width.into()),
            }
        }
    };
    put(buffer, foot, foot.x, foot.y + 1, &what, theme.style(Role::Cursor));
    let range = &segment.range;
    let about = format!(
        "segment {:#x} · pool {} · stream {}{}",
        range.addr,
        subject.pool_name(range.pool),
        stream(snapshot.stream(range.stream)),
        if range.expandable { " · expandable" } else { "" }
    );
    put(buffer, foot, foot.x, foot.y + 2, &about, dim);
    draw_gap(buffer, foot, &view.gap, dim);
}

/// Why more is reserved than requested, below what the cursor is on.
fn draw_gap(buffer: &mut Buffer, foot: Rect, gap: &Gap, style: Style) {
    let mut words =
        format!("reserved but not requested {}: {}", size(gap.total), gap.sentence(&|bytes| size(bytes)));
    if let Some(waiting) = gap.waiting_sentence(&|bytes| size(bytes)) {
        words = format!("{words}; {waiting}");
    }
    let room = usize::from(foot.height.saturating_sub(3));
    let wrapped = wrap(&words, foot.width.into());
    for (row, line) in wrapped.iter().take(room).enumerate() {
        let is_cut = row + 1 == room && wrapped.len() > room;
        let line = if is_cut { fit(&format!("{line}…"), foot.width.into()) } else { line.clone() };
        put(buffer, foot, foot.x, foot.y + 3 + row as u16, &line, style);
    }
}
