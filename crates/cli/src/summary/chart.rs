//! Memory over the trace in the terminal's own characters.

use vramscope_analysis::{Counter, Moment, Replay};

use crate::text;

const ROWS: usize = 6;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A chart of what is requested, with what is reserved as dots above, a label on each second row. Every
/// column shows the true maximum of its part of the trace: a spike one event wide is seen.
pub(super) fn chart(replay: &Replay, columns: usize) -> Vec<String> {
    let events = replay.events();
    let highest = replay.peak(Counter::Reserved).bytes.max(replay.peak(Counter::Requested).bytes);
    if events < 2 || highest <= 0 || columns < 8 {
        return Vec::new();
    }
    let columns = columns.min(events);
    let moment = |column: usize| Moment((events as u64 * column as u64 / columns as u64) as u32);
    let heights: Vec<(f64, f64)> = (0..columns)
        .map(|column| {
            let (_, max) = replay.extremes(moment(column), moment(column + 1));
            let height = |bytes: i64| bytes.max(0) as f64 / highest as f64 * ROWS as f64;
            (height(max.requested), height(max.reserved))
        })
        .collect();
    let cell = |row: usize, (requested, reserved): (f64, f64)| {
        let filled = ((requested - row as f64) * 8.0).round().clamp(0.0, 8.0) as usize;
        let holds_reserved = reserved > row as f64 && reserved <= (row + 1) as f64;
        if filled == 0 && holds_reserved { '·' } else { EIGHTHS[filled] }
    };
    (0..ROWS)
        .rev()
        .map(|row| {
            let label = match row + 1 {
                top if top % 2 == 0 => text::bytes((highest as f64 * top as f64 / ROWS as f64) as i64),
                _ => String::new(),
            };
            let line: String = heights.iter().map(|&heights| cell(row, heights)).collect();
            format!("{label:>10} {}", line.trim_end())
        })
        .collect()
}
