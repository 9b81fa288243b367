//! The same run under other allocator settings: a table, the simulated curve over the real one, and its segments beside
//! the real ones.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use vramscope_analysis::State;
use vramscope_analysis::whatif::{Remark, Row, Tone};
use vramscope_engine::Trial;
use vramscope_format::{bytes, fit, plural, size, width, wrap};

use super::{chart, put, row_of, select};
use crate::document::Subject;
use crate::keys::Action;
use crate::pane::{Pane, Reply, act_in_list};
use crate::theme::{Role, Theme};
use crate::whatif::WhatIf;

/// Screens that are wider have room for every column of the table.
const WIDE: u16 = 110;
/// Columns for the size of a segment.
const SIZES: u16 = 10;

pub(crate) fn role(tone: Tone) -> Role {
    match tone {
        Tone::Plain => Role::Text,
        Tone::Fine => Role::Fine,
        Tone::Warning => Role::Warm,
        Tone::Bad => Role::Danger,
    }
}

pub(crate) fn act(view: &mut WhatIf, action: Action, height: isize) -> Reply {
    let rows = view.rows();
    act_in_list(&mut view.list, rows, action, height)
}

/// Where the table begins.
pub(crate) fn first_row(pane: &Pane) -> u16 {
    pane.area.y + about_lines(&pane.whatif, pane.area).len() as u16 + 1
}

/// What there is to know first: facts share a line, everything else has its own.
fn about_lines(view: &WhatIf, area: Rect) -> Vec<Remark> {
    let Some(about) = view.trials.about() else {
        let text = "reading the requests out of the trace and checking them against it…".into();
        return vec![Remark { tone: Tone::Plain, text }];
    };
    if let Some(refused) = &about.refused {
        let lines = wrap(refused, area.width.into()).into_iter();
        return lines.map(|text| Remark { tone: Tone::Warning, text }).collect();
    }
    let facts = about.about.iter().filter(|remark| remark.tone == Tone::Plain);
    let facts: Vec<&str> = facts.map(|remark| remark.text.as_str()).collect();
    let mut lines: Vec<Remark> = wrap(&facts.join(" · "), area.width.into())
        .into_iter()
        .map(|text| Remark { tone: Tone::Plain, text })
        .collect();
    lines.extend(about.about.iter().filter(|remark| remark.tone != Tone::Plain).cloned());
    // On a low screen the table is worth more than the last remark.
    lines.truncate(usize::from((area.height / 5).max(2)));
    lines
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let view = &pane.whatif;
    let mut y = 0;
    let lines = about_lines(view, area);
    for remark in &lines {
        let line = row_of(area, y);
        let style = theme.style(role(remark.tone));
        put(buffer, line, line.x, line.y, &fit(&remark.text, line.width.into()), style);
        y += 1;
    }
    let Some(about) = view.trials.about().filter(|about| about.refused.is_none()) else { return };
    let rows = (view.rows() as u16 + 1).min(area.height.saturating_sub(y));
    let table = Rect { y: area.y + y, height: rows, ..area };
    draw_table(buffer, table, view, &about.recorded, theme);
    y += rows;
    for line in note(view, area.width.into()) {
        let at = row_of(area, y);
        put(buffer, at, at.x, at.y, &line.text, theme.style(role(line.tone)));
        y += 1;
    }
    let rest = Rect { y: area.y + y.min(area.height), height: area.height.saturating_sub(y), ..area };
    let upper = if rest.height >= 8 { rest.height.div_ceil(2) } else { rest.height };
    draw_curves(buffer, Rect { height: upper, ..rest }, pane, theme);
    draw_segments(buffer, Rect { y: rest.y + upper, height: rest.height - upper, ..rest }, pane, theme);
}

/// What is to be said about the selected setting.
fn note(view: &WhatIf, columns: usize) -> Vec<Remark> {
    let words = match view.selected() {
        None => {
            Remark { tone: Tone::Plain, text: "select a setting to see its curve and its segments".into() }
        }
        Some(Trial { answer: None, .. }) => Remark { tone: Tone::Plain, text: "simulating…".into() },
        Some(Trial { answer: Some(answer), .. }) => match &answer.problem {
            Some(problem) => Remark { tone: Tone::Bad, text: problem.clone() },
            // The result again: its column may be too narrow for it.
            None => {
                let Row { result, confidence, .. } = &answer.row;
                let text = format!("{}; {}", result.text, confidence.text);
                Remark { tone: if result.tone == Tone::Bad { Tone::Bad } else { confidence.tone }, text }
            }
        },
    };
    wrap(&words.text, columns).into_iter().take(3).map(|text| Remark { text, ..words }).collect()
}

