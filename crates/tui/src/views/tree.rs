//! The call tree as it is drawn: numbers in fixed columns at the left, calls at the right.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use vramscope_format::{bytes, change, count, elide_place, fit, fit_end, printable, signed, size, width};

use super::{Names, put, row_of, select, share_cell};
use crate::branches::{Branches, Row};
use crate::calls::Detail;
use crate::outline::Item;
use crate::pane::Pane;
use crate::theme::{Role, Theme};

/// Deeper rows are indented no further; their depth is written instead.
const DEEPEST: u32 = 12;
/// Columns of the bar that shows a share.
const BAR: usize = 16;
/// Columns from which two calls of a chain are shown at least.
const LEAST_FOR_TWO: usize = 30;

/// Lines of the list above all that is known: two of titles, and a few rows.
const LEAST_LIST: u16 = 6;

/// Whether there is room beside the list.
pub(crate) fn is_beside(area: Rect) -> bool {
    area.width >= 140
}

/// Where the rows, and what is known about the selected one, are.
pub(crate) fn layout(area: Rect, detail: Detail) -> (Rect, Rect) {
    let none = Rect { height: 0, ..area };
    if detail == Detail::None {
        (area, none)
    } else if is_beside(area) {
        let width = (area.width * 2 / 5).min(80);
        let left = Rect { width: area.width - width, ..area };
        (left, Rect { x: left.right(), width, ..area })
    } else if area.height >= 18 || detail == Detail::All {
        let height =
            if detail == Detail::All { area.height.saturating_sub(LEAST_LIST) } else { area.height / 3 };
        let above = Rect { height: area.height - height, ..area };
        (above, Rect { y: above.bottom(), height, ..area })
    } else {
        (area, none)
    }
}

/// Rows of the list.
pub(crate) fn rows_height(area: Rect, detail: Detail) -> usize {
    usize::from(layout(area, detail).0.height.saturating_sub(2))
}

/// How the rows of a tree are written.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) columns: Columns,
    /// Whether calls are in the order from the innermost out.
    pub(crate) inverted: bool,
}

/// How the numbers of a tree are written.
#[derive(Clone, Copy)]
pub(crate) enum Columns {
    Live,
    Diff,
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (rows, info) = layout(area, pane.calls.detail);
    draw_moment(buffer, row_of(rows, 0), pane, theme);
    let list = Rect { y: rows.y + 1, height: rows.height.saturating_sub(1), ..rows };
    let names = Names::Snapshot(pane.subject().snapshot());
    let look = Look { columns: Columns::Live, inverted: pane.calls.inverted };
    draw_rows(buffer, list, &pane.calls.tree, names, look, pane.scope.nothing(), theme);
    if let Some(facts) = pane.calls.info.as_ref().filter(|_| info.height > 0) {
        super::info::draw(buffer, info, info.y == rows.y, facts, theme);
    }
}

/// Which moment, how much, and what is in focus.
pub(crate) fn draw_moment(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let (Some(live), subject) = (&pane.scope.live, pane.subject()) else { return };
    let (dim, text) = (theme.style(Role::Dim), theme.style(Role::Text));
    let requested = live.state.counters.requested;
    let mut x = put(buffer, area, area.x, area.y, &bytes(requested), theme.style(Role::Cursor));
    x = put(buffer, area, x, area.y, &format!(" requested  {}", subject.moment_name(pane.scope.at)), text);
    x = put(buffer, area, x, area.y, &format!(" · {} live", count(live.state.live.len())), dim);
    if !pane.scope.filter.is_empty() {
        let words = format!(
            " · filter {}: {} in {}",
            printable(&pane.scope.filter.text),
            size(live.total.bytes),
            count(live.total.count)
        );
        x = put(buffer, area, x, area.y, &words, theme.style(Role::Warm));
    }
    if let Some((at, of)) = pane.calls.standing(pane.view) {
        let words = format!(" · match {at} of {of}");
        x = put(buffer, area, x, area.y, &words, theme.style(Role::Match));
    }
    if pane.calls.inverted {
        x = put(buffer, area, x, area.y, " · inverted", theme.style(Role::Warm));
    }
    if let Some(since) = subject.since(pane.scope.at, 3) {
        x = put(buffer, area, x, area.y, &format!(" · {since}"), dim);
    }
    let root = pane.calls.tree.root();
    if root != 0 {
        let names = Names::Snapshot(subject.snapshot());
        let path: Vec<_> =
            pane.calls.tree.outline.path(root).into_iter().map(|place| names.short(place)).collect();
        let room = usize::from(area.right().saturating_sub(x)).saturating_sub(10);
        if room > 8 {
            let words = format!(" · in {}", fit_end(&path.join(" › "), room));
            put(buffer, area, x, area.y, &words, theme.style(Role::Accent));
        }
    }
}

