//! Thousands of ranks in one picture: ranks downwards, steps or time to the right, the peak in each cell.
//!
//! Of more ranks than rows, several share a row, and of more steps than columns, several share a column; a cell has
//! the highest peak of all that it stands for, so one rank that is high is seen among thousands.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use vramscope_replay::{Moment, Replay};

/// Parts of a recording that its curve has.
const PARTS: u64 = 96;

/// The highest requested bytes in each of some equal parts of a stretch of the trace.
pub fn curve(replay: &Replay, (from, to): (Moment, Moment)) -> Vec<i64> {
    let length = u64::from(to.0.saturating_sub(from.0));
    let parts = PARTS.min(length.max(1));
    let at = |part: u64| Moment(from.0 + u32::try_from(length * part / parts).unwrap_or(u32::MAX));
    (0..parts).map(|part| replay.extremes(at(part), at(part + 1)).1.requested).collect()
}

/// What a heat map needs of a file.
#[derive(Clone, Copy, Debug)]
pub struct HeatInput<'a> {
    /// The rank in its name.
    pub rank: Option<u64>,
    /// The step in its name.
    pub step: Option<u64>,
    /// Requested bytes at their highest.
    pub peak: i64,
    /// See [`curve`].
    pub curve: &'a [i64],
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeatCell {
    /// The highest peak.
    pub bytes: i64,
    /// Which of the inputs has it.
    pub input: usize,
}

/// Ranks that share a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatRow {
    /// The first and the last rank.
    pub ranks: (Option<u64>, Option<u64>),
    /// From left to right; none where no file is known.
    pub cells: Vec<Option<HeatCell>>,
}

impl HeatRow {
    /// `7`, `0–127`, or `–` where no name has a rank.
    pub fn label(&self) -> String {
        let [first, last] = [self.ranks.0, self.ranks.1]
            .map(|rank| rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string()));
        if first == last { first } else { format!("{first}–{last}") }
    }

    /// Whether a rank is in this row.
    pub fn has(&self, rank: Option<u64>) -> bool {
        (self.ranks.0..=self.ranks.1).contains(&rank)
    }
}

/// The cells of one rank.
type RankCells = (Option<u64>, Vec<Option<HeatCell>>);

/// A heat map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatMap {
    /// What it shows, in a sentence.
    pub title: String,
    /// By rank.
    pub rows: Vec<HeatRow>,
    /// The lowest and the highest cell.
    pub range: (i64, i64),
}

