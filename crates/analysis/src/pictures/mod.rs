//! Pictures of memory: which allocation owns each pixel.
//!
//! **Columns.** A pixel column stands for the moments that lie in it. On the event axis the moment *m*
//! takes the place from *m* to *m* + 1; on the time axis it lasts from the event before it to the event
//! after it, and moments that last no time lie where they are. Of the moments of a column the first at
//! which the counter is highest is shown, so a spike is never lost, however narrow it is. A column that
//! holds no moment shows the one that lasts through it; outside the recording nothing is shown. In the memory
//! timeline a column also says how high the pile is at its lowest moment: only up to there memory is in use all the
//! time that the column stands for.
//!
//! **Rows, memory timeline.** The allocations that count at the moment of the column are stacked, and a
//! pixel belongs to the allocation that its centre lies in. At the bottom is what was there before the
//! first event, what stays longest lowest; above it the others in order of birth. Where private pools stand
//! together, they lie below all else, each stacked in the same way and as high as what it holds: what is above
//! its allocations is its own idle memory. A pile of some allocations has only these, and of the moments of a column
//! it shows the first at which they are highest.
//!
//! **Rows, segment timeline.** A pixel belongs to the allocation whose block its centre lies in at the
//! moment of the column, or to a hole, or to nothing where no memory is held.
//!
//! Everything is drawn: no allocation is left out because it is small. A picture costs what its pixels
//! cost, and for each column a few steps down a tree; see [`Pile`].

mod address;
mod clock;
mod density;
mod levels;
mod pile;

pub use address::{Lane, Lanes, lanes};
pub use clock::Clock;
pub use density::density;
pub use levels::Levels;
pub use pile::Pile;

use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Counter, Moment, Replay};

/// More pools share the last number.
const MOST_POOLS: u32 = 1 << 16;

/// What a pixel belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell(u32);

impl Cell {
    /// Nothing.
    pub const NONE: Self = Self(u32::MAX);
    /// Memory that is held and free.
    pub const HOLE: Self = Self(u32::MAX - 1);

    /// An allocation.
    pub fn of(index: AllocIdx) -> Self {
        Self(index.0)
    }

    /// What a private pool holds and does not use: the number of its envelope.
    pub fn idle(envelope: usize) -> Self {
        Self(Self::HOLE.0 - 1 - (envelope as u32).min(MOST_POOLS - 1))
    }

    /// The envelope whose idle memory it is, if it is that.
    pub fn envelope(self) -> Option<usize> {
        let number = (Self::HOLE.0 - 1).checked_sub(self.0)?;
        (number < MOST_POOLS && self < Self::HOLE).then_some(number as usize)
    }

    /// The allocation, if it is one.
    pub fn allocation(self) -> Option<AllocIdx> {
        (self.0 < Self::HOLE.0 - MOST_POOLS).then_some(AllocIdx(self.0))
    }
}

/// What runs from left to right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Axis {
    /// Moments: every event is as wide as any other.
    #[default]
    Events,
    /// Microseconds since the first event.
    Time,
}

/// The moments of each column.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns(Vec<Option<(Moment, Moment)>>);

impl Columns {
    /// The columns of a stretch from `x.0` to `x.1`, `width` pixels wide.
    pub fn new(replay: &Replay, clock: Option<Clock<'_>>, axis: Axis, x: (f64, f64), width: usize) -> Self {
        let step = (x.1 - x.0) / width.max(1) as f64;
        let edge = |column: usize| x.0 + column as f64 * step;
        let column = |column: usize| match axis {
            Axis::Events => on_events(replay.end(), edge(column), edge(column + 1)),
            Axis::Time => clock?.between(edge(column), edge(column + 1)),
        };
        Self((0..width).map(column).collect())
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first and the last moment of each column; `None` outside the recording.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<(Moment, Moment)>> + '_ {
        self.0.iter().copied()
    }

