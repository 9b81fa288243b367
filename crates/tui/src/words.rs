//! Numbers and places as every view writes them.

use vramscope_analysis::{Line, Place, units, user_frame};
use vramscope_snapshot::{Frame, Pool, Snapshot, StackId};

pub(crate) use vramscope_analysis::text::{fit, fit_end, printable, time};
pub(crate) use vramscope_analysis::units::count;

/// Bytes in a column.
pub(crate) fn bytes(n: u64) -> String {
    units::bytes(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Bytes that may be below zero.
pub(crate) fn signed(n: i64) -> String {
    units::bytes(n)
}

/// What changed, with its sign.
pub(crate) fn change(n: i64) -> String {
    if n > 0 { format!("+{}", units::bytes(n)) } else { units::bytes(n) }
}

/// A part of a whole as a percentage of five characters.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
    if share >= 99.95 { " 100%".into() } else { format!("{share:>4.1}%") }
}

/// `1 event`, `2 events`.
pub(crate) fn plural(n: usize, word: &str) -> String {
    format!("{} {word}{}", count(n as u64), if n == 1 { "" } else { "s" })
}

/// Where in the program: `train.py:88 forward`.
pub(crate) fn place(snapshot: &Snapshot, stack: StackId) -> String {
    let frame = user_frame(snapshot, stack);
    frame.map_or_else(|| Place::words_of(snapshot, stack).to_owned(), |frame| self::frame(snapshot, frame))
}

/// A frame in a few words.
pub(crate) fn frame(snapshot: &Snapshot, frame: Frame) -> String {
    short(snapshot.text(frame.file), frame.line, snapshot.text(frame.name))
}

/// A line in a few words.
pub(crate) fn line(line: &Line) -> String {
    short(&line.file, line.line, &line.name)
}

fn short(file: &str, line: u32, name: &str) -> String {
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    printable(&if line == 0 { name.to_owned() } else { format!("{file}:{line} {name}") })
}

/// A frame with its whole path.
pub(crate) fn long(file: &str, line: u32, name: &str) -> String {
    printable(&format!("{file}:{line} {name}"))
}

/// `(0, 0)`, or that nobody knows.
pub(crate) fn pool(pool: Option<Pool>) -> String {
    pool.map_or("unknown".into(), |(a, b)| format!("({a}, {b})"))
}

/// Microseconds as people say it: `12.3 ms`.
pub(crate) fn duration(us: i64) -> String {
    let s = us as f64 / 1e6;
    match s.abs() {
        x if x < 1e-3 => format!("{us} µs"),
        x if x < 1.0 => format!("{:.1} ms", s * 1e3),
        x if x < 120.0 => format!("{s:.3} s"),
        x if x < 7200.0 => format!("{:.1} min", s / 60.0),
        _ => format!("{:.1} h", s / 3600.0),
    }
}

/// A text in lines of so many columns, broken at spaces.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let columns = columns.max(8);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if last.is_empty() {
            last.push_str(&fit(word, columns));
        } else if last.width() + 1 + word.width() <= columns {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(fit(word, columns));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_five_wide() {
        assert_eq!([percent(1, 3), percent(3, 3), percent(0, 0)], ["33.3%", " 100%", " 0.0%"]);
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(
            wrap("detach the loss before keeping it", 12),
            ["detach the", "loss before", "keeping it"]
        );
    }

    #[test]
    fn durations() {
        assert_eq!(
            [5, 12_300, 1_204_000, 600_000_000].map(duration),
            ["5 µs", "12.3 ms", "1.204 s", "10.0 min"]
        );
    }
}
