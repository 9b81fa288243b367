//! Memory over the trace in the terminal's own characters.

use vramscope_analysis::{Counter, Moment};

use crate::layout;
use crate::style::{self, Role};
use crate::subject::Subject;
use crate::text::{self, EIGHTHS};

const ROWS: usize = 6;
/// Columns before the curve.
const LABEL: usize = 10;

/// Columns longer than `LONG` times this many events begin at a multiple of it.
const UNIT: u64 = 256;
const LONG: u64 = 64;

/// Columns of terminals that a chart is made for.
const WIDTHS: [usize; 8] = [40, 50, 60, 70, 80, 90, 100, 110];

/// A chart for the terminal, if there is anything to draw.
pub(super) fn chart(subject: &Subject) -> Option<String> {
    lines(subject, WIDTHS[0])?;
    let text = |columns: usize| lines(subject, columns - LABEL - 4).unwrap_or_default().join("\n");
    Some(layout::choose(&WIDTHS, text))
}

/// A chart of what is requested, with what is reserved as dots above, a label on each second row. Every
/// column shows the true maximum of its part of the trace: a spike one event wide is seen. Below are the
/// peak, the out-of-memory errors and the ends of the axis.
fn lines(subject: &Subject, columns: usize) -> Option<Vec<String>> {
    let replay = subject.replay();
    let (from, to) = subject.range();
    let length = u64::from(to.0.saturating_sub(from.0));
    let highest = subject.peak(Counter::Reserved).bytes.max(subject.peak(Counter::Requested).bytes);
    if length < 2 || highest <= 0 || columns < 8 {
        return None;
    }
    let columns = columns.min(length as usize);
    // Of a long trace columns begin where extremes are kept.
    let unit = if length / columns as u64 > LONG * UNIT { UNIT } else { 1 };
    let moment = |column: usize| match column {
        0 => from,
        _ if column == columns => to,
        _ => {
            let at = u64::from(from.0) + length * column as u64 / columns as u64;
            Moment((at / unit * unit) as u32)
        }
    };
    let edges: Vec<Moment> = (0..=columns).map(moment).collect();
    let heights: Vec<(f64, f64)> = edges
        .windows(2)
        .map(|edges| {
            let (_, max) = replay.extremes(edges[0], edges[1]);
            let height = |bytes: i64| bytes.max(0) as f64 / highest as f64 * ROWS as f64;
            (height(max.requested), height(max.reserved))
        })
        .collect();
    let cell = |row: usize, (requested, reserved): (f64, f64)| {
        let filled = ((requested - row as f64) * 8.0).round().clamp(0.0, 8.0) as usize;
        let holds_reserved = reserved > row as f64 && reserved <= (row + 1) as f64;
        if filled == 0 && holds_reserved { '·' } else { EIGHTHS[filled] }
    };
    let curve = (0..ROWS).rev().map(|row| {
        let label = match row + 1 {
            top if top % 2 == 0 => text::bytes((highest as f64 * top as f64 / ROWS as f64) as i64),
            _ => String::new(),
        };
        let line: String = heights.iter().map(|&heights| cell(row, heights)).collect();
        format!("  {label:>LABEL$} {}", style::paint(Role::Chart, line.trim_end()))
    });
    let column_of = |at: Moment| {
        // The column whose stretch ends at the moment shows it too; the first one counts.
        edges.partition_point(|edge| *edge < at).saturating_sub(1).min(columns - 1)
    };
    let mut marks = vec![' '; columns];
    for oom in replay.ooms() {
        let at = Moment::after(oom.event);
        if (from..=to).contains(&at) {
            marks[column_of(at)] = '✗';
        }
    }
    // The peak stands beside an error that lies in the same column.
    let peak = column_of(subject.peak(Counter::Requested).at);
    let free = [Some(peak), peak.checked_sub(1), Some(peak + 1)];
    if let Some(mark) = free.into_iter().flatten().find(|&at| marks.get(at) == Some(&' ')) {
        marks[mark] = '▲';
    }
    let marks: String = marks.into_iter().collect();
    let marks = marks.trim_end();
    let legend = if replay.ooms().is_empty() { "▲ peak" } else { "▲ peak  ✗ out of memory" };
    let mut lines: Vec<String> = curve.collect();
    lines.push(format!("  {:>LABEL$} {}", "", style::paint(Role::Warning, marks)));
    let reserved = if subject.has_reserved() { "· reserved  " } else { "" };
    let sizes = if subject.snapshot().has.requested { "requested" } else { "allocated" };
    let axis = format!("{}   █ {sizes}  {reserved}{legend}", extent(subject, from, to));
    lines.push(format!("  {:>LABEL$} {}", "", style::paint(Role::Dim, &axis)));
    Some(lines)
}

/// What the axis covers: events, and time if they have it.
fn extent(subject: &Subject, from: Moment, to: Moment) -> String {
    let events = subject.snapshot().events(subject.replay().device());
    let time = |moment: Moment| events.time_us(moment.event()?.index());
    let first = time(from.max(Moment(1)));
    let seconds =
        first.zip(time(to)).and_then(|(first, last)| u64::try_from(last.saturating_sub(first)).ok());
    let span = format!("events {} to {}", text::count(from.0), text::count(to.0.saturating_sub(1)));
    match seconds {
        Some(us) => format!("{span}, {}", text::duration(us)),
        None => span,
    }
}
