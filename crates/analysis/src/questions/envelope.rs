//! The outline of one pool's memory over time: a step per event that changes it, with an index.
//!
//! The steps are sorted columns, so the level at a moment is a binary search. Over them lies a pyramid: each
//! row keeps the least and the greatest of [`FAN`] entries of the row below, so the extremes of any stretch
//! take a few entries of each row, however many steps there are.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use vramscope_replay::Moment;
use vramscope_snapshot::Pool;

/// Entries of a row of the pyramid that one entry of the next row stands for.
const FAN: usize = 16;

/// The default pool's two numbers.
pub const DEFAULT_POOL: Pool = (0, 0);

/// How it is known which memory belongs to a pool. Later ones are weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Known {
    /// Every event says it, as PyTorch 2.12 and later write them, or the final segments alone do.
    Stated,
    /// Of some events it was looked up: which pool does the memory at that address belong to?
    ByAddress,
    /// The file names no private pool, so what it does not name is taken for the default pool.
    Assumed,
    /// The memory was given back before the snapshot was taken, and no event names its pool.
    Unknown,
}

impl Known {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::ByAddress => "by address",
            Self::Assumed => "assumed",
            Self::Unknown => "unknown",
        }
    }

    /// How it is known, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Stated => "stated in the file",
            Self::ByAddress => "inferred from addresses",
            Self::Assumed => "assumed",
            Self::Unknown => "unknown",
        }
    }
}

/// Bytes of a pool at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Pod, Zeroable)]
#[repr(C)]
pub struct Level {
    /// Blocks in use or awaiting their free.
    pub active: i64,
    /// Memory held from the driver.
    pub reserved: i64,
}

impl Level {
    /// What the pool takes up: what it holds. Where a file contradicts itself, at least what is in use.
    pub fn height(self) -> i64 {
        self.active.max(self.reserved)
    }

    /// What is held and not in use. It serves no other pool.
    pub fn idle(self) -> i64 {
        self.reserved.saturating_sub(self.active).max(0)
    }

    /// The level after a change. A pool that gives back more than it is known to hold holds nothing then.
    pub(crate) fn plus(self, active: i64, reserved: i64) -> Self {
        Self {
            active: self.active.saturating_add(active).max(0),
            reserved: self.reserved.saturating_add(reserved).max(0),
        }
    }

    fn zip(self, other: Self, f: fn(i64, i64) -> i64) -> Self {
        Self { active: f(self.active, other.active), reserved: f(self.reserved, other.reserved) }
    }
}

/// The least and the greatest of each number, which need not belong to the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extremes {
    least: Level,
    most: Level,
}

impl Extremes {
    fn of(level: Level) -> Self {
        Self { least: level, most: level }
    }

    fn join(self, other: Self) -> Self {
        Self { least: self.least.zip(other.least, i64::min), most: self.most.zip(other.most, i64::max) }
    }
}

/// One pool's memory on one stream over time.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The pool's two numbers; `None` where the file does not say.
    pub pool: Option<Pool>,
    /// Handle of the stream that it serves.
    pub stream: u64,
    /// How its memory is known to be its own.
    pub known: Known,
    at: Vec<Moment>,
    levels: Vec<Level>,
    /// Row 0 is over `levels`, each further one over the row before.
    pyramid: Vec<Vec<Extremes>>,
}

impl Envelope {
    pub(crate) fn new(pool: Option<Pool>, stream: u64) -> Self {
        let known = if pool.is_some() { Known::Stated } else { Known::Unknown };
        Self { pool, stream, known, at: Vec::new(), levels: Vec::new(), pyramid: Vec::new() }
    }

    /// Adds to the level from a moment on. Moments come in order.
    pub(crate) fn add(&mut self, at: Moment, active: i64, reserved: i64) {
        let next = self.levels.last().copied().unwrap_or_default().plus(active, reserved);
        match self.levels.last_mut() {
            Some(last) if self.at.last() == Some(&at) => *last = next,
            _ => {
                self.at.push(at);
                self.levels.push(next);
            }
        }
    }

    /// Builds the index, once all steps are there.
    pub(crate) fn finish(mut self) -> Self {
        let leaves: Vec<Extremes> = self.levels.iter().map(|&level| Extremes::of(level)).collect();
        let mut row = summed(&leaves);
        while row.len() > 1 {
            let next = summed(&row);
            self.pyramid.push(std::mem::replace(&mut row, next));
        }
        self
    }

    /// Whether it is known to be a private pool's.
    pub fn is_private(&self) -> bool {
        self.pool.is_some_and(|pool| pool != DEFAULT_POOL)
    }

