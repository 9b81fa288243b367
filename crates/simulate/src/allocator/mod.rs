//! PyTorch's caching allocator as of 2.11 (`CUDACachingAllocator.cpp`), without a device behind it.
//!
//! `malloc` below is the order of things on a request: best fit, garbage collection, a new segment, release of
//! oversize blocks, release of everything, failure. `release.rs` gives memory back, `expandable.rs` maps and unmaps.

mod blocks;
mod expandable;
mod release;

use serde::Serialize;

use crate::addresses::Addresses;
use crate::requests::{Action, Place};
use crate::settings::{MIN_BLOCK, SMALL_REQUEST, Settings};
use blocks::{Bin, Block, Blocks, NONE, State};

pub(crate) use blocks::BlockId;

/// PyTorch's counters, in bytes or calls, and the highest that each of the first four was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "named as in torch.cuda.memory_stats()")]
pub struct Counters {
    pub requested: u64,
    pub allocated: u64,
    pub active: u64,
    pub reserved: u64,
    pub requested_peak: u64,
    pub allocated_peak: u64,
    pub active_peak: u64,
    pub reserved_peak: u64,
    /// Bytes in free blocks of partly used segments; expandable segments do not count.
    pub inactive_split: u64,
    /// Segments; expandable ones do not count.
    pub segments: u64,
    pub device_allocs: u64,
    pub device_frees: u64,
    pub retries: u64,
    /// Times that garbage collection freed something.
    pub gc_runs: u64,
}

/// A range held from the device at the end, with its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedSegment {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Pool and stream.
    pub place: Place,
    /// Whether it serves requests up to 1 MiB.
    pub small: bool,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// First address, bytes, and whether it is in use, by address.
    pub blocks: Vec<(u64, u64, bool)>,
}

/// The simulated allocator.
pub(crate) struct Allocator<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) counters: Counters,
    /// Calls to the device during the current step, where somebody listens.
    pub(crate) calls: Option<Vec<(Action, u64, u64)>>,
    blocks: Blocks,
    places: Vec<Place>,
    /// Bins by place: small, large. Created at first use.
    bins: Vec<[u16; 2]>,
    /// The order in which bins are emptied.
    release_order: Vec<u16>,
    /// Searches of each pool (small and large apart), which is how garbage collection measures age.
    searches: Vec<u32>,
    /// Blocks that wait for another stream, with what was asked for and by which allocation: when one no longer waits,
    /// its number may be that of another block.
    pending: Vec<(BlockId, u64, usize)>,
    addresses: Addresses<'a>,
}

const NO_BIN: u16 = u16::MAX;

impl<'a> Allocator<'a> {
    pub(crate) fn new(settings: &'a Settings, places: &[Place], addresses: Addresses<'a>) -> Self {
        Self {
            settings,
            counters: Counters::default(),
            calls: None,
            blocks: Blocks::default(),
            places: places.to_vec(),
            bins: vec![[NO_BIN; 2]; places.len()],
            release_order: Vec::new(),
            searches: vec![0; 2 * places.len()],
            pending: Vec::new(),
            addresses,
        }
    }

    /// The step that comes next: addresses may be those of the recording.
    #[inline]
    pub(crate) fn begin_step(&mut self, step: u32) {
        self.addresses.begin_step(step);
    }

    /// Allocates; `None` is out of memory.
    pub(crate) fn malloc(&mut self, requested: u64, place: u16) -> Option<BlockId> {
        let size = self.settings.round(requested);
        let bin = self.bin_of(place, size <= SMALL_REQUEST);
        let found = self.best_fit(bin, size).or_else(|| self.take_from_device(bin, size))?;
        let id = self.cut(found, size);
        let block = self.blocks.get_mut(id);
        block.state = State::Allocated;
        let taken = block.size;
        let counters = &mut self.counters;
        counters.requested += requested;
        counters.allocated += taken;
        counters.active += taken;
        counters.requested_peak = counters.requested_peak.max(counters.requested);
        counters.allocated_peak = counters.allocated_peak.max(counters.allocated);
        counters.active_peak = counters.active_peak.max(counters.active);
        Some(id)
    }

