//! The timeline as it is drawn: the chart with its axes, phases, and what is live at the cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::{Counter, Moment, Sum};
use vramscope_format::{
    bytes, change, count, elide_place, fit, phase, plural, printable, since, size, time, width,
};

use super::timeline::{Axis, Timeline};
use super::{bars, put, put_right, row_of, share_cell};
use crate::document::{MarkKind, Subject};
use crate::keys::View;
use crate::pane::Pane;
use crate::theme::{Role, Theme};

/// Columns for the numbers of the vertical axis.
const LABELS: u16 = 10;

/// Where the parts of the timeline are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) status: Rect,
    /// What the colors mean, with bytes at the cursor.
    pub(crate) legend: Rect,
    /// The whole run, where a part of it is shown.
    pub(crate) minimap: Rect,
    pub(crate) chart: Rect,
    pub(crate) axis: Rect,
    pub(crate) lanes: Rect,
    pub(crate) notes: Rect,
    pub(crate) table: Rect,
}

/// What a timeline has to show beside the chart. Panes side by side have the same, so that their charts match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    lanes: u16,
    notes: u16,
    legend: u16,
    minimap: u16,
}

impl Shape {
    pub(crate) fn new(pane: &Pane, run: Option<&str>, theme: &Theme) -> Self {
        Self {
            lanes: pane.subject().index().lanes.len() as u16,
            notes: notes(pane, run).len() as u16,
            legend: u16::from(bars::is_stacked(pane.timeline.counter, theme)),
            minimap: u16::from(pane.timeline.is_zoomed(pane.subject())),
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            lanes: self.lanes.max(other.lanes),
            notes: self.notes.max(other.notes),
            legend: self.legend.max(other.legend),
            minimap: self.minimap.max(other.minimap),
        }
    }
}

/// A line between the chart and the table.
struct Note {
    role: Role,
    mark: &'static str,
    what: String,
    /// What leads to more of it.
    key: String,
    /// The view that has it.
    opens: Option<View>,
}

/// The view that a line between the chart and the table opens.
pub(crate) fn opened_by_note(pane: &Pane, run: Option<&str>, row: usize) -> Option<View> {
    notes(pane, run).get(row)?.opens
}

/// What to know first: the most severe finding, other devices that ran out of memory, the other ranks.
fn notes(pane: &Pane, run: Option<&str>) -> Vec<Note> {
    let insights = pane.subject().insights();
    let mut notes = Vec::new();
    if pane.subject().analysis().is_none() {
        let (what, key) = ("looking for insights…".into(), "5: insights".into());
        notes.push(Note { role: Role::Dim, mark: "·", what, key, opens: Some(View::Insights) });
    }
    if let Some(first) = insights.first() {
        let (role, mark) = super::insights::role(first.severity);
        let key = format!("5: {}", plural(insights.len(), "insight"));
        notes.push(Note { role, mark, what: first.what.clone(), key, opens: Some(View::Insights) });
    }
    let others = (0..pane.doc.opened.devices.len()).filter(|&device| device != pane.device);
    notes.extend(others.filter_map(|device| {
        let other = Subject { doc: &pane.doc, device };
        let ooms = other.replay().ooms().len();
        let what = format!("{} ran out of memory {}", other.device_name(), plural(ooms, "time"));
        let key = "< > switch devices".into();
        (ooms > 0).then_some(Note { role: Role::Danger, mark: "▲", what, key, opens: None })
    }));
    notes.extend(run.map(|what| Note {
        role: Role::Text,
        mark: "·",
        what: what.into(),
        key: "6: list".into(),
        opens: Some(View::Ranks),
    }));
    notes
}

