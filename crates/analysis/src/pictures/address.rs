//! Addresses over moments: the picture behind the segment timeline.
//!
//! A lane is a stretch of addresses that was held at some time: a segment, whatever was taken again at
//! the same place, or an expandable segment with all that was ever mapped of it. Lanes lie in order of
//! their addresses, and the caller says how high each is drawn.

use vramscope_replay::{Counter, Moment, Range, Replay};

use crate::pictures::{Cell, Columns, Picture, Rows};

/// Allocations between two questions whether to go on.
const STRIDE: usize = 1 << 14;

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

    /// The pixels of a column that some addresses take.
    fn pixels(&self, addr: u64, end: u64) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let first = self.0.partition_point(|(lane, _)| lane.end() <= addr);
        let placed = self.0.get(first..).unwrap_or_default().iter();
        placed
            .take_while(move |(lane, _)| lane.addr < end)
            .map(move |(lane, rows)| Self::rows(lane, rows, addr, end))
            .filter(|rows| !rows.is_empty())
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
        let shown = columns.shown(replay, counter);
        let mut moments: Vec<Moment> = shown.iter().flatten().copied().collect();
        moments.sort_unstable();
        moments.dedup();
        let mut cells = vec![Cell::NONE; moments.len() * height];
        self.holes(replay, &moments, height, &mut cells);
        self.blocks(replay, &moments, height, &mut cells, go_on)?;
        Picture::paint(shown, height, go_on, |at, column| {
            let start = moments.partition_point(|&moment| moment < at) * height;
            column.copy_from_slice(&cells[start..start + height]);
        })
    }

    /// Paints what is held at each moment, a column each.
    fn holes(&self, replay: &Replay, moments: &[Moment], height: usize, cells: &mut [Cell]) {
        replay.held_at_each(moments, |n, held| {
            let start = n * height;
            let Some(held) = held else {
                return cells.copy_within(start - height..start, start);
            };
            let Some(column) = cells.get_mut(start..start + height) else { return };
            for range in held.iter() {
                for rows in self.pixels(range.addr, range.end()) {
                    if let Some(pixels) = column.get_mut(rows) {
                        pixels.fill(Cell::HOLE);
                    }
                }
            }
        });
    }

    /// Paints every allocation into the columns that it lives in. Most live between two of them and cost a
    /// comparison; what is painted never overlaps, so that is bounded by the pixels.
    fn blocks(
        &self,
        replay: &Replay,
        moments: &[Moment],
        height: usize,
        cells: &mut [Cell],
        go_on: &dyn Fn() -> bool,
    ) -> Option<()> {
        let (Some(&first), Some(&last)) = (moments.first(), moments.last()) else { return Some(()) };
        let (allocations, source) = (replay.allocations(), replay.source());
        let born = replay.live(first).into_iter().chain(source.opened_between(first, last));
        let mut from = 0;
        for (n, index) in born.enumerate() {
            if n.is_multiple_of(STRIDE) && !go_on() {
                return None;
            }
            let (opened, closed) = (allocations.opened[index.index()], allocations.closed[index.index()]);
            // They come nearly in order of birth, so the first column is at hand.
            if from > 0 && moments[from - 1] >= opened {
                from = moments.partition_point(|&at| at < opened);
            }
            while moments.get(from).is_some_and(|&at| at < opened) {
                from += 1;
            }
            if moments.get(from).is_none_or(|&at| closed <= at) {
                continue;
            }
            let to = from + moments[from..].partition_point(|&at| at < closed);
            let addr = allocations.addr[index.index()];
            for rows in self.pixels(addr, addr.saturating_add(allocations.size[index.index()])) {
                for column in cells[from * height..to * height].chunks_exact_mut(height.max(1)) {
                    if let Some(pixels) = column.get_mut(rows.clone()) {
                        pixels.fill(Cell::of(index));
                    }
                }
            }
        }
        Some(())
    }
}
