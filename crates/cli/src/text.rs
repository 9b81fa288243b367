//! What the command line adds to the words of every surface: the chosen units, the width of the terminal, messages on
//! standard error.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(crate) use vramscope_format::{
    count, elide_place as elide, fit, fit_end, percent, plural, printable, seconds as duration, share, time,
};

use vramscope_analysis::Line;
use vramscope_snapshot::{EventIdx, EventTable, Frame, Snapshot};

use crate::layout::Piece;
use crate::style::units;

/// A size in the chosen units.
pub(crate) fn bytes(n: i64) -> String {
    units().bytes(n)
}

/// The same for a size that cannot be negative.
pub(crate) fn size(n: u64) -> String {
    units().size(n)
}

/// What changed, with its sign.
pub(crate) fn signed(n: i64) -> String {
    units().change(n)
}

/// Bytes, where the file has them.
pub(crate) fn stated(n: Option<i64>) -> String {
    n.map_or_else(|| "not in file".into(), bytes)
}

/// A path as it is shown.
pub(crate) fn path(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".into(),
        _ => printable(&vramscope_files::as_written(path).display().to_string()),
    }
}

/// A number as the height of one cell, of a highest one. What is there at all is seen.
pub(crate) fn bar(n: i64, highest: i64) -> char {
    let eighths = (n.max(0) as f64 / highest.max(1) as f64 * 8.0).round().clamp(0.0, 8.0) as usize;
    EIGHTHS[if n > 0 { eighths.max(1) } else { 0 }]
}

/// Cells from empty to full.
pub(crate) const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of at most `most` cells for a share from 0 to 1.
pub(crate) fn cells(cell: &str, share: f64, most: usize) -> String {
    cell.repeat(((share.clamp(0.0, 1.0) * most as f64).round() as usize).min(most))
}

/// A line that was taken out of its file.
pub(crate) fn line(line: &Line) -> String {
    printable(&line.short())
}

/// A frame in one line: the file without its folders, the line and the function.
pub(crate) fn frame(snapshot: &Snapshot, frame: Frame) -> String {
    line(&Line::new(snapshot, frame))
}

/// What is to be said about how a file was read.
pub(crate) fn warnings(snapshot: &Snapshot) -> Vec<String> {
    snapshot.problems().iter().map(|problem| printable(problem)).collect()
}

/// Messages that [`complain`] has written.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns what was said on standard error.
pub(crate) fn complaints() -> Vec<String> {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Says something on standard error. Names and reasons may come from a file, so what a terminal would act
/// on is taken out.
pub(crate) fn complain(message: &str) {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_owned());
    let lines: Vec<_> = message.lines().map(printable).collect();
    eprintln!("vramscope: {}", lines.join("\n"));
}

/// The text in lines that fit the terminal, the later ones indented; in one line off a terminal, where
/// other programs read it.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    Piece::Wrapped { text: text.into(), indent }.print()
}

/// No text is indented further.
const MOST_INDENT: usize = 40;

/// The same for the terminal that is there now.
pub(crate) fn wrap_at(text: &str, indent: usize) -> String {
    let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size() else {
        return text.to_owned();
    };
    let indent = indent.min(MOST_INDENT);
    let room = usize::from(width).saturating_sub(indent + 1).max(20);
    vramscope_format::wrap(text, room).join(&format!("\n{}", " ".repeat(indent)))
}

/// Columns of a picture where there is no terminal.
pub(crate) const PIPED: usize = 160;

/// Columns to fill: those of the terminal, or none in particular.
pub(crate) fn columns() -> usize {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(width), _)) => usize::from(width).max(40),
        None => PIPED,
    }
}

/// Columns that text may take: a pipe has no edge to cut it at.
pub(crate) fn room() -> usize {
    if std::io::stdout().is_terminal() { columns() } else { usize::MAX }
}

/// The moment of an event in words, with its time if it has one.
pub(crate) fn when(events: &EventTable, event: Option<EventIdx>) -> String {
    let Some(event) = event else { return "before the first event".into() };
    match events.time_us(event.index()) {
        Some(us) => format!("after event {}, {}", count(event.0), time(us)),
        None => format!("after event {}", count(event.0)),
    }
}

/// An event's number in a column, or a word where there is none.
pub(crate) fn event(event: Option<EventIdx>, otherwise: &str) -> String {
    event.map_or_else(|| otherwise.to_owned(), |event| count(event.0))
}
