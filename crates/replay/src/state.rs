//! Memory at one moment: what lives, what is held, and the holes between.

use vramscope_snapshot::PoolId;

use crate::allocations::{AllocIdx, Allocation, Moment};
use crate::counters::Counters;
use crate::ranges::{Range, RangeSet};
use crate::rounding::GRANULE;

/// A free stretch inside a range that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Which of [`State::ranges`] it lies in.
    pub range: usize,
}

impl Hole {
    /// Bytes of the whole pages in it: what an expandable segment can give back.
    pub fn whole_pages(&self) -> u64 {
        let end = self.addr.saturating_add(self.size);
        let first = self.addr.checked_next_multiple_of(GRANULE).unwrap_or(end);
        end.saturating_sub(first) / GRANULE * GRANULE
    }
}

/// The complete map of a device's memory at one moment.
#[derive(Clone, Debug)]
pub struct State {
    /// Which moment.
    pub at: Moment,
    /// The four counters.
    pub counters: Counters,
    /// Live allocations by address, those that await their free included.
    pub live: Vec<AllocIdx>,
    /// The same with what is known of each.
    rows: Vec<Allocation>,
    /// Memory held from the driver, by address.
    pub ranges: Vec<Range>,
    /// What is held and free, by address.
    pub holes: Vec<Hole>,
}

impl State {
    pub(crate) fn new(
        at: Moment,
        counters: Counters,
        mut live: Vec<(AllocIdx, Allocation)>,
        (ranges, workspaces): (&RangeSet, &[u64]),
    ) -> Self {
        live.sort_unstable_by_key(|(index, allocation)| (allocation.addr, *index));
        let (live, rows): (Vec<_>, Vec<_>) = live.into_iter().unzip();
        let ranges: Vec<Range> = ranges.iter().copied().collect();
        let mut holes = Vec::new();
        let mut blocks = rows.iter().map(|row| (row.addr, row.addr.saturating_add(row.size)));
        let mut block = blocks.next();
        for (number, range) in ranges.iter().enumerate() {
            let mut free_from = range.addr;
            while let Some((start, end)) = block
                && start < range.end()
            {
                if start > free_from {
                    holes.push(Hole { addr: free_from, size: start - free_from, range: number });
                }
                free_from = free_from.max(end);
                block = blocks.next();
            }
            if free_from < range.end() && workspaces.binary_search(&range.addr).is_err() {
                holes.push(Hole { addr: free_from, size: range.end() - free_from, range: number });
            }
        }
        Self { at, counters, live, rows, ranges, holes }
    }

    /// The live allocations by address, with what is known of each.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = (AllocIdx, Allocation)> + Clone + '_ {
        self.live.iter().copied().zip(self.rows.iter().copied())
    }

    /// How many of them begin before an address.
    pub fn live_before(&self, addr: u64) -> usize {
        self.rows.partition_point(|row| row.addr < addr)
    }

    /// Bytes of the largest hole: the largest request that fits without more memory from the driver,
    /// if its pool and stream match.
    pub fn largest_hole(&self) -> u64 {
        self.holes.iter().map(|hole| hole.size).max().unwrap_or_default()
    }

    /// The range that an address lies in.
    pub fn range_of(&self, addr: u64) -> Option<&Range> {
        let after = self.ranges.partition_point(|range| range.addr <= addr);
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).filter(|range| addr < range.end())
    }

    /// The pool of an allocation: as its event says, or else that of the range around it.
    pub fn pool_of(&self, addr: u64, stated: PoolId) -> PoolId {
        if stated != PoolId::UNKNOWN {
            stated
        } else {
            self.range_of(addr).map_or(stated, |range| range.pool)
        }
    }
}
