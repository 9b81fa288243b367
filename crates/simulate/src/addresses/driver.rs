//! A model of how the driver places segments, as seen on an H200.
//!
//! The driver takes *regions* of addresses, multiples of 32 MiB, from the top of the highest gap that is larger, and
//! cuts segments from them: a segment goes into the newest region with a hole that is large enough, there into the
//! smallest such hole, at its low end. A region that becomes wholly free goes back.

use std::collections::BTreeMap;

/// Regions are multiples of this.
pub(super) const REGION: u64 = 32 << 20;
/// Where addresses end.
const TOP: u64 = 1 << 47;

#[derive(Clone, Debug)]
pub(super) struct Driver {
    /// Oldest first.
    regions: Vec<Region>,
    /// Addresses that no region has: first and end.
    gaps: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug)]
struct Region {
    start: u64,
    end: u64,
    /// First address and end of each hole, by address.
    holes: Vec<(u64, u64)>,
    /// Parts of it are the driver's own, so that it never goes back.
    shared: bool,
}

impl Region {
    /// Takes addresses out of the holes. Says whether any were in one.
    fn cut(&mut self, start: u64, end: u64) -> bool {
        if self.end <= start || end <= self.start {
            return false;
        }
        let mut found = false;
        for (from, to) in std::mem::take(&mut self.holes) {
            if to <= start || end <= from {
                self.holes.push((from, to));
                continue;
            }
            found = true;
            self.holes.extend([(from, start), (end, to)].into_iter().filter(|(from, to)| from < to));
        }
        found
    }
}

impl Driver {
    pub(super) fn new() -> Self {
        Self { regions: Vec::new(), gaps: BTreeMap::from([(0, TOP)]) }
    }

    /// Where the next segment of this size would go.
    pub(super) fn predict(&self, size: u64) -> u64 {
        self.hole(size).map_or_else(|| self.region(size), |(region, hole)| self.regions[region].holes[hole].0)
    }

    pub(super) fn alloc(&mut self, size: u64) -> u64 {
        let addr = self.predict(size);
        self.place(addr, size);
        addr
    }

    /// The newest region with a hole that fits, and its smallest hole that does.
    fn hole(&self, size: u64) -> Option<(usize, usize)> {
        self.regions.iter().enumerate().rev().find_map(|(at, region)| {
            let holes = region.holes.iter().enumerate();
            let fits = holes.filter(|(_, (start, end))| end - start >= size);
            fits.min_by_key(|(_, (start, end))| end - start).map(|(hole, _)| (at, hole))
        })
    }

    /// The start of a new region for a segment of this size.
    fn region(&self, size: u64) -> u64 {
        let bytes = size.next_multiple_of(REGION);
        let gap = self.gaps.iter().rev().find(|(start, end)| **end - **start > bytes);
        gap.map_or(0, |(_, end)| end - bytes)
    }

    /// Puts a segment at an address, wherever that is in the model.
    pub(super) fn place(&mut self, addr: u64, size: u64) {
        let end = addr.saturating_add(size);
        let end_of_region = addr.saturating_add(size.checked_next_multiple_of(REGION).unwrap_or(size));
        let known = self.regions.iter().any(|region| region.start < end && addr < region.end);
        if !known && addr.is_multiple_of(REGION) && self.is_in_gap(addr, end_of_region) {
            self.cut_gap(addr, end_of_region);
            let holes = vec![(addr, end_of_region)];
            self.regions.push(Region { start: addr, end: end_of_region, holes, shared: false });
        } else if !known {
            // Somewhere in memory of the driver's own.
            self.open(addr, end);
        }
        self.cut_gap(addr, end);
        for region in &mut self.regions {
            region.cut(addr, end);
        }
    }

