//! The whole screen: title, tabs, panes, and the line at the bottom.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use vramscope_analysis::{Status, verdict_sentence};
use vramscope_format::{count, fit, fit_end, printable, share, size, width, wrap};

use crate::app::{App, Mode, Split};
use crate::keys::{Action, KEYS, View};
use crate::pane::Pane;
use crate::prompt::Kind;
use crate::theme::Role;
use crate::views::timeline::FoundPhases;
use crate::views::{self, chart, put, put_right};

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    if let Some(cursor) = draw_screen(frame.buffer_mut(), area, app) {
        frame.set_cursor_position(cursor);
    }
}

/// What is on the screen as text, without trailing spaces.
pub(crate) fn screen_text(app: &App) -> String {
    let area = Rect::new(0, 0, app.screen.size.0, app.screen.size.1);
    let mut buffer = Buffer::empty(area);
    draw_screen(&mut buffer, area, app);
    let mut text = String::new();
    for y in 0..area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..area.width {
            let symbol = buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
            // A wide character takes the cells after it.
            if skip == 0 {
                line.push_str(symbol);
                skip = width(symbol).max(1);
            }
            skip -= 1;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn draw_screen(buffer: &mut Buffer, area: Rect, app: &App) -> Option<Position> {
    // The size that was laid out for; the terminal may have another for the moment.
    let area = area.intersection(Rect::new(0, 0, app.screen.size.0, app.screen.size.1));
    if area.width < 10 || area.height < 4 {
        put(buffer, area, area.x, area.y, "too small", Style::new());
        return None;
    }
    draw_title(buffer, Rect { height: 1, ..area }, app);
    if app.has_tabs() && !app.panes.is_empty() {
        draw_tabs(buffer, Rect { y: 1, height: 1, ..area }, app);
    }
    let body = app.body();
    if app.panes.is_empty() {
        draw_empty(buffer, body, app);
    } else if app.is_whole_screen() {
        match app.view() {
            View::Ranks => {
                views::ranks::draw(buffer, body, &app.files.ranks, &app.open_paths(), &app.screen.theme);
            }
            _ => views::diff::draw(buffer, body, &app.diff, &app.screen.theme),
        }
    } else {
        draw_panes(buffer, app);
    }
    let foot = Rect { y: area.bottom() - 1, height: 1, ..area };
    let mut cursor = None;
    match &app.mode {
        Mode::Prompt(prompt) => {
            let theme = &app.screen.theme;
            let x = put(buffer, foot, foot.x, foot.y, prompt.sign(), theme.style(Role::Accent));
            let room = usize::from(foot.right().saturating_sub(x)).saturating_sub(1);
            let shown = fit_end(&printable(&prompt.text), room);
            let x = put(buffer, foot, x, foot.y, &shown, theme.style(Role::Text));
            cursor = Some(Position::new(x.min(foot.right() - 1), foot.y));
            let dim = theme.style(Role::Dim);
            match &prompt.error {
                Some(error) => draw_error(buffer, Rect { height: area.height - 1, ..area }, error, app),
                None if prompt.text.is_empty() => {
                    let room = usize::from(foot.right().saturating_sub(x + 1));
                    put(buffer, foot, x + 1, foot.y, &fit(&prompt.hint(), room), dim);
                }
                None => {
                    if let Some(found) = found(app).filter(|_| prompt.kind == Kind::Search) {
                        put_right(buffer, foot, x + 1, foot.y, &format!("{} found", count(found)), dim);
                    }
                }
            }
        }
        _ => draw_footer(buffer, foot, app),
    }
    if let Mode::Help(help) = &app.mode {
        let rows = app.help_rows(&help.typed);
        let screen = Rect { height: area.height - 1, ..area };
        views::help::draw(buffer, screen, help, &rows, &app.screen.theme);
    }
    app.screen.theme.finish(buffer);
    cursor
}

/// How many matches the search has.
fn found(app: &App) -> Option<usize> {
    let pane = app.pane()?;
    match app.view() {
        View::Diff => app.diff.tree.standing().map(|(_, found)| found),
        View::Tree | View::Flame => pane.calls.standing(app.view()).map(|(_, found)| found),
        View::Timeline => pane.timeline.phases.as_ref().map(FoundPhases::len),
        _ => None,
    }
}

/// Why what was typed does not work, in as many lines as it takes, above the prompt.
fn draw_error(buffer: &mut Buffer, area: Rect, error: &str, app: &App) {
    let lines = wrap(&printable(error), area.width.into());
    let lines = &lines[..lines.len().min(usize::from(area.height / 2))];
    let first = area.bottom() - lines.len() as u16;
    for (row, line) in lines.iter().enumerate() {
        let padded = format!("{line:columns$}", columns = usize::from(area.width));
        put(buffer, area, area.x, first + row as u16, &padded, app.screen.theme.style(Role::Danger));
    }
}

/// The file, the device, and whether its numbers can be trusted.
fn draw_title(buffer: &mut Buffer, area: Rect, app: &App) {
    let theme = &app.screen.theme;
    let dim = theme.style(Role::Dim);
    let mut x = area.x;
    // On a narrow screen the file and the verdict say more than the name of the program.
    if area.width >= LEAST_WIDTH_FOR_PROGRAM || app.panes.is_empty() {
        x = put(buffer, area, x, area.y, "vramscope", theme.style(Role::Accent));
    }
    let Some(pane) = app.pane() else { return };
    if x > area.x {
        x = put(buffer, area, x, area.y, " ▸ ", dim);
    }
    let subject = pane.subject();
    let verdict = subject.replay().verdict();
    let (mark, role) = match verdict.status {
        Status::Exact => ("●", Role::Fine),
        _ => ("▲", Role::Warm),
    };
    let sentence = verdict_sentence(verdict, &size);
    let mut about = match pane.doc.opened.devices.len() {
        1 => subject.device_name(),
        n => format!("{} ({} of {n} devices, < >)", subject.device_name(), pane.device + 1),
    };
    let files = app.files.ranks.rows.len();
    if files > 1 && !app.is_compare() {
        about += &match app.files.ranks.noun() {
            "rank" => format!("  {} of {files} ranks (6)", app.files.ranks.rows[pane.file].label),
            noun => format!("  {noun} {} of {files} (6)", pane.file + 1),
        };
    }
    let loading = loading_words(app);
    // The verdict in a word at least; the whole sentence where there is room.
    let word = sentence.split([':', ';']).next().unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(usize::from(x) + width(word) + width(&about) + 8);
    let title = if app.is_compare() { "compare".into() } else { pane.doc.title() };
    x = put(buffer, area, x, area.y, &fit(&title, room), theme.style(Role::Title));
    x = put(buffer, area, x, area.y, &format!("  {about}"), dim);
    if !app.has_tabs() {
        x = put(buffer, area, x, area.y, &format!("  {}", app.view().name()), theme.style(Role::Accent));
    }
    if pane.has_changed && loading.is_none() {
        x = put(buffer, area, x, area.y, "  file changed: Ctrl-r", theme.style(Role::Warm));
    }
    if let Some(words) = loading {
        x = put(buffer, area, x, area.y, &format!("  {words}"), theme.style(Role::Warm));
    }
    // The mark alone is better than a piece of the word.
    let room = usize::from(area.right().saturating_sub(x)).saturating_sub(1);
    let fits = [format!("{mark} {sentence}"), format!("{mark} {word}"), mark.to_owned()];
    if let Some(shown) = fits.iter().find(|words| width(words) <= room) {
        put_right(buffer, area, x, area.y, shown, theme.style(role));
    }
}

fn loading_words(app: &App) -> Option<String> {
    let job = app.files.loading.first()?;
    let name = job.input.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(match job.tracker.progress() {
        (done, total) if total > 0 => {
            format!("reading {} {}", printable(&name), share(done.min(total), total))
        }
        (done, _) => format!("reading {} {}", printable(&name), size(done)),
    })
}

/// Narrower screens do not name the program.
const LEAST_WIDTH_FOR_PROGRAM: u16 = 60;

/// Narrower screens have the names of views only where they are.
const LEAST_WIDTH_FOR_NAMES: u16 = 78;

/// The view that is marked in the line of views.
fn shown_tab(app: &App) -> View {
    match app.view() {
        View::Allocations => View::Tree,
        view => view,
    }
}

/// The views with their keys, and where each is.
pub(crate) fn tabs(app: &App, columns: u16) -> Vec<(View, u16, String)> {
    let found = app.pane().map_or(0, |pane| pane.subject().insights().len());
    let mut x = 0;
    let gap = if columns >= 104 { 2 } else { 1 };
    // On a narrow screen a key stands right before its view, as function keys do elsewhere.
    let space = if columns >= 90 { " " } else { "" };
    let shown = shown_tab(app);
    let tab = |(number, view): (usize, View)| {
        let (key, name) = ((number + 1) % 10, view.name());
        let text = match view {
            // Where there is no room for all names, the keys are there, and the name of what is shown.
            _ if columns < LEAST_WIDTH_FOR_NAMES && view != shown => key.to_string(),
            View::Insights if found > 0 && columns >= 94 => format!("{key} {name} {found}"),
            _ => format!("{key}{space}{name}"),
        };
        let at = x;
        x += width(&text) as u16 + gap;
        (view, at, text)
    };
    View::ALL.into_iter().take(10).enumerate().map(tab).collect()
}

fn draw_tabs(buffer: &mut Buffer, area: Rect, app: &App) {
    let theme = &app.screen.theme;
    let shown = shown_tab(app);
    for (view, x, text) in tabs(app, area.width) {
        let style = match view == shown {
            true => theme.style(Role::Title).add_modifier(Modifier::UNDERLINED),
            false => theme.style(Role::Dim),
        };
        put(buffer, area, area.x + x, area.y, &text, style);
    }
}

fn draw_panes(buffer: &mut Buffer, app: &App) {
    let theme = &app.screen.theme;
    let run = app.run_note();
    let top = app.panes.iter().map(|pane| pane.timeline.top(pane.subject())).max().unwrap_or(1);
    for (number, pane) in app.panes.iter().enumerate() {
        let is_active = number == app.pair.active;
        if app.is_compare() {
            let name = Rect { y: pane.area.y.saturating_sub(1), height: 1, ..pane.area };
            let mark = if is_active { "▸ " } else { "  " };
            let side = ["A", "B"][number.min(1)];
            let subject = pane.subject();
            let words = format!("{mark}{side} {} · {}", pane.doc.title(), subject.device_name());
            let style = if is_active { theme.style(Role::Title) } else { theme.style(Role::Dim) };
            put(buffer, name, name.x, name.y, &fit(&words, name.width.into()), style);
            if number == 1 && app.pair.split == Split::Columns {
                let x = pane.area.x - 1;
                for y in name.y..pane.area.bottom() {
                    put(buffer, Rect::new(x, y, 1, 1), x, y, "│", theme.style(Role::Dim));
                }
            }
        }
        draw_pane(buffer, pane, app, chart::Shared { top, is_active, run: run.as_deref() });
    }
}

fn draw_pane(buffer: &mut Buffer, pane: &Pane, app: &App, shared: chart::Shared<'_>) {
    let (area, theme) = (pane.area, &app.screen.theme);
    match pane.view {
        View::Timeline => chart::draw(buffer, area, pane, theme, shared),
        View::Tree => views::tree::draw(buffer, area, pane, theme),
        View::Flame => views::flame::draw(buffer, area, pane, theme),
        View::Segments => views::segments::draw(buffer, area, pane, theme),
        View::Insights => views::insights::draw(buffer, area, pane, theme),
        View::Events => views::events::draw(buffer, area, pane, theme),
        View::Pools => views::pools::draw(buffer, area, pane, theme),
        View::Allocations => views::allocations::draw(buffer, area, pane, theme),
        View::WhatIf => views::whatif::draw(buffer, area, pane, theme),
        View::Ranks | View::Diff => {}
    }
}

/// Nothing is loaded yet, or cannot be.
fn draw_empty(buffer: &mut Buffer, area: Rect, app: &App) {
    let theme = &app.screen.theme;
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let inner = Rect { x: area.x + 2, width: area.width.saturating_sub(4), ..area };
    if let Some(failure) = &app.files.failure {
        for (row, line) in wrap(&printable(failure), inner.width.into()).iter().enumerate() {
            put(buffer, inner, inner.x, inner.y + 1 + row as u16, line, theme.style(Role::Danger));
        }
        return;
    }
    let middle = inner.y + inner.height / 3;
    for (number, job) in app.files.loading.iter().enumerate() {
        let y = middle + number as u16 * 3;
        let path = printable(&job.input.path.to_string_lossy());
        put(
            buffer,
            inner,
            inner.x,
            y,
            &format!("reading {}", fit_end(&path, usize::from(inner.width).saturating_sub(8))),
            text,
        );
        let (done, total) = job.tracker.progress();
        let room = usize::from(inner.width).saturating_sub(26).min(60);
        if total > 0 {
            let filled = (done as f64 / total as f64 * room as f64).round().min(room as f64) as usize;
            let x = put(buffer, inner, inner.x, y + 1, &"━".repeat(filled), theme.style(Role::Accent));
            let x = put(buffer, inner, x, y + 1, &"─".repeat(room - filled), dim);
            let words = if done >= total {
                "analyzing…".into()
            } else {
                format!("{} of {}", size(done), size(total))
            };
            put(buffer, inner, x + 2, y + 1, &words, dim);
        } else {
            put(buffer, inner, inner.x, y + 1, &size(done), dim);
        }
    }
}

/// The keys that work here, as many as there is room for.
fn draw_footer(buffer: &mut Buffer, area: Rect, app: &App) {
    let theme = &app.screen.theme;
    let (key_style, dim) = (theme.style(Role::Accent), theme.style(Role::Dim));
    if let Some(message) = &app.message {
        put(
            buffer,
            area,
            area.x,
            area.y,
            &fit(&printable(message), area.width.into()),
            theme.style(Role::Warm),
        );
        return;
    }
    if app.panes.is_empty() {
        let x = put(buffer, area, area.x, area.y, "q", key_style);
        put(buffer, area, x, area.y, if app.files.failure.is_some() { " quit" } else { " cancel" }, dim);
        return;
    }
    for hint in hints(app, area.width) {
        let x = put(buffer, area, area.x + hint.x, area.y, hint.key, key_style);
        put(buffer, area, x, area.y, &format!(" {}  ", hint.label), dim);
    }
}

/// A key in the footer.
pub(crate) struct Hint {
    /// Where it begins, and how many columns it takes.
    pub(crate) x: u16,
    pub(crate) width: u16,
    key: &'static str,
    label: String,
    pub(crate) action: Action,
}

/// The keys of the footer, from left to right. Help and the way out are always there.
pub(crate) fn hints(app: &App, columns: u16) -> Vec<Hint> {
    let rows = KEYS.iter().filter(|row| row.is_for(app.view(), app.is_compare()) && !row.label.is_empty());
    let is_fixed = |action: Action| matches!(action, Action::Help | Action::Back);
    let (fixed, others): (Vec<_>, Vec<_>) = rows.partition(|row| is_fixed(row.action));
    let hint = |row: &&'static crate::keys::Binding| {
        let (key, label) = (sign(row.keys[0]), label(app, row.action, row.label));
        let width = (width(key) + width(&label) + 3) as u16;
        Hint { x: 0, width, key, label, action: row.action }
    };
    let fixed: Vec<Hint> = fixed.iter().rev().map(hint).collect();
    let room = columns.saturating_sub(fixed.iter().map(|hint| hint.width).sum());
    let mut taken = 0;
    let fits = |hint: &Hint| {
        taken += hint.width;
        taken <= room
    };
    let mut hints: Vec<Hint> = others.iter().map(hint).take_while(fits).collect();
    hints.extend(fixed);
    let mut x = 0;
    for hint in &mut hints {
        hint.x = x;
        x += hint.width;
    }
    hints
}

/// A key as short as it can be written.
fn sign(key: &str) -> &str {
    match key {
        "Left" => "←",
        "Right" => "→",
        "Up" => "↑",
        "Down" => "↓",
        "Enter" => "Enter",
        other => other,
    }
}

/// The word of the footer: for what can be on or off, what the key will do.
fn label(app: &App, action: Action, label: &str) -> String {
    let pane = app.pane();
    let is_diff = app.view() == View::Diff;
    match action {
        Action::Internal => {
            let hidden = if is_diff {
                app.diff.hide_internal
            } else {
                pane.is_some_and(|pane| pane.calls.hide_internal)
            };
            if hidden { "show internal".into() } else { "hide internal".into() }
        }
        Action::Link if app.pair.is_linked => "unlink".into(),
        // Going back from two panes that were one leaves the first.
        Action::Back if app.view() == View::Timeline && pane.is_some_and(|pane| !pane.has_back()) => {
            if app.is_compare() && !app.pair.starts_with_two { "close B".into() } else { "quit".into() }
        }
        Action::Back
            if !is_diff
                && pane.is_some_and(|pane| pane.view == View::Tree && pane.calls.tree.root() != 0) =>
        {
            "unfocus".into()
        }
        _ => label.into(),
    }
}
