//! Giving memory back to the device.

use super::blocks::{BlockId, State};
use super::{Action, Allocator};

impl Allocator<'_> {
    /// Waits for all streams, then gives back every unused segment of the default pool: large ones first.
    pub(crate) fn empty_cache(&mut self) {
        for (id, requested, _) in std::mem::take(&mut self.pending) {
            self.free_block(id, requested);
        }
        let mut ids = Vec::new();
        for at in 0..self.release_order.len() {
            let bin = self.release_order[at] as usize;
            ids.clear();
            ids.extend(self.blocks.bins[bin].free.values());
            // Segments go while the set is walked, pages of expandable segments afterwards.
            for &id in &ids {
                let block = self.blocks.get(id);
                if !block.expandable && !block.is_split() {
                    self.release_segment(id);
                }
            }
            for &id in &ids {
                let block = self.blocks.get(id);
                if block.expandable && block.state == State::Free {
                    self.unmap(id);
                }
            }
        }
    }

    /// With a largest size to split: gives back oversize blocks of this bin, just enough for the request.
    pub(super) fn release_oversize(&mut self, bin: u16, size: u64) -> bool {
        let Some(max) = self.settings.max_split else { return false };
        let wanted = size.max(max);
        let free = &self.blocks.bins[bin as usize].free;
        if let Some((_, &id)) = free.range((wanted, 0)..).next() {
            if self.blocks.get(id).expandable {
                return false;
            }
            self.release_segment(id);
            return true;
        }
        let largest_first: Vec<BlockId> = free.range((max, 0)..).rev().map(|(_, &id)| id).collect();
        let mut released = 0;
        for id in largest_first {
            if released >= wanted {
                break;
            }
            let block = self.blocks.get(id);
            if !block.expandable {
                released += block.size;
                self.release_segment(id);
            }
        }
        released >= wanted
    }

    /// Gives back unsplit large blocks of the default pool that have not been used for long, all streams.
    pub(super) fn collect_garbage(&mut self) {
        let limit = self.settings.limit.unwrap_or(u64::MAX);
        let threshold = (self.settings.gc_threshold * limit as f64) as u64;
        if self.counters.reserved <= threshold {
            return;
        }
        let target = self.counters.reserved - threshold;
        let mut old: Vec<(BlockId, u32)> = Vec::new();
        for &bin in &self.release_order {
            let bin = &self.blocks.bins[bin as usize];
            if bin.small {
                continue;
            }
            let now = self.searches[bin.pool as usize];
            let unsplit = bin.free.values().filter(|&&id| {
                let block = self.blocks.get(id);
                !block.is_split() && !block.expandable
            });
            old.extend(unsplit.map(|&id| (id, now - self.blocks.get(id).since)));
        }
        let mut ages: f64 = old.iter().map(|&(_, age)| f64::from(age)).sum();
        let (mut reclaimed, mut freed) = (0, true);
        while reclaimed < target && freed && !old.is_empty() {
            let mean = ages / old.len() as f64;
            freed = false;
            let mut kept = Vec::new();
            for (id, age) in old {
                if f64::from(age) < mean {
                    kept.push((id, age));
                    continue;
                }
                self.counters.gc_runs += u64::from(reclaimed == 0);
                freed = true;
                reclaimed += self.blocks.get(id).size;
                ages -= f64::from(age);
                self.release_segment(id);
            }
            old = kept;
        }
    }

    fn release_segment(&mut self, id: BlockId) {
        self.blocks.take(id);
        let block = *self.blocks.get(id);
        self.blocks.remove(id);
        self.counters.segments = self.counters.segments.saturating_sub(1);
        self.addresses.release_segment(block.addr, block.size);
        self.gave_back(Action::Free, block.addr, block.size);
    }
}
