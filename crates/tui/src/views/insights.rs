//! Findings, most severe first, with the evidence for each.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_format::{fit, plural, printable, size, width, wrap};

use vramscope_analysis::Severity;

use super::{put, put_right, row_of, select};
use crate::insight::Insight;
use crate::pane::Pane;
use crate::theme::{Role, Theme};

/// Columns of the text about a finding: longer lines are hard to read.
const MOST_COLUMNS: usize = 110;

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
    let insights = pane.subject().insights();
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let (list, one, rest) = parts(area, pane);
    let others = others(pane).into_iter().chain(recorded(pane)).take(rest.height.into());
    for (row, words) in others.enumerate() {
        let line = row_of(rest, row as u16);
        put(buffer, line, line.x, line.y, &words, theme.style(Role::Warm));
    }
    if insights.is_empty() {
        let analysis = pane.subject().analysis();
        let words = analysis.map_or("looking for insights…", |analysis| &analysis.nothing_found);
        for (row, line) in wrap(words, area.width.into()).iter().enumerate() {
            let at = row_of(area, row as u16);
            put(buffer, at, at.x, at.y, line, theme.style(Role::Fine));
        }
        return;
    }
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
            select(buffer, line, theme);
        }
    }
    put(buffer, area, area.x, list.bottom(), &"─".repeat(area.width.into()), dim);
    if let Some(insight) = insights.get(pane.insights.selected) {
        draw_one(buffer, one, insight, pane, theme);
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

/// The selected finding in lines: what it is, what to do, and the evidence.
fn lines(insight: &Insight, pane: &Pane, columns: usize) -> Vec<(String, Role)> {
    let columns = columns.min(MOST_COLUMNS);
    let wrapped = |text: &str, role: Role| wrap(text, columns).into_iter().map(move |line| (line, role));
    let mut lines: Vec<_> = wrapped(&insight.what, Role::Title).collect();
    lines.extend(wrapped(&insight.advice, Role::Accent));
    lines.push((String::new(), Role::Text));
    let widest = insight.facts.iter().map(|(name, _)| width(name)).max().unwrap_or_default();
    let names = widest.min(columns / 2);
    for (name, value) in &insight.facts {
        // A value beside its name, in as many lines as it takes; below a name that is too wide for that.
        let fits = width(name) <= names;
        if !fits {
            lines.extend(wrapped(name, Role::Dim));
        }
        let name = if fits { name.as_str() } else { "" };
        for (row, line) in wrap(value, columns.saturating_sub(names + 2)).iter().enumerate() {
            let name = if row == 0 { name } else { "" };
            lines.push((format!("{name:names$}  {line}"), Role::Text));
        }
    }
    let where_to = if insight.is_of_segments { "the segments" } else { "what is live" };
    let words = format!("Enter shows {where_to} at {}", pane.subject().moment_name(insight.at));
    lines.extend(wrapped(&words, Role::Dim));
    lines
}

/// Where the parts of the view are: the list, and the selected finding below a rule.
fn parts(area: Rect, pane: &Pane) -> (Rect, Rect, Rect) {
    // Other devices have the last lines, after what the recorder says of this one.
    let others = (others(pane).len() + recorded(pane).count()).min(usize::from(area.height / 4)) as u16;
    let rest = Rect { y: area.bottom() - others, height: others, ..area };
    let area = Rect { height: area.height - others, ..area };
    let height = list_height(area).min(pane.subject().insights().len()) as u16;
    let below = area.height.saturating_sub(height + 1);
    (Rect { height, ..area }, Rect { y: area.y + height + 1, height: below, ..area }, rest)
}

/// The first line of the selected finding after a page.
pub(crate) fn turned(pane: &Pane, forwards: bool) -> usize {
    let (_, one, _) = parts(pane.area, pane);
    let insight = pane.subject().insights().get(pane.insights.selected);
    let all = insight.map_or(0, |insight| lines(insight, pane, one.width.into()).len());
    let page = usize::from(one.height).max(1);
    match forwards {
        true => (pane.insight_top + page).min(all.saturating_sub(page)),
        false => pane.insight_top.saturating_sub(page),
    }
}

fn draw_one(buffer: &mut Buffer, area: Rect, insight: &Insight, pane: &Pane, theme: &Theme) {
    let lines = lines(insight, pane, area.width.into());
    let room = usize::from(area.height);
    let top = pane.insight_top.min(lines.len().saturating_sub(room));
    for (row, (line, role)) in lines.iter().skip(top).take(room).enumerate() {
        let at = row_of(area, row as u16);
        put(buffer, at, at.x, at.y, line, theme.style(*role));
    }
    // What is not seen is counted in the rule above.
    let below = lines.len().saturating_sub(top + room);
    let words = match (top, below) {
        (0, 0) => return,
        (_, 0) => " PgUp: back up ".to_owned(),
        (_, below) => format!(" PgDn: {} ", plural(below, "more line")),
    };
    put_right(
        buffer,
        Rect { y: area.y - 1, height: 1, ..area },
        area.x,
        area.y - 1,
        &words,
        theme.style(Role::Dim),
    );
}
