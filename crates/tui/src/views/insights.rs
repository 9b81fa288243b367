//! Findings, most severe first, with the evidence for each.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_format::{fit, plural, printable, size, wrap};

use vramscope_analysis::Severity;

use super::{put, row_of};
use crate::insight::Insight;
use crate::pane::Pane;
use crate::theme::{Role, Theme};

/// Rows of the list: what is left goes to the selected finding.
pub(crate) fn list_height(area: Rect) -> usize {
    usize::from((area.height / 2).max(3))
}

/// The color and the mark of a finding.
pub(crate) fn role(severity: Severity) -> (Role, &'static str) {
    match severity {
        Severity::High => (Role::Danger, "▲"),
        Severity::Medium => (Role::Warm, "!"),
        Severity::Low => (Role::Dim, "·"),
    }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let insights = &pane.subject().index().insights;
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    // Other devices have the last lines, after what the recorder says of this one.
    let mut others = others(pane);
    others.extend(recorded(pane));
    let lines = others.len().min(usize::from(area.height / 4)) as u16;
    let rest = Rect { y: area.bottom() - lines, height: lines, ..area };
    let area = Rect { height: area.height - lines, ..area };
    for (row, words) in others.iter().enumerate().take(lines.into()) {
        let line = row_of(rest, row as u16);
        put(buffer, line, line.x, line.y, &fit(words, line.width.into()), theme.style(Role::Warm));
    }
    if insights.is_empty() {
        let words = &pane.subject().index().nothing_found;
        for (row, line) in wrap(words, area.width.into()).iter().enumerate() {
            let at = row_of(area, row as u16);
            put(buffer, at, at.x, at.y, line, theme.style(Role::Fine));
        }
        return;
    }
    let height = list_height(area).min(insights.len()) as u16;
    let list = Rect { height, ..area };
    for row in 0..list.height {
        let Some(at) = pane.insights.at(row, insights.len()) else { break };
        let insight = &insights[at];
        let line = row_of(list, row);
        let (role, mark) = role(insight.severity);
        let x = put(buffer, line, line.x, line.y, &format!("{mark} "), theme.style(role));
        let x = put(buffer, line, x, line.y, &format!("{:>10}  ", size(insight.bytes)), theme.style(role));
        let room = usize::from(line.right().saturating_sub(x));
        put(buffer, line, x, line.y, &fit(&insight.what, room), text);
        if at == pane.insights.selected {
            buffer.set_style(line, theme.style(Role::Selected));
        }
    }
    let below = Rect { y: list.bottom(), height: area.height.saturating_sub(list.height), ..area };
    put(buffer, below, below.x, below.y, &"─".repeat(below.width.into()), dim);
    if let Some(insight) = insights.get(pane.insights.selected) {
        let inner = Rect { y: below.y + 1, height: below.height.saturating_sub(1), ..below };
        draw_one(buffer, inner, insight, pane, theme);
    }
}

/// What a recorder wrote beside the file.
fn recorded(pane: &Pane) -> impl Iterator<Item = String> {
    let subject = pane.subject();
    let facts =
        vramscope_analysis::recorded(subject.snapshot(), subject.replay().device(), &|bytes| size(bytes));
    facts.into_iter().map(|(name, words)| printable(&format!("{name}: {words}")))
}

/// What is found on the other devices of the file.
pub(crate) fn others(pane: &Pane) -> Vec<String> {
    let words = |(name, found): (String, &[Insight])| {
        let worst = found.first().map_or("", |insight| insight.what.as_str());
        format!("{name} has {}: {worst}; < > switch devices", plural(found.len(), "insight"))
    };
    pane.doc.other_findings(pane.device).map(words).collect()
}

fn draw_one(buffer: &mut Buffer, area: Rect, insight: &Insight, pane: &Pane, theme: &Theme) {
    let columns = usize::from(area.width).min(110);
    let mut row = 0;
    let mut write = |text: &str, style| {
        for line in wrap(text, columns) {
            let at = row_of(area, row);
            put(buffer, at, at.x, at.y, &line, style);
            row += 1;
        }
    };
    write(&insight.what, theme.style(Role::Title));
    write(&insight.advice, theme.style(Role::Accent));
    write("", theme.style(Role::Text));
    for (name, value) in &insight.facts {
        write(&format!("{name:<22} {value}"), theme.style(Role::Text));
    }
    let where_to = if insight.is_of_segments { "the segments" } else { "what is live" };
    let words = format!("Enter shows {where_to} at {}", pane.subject().moment_name(insight.at));
    write(&words, theme.style(Role::Dim));
}