    /// Every change: from this moment on, this level.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (Moment, Level)> + '_ {
        self.at.iter().copied().zip(self.levels.iter().copied())
    }

    /// The level at a moment.
    pub fn level(&self, at: Moment) -> Level {
        let after = self.at.partition_point(|&step| step <= at);
        after.checked_sub(1).map_or_else(Level::default, |step| self.levels[step])
    }

    /// The least and the greatest of each number from one moment to another, both included.
    pub fn extremes(&self, from: Moment, to: Moment) -> (Level, Level) {
        let mut found = Extremes::of(self.level(from));
        let mut start = self.at.partition_point(|&step| step <= from);
        let mut end = self.at.partition_point(|&step| step <= to).max(start);
        // Up the pyramid: the ragged ends of a row are looked at, the whole groups between them are left to
        // the next row.
        for row in 0..=self.pyramid.len() {
            let entry = |at: usize| match row.checked_sub(1) {
                None => Extremes::of(self.levels[at]),
                Some(row) => self.pyramid[row][at],
            };
            let (first, last) = (start.next_multiple_of(FAN).min(end), end / FAN * FAN);
            if row == self.pyramid.len() || first >= last {
                return close((start..end).map(entry).fold(found, Extremes::join));
            }
            found = (start..first).chain(last..end).map(entry).fold(found, Extremes::join);
            (start, end) = (first / FAN, last / FAN);
        }
        close(found)
    }

    /// When it held most; of all such moments the first at which most was in use.
    pub fn peak(&self) -> (Moment, Level) {
        let key = |level: Level| (level.height(), level.active);
        let first = self.steps().next().unwrap_or_default();
        self.steps().fold(first, |best, step| if key(step.1) > key(best.1) { step } else { best })
    }

    /// When it first held anything, and when it had given all back; `None` if it had not at the end.
    pub fn life(&self) -> Option<(Moment, Option<Moment>)> {
        let holds = |level: Level| level.height() > 0;
        let (first, _) = self.steps().find(|(_, level)| holds(*level))?;
        let last = self.steps().last().filter(|(_, level)| !holds(*level));
        Some((first, last.map(|(at, _)| at)))
    }
}

fn close(extremes: Extremes) -> (Level, Level) {
    (extremes.least, extremes.most)
}

fn summed(row: &[Extremes]) -> Vec<Extremes> {
    row.chunks(FAN).filter_map(|group| group.iter().copied().reduce(Extremes::join)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(steps: &[(u32, i64, i64)]) -> Envelope {
        let mut envelope = Envelope::new(Some((1, 0)), 0);
        for &(at, active, reserved) in steps {
            envelope.add(Moment(at), active, reserved);
        }
        envelope.finish()
    }

    #[test]
    fn the_level_holds_until_the_next_step() {
        let envelope = envelope(&[(2, 0, 20), (3, 5, 0), (7, -5, 0), (7, 0, -20)]);
        let level = |at| (envelope.level(Moment(at)).active, envelope.level(Moment(at)).reserved);
        assert_eq!([0, 2, 3, 6, 7, 99].map(level), [(0, 0), (0, 20), (5, 20), (5, 20), (0, 0), (0, 0)]);
        assert_eq!(envelope.life(), Some((Moment(2), Some(Moment(7)))));
        assert_eq!(envelope.peak(), (Moment(3), Level { active: 5, reserved: 20 }));
        assert_eq!(envelope.level(Moment(3)).idle(), 15);
    }

    #[test]
    fn a_pool_never_holds_less_than_nothing() {
        let envelope = envelope(&[(1, 0, -20), (2, 5, 8), (3, -9, 0)]);
        let level = |at| (envelope.level(Moment(at)).active, envelope.level(Moment(at)).reserved);
        assert_eq!([1, 2, 3].map(level), [(0, 0), (5, 8), (0, 8)]);
    }

    #[test]
    fn extremes_are_those_of_a_search_through_all_steps() {
        // A walk that goes up and down with different rhythms; 1000 steps make a pyramid of three rows.
        let steps: Vec<_> =
            (0..1000).map(|i: u32| (i * 2, i64::from(i % 37) - 18, i64::from(i % 91) - 45)).collect();
        let envelope = envelope(&steps);
        for from in (0..2000).step_by(61) {
            for to in (from..2010).step_by(173) {
                let levels = (from..=to).map(|at| envelope.level(Moment(at)));
                let expected = levels.map(Extremes::of).reduce(Extremes::join).map(close);
                assert_eq!(Some(envelope.extremes(Moment(from), Moment(to))), expected, "{from}..={to}");
            }
        }
    }
}