impl HeatMap {
    /// Shades from the lowest to the highest, where there are no colors.
    pub const SHADES: [&'static str; 5] = ["·", "░", "▒", "▓", "█"];

    /// The files of one run: over their steps if they have several, else over the time of their recordings.
    pub fn new(inputs: &[HeatInput<'_>], size: (usize, usize)) -> Option<Self> {
        Self::by_step(inputs, size).or_else(|| Self::over_time(inputs, size))
    }

    /// Ranks and steps, with at most these rows and columns; `None` if there are not several steps.
    pub fn by_step(inputs: &[HeatInput<'_>], (rows, columns): (usize, usize)) -> Option<Self> {
        let is_placed = |input: &&HeatInput<'_>| input.rank.is_some();
        let steps = inputs.iter().filter(is_placed).filter_map(|input| input.step);
        let steps: Vec<u64> = steps.collect::<BTreeSet<_>>().into_iter().collect();
        let [first, .., last] = steps.as_slice() else { return None };
        let mut ranks: BTreeMap<u64, Vec<Option<HeatCell>>> = BTreeMap::new();
        for (number, input) in inputs.iter().enumerate() {
            let (Some(rank), Some(step)) = (input.rank, input.step) else { continue };
            let cells = ranks.entry(rank).or_insert_with(|| vec![None; steps.len()]);
            let at = steps.binary_search(&step).ok();
            if let Some(cell) = at.and_then(|at| cells.get_mut(at)) {
                *cell = (*cell).max(Some(HeatCell { bytes: input.peak, input: number }));
            }
        }
        let narrow = |(rank, cells): (u64, Vec<_>)| (Some(rank), narrowed(&cells, columns));
        let title = format!("ranks × steps, from step {first} to step {last}");
        Self::of(&title, &ranks.into_iter().map(narrow).collect::<Vec<_>>(), rows)
    }

    /// Ranks and the time of their recordings, with at most these rows and columns.
    pub fn over_time(inputs: &[HeatInput<'_>], (rows, columns): (usize, usize)) -> Option<Self> {
        let columns = columns.clamp(1, PARTS as usize);
        let cells = |(number, input): (usize, &HeatInput<'_>)| {
            let cell = |column: usize| {
                // A short recording takes all columns, too.
                let at = |column: usize| column * input.curve.len() / columns;
                let part = input.curve.get(at(column)..at(column + 1).max(at(column) + 1))?;
                Some(HeatCell { bytes: part.iter().copied().max()?, input: number })
            };
            (input.rank, (0..columns).map(cell).collect())
        };
        let mut ranks: Vec<RankCells> = inputs.iter().enumerate().map(cells).collect();
        ranks.sort_by_key(|(rank, _)| *rank);
        Self::of("ranks × time, from start to end of each recording", &ranks, rows)
    }

    fn of(title: &str, ranks: &[RankCells], rows: usize) -> Option<Self> {
        let together = ranks.len().div_ceil(rows.max(1)).max(1);
        let row = |ranks: &[RankCells]| HeatRow {
            ranks: (ranks.first().and_then(|first| first.0), ranks.last().and_then(|last| last.0)),
            cells: ranks.iter().fold(Vec::new(), |mut row: Vec<Option<HeatCell>>, (_, cells)| {
                row.resize(row.len().max(cells.len()), None);
                row.iter_mut().zip(cells).for_each(|(most, cell)| *most = (*most).max(*cell));
                row
            }),
        };
        let rows: Vec<HeatRow> = ranks.chunks(together).map(row).collect();
        let all = ranks.iter().flat_map(|(_, cells)| cells.iter().flatten().map(|cell| cell.bytes));
        let (low, high) = all.fold(None, |range: Option<(i64, i64)>, bytes| {
            Some(range.map_or((bytes, bytes), |(low, high)| (low.min(bytes), high.max(bytes))))
        })?;
        let several = match together {
            1 => String::new(),
            n => format!(", the highest of {n} ranks in a row"),
        };
        Some(Self { title: format!("{title}: peak{several}"), rows, range: (low, high) })
    }

    /// Where bytes lie between the lowest cell and the highest, from 0 to 1.
    pub fn share(&self, bytes: i64) -> f64 {
        let (low, high) = self.range;
        let share = bytes.saturating_sub(low) as f64 / high.saturating_sub(low).max(1) as f64;
        share.clamp(0.0, 1.0)
    }

    /// The same as one of [`HeatMap::SHADES`].
    pub fn shade(&self, bytes: i64) -> &'static str {
        Self::SHADES[((self.share(bytes) * 5.0) as usize).min(4)]
    }
}

/// At most as many columns as there is room for, each with the highest of what it stands for.
fn narrowed(cells: &[Option<HeatCell>], columns: usize) -> Vec<Option<HeatCell>> {
    let together = cells.len().div_ceil(columns.max(1)).max(1);
    cells.chunks(together).map(|cells| cells.iter().copied().max().flatten()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn input(rank: u64, step: Option<u64>, peak: i64, curve: &[i64]) -> HeatInput<'_> {
        HeatInput { rank: Some(rank), step, peak, curve }
    }

    #[test]
    fn one_high_rank_is_seen_among_thousands() {
        let (flat, high) = ([100, 100], [100, 900]);
        let inputs: Vec<_> =
            (0..4096).map(|rank| input(rank, None, 0, if rank == 1000 { &high } else { &flat })).collect();
        let map = HeatMap::new(&inputs, (32, 2)).unwrap();
        assert_eq!((map.rows.len(), map.range), (32, (100, 900)));
        assert!(map.title.ends_with("the highest of 128 ranks in a row"), "{}", map.title);
        let high: Vec<_> =
            map.rows.iter().filter(|row| row.cells[1].is_some_and(|cell| cell.bytes == 900)).collect();
        // 128 ranks in a row: the 8th row has rank 1000, and its cell says which of them it is.
        assert_eq!(high.len(), 1);
        assert_eq!((high[0].label().as_str(), high[0].cells[1].unwrap().input), ("896–1023", 1000));
        assert!(high[0].has(Some(1000)) && !high[0].has(Some(1024)));
    }

    #[test]
    fn many_steps_keep_their_highest() {
        let inputs: Vec<_> =
            (0..960).map(|step| input(0, Some(step), if step == 500 { 7 } else { 1 }, &[])).collect();
        let map = HeatMap::new(&inputs, (10, 48)).unwrap();
        let cells = &map.rows[0].cells;
        assert_eq!(cells.len(), 48);
        let high = HeatCell { bytes: 7, input: 500 };
        assert_eq!(cells.iter().position(|cell| *cell == Some(high)), Some(25), "500 / 20");
    }

    #[test]
    fn a_step_without_a_file_is_empty() {
        let inputs = [input(0, Some(1), 5, &[]), input(0, Some(2), 6, &[]), input(1, Some(2), 9, &[])];
        let map = HeatMap::new(&inputs, (10, 48)).unwrap();
        assert_eq!(map.rows[1].cells, [None, Some(HeatCell { bytes: 9, input: 2 })]);
        assert_eq!((map.shade(5), map.shade(9)), ("·", "█"));
    }
}
