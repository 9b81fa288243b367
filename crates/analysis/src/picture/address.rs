//! Addresses over moments: the picture behind the segment timeline.
//!
//! A lane is a stretch of addresses that was held at some time: a segment, whatever was taken again at
//! the same place, or an expandable segment with all that was ever mapped of it. Lanes lie in order of
//! their addresses, and the caller says how high each is drawn.

use crate::allocations::Moment;
use crate::counters::Counter;
use crate::picture::{Cell, Columns, Picture, Rows};
use crate::ranges::Range;
use crate::replay::Replay;

/// A stretch of addresses that was held at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is an expandable segment.
    pub expandable: bool,
}

impl Lane {
    /// The address after the last.
    pub fn end(&self) -> u64 {
        self.addr.saturating_add(self.size)
    }
}

/// All stretches of addresses that were ever held, by address.
pub fn lanes(replay: &Replay) -> Vec<Lane> {
    let mut ranges: Vec<Range> = replay.ever_held().collect();
    ranges.sort_unstable_by_key(|range| (range.addr, std::cmp::Reverse(range.size)));
    let mut lanes: Vec<Lane> = Vec::new();
    for range in ranges.into_iter().filter(|range| range.size > 0) {
        match lanes.last_mut() {
            // Segments lie side by side by chance; parts of an expandable one belong together.
            Some(lane)
                if range.addr < lane.end()
                    || range.addr == lane.end() && range.expandable && lane.expandable =>
            {
                lane.size = lane.size.max(range.end() - lane.addr);
                lane.expandable |= range.expandable;
            }
            _ => lanes.push(Lane { addr: range.addr, size: range.size, expandable: range.expandable }),
        }
    }
    lanes
}

/// Lanes with their places in a picture, from the lowest row up.
#[derive(Clone, Debug, PartialEq)]
pub struct Lanes(Vec<(Lane, std::ops::Range<usize>)>);

impl Lanes {
    /// Lanes by address, each with the rows that it takes. Rows must not overlap.
    pub fn new(placed: Vec<(Lane, std::ops::Range<usize>)>) -> Self {
        Self(placed)
    }

    /// The pixels of a block in a lane: those whose centres lie in it.
    fn rows(lane: &Lane, rows: &std::ops::Range<usize>, addr: u64, end: u64) -> std::ops::Range<usize> {
        let scale = Rows::new((0.0, lane.size as f64), rows.len());
        let inside = scale.within(addr.saturating_sub(lane.addr), end.saturating_sub(lane.addr));
        inside.start + rows.start..inside.end + rows.start
    }

    fn fill(&self, addr: u64, end: u64, cell: Cell, column: &mut [Cell]) {
        let mut at = self.0.partition_point(|(lane, _)| lane.end() <= addr);
        while let Some((lane, rows)) = self.0.get(at).filter(|(lane, _)| lane.addr < end) {
            if let Some(pixels) = column.get_mut(Self::rows(lane, rows, addr, end)) {
                pixels.fill(cell);
            }
            at += 1;
        }
    }

    /// The picture of these lanes; `None` if `go_on` says to stop. The moment of a column is that at which
    /// `counter` is highest, as in the memory timeline beside it.
    pub fn picture(
        &self,
        replay: &Replay,
        counter: Counter,
        columns: &Columns,
        height: usize,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Picture> {
        Picture::paint(columns.shown(replay, counter), height, go_on, |at, column| {
            self.column(replay, at, column);
        })
    }

    fn column(&self, replay: &Replay, at: Moment, column: &mut [Cell]) {
        for range in replay.held(at) {
            self.fill(range.addr, range.end(), Cell::HOLE, column);
        }
        for index in replay.live(at) {
            let allocation = replay.allocation(index);
            let end = allocation.addr.saturating_add(allocation.size);
            self.fill(allocation.addr, end, Cell::of(index), column);
        }
    }
}