/// The header and the rows that are on the screen.
pub(crate) fn draw_rows(
    buffer: &mut Buffer,
    area: Rect,
    tree: &Branches,
    names: Names<'_>,
    look: Look,
    nothing: &str,
    theme: &Theme,
) {
    let is_narrow = area.width < 60;
    let header = match look.columns {
        Columns::Live if is_narrow => format!("{:>10} {:>5}  calls", "bytes", "%tot"),
        Columns::Live => {
            let bar = if has_bars(area) { " ".repeat(BAR + 2) } else { String::new() };
            format!("{:>10}  {:>5}  {:>5}  {bar}{:>7}  calls", "bytes", "%par", "%tot", "count")
        }
        Columns::Diff if is_narrow => format!("{:>11}  calls", "change"),
        Columns::Diff => {
            format!("{:>11}  {:>10}  {:>10}  {:>7}  calls", "change", "before", "after", "count")
        }
    };
    put(buffer, area, area.x, area.y, &header, theme.style(Role::Dim));
    let list = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if tree.rows.is_empty() {
        put(buffer, list, list.x + 2, list.y, nothing, theme.style(Role::Dim));
    }
    for row in 0..list.height {
        let Some(at) = tree.list.at(row, tree.rows.len()) else { break };
        let line = row_of(list, row);
        draw_row(buffer, line, tree, tree.rows[at], names, look, theme);
        if at == tree.list.selected {
            select(buffer, line, theme);
        }
    }
}

fn draw_row(
    buffer: &mut Buffer,
    area: Rect,
    tree: &Branches,
    row: Row,
    names: Names<'_>,
    look: Look,
    theme: &Theme,
) {
    let outline = &tree.outline;
    let (Some(item), Some(root)) = (outline.get(row.node), outline.root()) else { return };
    let is_narrow = area.width < 60;
    let (now, before) = if row.is_own { (item.own, item.own_before) } else { (item.now, item.before) };
    let parent = match (row.is_own, outline.get(item.parent)) {
        (true, _) => item.now.bytes,
        (false, parent) => parent.unwrap_or(root).now.bytes,
    };
    let total = root.now.bytes.max(1);
    let numbers: Vec<(String, Style)> = match look.columns {
        Columns::Live => {
            let style = theme.style(Role::Heat(now.bytes as f64 / total as f64));
            let of_total = share_cell(now.bytes, total);
            if is_narrow {
                vec![(format!("{:>10} {of_total}", size(now.bytes)), style)]
            } else {
                let of_parent = share_cell(now.bytes, parent);
                let bar = if has_bars(area) { share_bar(now.bytes, total) } else { String::new() };
                vec![
                    (format!("{:>10}  {of_parent}  {of_total}  ", size(now.bytes)), style),
                    (bar, style),
                    (format!("{:>7}", count(now.count)), style),
                ]
            }
        }
        Columns::Diff => {
            let by = signed(now.bytes) - signed(before.bytes);
            let role = match by {
                0 => Role::Dim,
                1.. => Role::Danger,
                _ => Role::Fine,
            };
            let more = signed(now.count) - signed(before.count);
            let mut cells = vec![(format!("{:>11}", change(by)), theme.style(role))];
            if !is_narrow {
                let others = format!("  {:>10}  {:>10}  {more:>+7}", size(before.bytes), size(now.bytes));
                cells.push((others, theme.style(Role::Text)));
            }
            cells
        }
    };
    let mut x = area.x;
    for (text, style) in numbers {
        x = put(buffer, area, x, area.y, &text, style);
    }
    x += 2;
    x = put(buffer, area, x, area.y, &indent(row.depth), theme.style(Role::Dim));
    let mark = match (tree.can_open(row), tree.is_open(row.node)) {
        (true, true) => "▾ ",
        (true, false) => "▸ ",
        (false, _) => "  ",
    };
    x = put(buffer, area, x, area.y, mark, theme.style(Role::Dim));
    let room = usize::from(area.right().saturating_sub(x));
    let found = tree.found.as_ref();
    let is_match = |item: &Item| !row.is_own && found.is_some_and(|found| found.matches(item.place));
    if row.is_own {
        put(buffer, area, x, area.y, &fit("(here)", room), theme.style(Role::Dim));
        return;
    }
    let mut chain: Vec<&Item> = (row.node..=tree.last_of(row)).filter_map(|node| outline.get(node)).collect();
    // Where it happens comes first in what follows.
    if !look.inverted {
        chain.reverse();
    }
    let line = Rect { x, width: room as u16, ..area };
    draw_chain(buffer, line, &chain, look.inverted, names, is_match, theme);
}