/// Divides an area: what matters most stays when there is little room.
pub(crate) fn layout(area: Rect, shape: Shape) -> Layout {
    let height = area.height;
    let depth = shape.lanes;
    let lanes = match height {
        0..14 => 0,
        14..26 => depth.min(2),
        _ => depth.min(4),
    };
    let status = u16::from(height >= 4);
    let axis = if height >= 7 { 2 } else { 0 };
    let table = match height {
        0..14 => 0,
        14..26 => 7,
        _ => (height / 4).clamp(8, 14),
    };
    let notes = if table > 0 { shape.notes.min(if height < 26 { 2 } else { 4 }) } else { 0 };
    let labels = if area.width >= 30 { LABELS } else { 0 };
    let (legend, minimap) = if height >= 20 { (shape.legend, shape.minimap) } else { (0, 0) };
    let chart = height - status - axis - lanes - table - notes - legend - minimap;
    let mut y = area.y;
    let mut take = |rows: u16| {
        let rect = Rect::new(area.x, y, area.width, rows);
        y += rows;
        rect
    };
    let status = take(status);
    let inner = |rect: Rect| Rect { x: rect.x + labels, width: rect.width - labels, ..rect };
    let (legend, minimap) = (take(legend), take(minimap));
    let (chart, axis, lanes) = (take(chart), take(axis), take(lanes));
    let (notes, table) = (take(notes), take(table));
    Layout {
        status,
        legend,
        minimap: inner(minimap),
        chart: inner(chart),
        axis: inner(axis),
        lanes: inner(lanes),
        notes,
        table,
    }
}

/// What the panes have in common.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    /// Bytes at the top of the chart.
    pub(crate) top: i64,
    pub(crate) is_active: bool,
    /// What there is to know about the other files.
    pub(crate) run: Option<&'a str>,
}

/// Where a chart is.
#[derive(Clone, Copy)]
struct Place {
    area: Rect,
    /// Where the numbers of the vertical axis begin.
    left: u16,
    /// Whether the horizontal axis is right below.
    has_axis: bool,
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme, shared: Shared<'_>) {
    let parts = layout(area, pane.shape);
    draw_status(buffer, parts.status, pane, theme);
    bars::legend(buffer, parts.legend, pane, theme);
    bars::minimap(buffer, parts.minimap, pane, theme);
    let shared = Shared { top: shared.top.max(highest_simulated(pane)), ..shared };
    let place = Place { area: parts.chart, left: area.x, has_axis: parts.axis.height > 0 };
    draw_chart(buffer, place, pane, theme, (shared, pane.timeline.counter, pane.timeline.floor));
    draw_axis(buffer, parts.axis, pane, theme);
    draw_lanes(buffer, parts.lanes, pane, theme);
    draw_notes(buffer, parts.notes, pane, shared.run, theme);
    draw_table(buffer, parts.table, pane, theme);
}

/// What the cursor is at, and the peak.
fn draw_status(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height == 0 {
        return;
    }
    let subject = pane.subject();
    let (replay, counter, at) = (subject.replay(), pane.timeline.counter, pane.timeline.at());
    let counters = replay.counters(at);
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let value = format!("{} {}", bytes(counters[counter]), counter.name());
    let mut x = put(buffer, area, area.x, area.y, &value, theme.style(Role::Cursor));
    let place = format!("  {}", subject.moment_name(at));
    let phases = match &pane.timeline.phases {
        Some(found) => format!(" · phase {} of {}", count(found.begun(at)), count(found.len())),
        None => String::new(),
    };
    // What there is room for, by what says most.
    let mut room = usize::from(area.right().saturating_sub(x)).saturating_sub(width(&place) + width(&phases));
    let mut fits = |words: &str| {
        let has_room = width(words) <= room;
        room -= if has_room { width(words) } else { 0 };
        has_room
    };
    let mut more = Vec::new();
    if let Some(mark) = pane.scope.mark.filter(|mark| *mark != at) {
        let since = counters[counter].saturating_sub(replay.counters(mark)[counter]);
        more.push(format!("{} since A", change(since)));
    }
    more.extend(subject.since(at, 3));
    if counter != Counter::Reserved {
        more.push(match subject.has_reserved() {
            true => format!("{} reserved", bytes(counters.reserved)),
            false => "reserved is not in this file".into(),
        });
    }
    let mut parts: Vec<String> =
        more.iter().map(|part| format!(" · {part}")).filter(|part| fits(part)).collect();
    let peak = replay.peak(counter);
    let (mut right, role) = match (pane.simulated(), pane.whatif.selected()) {
        (Some(_), Some(entry)) => (format!("━ simulated with {}", entry.under.name()), Role::Warm),
        _ => (format!("peak {}", bytes(peak.bytes)), Role::Dim),
    };
    if !fits(&format!("  {right}")) {
        right.clear();
    }
    let is_last = at == replay.end() && replay.events() > 0 && fits(", the last");
    let peak_at = format!(" at {}", subject.moment_name(peak.at));
    if role == Role::Dim && !right.is_empty() && fits(&peak_at) {
        right += &peak_at;
    }
    parts.extend(subject.time(at).map(|time_us| format!(" · {}", time(time_us))).filter(|part| fits(part)));
    x = put(buffer, area, x, area.y, &place, text);
    x = put(buffer, area, x, area.y, if is_last { ", the last" } else { "" }, text);
    x = put(buffer, area, x, area.y, &phases, theme.style(Role::Match));
    for part in parts {
        x = put(buffer, area, x, area.y, &part, dim);
    }
    put_right(buffer, area, x, area.y, &right, theme.style(role));
}