    /// The program lets a block go. `requested` is what its allocation asked for.
    pub(crate) fn release(&mut self, id: BlockId, requested: u64, allocation: usize) {
        let block = self.blocks.get_mut(id);
        if block.state == State::Allocated {
            block.state = State::Pending;
            let size = block.size;
            self.counters.allocated -= size;
            self.pending.push((id, requested, allocation));
        }
    }

    /// No stream uses the block of an allocation any more.
    pub(crate) fn complete(&mut self, allocation: usize) {
        // Nearly always the newest. None if the allocator has waited for all streams since.
        if let Some(at) = self.pending.iter().rposition(|&(_, _, pending)| pending == allocation) {
            let (id, requested, _) = self.pending.swap_remove(at);
            self.free_block(id, requested);
        }
    }

    fn free_block(&mut self, id: BlockId, requested: u64) {
        let block = self.blocks.get_mut(id);
        let (size, expandable, was_split) = (block.size, block.expandable, block.is_split());
        block.state = State::Free;
        self.counters.active -= size;
        self.counters.requested -= requested;
        let Block { prev, next, .. } = *block;
        self.blocks.merge(id, prev);
        self.blocks.merge(id, next);
        let now = self.age_now(id);
        self.blocks.put(id, now);
        if !expandable && was_split {
            let block = self.blocks.get(id);
            let (split, whole) = (block.is_split(), block.size);
            if split {
                self.counters.inactive_split += size;
            } else {
                // Its neighbours were counted, and are now part of an unsplit block.
                self.counters.inactive_split -= whole - size;
            }
        }
    }

    fn bin_of(&mut self, place: u16, small: bool) -> u16 {
        let column = usize::from(!small);
        let known = self.bins[place as usize][column];
        if known != NO_BIN {
            return known;
        }
        let at = self.places[place as usize];
        let pool = self.places.iter().position(|other| other.pool == at.pool).unwrap_or_default();
        let bin = self.blocks.bins.len() as u16;
        self.blocks.bins.push(Bin {
            small,
            private: at.is_private(),
            stream: at.stream,
            pool: (2 * pool + column) as u16,
            ..Bin::default()
        });
        self.bins[place as usize][column] = bin;
        // Large before small, streams by their handles. Pools that are in use are never emptied.
        self.release_order = (0..self.blocks.bins.len() as u16).collect();
        self.release_order.retain(|&bin| !self.blocks.bins[bin as usize].private);
        self.release_order.sort_by_key(|&bin| {
            let bin = &self.blocks.bins[bin as usize];
            (bin.small, bin.stream)
        });
        bin
    }

    /// The age that a block of this bin would have if it became free now.
    fn age_now(&self, id: BlockId) -> u32 {
        let bin = self.blocks.get(id).bin;
        self.searches[self.blocks.bins[bin as usize].pool as usize]
    }

    fn best_fit(&mut self, bin: u16, size: u64) -> Option<BlockId> {
        let Bin { free, pool, .. } = &self.blocks.bins[bin as usize];
        self.searches[*pool as usize] += 1;
        let mut fits = free.range((size, 0)..);
        let (&(mut found, _), &(mut best)) = fits.next()?;
        if self.settings.expandable {
            // A block that can grow counts as large as it can become.
            for (&(other_size, _), &other) in fits {
                if self.can_become(other) >= self.can_become(best) {
                    break;
                }
                (found, best) = (other_size, other);
            }
        }
        if self.settings.refuses(size, found) {
            return None;
        }
        self.blocks.take(best);
        let block = self.blocks.get(best);
        if block.is_split() && !block.expandable {
            self.counters.inactive_split -= block.size;
        }
        Some(best)
    }