/// A chain of calls, innermost first, written in the order of the tree. Of what does not fit, the innermost call and
/// the innermost line of the program itself say most; what is left out between them leaves a mark.
fn draw_chain(
    buffer: &mut Buffer,
    area: Rect,
    chain: &[&Item],
    inverted: bool,
    names: Names<'_>,
    is_match: impl Fn(&Item) -> bool,
    theme: &Theme,
) {
    let dim = theme.style(Role::Dim);
    let own = chain.iter().position(|item| names.is_of_program(item.place));
    let shown = chosen_calls(chain, own, names, area.width.into());
    let style = |number: usize| match (is_match(chain[number]), number == 0 || Some(number) == own) {
        (true, _) => theme.style(Role::Match),
        (false, true) => theme.style(Role::Text),
        (false, false) => dim,
    };
    let mut parts: Vec<(&str, Style)> = Vec::new();
    let mut next = 0;
    let gap = |range: std::ops::Range<usize>| {
        let has_match = chain[range.clone()].iter().any(|item| is_match(item));
        (!range.is_empty()).then(|| ("…", if has_match { theme.style(Role::Match) } else { dim }))
    };
    for (number, name) in &shown {
        parts.extend(gap(next..*number));
        parts.push((name, style(*number)));
        next = number + 1;
    }
    parts.extend(gap(next..chain.len()));
    if !inverted {
        parts.reverse();
    }
    let mut x = area.x;
    for (number, (name, style)) in parts.iter().enumerate() {
        if number > 0 {
            x = put(buffer, area, x, area.y, if inverted { " ‹ " } else { " › " }, dim);
        }
        x = put(buffer, area, x, area.y, name, *style);
    }
}

/// The calls of a chain that fit, by their number in it.
fn chosen_calls(chain: &[&Item], own: Option<usize>, names: Names<'_>, room: usize) -> Vec<(usize, String)> {
    const SIGN: usize = 3;
    // A mark for what is left out.
    const MARK: usize = 4;
    let name = |number: usize| names.short(chain[number].place);
    // Whether calls between two numbers are left out, and at the end of the chain.
    let marks = |shown: &[(usize, String)]| {
        let mut next = 0;
        let mut marks = 0;
        for (number, _) in shown {
            marks += usize::from(*number > next);
            next = number + 1;
        }
        (marks + usize::from(next < chain.len())) * MARK
    };
    let taken = |shown: &[(usize, String)]| {
        let names: usize = shown.iter().map(|(_, name)| width(name)).sum();
        names + shown.len().saturating_sub(1) * SIGN + marks(shown)
    };
    let mut shown = vec![(0, name(0))];
    if let Some(own) = own.filter(|&own| own > 0 && room >= LEAST_FOR_TWO) {
        shown.push((own, name(own)));
        // The line of the program loses its function before the innermost call loses anything.
        if taken(&shown) > room
            && let Some((line, _)) = shown[1].1.split_once(' ')
        {
            shown[1].1 = line.to_owned();
        }
    }
    let over = taken(&shown).saturating_sub(room);
    if over > 0 {
        let least = if shown.len() > 1 { room / 3 } else { 4 };
        shown[0].1 = elide_place(&shown[0].1, width(&shown[0].1).saturating_sub(over).max(least));
    }
    let over = taken(&shown).saturating_sub(room);
    if let Some((_, name)) = shown.get_mut(1).filter(|_| over > 0) {
        *name = elide_place(name, width(name).saturating_sub(over).max(4));
    }
    for number in 1..chain.len() {
        if shown.iter().any(|(other, _)| *other == number) {
            continue;
        }
        let at = shown.partition_point(|(other, _)| *other < number);
        shown.insert(at, (number, name(number)));
        if taken(&shown) > room {
            shown.remove(at);
            break;
        }
    }
    shown
}

/// Whether rows have room for a bar of their share.
fn has_bars(area: Rect) -> bool {
    area.width >= 100
}

/// The share of the total as a bar, in half cells.
fn share_bar(part: u64, total: u64) -> String {
    let halves = (part as f64 / total as f64 * (2 * BAR) as f64).round().min((2 * BAR) as f64) as usize;
    let bar = format!("{}{}", "█".repeat(halves / 2), if halves % 2 == 1 { "▌" } else { "" });
    format!("{bar:BAR$}  ")
}

fn indent(depth: u32) -> String {
    if depth <= DEEPEST {
        return "  ".repeat(depth as usize);
    }
    let number = format!("{depth} ");
    format!("{number:>width$}", width = DEEPEST as usize * 2)
}