fn draw_table(buffer: &mut Buffer, area: Rect, view: &WhatIf, recorded: &Row, theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let is_wide = area.width >= WIDE;
    let settings = view.trials.all().iter().map(|trial| trial.under.name());
    let names: Vec<&str> = std::iter::once(recorded.name.as_str()).chain(settings).collect();
    let widest = names.iter().map(|name| width(name)).max().unwrap_or_default();
    // A narrow screen has the settings, what they reserve, and the change; the result is below the table.
    let is_small = area.width < 60;
    let most =
        if is_small { usize::from(area.width).saturating_sub(19) } else { usize::from(area.width) * 2 / 5 };
    let name_width = widest.min(most).max(8);
    let cells = |name: &str, [peak, change, gap, calls, retries]: [&str; 5]| match is_wide {
        true => format!(
            "{:name_width$}  {peak:>13}  {change:>8}  {gap:>11}  {calls:>13}  {retries:>7}  ",
            fit(name, name_width)
        ),
        false if is_small => format!("{:name_width$} {peak:>9} {change:>8}", fit(name, name_width)),
        false => format!("{:name_width$} {peak:>9} {change:>8} {calls:>9}  ", fit(name, name_width)),
    };
    let result_title = if is_small { "" } else { "result" };
    let titles = match is_wide {
        true => ["peak reserved", "", "gap at most", "device calls", "retries"],
        false => ["reserved", "", "", "calls", ""],
    };
    put(buffer, area, area.x, area.y, &format!("{}{result_title}", cells("settings", titles)), dim);
    let list = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let trials = view.trials.all();
    for number in 0..list.height {
        let Some(at) = view.list.at(number, names.len()) else { break };
        let line = row_of(list, number);
        let answer = at.checked_sub(1).and_then(|at| trials.get(at)).map(|trial| trial.answer.as_deref());
        let (row, progress) = match answer {
            None => (Some(recorded), None),
            Some(None) if view.is_stopped() => (None, Some("canceled; Enter goes on".to_owned())),
            Some(None) => (None, Some("simulating…".to_owned())),
            Some(Some(answer)) if answer.problem.is_some() => (None, Some("cannot be simulated".to_owned())),
            Some(Some(answer)) => {
                let (done, all) = answer.orders;
                (Some(&answer.row), (done < all).then(|| format!("{done} of {all} orders")))
            }
        };
        let columns = row.map_or_else(Default::default, |row| {
            let (taken, given) = row.device_calls;
            let retries = row.retries.map(|retries| retries.to_string()).unwrap_or_default();
            [size(row.reserved_peak), row.change.clone(), size(row.gap), format!("{taken}+{given}"), retries]
        });
        let x = put(
            buffer,
            line,
            line.x,
            line.y,
            &cells(names[at], columns.each_ref().map(String::as_str)),
            text,
        );
        let result = row.map(|row| (row.result.text.as_str(), theme.style(role(row.result.tone))));
        let (words, style) = result.filter(|_| !is_small).unwrap_or(("", text));
        let x = put(buffer, line, x, line.y, &fit(words, usize::from(line.right().saturating_sub(x))), style);
        if let Some(progress) = progress {
            let gap = if words.is_empty() { "" } else { "  " };
            put(buffer, line, x, line.y, &format!("{gap}{progress}"), dim);
        }
        if at == view.list.selected {
            select(buffer, line, theme);
        }
    }
}

/// The recorded reserved bytes as an area, the simulated ones as a line over it.
fn draw_curves(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height < 3 {
        return;
    }
    let dim = theme.style(Role::Dim);
    let line = row_of(area, 0);
    let x = put(buffer, line, line.x, line.y, "█ recorded", theme.style(Role::Bar));
    let x = put(buffer, line, x, line.y, "  ━ simulated", theme.style(Role::Warm));
    put(buffer, line, x, line.y, "  reserved bytes, as far as the timeline is zoomed", dim);
    let inner = Rect { y: area.y + 1, height: area.height - 1, ..area };
    chart::draw_reserved(buffer, inner, pane, theme);
}

/// A segment as what is in use of it: bytes from its beginning, and how many.
struct Bar {
    size: u64,
    used: Vec<(u64, u64)>,
}