    /// The moment that each column shows.
    pub fn shown(&self, replay: &Replay, counter: Counter) -> Vec<Option<Moment>> {
        self.each(|from, to| replay.highest(counter, from, to))
    }

    /// What holds for the moments of each column. Columns of the same moments are looked at once.
    fn each<T: Copy>(&self, of: impl Fn(Moment, Moment) -> T) -> Vec<Option<T>> {
        let mut last = None;
        let each = self.iter().map(|moments| {
            let (from, to) = moments?;
            match last {
                Some((range, known)) if range == (from, to) => Some(known),
                _ => {
                    let found = of(from, to);
                    last = Some(((from, to), found));
                    Some(found)
                }
            }
        });
        each.collect()
    }
}

fn on_events(end: Moment, left: f64, right: f64) -> Option<(Moment, Moment)> {
    if !(right > 0.0 && left < f64::from(end.0) + 1.0 && left < right) {
        return None;
    }
    let from = Moment(left.max(0.0) as u32).min(end);
    let to = Moment((right.ceil() - 1.0).max(0.0) as u32).min(end);
    Some((from, to.max(from)))
}

/// The rows of a picture: pixels of bytes, the lowest bytes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    /// Bytes at the lower edge.
    pub low: f64,
    /// Bytes that a pixel is high.
    pub step: f64,
    /// Number of rows.
    pub count: usize,
}

impl Rows {
    /// Rows for the bytes from `y.0` to `y.1`.
    pub fn new(y: (f64, f64), count: usize) -> Self {
        Self { low: y.0, step: (y.1 - y.0) / count.max(1) as f64, count }
    }

    /// Bytes at the centre of a row.
    pub fn centre(&self, row: usize) -> f64 {
        self.low + (row as f64 + 0.5) * self.step
    }

    /// The rows whose centres lie in a range of bytes, the lower end included.
    pub fn within(&self, low: u64, high: u64) -> std::ops::Range<usize> {
        let first = self.first_from(low as f64);
        first..self.first_from(high as f64).max(first)
    }

    /// The first row whose centre is not below `bytes`.
    fn first_from(&self, bytes: f64) -> usize {
        // The division may be off by one where a centre lies on the edge; the comparison decides.
        let guess = (((bytes - self.low) / self.step - 0.5).ceil().max(0.0) as usize).min(self.count);
        let mut row = guess;
        while row > 0 && self.centre(row - 1) >= bytes {
            row -= 1;
        }
        while row < self.count && self.centre(row) < bytes {
            row += 1;
        }
        row
    }
}

/// A picture column by column, each from the lowest row up.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Rows in a column.
    pub height: usize,
    /// The moment that each column shows.
    pub shown: Vec<Option<Moment>>,
    /// What each pixel belongs to.
    pub cells: Vec<Cell>,
    /// The rows of each column that lie below its lowest moment; none where that is not asked.
    pub solid: Vec<usize>,
}

impl Picture {
    /// Paints columns one by one; equal moments are painted once. `None` if `go_on` says to stop.
    fn paint(
        shown: Vec<Option<Moment>>,
        height: usize,
        go_on: &dyn Fn() -> bool,
        mut column: impl FnMut(Moment, &mut [Cell]),
    ) -> Option<Self> {
        let mut cells = vec![Cell::NONE; shown.len() * height];
        for (x, at) in shown.iter().enumerate() {
            let Some(at) = *at else { continue };
            let start = x * height;
            if x > 0 && shown[x - 1] == Some(at) {
                cells.copy_within(start - height..start, start);
                continue;
            }
            if x.is_multiple_of(16) && !go_on() {
                return None;
            }
            column(at, &mut cells[start..start + height]);
        }
        Some(Self { height, shown, cells, solid: Vec::new() })
    }

    /// What a pixel belongs to; rows count from the lowest.
    pub fn at(&self, column: usize, row: usize) -> Cell {
        if row >= self.height {
            return Cell::NONE;
        }
        self.cells.get(column * self.height + row).copied().unwrap_or(Cell::NONE)
    }
}
