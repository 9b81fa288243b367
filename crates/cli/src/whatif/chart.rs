//! Two curves of reserved memory, one over the other, in characters.

use std::io::Write;

use crate::layout;
use crate::style::{self, Role};
use crate::text;

const ROWS: usize = 8;

/// Points of the curves.
pub(super) const POINTS: usize = 100;

/// Draws the recording and a simulation over each other.
pub(super) fn draw(recorded: &[i64], simulated: &[u64], out: &mut dyn Write) -> std::io::Result<()> {
    let simulated: Vec<i64> = simulated.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
    let text = layout::choose(&[41, 66, 116], |columns| {
        let together = POINTS / (columns - 16);
        let narrowed = |curve: &[i64]| -> Vec<i64> {
            curve.chunks(together).filter_map(|part| part.iter().copied().max()).collect()
        };
        lines(&narrowed(recorded), &narrowed(&simulated)).join("\n")
    });
    writeln!(out, "{text}")
}

fn lines(recorded: &[i64], simulated: &[i64]) -> Vec<String> {
    let mut lines = Vec::new();
    let highest = recorded.iter().chain(simulated).copied().max().unwrap_or(0).max(1);
    // In half rows: a cell is filled from its lower half on.
    let level = |n: i64| ((n.max(0) as f64 / highest as f64) * (2 * ROWS) as f64).round() as usize;
    for row in (0..ROWS).rev() {
        let label = match row {
            row if row + 1 == ROWS => text::bytes(highest),
            0 => text::bytes(0),
            _ => String::new(),
        };
        let mut line = String::new();
        for column in 0..recorded.len().max(simulated.len()) {
            let is_at = |curve: &[i64]| curve.get(column).is_some_and(|&n| level(n) > 2 * row);
            line.push(match (is_at(recorded), is_at(simulated)) {
                (true, true) => '█',
                (true, false) => '░',
                (false, true) => '▓',
                (false, false) => ' ',
            });
        }
        lines.push(format!("  {label:>10} {}", style::paint(Role::Chart, line.trim_end())));
    }
    let legend = "             █ both  ░ only the recording  ▓ only the simulation   (reserved)";
    lines.push(style::paint(Role::Dim, legend));
    lines
}
