//! Numbers and places as people read them.

pub(crate) use vramscope_format::{fit, fit_end, printable, time};
pub(crate) use vramscope_format::count;

pub(crate) use crate::style::bytes;
use vramscope_analysis::{Line, Place, Status, user_frame};
use vramscope_snapshot::{EventIdx, EventTable, Frame, Snapshot, StackId};

/// Bytes, where the file has them.
pub(crate) fn stated(n: Option<i64>) -> String {
    n.map_or_else(|| "not in file".into(), bytes)
}

/// `1 event`, `2 events`.
pub(crate) fn plural(n: usize, word: &str) -> String {
    format!("{} {word}{}", count(n as u64), if n == 1 { "" } else { "s" })
}

/// A number as the height of one cell, of a highest one. What is there at all is seen.
pub(crate) fn bar(n: i64, highest: i64) -> char {
    let eighths = (n.max(0) as f64 / highest.max(1) as f64 * 8.0).round().clamp(0.0, 8.0) as usize;
    EIGHTHS[if n > 0 { eighths.max(1) } else { 0 }]
}

/// Cells from empty to full.
pub(crate) const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Where in the program: the innermost line of the user's own, e.g. `train.py:88 forward`.
pub(crate) fn place(snapshot: &Snapshot, stack: StackId) -> String {
    let frame = user_frame(snapshot, stack);
    frame.map_or_else(|| Place::words_of(snapshot, stack).to_owned(), |frame| self::frame(snapshot, frame))
}

/// A line that was taken out of its file.
pub(crate) fn line(line: Option<&Line>) -> String {
    line.map_or_else(|| "(no Python frame)".into(), |line| printable(&line.short()))
}

/// Bytes with their sign: what changed.
pub(crate) fn signed(n: i64) -> String {
    if n > 0 { format!("+{}", bytes(n)) } else { bytes(n) }
}

/// A frame in one line: the file without its folders, the line and the function.
pub(crate) fn frame(snapshot: &Snapshot, frame: Frame) -> String {
    line(Some(&Line::new(snapshot, frame)))
}

/// What is to be said about how a file was read.
pub(crate) fn warnings(snapshot: &Snapshot) -> Vec<String> {
    let mut warnings: Vec<_> = snapshot.warnings.iter().map(|warning| printable(warning)).collect();
    if let Some(damage) = &snapshot.damage {
        let reason = &damage.reason;
        warnings.push(format!("damaged or cut at byte {}: {reason}; what is intact is shown", damage.offset));
    }
    warnings
}

/// Says something on standard error. Names and reasons may come from a file, so what a terminal would act
/// on is taken out.
pub(crate) fn complain(message: &str) {
    let lines: Vec<_> = message.lines().map(printable).collect();
    eprintln!("vramscope: {}", lines.join("\n"));
}

/// The text in lines that fit the terminal, the later ones indented; in one line off a terminal, where
/// other programs read it.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    use unicode_width::UnicodeWidthStr;
    let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size() else {
        return text.to_owned();
    };
    let room = usize::from(width).saturating_sub(indent + 1).max(20);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if lines[last].width() + 1 + word.width() <= room {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// Columns to fill: those of the terminal, or none in particular.
pub(crate) fn columns() -> usize {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(width), _)) => usize::from(width).max(40),
        None => 160,
    }
}

/// The verdict in words.
pub(crate) fn sentence(status: Status, estimated: u64) -> String {
    let about = match estimated {
        0 => String::new(),
        n => format!("; sizes of blocks of {} in all are inferred", bytes(n as i64)),
    };
    let what = match status {
        Status::Exact => {
            return "exact: complete from the first allocation on, equal to PyTorch's counters".into();
        }
        Status::LateStart => "late start: recording began when memory was in use",
        Status::RingOverflow => "ring overflow: the beginning of the history is gone",
        Status::EventsSkipped => "events skipped: some were not recorded",
        Status::SettingsChanged => "settings changed while recording",
        Status::Truncated => "truncated: the file is cut or damaged",
        Status::StateOnly => "state only: no history was recorded",
    };
    format!("{what}{about}")
}

/// The moment of an event in words, with its time if it has one.
pub(crate) fn when(events: &EventTable, event: Option<EventIdx>) -> String {
    let Some(event) = event else { return "before the first event".into() };
    match events.time_us(event.index()) {
        Some(us) => format!("after event {}, {}", count(event.0), time(us)),
        None => format!("after event {}", count(event.0)),
    }
}

/// A stretch of time.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..600_000_000 => format!("{:.2} s", us as f64 / 1e6),
        _ => format!("{:.1} min", us as f64 / 6e7),
    }
}