    /// A block of new memory, in no set.
    fn take_from_device(&mut self, bin: u16, size: u64) -> Option<BlockId> {
        if self.settings.limit.is_some() && self.settings.gc_threshold > 0.0 {
            self.collect_garbage();
        }
        if let Some(id) = self.new_memory(bin, size) {
            return Some(id);
        }
        if self.release_oversize(bin, size)
            && let Some(id) = self.new_memory(bin, size)
        {
            return Some(id);
        }
        // A capture may be under way, or a pool in use: then nothing is released.
        if self.blocks.bins[bin as usize].private {
            return None;
        }
        self.empty_cache();
        self.counters.retries += 1;
        self.new_memory(bin, size)
    }

    fn new_memory(&mut self, bin: u16, size: u64) -> Option<BlockId> {
        let bytes = self.settings.segment_size(size);
        let held = self.counters.reserved.saturating_add(bytes);
        if self.settings.limit.is_some_and(|limit| held > limit) {
            return None;
        }
        if self.settings.expandable {
            return self.grow(bin, size);
        }
        if self.settings.device.is_some_and(|device| held > device) {
            return None;
        }
        let addr = self.addresses.segment(bytes);
        let id = self.blocks.add(addr, bytes, bin, State::Free, false);
        self.counters.segments += 1;
        self.took(Action::Alloc, addr, bytes);
        Some(id)
    }

    fn took(&mut self, action: Action, addr: u64, size: u64) {
        let counters = &mut self.counters;
        counters.reserved += size;
        counters.reserved_peak = counters.reserved_peak.max(counters.reserved);
        counters.device_allocs += 1;
        self.note(action, addr, size);
    }

    fn gave_back(&mut self, action: Action, addr: u64, size: u64) {
        self.counters.reserved -= size;
        self.counters.device_frees += 1;
        self.note(action, addr, size);
    }

    fn note(&mut self, action: Action, addr: u64, size: u64) {
        if let Some(calls) = &mut self.calls {
            calls.push((action, addr, size));
        }
    }

    /// Cuts the front off a block that is in no set, if the rest is worth it.
    fn cut(&mut self, id: BlockId, size: u64) -> BlockId {
        let Block { addr, size: whole, bin, expandable, .. } = *self.blocks.get(id);
        let small = self.blocks.bins[bin as usize].small;
        let rest = whole.saturating_sub(size);
        debug_assert!(whole >= size && size.is_multiple_of(MIN_BLOCK));
        if !self.settings.splits(size, rest, small) {
            return id;
        }
        let front = self.blocks.add(addr, size, bin, State::Free, expandable);
        self.blocks.insert_before(id, front);
        let block = self.blocks.get_mut(id);
        block.addr += size;
        block.size = rest;
        let now = self.age_now(id);
        self.blocks.put(id, now);
        if !expandable {
            self.counters.inactive_split += rest;
        }
        front
    }

    /// Everything held from the device, by address.
    pub(crate) fn segments(&self) -> Vec<SimulatedSegment> {
        let mapped = |id: BlockId| id != NONE && self.blocks.get(id).state != State::Unmapped;
        let heads = self.blocks.iter().filter(|&(id, block)| mapped(id) && !mapped(block.prev));
        let mut segments: Vec<SimulatedSegment> = heads
            .map(|(head, first)| {
                let mut blocks = Vec::new();
                let mut next = head;
                while mapped(next) {
                    let block = self.blocks.get(next);
                    blocks.push((block.addr, block.size, block.state != State::Free));
                    next = block.next;
                }
                let column = usize::from(!self.blocks.bins[first.bin as usize].small);
                let place = self.bins.iter().position(|bins| bins[column] == first.bin).unwrap_or_default();
                SimulatedSegment {
                    addr: first.addr,
                    size: blocks.iter().map(|&(_, size, _)| size).sum(),
                    place: self.places[place],
                    small: column == 0,
                    expandable: first.expandable,
                    blocks,
                }
            })
            .collect();
        segments.sort_by_key(|segment| segment.addr);
        segments
    }

    /// Free bytes in blocks of at least `size` bytes that a request of the default pool could use.
    pub(crate) fn largest_free(&self) -> u64 {
        let bins = self.blocks.bins.iter();
        bins.filter_map(|bin| bin.free.last_key_value()).map(|(&(size, _), _)| size).max().unwrap_or_default()
    }
}