/// The recorded reserved bytes, and over them those of the selected settings.
pub(crate) fn draw_reserved(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let chart = Rect { x: area.x + LABELS.min(area.width), width: area.width.saturating_sub(LABELS), ..area };
    let columns = pane.timeline.columns().iter().map(|column| column.max.reserved);
    let top = columns.max().unwrap_or(1).max(highest_simulated(pane)).max(1);
    let shared = Shared { top, is_active: false, run: None };
    let place = Place { area: chart, left: area.x, has_axis: false };
    draw_chart(buffer, place, pane, theme, (shared, Counter::Reserved, 0));
}

/// The most that is simulated in what is shown.
fn highest_simulated(pane: &Pane) -> i64 {
    let most = pane.simulated().unwrap_or_default().iter().flatten().max();
    most.map_or(0, |&most| i64::try_from(most).unwrap_or(i64::MAX))
}

/// The simulated curve as a line, where the cells have room for one.
fn draw_simulated(buffer: &mut Buffer, area: Rect, pane: &Pane, height: impl Fn(i64) -> f64, theme: &Theme) {
    let style = theme.style(Role::Warm);
    let level = |bytes: u64| {
        let row = height(i64::try_from(bytes).unwrap_or(i64::MAX)).ceil() as i64 - 1;
        u16::try_from(row.max(0)).ok().filter(|&row| row < area.height).map(|row| area.bottom() - 1 - row)
    };
    let levels: Vec<Option<u16>> =
        pane.simulated().unwrap_or_default().iter().map(|&bytes| bytes.and_then(level)).collect();
    let mut before: Option<u16> = None;
    for (x, &y) in (area.x..area.right()).zip(&levels) {
        if let Some(y) = y {
            // A step is one line: up and down at once would be two.
            let (top, bottom) = before.map_or((y, y), |before| (before.min(y), before.max(y)));
            for row in top..=bottom {
                let symbol = match before {
                    Some(before) if before != y && row != y && row != before => "┃",
                    Some(before) if before > y && row == y => "┏",
                    Some(before) if before > y => "┛",
                    Some(before) if before < y && row == y => "┗",
                    Some(before) if before < y => "┓",
                    _ => "━",
                };
                if let Some(cell) = buffer.cell_mut((x, row)) {
                    cell.set_symbol(symbol).set_style(style);
                }
            }
        }
        before = y;
    }
}

