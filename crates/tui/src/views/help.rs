//! All keys, from the table that dispatches them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::{Status, Verdict, verdict_notes, verdict_sentence};
use vramscope_format::{fit, size, wrap};

use super::{put, put_right, row_of};
use crate::keys::{Action, KEYS, View};
use crate::theme::{Role, Theme};

/// What the help shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Help {
    pub(crate) typed: String,
    pub(crate) top: usize,
}

/// Signs and colors of a view, and what they mean.
const fn signs(view: View) -> &'static [(&'static str, &'static str)] {
    match view {
        View::Timeline => &[
            ("▲", "memory ran out"),
            ("+ -", "a segment was acquired, released"),
            ("A ━", "the marked moment, and from it to the cursor"),
            ("─ ┌ ┘", "reserved memory"),
            ("┄", "what the device or the process can hold"),
            ("█ ▓ ░", "live throughout the column, up to its mean, at times in it"),
            ("■", "a color is a category; without colors there is one bar"),
        ],
        View::Tree | View::Diff | View::Allocations => &[
            ("▾ ▸", "open, closed"),
            ("… ›", "calls in one row; u shows each"),
            ("(here)", "allocated by this line itself, not by what it calls"),
            ("color", "share of the total, from blue below 5 % to red from 70 % on"),
        ],
        View::Flame => &[
            ("color", "a line of the program: the same one in segments"),
            ("orange", "the selected call; reversed where there are few colors"),
        ],
        View::Segments => &[
            ("█ ▓ ▒ ░ ·", "all of the cell in use, and less of it, down to none"),
            ("▚ ─", "the selected block without colors, the selected hole"),
            ("color", "a line of the program: the same one in the flame graph"),
        ],
        View::Insights => &[("▲ ! ·", "severe, less severe, to know")],
        View::Ranks => &[("●", "open"), ("▲", "stands out, and by how much")],
        View::Events => &[],
        View::Pools => &[("█ ░", "active, idle")],
        View::WhatIf => &[("█ ━", "reserved bytes as recorded, as simulated")],
    }
}

/// The least width of a column of keys.
const COLUMN: u16 = 58;
/// Columns for the keys themselves.
const KEYS_WIDTH: u16 = 11;

/// A row of the help: keys and what they do; a heading has no keys. The keys of the view come first, in groups, then
/// those of other views.
pub(crate) fn rows(
    view: View,
    is_compare: bool,
    verdict: Option<&Verdict>,
    typed: &str,
) -> Vec<(String, String)> {
    let typed = typed.to_lowercase();
    let fits = |keys: &str, text: &str| format!("{keys} {text}").to_lowercase().contains(&typed);
    let mut rows = Vec::new();
    let mut add = |title: &str, found: Vec<(String, String)>| {
        if !found.is_empty() {
            rows.push((String::new(), title.to_owned()));
            rows.extend(found);
        }
    };
    for group in Action::GROUPS {
        let here = KEYS.iter().filter(|row| row.is_for(view, is_compare) && row.action.group() == group);
        let here = here.map(|row| (row.keys.join(" "), row.help.to_owned()));
        add(group, here.filter(|(keys, text)| fits(keys, text)).collect());
    }
    let signs = signs(view).iter().map(|(sign, text)| ((*sign).to_owned(), (*text).to_owned()));
    add("signs and colors", signs.filter(|(sign, text)| fits(sign, text)).collect());
    let found = verdicts(verdict).into_iter().filter(|(word, text)| fits(word, text)).collect();
    add("verdicts: whether the numbers are exact", found);
    // What only works elsewhere, by where that is.
    let elsewhere: Vec<_> = KEYS.iter().filter(|row| !row.is_for(view, is_compare)).collect();
    let mut places: Vec<String> = Vec::new();
    for place in elsewhere.iter().map(|row| row.where_to()) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    for place in places {
        let rows = elsewhere.iter().filter(|row| row.where_to() == place);
        let rows = rows.map(|row| (row.keys.join(" "), row.help.to_owned()));
        add(&format!("in {place}"), rows.filter(|(keys, text)| fits(keys, text)).collect());
    }
    rows
}

/// What each verdict means; that of the file is marked, and its notes come after it.
fn verdicts(of_file: Option<&Verdict>) -> Vec<(String, String)> {
    let all = [
        Status::Exact,
        Status::LateStart,
        Status::RingOverflow,
        Status::EventsSkipped,
        Status::SettingsChanged,
        Status::Truncated,
        Status::StateOnly,
    ];
    let mut rows = Vec::new();
    for status in all {
        let own = of_file.filter(|verdict| verdict.status == status);
        let plain = Verdict { status, estimated_bytes: 0, of_blocks: false, notes: Vec::new() };
        let sentence = verdict_sentence(&plain, &size);
        let mark = if own.is_some() { "▸" } else { " " };
        rows.push((mark.to_owned(), sentence));
        let notes = own.iter().flat_map(|verdict| verdict_notes(verdict, &size));
        rows.extend(notes.map(|note| ("·".to_owned(), note)));
    }
    rows
}