    fn gap_around(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&from, &to) = self.gaps.range(..=start).next_back()?;
        (end <= to).then_some((from, to))
    }

    /// Takes addresses out of the gaps.
    fn cut_gap(&mut self, start: u64, end: u64) {
        let touched: Vec<(u64, u64)> = self
            .gaps
            .range(..end)
            .rev()
            .take_while(|(_, to)| **to > start)
            .map(|(&from, &to)| (from, to))
            .collect();
        for (from, to) in touched {
            self.gaps.remove(&from);
            if from < start {
                self.gaps.insert(from, start);
            }
            if to > end {
                self.gaps.insert(end, to);
            }
        }
    }

    pub(super) fn free(&mut self, addr: u64, size: u64) {
        let Some(at) = self.regions.iter().position(|region| (region.start..region.end).contains(&addr))
        else {
            return;
        };
        let region = &mut self.regions[at];
        let (mut start, mut end) = (addr, addr.saturating_add(size).min(region.end));
        region.holes.retain(|&(from, to)| {
            let touches = to == start || from == end;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        let place = region.holes.partition_point(|&(from, _)| from < start);
        region.holes.insert(place, (start, end));
        if !region.shared && (start, end) == (region.start, region.end) {
            self.regions.remove(at);
            if let Some((from, _)) = self.gaps.range(..start).next_back().filter(|(_, to)| **to == start) {
                start = *from;
            }
            if let Some(to) = self.gaps.remove(&end) {
                end = to;
            }
            self.gaps.insert(start, end);
        }
    }

    /// These addresses turn out to be a hole in memory of the driver's own.
    pub(super) fn open(&mut self, start: u64, end: u64) {
        if self.regions.iter().any(|region| region.start < end && start < region.end) {
            return;
        }
        self.cut_gap(start / REGION * REGION, end.checked_next_multiple_of(REGION).unwrap_or(end));
        self.regions.push(Region { start, end, holes: vec![(start, end)], shared: true });
    }

    /// These addresses turn out to be the driver's own, as far as they are free.
    pub(super) fn block(&mut self, start: u64, end: u64) {
        self.cut_gap(start, end);
        for region in &mut self.regions {
            region.shared |= region.cut(start, end);
        }
    }

    /// What must be the driver's own if a region of `bytes` starts here: all room that it would have taken first.
    pub(super) fn passed_over(&self, addr: u64, bytes: u64) -> Vec<(u64, u64)> {
        let end = addr.saturating_add(bytes);
        let mut passed = Vec::new();
        for (&from, &to) in self.gaps.iter().rev() {
            if to <= addr {
                break;
            }
            if from <= addr {
                if end < to {
                    passed.push((end, to));
                }
                break;
            }
            if to - from > bytes {
                passed.push((from, to));
            }
        }
        passed
    }

    /// The rest of the hole from its low end to `addr`, if the segment lies in one.
    pub(super) fn hole_before(&self, addr: u64) -> Option<(u64, u64)> {
        let holes = self.regions.iter().flat_map(|region| &region.holes);
        holes.copied().find(|&(start, end)| start < addr && addr < end).map(|(start, _)| (start, addr))
    }

    /// Whether these addresses are in no region.
    pub(super) fn is_in_gap(&self, start: u64, end: u64) -> bool {
        self.gap_around(start, end).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The first segments of a real run (churn under its default settings), relative to the top of the gap.
    #[test]
    fn segments_of_a_real_run() {
        let mut driver = Driver::new();
        let top = TOP / MIB;
        let sizes = [40, 2, 86, 86, 14, 86, 22, 86, 86, 202, 202, 2, 86, 2, 202];
        let expected = [64, 24, 160, 256, 22, 352, 384, 480, 576, 800, 1024, 822, 1120, 1034, 1344];
        for (size, below) in sizes.into_iter().zip(expected) {
            assert_eq!(driver.alloc(size * MIB) / MIB, top - below, "{size} MiB");
        }
    }

    #[test]
    fn wholly_free_regions_go_back() {
        let mut driver = Driver::new();
        let [first, second, third] = [86, 202, 40].map(|size| driver.alloc(size * MIB));
        driver.free(first, 86 * MIB);
        // The gap of 96 MiB is not larger than the region that is wanted.
        assert!(driver.alloc(90 * MIB) < third);
        driver.free(second, 202 * MIB);
        // 96 + 224 MiB: from its top.
        assert_eq!(driver.alloc(202 * MIB), TOP - 224 * MIB);
    }
}