fn draw_chart(
    buffer: &mut Buffer,
    place: Place,
    pane: &Pane,
    theme: &Theme,
    (shared, counter, floor): (Shared<'_>, Counter, i64),
) {
    let (timeline, subject, area) = (&pane.timeline, pane.subject(), place.area);
    let rows = f64::from(area.height);
    let top = shared.top.max(floor + 1);
    let height = |bytes: i64| (bytes.saturating_sub(floor)) as f64 / (top - floor) as f64 * rows;
    draw_levels(buffer, place, floor, top, theme);
    let has_categories = subject.analysis().is_some();
    let chart =
        bars::Chart { area, timeline, counter, height: &height, is_active: shared.is_active, has_categories };
    chart.draw(buffer, theme);
    draw_capacity(buffer, area, subject, height, theme);
    draw_simulated(buffer, area, pane, height, theme);
}

/// Round numbers along the bytes.
fn draw_levels(
    buffer: &mut Buffer,
    Place { area, left, has_axis }: Place,
    floor: i64,
    top: i64,
    theme: &Theme,
) {
    let room = area.x - left;
    if room == 0 || area.height == 0 {
        return;
    }
    let dim = theme.style(Role::Dim);
    let labels = Rect { x: left, width: room, height: area.height + u16::from(has_axis), ..area };
    let step = round_step((top - floor) as f64 / f64::from((area.height * 2 / 5).clamp(1, 7)), 2.0);
    let first = (floor as f64 / step).ceil() as i64;
    let mut last = None;
    for number in first..first + 16 {
        let level = number as f64 * step;
        let row = ((level - floor as f64) / (top - floor) as f64 * f64::from(area.height)).round();
        // A number is in the row below its level: that of the floor beside the axis, where there is one.
        let is_floor = row < 1.0;
        let row = (row as u16).saturating_sub(u16::from(!is_floor));
        if level > top as f64 || row >= area.height {
            break;
        }
        let y = area.bottom() - u16::from(!is_floor || !has_axis) - row;
        if last != Some(y) {
            let text = format!("{:>width$} ", bytes(level as i64), width = usize::from(room) - 1);
            put(buffer, labels, left, y, &text, dim);
            last = Some(y);
            // A quiet line that leads from the number to the bars.
            for x in (area.left()..area.right()).step_by(4).filter(|_| !is_floor) {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.set_symbol("·").set_style(dim);
                }
            }
        }
    }
}

/// A step of one, two, five or ten times a power: of ten, or of two for bytes.
fn round_step(least: f64, base: f64) -> f64 {
    if base == 2.0 {
        // 1, 2, 4, 8 … 512 of a binary unit.
        return 2_f64.powf(least.max(1.0).log2().ceil());
    }
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&step| step >= least)
        .unwrap_or(power)
}

fn draw_capacity(
    buffer: &mut Buffer,
    area: Rect,
    subject: Subject<'_>,
    height: impl Fn(i64) -> f64,
    theme: &Theme,
) {
    let Some(capacity) = subject.index().capacity else { return };
    let row = (height(capacity.bytes).ceil() as i64 - 1).max(0);
    let Ok(row) = u16::try_from(row) else { return };
    if row >= area.height {
        return;
    }
    let y = area.bottom() - 1 - row;
    let style = theme.style(Role::Danger);
    for x in area.left()..area.right() {
        if let Some(cell) = buffer.cell_mut((x, y))
            && matches!(cell.symbol(), " " | "─" | "·")
        {
            cell.reset();
            cell.set_symbol("┄").set_style(style);
        }
    }
    let word = match capacity.is_limit {
        true if capacity.is_exact() => "limit",
        true => "limit below",
        false => "capacity",
    };
    let text = format!(" {word} {} ", bytes(capacity.bytes));
    if area.width > 40 {
        put(buffer, area, area.x + 2, y, &text, style);
    }
}

