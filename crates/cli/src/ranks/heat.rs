//! Thousands of ranks on one screen: ranks downwards, steps or time to the right, the shade is the peak.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use vramscope_analysis::{Moment, Replay};

use super::Rank;
use crate::style::{self, Role};
use crate::text;

/// Rows of a heat map; of more ranks, several share a row.
const ROWS: usize = 32;
/// Columns of a heat map.
const COLUMNS: usize = 48;
/// From the lowest peak to the highest.
const SHADES: [&str; 5] = ["·", "░", "▒", "▓", "█"];

/// The highest requested bytes in each of some equal parts of a stretch of the trace.
pub(super) fn curve(replay: &Replay, (from, to): (Moment, Moment)) -> Vec<i64> {
    let length = u64::from(to.0.saturating_sub(from.0));
    let parts = (COLUMNS as u64).min(length.max(1));
    let at = |part: u64| Moment(from.0 + u32::try_from(length * part / parts).unwrap_or(u32::MAX));
    (0..parts).map(|part| replay.extremes(at(part), at(part + 1)).1.requested).collect()
}

/// The ranks of one run over the time of their recordings.
pub(super) fn over_time(ranks: &[&Rank], out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<_> = ranks.iter().map(|rank| (rank.rank, stretched(&rank.curve))).collect();
    print("ranks × time, from start to end of each recording", &rows, out)
}

/// The ranks of each run over its steps, where files of several steps were named.
pub(super) fn by_step(ranks: &[&Rank], out: &mut dyn Write) -> io::Result<()> {
    let mut runs: BTreeMap<&str, Vec<&Rank>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| rank.step.is_some() && rank.rank.is_some()) {
        runs.entry(&rank.group).or_default().push(rank);
    }
    for ranks in runs.into_values() {
        let steps: Vec<u64> =
            ranks.iter().filter_map(|rank| rank.step).collect::<BTreeSet<_>>().into_iter().collect();
        let [first, .., last] = steps.as_slice() else { continue };
        let mut peaks: BTreeMap<u64, Vec<Option<i64>>> = BTreeMap::new();
        for rank in &ranks {
            let Some(number) = rank.rank else { continue };
            let row = peaks.entry(number).or_insert_with(|| vec![None; steps.len()]);
            let at = rank.step.and_then(|step| steps.binary_search(&step).ok());
            if let Some(peak) = at.and_then(|at| row.get_mut(at)) {
                *peak = (*peak).max(Some(rank.peak));
            }
        }
        let rows: Vec<_> = peaks.into_iter().map(|(rank, peaks)| (Some(rank), narrowed(&peaks))).collect();
        writeln!(out)?;
        print(&format!("ranks × steps, from step {first} to step {last}"), &rows, out)?;
    }
    Ok(())
}

/// A short recording over all columns.
fn stretched(curve: &[i64]) -> Vec<Option<i64>> {
    (0..COLUMNS).map(|column| curve.get(column * curve.len() / COLUMNS).copied()).collect()
}

/// At most as many columns as there is room for, each with the highest of what it stands for.
fn narrowed(peaks: &[Option<i64>]) -> Vec<Option<i64>> {
    let together = peaks.len().div_ceil(COLUMNS).max(1);
    peaks.chunks(together).map(|peaks| peaks.iter().copied().max().flatten()).collect()
}

/// The ranks that share a row, and what is in its columns.
type Row = (Option<u64>, Vec<Option<i64>>);

fn print(title: &str, ranks: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let values = || ranks.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let (Some(low), Some(high)) = (values().min(), values().max()) else { return Ok(()) };
    let together = ranks.len().div_ceil(ROWS).max(1);
    let several =
        if together > 1 { format!(", the highest of {together} ranks in a row") } else { String::new() };
    writeln!(out, "  {}", style::paint(Role::Strong, &format!("{title}: peak{several}")))?;
    for row in ranks.chunks(together) {
        let [first, last] = [row.first(), row.last()].map(|rank| {
            rank.and_then(|(rank, _)| *rank).map_or_else(|| "–".to_owned(), |rank| rank.to_string())
        });
        let label = if first == last { first } else { format!("{first}–{last}") };
        let columns = row.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        let cell = |column: usize| {
            let highest = row.iter().filter_map(|(_, values)| values.get(column).copied().flatten()).max();
            highest.map_or(" ", |value| shade(value, low, high))
        };
        writeln!(out, "  {label:>11} {}", (0..columns).map(cell).collect::<String>())?;
    }
    writeln!(out, "  {:>11} {} {} … {} {}", "", SHADES[0], text::bytes(low), SHADES[4], text::bytes(high))
}

fn shade(value: i64, low: i64, high: i64) -> &'static str {
    let share = value.saturating_sub(low) as f64 / high.saturating_sub(low).max(1) as f64;
    SHADES[((share * 5.0) as usize).min(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_ranks_fit_on_a_screen_and_one_that_is_high_is_seen() {
        let rank = |rank: u64| {
            let peak = if rank == 1000 { 900 } else { 100 };
            (Some(rank), vec![Some(100), Some(peak)])
        };
        let mut out = Vec::new();
        print("ranks × steps", &(0..4096).map(rank).collect::<Vec<_>>(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + 32 + 1);
        let high: Vec<_> = text.lines().filter(|line| line.ends_with('█')).collect();
        assert_eq!(high, ["     896–1023 ·█"], "128 ranks in a row: the 8th row has rank 1000");
    }

    #[test]
    fn many_steps_keep_their_highest() {
        let peaks: Vec<_> = (0..960).map(|step| Some(if step == 500 { 7 } else { 1 })).collect();
        let columns = narrowed(&peaks);
        assert_eq!(columns.len(), 48);
        assert_eq!(columns.iter().position(|peak| *peak == Some(7)), Some(25), "500 / 20");
    }
}