fn recorded_bars(subject: Subject<'_>, state: &State) -> Vec<Bar> {
    let mut bars: Vec<(u64, Bar)> =
        state.ranges.iter().map(|range| (range.addr, Bar { size: range.size, used: Vec::new() })).collect();
    for &index in &state.live {
        let allocation = subject.replay().allocation(index);
        let after = bars.partition_point(|(addr, _)| *addr <= allocation.addr);
        if let Some((addr, bar)) = after.checked_sub(1).and_then(|at| bars.get_mut(at)) {
            bar.used.push((allocation.addr - *addr, allocation.size));
        }
    }
    bars.into_iter().map(|(_, bar)| bar).collect()
}

/// The segments at the moment of the views, recorded and simulated.
fn draw_segments(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (Some(live), true) = (&pane.scope.live, area.height >= 3) else { return };
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let recorded = recorded_bars(pane.subject(), &live.state);
    let at = pane.scope.at;
    let simulated = pane.whatif.map(at);
    let half = area.width.saturating_sub(2) / 2;
    let (left, right) = (
        Rect { width: half, ..area },
        Rect { x: area.x + half + 2, width: area.width.saturating_sub(half + 2), ..area },
    );
    let counters = live.state.counters;
    let words = format!(
        "recorded, {}: {}, {} reserved",
        pane.subject().moment_name(at),
        plural(recorded.len(), "segment"),
        bytes(counters.reserved)
    );
    put(buffer, left, left.x, left.y, &fit(&words, left.width.into()), text);
    let map_bars = simulated.map(|(map, _)| {
        let bars = map.ranges.iter().map(|range| Bar { size: range.size, used: range.used.clone() });
        bars.collect::<Vec<_>>()
    });
    let words = match (simulated, &map_bars) {
        (Some((map, is_now)), Some(bars)) => {
            let late = if map.ended { " (it ended before)" } else { "" };
            let segments = plural(bars.len(), "segment");
            let words = format!("simulated{late}: {segments}, {} reserved", size(map.reserved));
            if is_now { words } else { format!("{words} …") }
        }
        _ if pane.whatif.selected().is_some() => "simulated …".to_owned(),
        _ => "simulated: nothing is selected".to_owned(),
    };
    let style = if simulated.is_some_and(|(_, is_now)| is_now) { text } else { dim };
    put(buffer, right, right.x, right.y, &fit(&words, right.width.into()), style);
    let simulated = map_bars.unwrap_or_default();
    let largest = recorded.iter().chain(&simulated).map(|bar| bar.size).max().unwrap_or(1).max(1);
    draw_bars(buffer, left, recorded, largest, theme.style(Role::Bar), theme);
    draw_bars(buffer, right, simulated, largest, theme.style(Role::Warm), theme);
}

/// Segments, the largest first, to the scale of the largest of both sides.
fn draw_bars(buffer: &mut Buffer, area: Rect, mut bars: Vec<Bar>, largest: u64, style: Style, theme: &Theme) {
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.size));
    let dim = theme.style(Role::Dim);
    let room = area.height.saturating_sub(1) as usize;
    let shown = if bars.len() > room { room.saturating_sub(1) } else { bars.len() };
    for (number, bar) in bars.iter().take(shown).enumerate() {
        let line = row_of(area, number as u16 + 1);
        let label = format!("{:>width$} ", size(bar.size), width = usize::from(SIZES) - 1);
        let x = put(buffer, line, line.x, line.y, &label, dim);
        let room = f64::from(line.right().saturating_sub(x));
        let cells = ((bar.size as f64 / largest as f64 * room).round() as u16).max(1);
        for cell in 0..cells.min(line.right().saturating_sub(x)) {
            let (from, to) = (
                bar.size as f64 / f64::from(cells) * f64::from(cell),
                bar.size as f64 / f64::from(cells) * f64::from(cell + 1),
            );
            let used: f64 = bar
                .used
                .iter()
                .map(|&(start, size)| ((start + size) as f64).min(to) - (start as f64).max(from))
                .filter(|part| *part > 0.0)
                .sum();
            let symbol = match used / (to - from) {
                share if share <= 0.001 => "·",
                share if share >= 0.999 => "█",
                share if share < 0.34 => "░",
                share if share < 0.67 => "▒",
                _ => "▓",
            };
            if let Some(at) = buffer.cell_mut((x + cell, line.y)) {
                at.set_symbol(symbol).set_style(if symbol == "·" { dim } else { style });
            }
        }
    }
    if bars.len() > shown {
        let rest = &bars[shown..];
        let bytes = rest.iter().fold(0_u64, |sum, bar| sum.saturating_add(bar.size));
        let line = row_of(area, shown as u16 + 1);
        let words = format!("{:>9} in {}", size(bytes), plural(rest.len(), "more segment"));
        put(buffer, line, line.x, line.y, &fit(&words, line.width.into()), dim);
    }
}