/// The axis with its marks, and round numbers along it.
fn draw_axis(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height == 0 {
        return;
    }
    let (timeline, subject) = (&pane.timeline, pane.subject());
    let dim = theme.style(Role::Dim);
    let marked = pane.scope.mark.and_then(|at| timeline.clipped_column(subject, at, area.width.into()));
    let cursor = timeline.clipped_column(subject, timeline.at(), area.width.into());
    let mut before = None;
    for (number, column) in timeline.columns().iter().enumerate().take(area.width.into()) {
        // Zoomed in far, an event has several columns, and its mark the first of them.
        let moments = Some((column.from, column.to));
        let is_again = std::mem::replace(&mut before, moments) == moments;
        let in_range = marked.zip(cursor).is_some_and(|(a, b)| (a.min(b)..=a.max(b)).contains(&number));
        let mark = Timeline::mark_in(subject, column).filter(|_| !is_again);
        let (symbol, style) = match mark {
            Some(MarkKind::Oom) => ("▲", theme.style(Role::Danger)),
            Some(MarkKind::Held) => ("+", theme.style(Role::Fine)),
            Some(MarkKind::GivenBack) => ("-", theme.style(Role::Warm)),
            None if in_range => ("━", theme.style(Role::Warm)),
            // Among dashes, a mark of released memory would not be seen.
            None if theme.ascii => ("_", dim),
            None => ("─", dim),
        };
        let (symbol, style) =
            if marked == Some(number) { ("A", theme.style(Role::Cursor)) } else { (symbol, style) };
        if let Some(cell) = buffer.cell_mut((area.x + number as u16, area.y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    }
    if area.height < 2 {
        return;
    }
    let labels = row_of(area, 1);
    let (first, _) = timeline.bounds(subject);
    let steps = (timeline.to - timeline.from + 1) as f64;
    let step = round_step(steps / f64::from((area.width / 16).clamp(2, 8)), 10.0).max(1.0);
    // As many decimals as tell neighbors apart.
    let decimals = (6.0 - step.log10().floor()).clamp(0.0, 6.0) as usize;
    let mut free_from = labels.x;
    // An event is one less than the moment after it.
    let after = i64::from(timeline.axis == Axis::Events);
    let mut number = ((timeline.from - first - after) as f64 / step).ceil().max(0.0) as i64;
    loop {
        let value = (number as f64 * step) as i64 + first;
        let Some(column) = timeline.column_of(value + after, area.width.into()) else { break };
        let text = match timeline.axis {
            Axis::Events => count((value - first) as u64),
            Axis::Time => since(value - first, decimals),
        };
        let x = labels.x + column as u16;
        if x >= free_from && usize::from(x) + width(&text) <= usize::from(labels.right()) {
            free_from = put(buffer, labels, x, labels.y, &text, dim) + 2;
        }
        number += 1;
    }
    let unit = match timeline.axis {
        Axis::Events => "events",
        Axis::Time => "time",
    };
    put_right(buffer, labels, free_from, labels.y, unit, dim);
}

/// Phases, a lane for each depth.
fn draw_lanes(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (timeline, subject) = (&pane.timeline, pane.subject());
    let index = subject.index();
    for (number, lane) in index.lanes.iter().enumerate().take(area.height.into()) {
        let row = row_of(area, number as u16);
        // The span of each column: the one in which its first event lies.
        let span_of = |from: Moment, to: Moment| {
            let after = lane.partition_point(|&span| index.spans[span].from < to.max(Moment(from.0 + 1)));
            let span = *lane.get(after.checked_sub(1)?)?;
            (index.spans[span].to > from).then_some(span)
        };
        let columns = timeline.columns();
        let columns = &columns[..columns.len().min(row.width.into())];
        let same = columns.chunk_by(|a, b| span_of(a.from, a.to) == span_of(b.from, b.to));
        // Columns of one span, or of many that are too short to be told apart.
        let mut stretches: Vec<(Option<usize>, usize)> = Vec::new();
        let mut short = (0, 0);
        for stretch in same.map(|columns| (span_of(columns[0].from, columns[0].to), columns.len())) {
            stretches.push(stretch);
            let is_short = stretch.1 <= 2 && (stretch.0.is_some() || short.0 > 0);
            short = if is_short { (short.0 + 1, short.1 + stretch.1) } else { (0, 0) };
            if short.1 >= LEAST_CROWD {
                stretches.truncate(stretches.len() - short.0);
                stretches.push((CROWD, short.1));
                short.0 = 1;
            }
        }
        let mut x = 0;
        for (span, run) in stretches {
            let cell = Rect { x: row.x + x as u16, width: run as u16, ..row };
            let (from, to) = (columns[x].from, columns[x + run - 1].to);
            x += run;
            let Some(span) = span else { continue };
            if Some(span) == CROWD {
                let before = lane.partition_point(|&span| index.spans[span].to <= from);
                let number = lane.partition_point(|&span| index.spans[span].from < to) - before;
                let words = format!("▏{} phases, too short to show: zoom in", count(number));
                put(buffer, cell, cell.x, cell.y, &fit(&words, run), theme.style(Role::Dim));
                continue;
            }
            let name = printable(phase(subject.snapshot().text(index.spans[span].name)));
            let style = theme.tint_of_name(&name);
            let shown = format!("{:run$}", fit(&format!("▏{name}"), run));
            let text = if run < 3 { "▏".to_owned() + &" ".repeat(run.saturating_sub(1)) } else { shown };
            put(buffer, cell, cell.x, cell.y, &text, style);
        }
    }
}

/// As many columns of phases with one or two columns each are drawn as one.
const LEAST_CROWD: usize = 16;
/// What stands for them.
const CROWD: Option<usize> = Some(usize::MAX);

/// What to know first, a line each.
fn draw_notes(buffer: &mut Buffer, area: Rect, pane: &Pane, run: Option<&str>, theme: &Theme) {
    for (row, note) in notes(pane, run).iter().enumerate().take(area.height.into()) {
        let (line, style) = (row_of(area, row as u16), theme.style(note.role));
        let room = usize::from(line.width).saturating_sub(width(&note.key) + 5);
        let x = put(buffer, line, line.x, line.y, &format!("{} {}", note.mark, fit(&note.what, room)), style);
        put_right(buffer, line, x + 1, line.y, &note.key, theme.style(Role::Dim));
    }
}

/// What is live at the cursor, by line.
fn draw_table(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height < 2 {
        return;
    }
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let Some(glance) = &pane.timeline.glance else {
        put(buffer, area, area.x + 2, area.y, "…", dim);
        return;
    };
    let words = format!(
        "{:>10}  {:>5}  {:>7}  live at {}, by line",
        "requested",
        "share",
        "count",
        pane.subject().moment_name(glance.at)
    );
    put(buffer, area, area.x, area.y, &words, dim);
    let is_stale = glance.at != pane.timeline.at();
    let room = usize::from(area.height) - 1;
    let shown = if glance.lines.len() <= room { glance.lines.len() } else { room - 1 };
    let mut row = 1;
    let mut put_row = |sum: Sum, label: &str| {
        let share = sum.bytes as f64 / glance.total.bytes.max(1) as f64;
        let style = if is_stale { dim } else { theme.style(Role::Heat(share)) };
        let line = row_of(area, row);
        let numbers = format!("{:>10}  {}", size(sum.bytes), share_cell(sum.bytes, glance.total.bytes));
        let x = put(buffer, line, line.x, line.y, &numbers, style);
        let x = put(buffer, line, x, line.y, &format!("  {:>7}  ", count(sum.count)), dim);
        let room = usize::from(line.right().saturating_sub(x));
        put(buffer, line, x, line.y, &elide_place(label, room), if is_stale { dim } else { text });
        row += 1;
    };
    for (place, sum) in &glance.lines[..shown] {
        put_row(*sum, &printable(&place.short()));
    }
    let rest = &glance.lines[shown..];
    if !rest.is_empty() {
        let sum = rest.iter().fold(Sum::default(), |all, (_, sum)| Sum {
            bytes: all.bytes.saturating_add(sum.bytes),
            count: all.count + sum.count,
        });
        put_row(sum, &format!("{}; Enter opens the tree", plural(rest.len(), "more line")));
    }
    if glance.lines.is_empty() {
        put(buffer, area, area.x + 2, area.y + 1, "nothing is live at this moment", dim);
    }
}