/// The rows with what is too long for a column in more than one of them.
pub(crate) fn wrapped(rows: Vec<(String, String)>, screen: Rect) -> Vec<(String, String)> {
    let room = usize::from(column_width(inner(screen))).saturating_sub(usize::from(KEYS_WIDTH) + 4);
    let lines = |(keys, text): (String, String)| {
        let lines = if keys.is_empty() { vec![text] } else { wrap(&text, room) };
        // Only a heading has no keys at all.
        let keys = (0..lines.len()).map(move |row| if row == 0 { keys.clone() } else { " ".into() });
        keys.zip(lines).collect::<Vec<_>>()
    };
    rows.into_iter().flat_map(lines).collect()
}

/// Rows that the help has room for at once.
pub(crate) fn room(screen: Rect) -> usize {
    let inner = inner(screen);
    usize::from(columns(inner)) * usize::from(inner.height)
}

/// The screen without the frame.
fn inner(screen: Rect) -> Rect {
    let frame = u16::from(screen.width > 40 && screen.height > 10);
    Rect {
        x: screen.x + frame * 2,
        y: screen.y + 1,
        width: screen.width.saturating_sub(frame * 4),
        // The last line says how much is below.
        height: screen.height.saturating_sub(2),
    }
}

fn columns(inner: Rect) -> u16 {
    (inner.width / COLUMN).clamp(1, 4)
}

fn column_width(inner: Rect) -> u16 {
    inner.width / columns(inner)
}

pub(crate) fn draw(buffer: &mut Buffer, screen: Rect, help: &Help, rows: &[(String, String)], theme: &Theme) {
    for y in screen.top()..screen.bottom() {
        for x in screen.left()..screen.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
    let (text, dim, inner) = (theme.style(Role::Text), theme.style(Role::Dim), inner(screen));
    if inner.x > screen.x {
        frame(buffer, screen, theme);
    }
    let title = match help.typed.is_empty() {
        true => " Keys: type to find one, Esc or ? closes ".to_owned(),
        false => format!(" Keys with “{}”: Esc closes ", help.typed),
    };
    put(buffer, screen, inner.x, screen.y, &title, theme.style(Role::Title));
    let wide = column_width(inner);
    let top = help.top.min(rows.len().saturating_sub(room(screen)));
    for (number, (keys, what)) in rows.iter().skip(top).take(room(screen)).enumerate() {
        let (column, row) = ((number as u16) / inner.height, (number as u16) % inner.height);
        let area = Rect { x: inner.x + column * wide, width: wide.saturating_sub(2), ..inner };
        let line = row_of(area, row);
        if keys.is_empty() {
            let x = put(buffer, line, line.x, line.y, what, theme.style(Role::Title));
            let rest = "─".repeat(usize::from(line.right().saturating_sub(x + 1)));
            put(buffer, line, x + 1, line.y, &rest, dim);
            continue;
        }
        let keys_width = usize::from(KEYS_WIDTH);
        put(
            buffer,
            line,
            line.x,
            line.y,
            &format!("{:>keys_width$}", fit(keys, keys_width)),
            theme.style(Role::Accent),
        );
        put(buffer, line, line.x + KEYS_WIDTH + 2, line.y, what, text);
    }
    let left = rows.len().saturating_sub(top + room(screen));
    if left > 0 {
        let words = format!(" {left} more below: Down ");
        let last = Rect { width: inner.right().saturating_sub(screen.x), ..screen };
        put_right(buffer, last, inner.x, screen.bottom().saturating_sub(1), &words, dim);
    }
}

/// One line around the screen.
fn frame(buffer: &mut Buffer, screen: Rect, theme: &Theme) {
    let dim = theme.style(Role::Dim);
    let (right, bottom) = (screen.right() - 1, screen.bottom() - 1);
    for y in screen.top()..=bottom {
        for x in screen.left()..=right {
            let symbol = match (x == screen.x, x == right, y == screen.y, y == bottom) {
                (true, _, true, _) => "┌",
                (_, true, true, _) => "┐",
                (true, _, _, true) => "└",
                (_, true, _, true) => "┘",
                (true, ..) | (_, true, ..) => "│",
                (_, _, true, _) | (.., true) => "─",
                _ => continue,
            };
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_symbol(symbol).set_style(dim);
            }
        }
    }
}
