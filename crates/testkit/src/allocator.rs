//! A simulation of PyTorch's CUDA caching allocator that emits the trace events PyTorch would record and keeps
//! PyTorch's four counters by itself. It is the judge of a replay, so it shares no code with one: it goes
//! forward from requests to events, a replay goes backward from events to blocks.
//!
//! Followed: `CUDACachingAllocator.cpp` as of PyTorch 2.11. Blocks of one segment form a list; free blocks of
//! a (stream, pool id, small or large) are kept by size, and the smallest that fits is taken. Not simulated:
//! garbage collection by threshold, graph capture, and pool use counts (private pools are never emptied).

use std::collections::BTreeMap;

mod blocks;
mod config;
mod expandable;
mod space;

use blocks::{Bin, Block, Free};
use config::{LARGE_SEGMENT, SMALL_REQUEST, SMALL_SEGMENT};
use space::AddressSpace;

pub use blocks::BlockId;
pub use config::{Config, Stacks};

use crate::trace::{Action, BlockInfo, Context, Counters, Event, PoolId, SegmentInfo, State};

/// The simulated allocator of one device. `sink` gets every recorded event and the counters after it.
pub struct Allocator<S> {
    config: Config,
    sink: S,
    recording: bool,
    /// The clock; every event takes a microsecond. The program moves it on.
    pub time_us: i64,
    blocks: Vec<Block>,
    unused: Vec<BlockId>,
    free: BTreeMap<Bin, Free>,
    pending: Vec<BlockId>,
    ready: Vec<BlockId>,
    space: AddressSpace,
    counters: Counters,
    peaks: Counters,
    next_context: u32,
    events: u64,
}

impl<S: FnMut(&Event, &Counters)> Allocator<S> {
    /// An empty device whose events are recorded.
    pub fn new(config: Config, sink: S) -> Self {
        assert!(config.max_split() >= LARGE_SEGMENT, "PyTorch refuses a max_split_size under 20 MiB");
        let space = AddressSpace::new(config.base, 1 << 46);
        Self {
            config,
            sink,
            recording: true,
            time_us: 0,
            blocks: Vec::new(),
            unused: Vec::new(),
            free: BTreeMap::new(),
            pending: Vec::new(),
            ready: Vec::new(),
            space,
            counters: Counters::default(),
            peaks: Counters::default(),
            next_context: 0,
            events: 0,
        }
    }

    /// Switches the recording of events and stacks off or on; memory is counted all the same.
    pub fn set_recording(&mut self, recording: bool) {
        self.recording = recording;
    }

    /// The counters now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The highest that each counter has been.
    pub fn peaks(&self) -> Counters {
        self.peaks
    }

    /// The number of events so far, recorded or not.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number of contexts that were captured; their serials are below it.
    pub fn contexts(&self) -> u32 {
        self.next_context
    }

    /// Allocates. `None` is out of memory.
    pub fn malloc(&mut self, requested: u64, stream: u64, pool: PoolId, site: u32) -> Option<BlockId> {
        let context = self.capture(site, Stacks::State);
        for id in std::mem::take(&mut self.ready) {
            self.complete(id, context);
        }
        let size = self.config.round(requested);
        let bin = Bin { pool, small: size <= SMALL_REQUEST, stream };
        let mut found = self.best_fit(bin, size);
        if found.is_none() {
            found = self.new_memory(bin, size, context);
        }
        if found.is_none() && self.release_oversize(bin, size, context) {
            found = self.new_memory(bin, size, context);
        }
        if found.is_none() {
            self.release_cached(context);
            found = self.new_memory(bin, size, context);
        }
        let Some(mut id) = found else {
            let device_free = self.config.capacity - self.counters.reserved;
            self.emit(Action::Oom, device_free, size, bin, context);
            return None;
        };
        let rest = self.block(id).size - size;
        if self.config.splits(size, rest) {
            id = self.split_front(id, size);
        }
        let block = self.block_mut(id);
        (block.state, block.requested, block.context) = (State::Allocated, requested, context);
        let (addr, taken) = (block.addr, block.size);
        self.counters.requested += requested;
        self.counters.allocated += taken;
        self.counters.active += taken;
        self.emit(Action::Alloc, addr, requested, bin, context);
        Some(id)
    }

    /// Frees a block at once.
    pub fn free(&mut self, id: BlockId, site: u32) {
        let context = self.request_free(id, site);
        self.complete(id, context);
    }

    /// Frees a block that another stream still uses: the memory comes back after [`Allocator::stream_done`].
    pub fn free_deferred(&mut self, id: BlockId, site: u32) {
        self.request_free(id, site);
        self.block_mut(id).state = State::PendingFree;
        self.pending.push(id);
    }

    /// The other stream is done with a deferred block; the next allocation notices.
    pub fn stream_done(&mut self, id: BlockId) {
        if let Some(at) = self.pending.iter().position(|pending| *pending == id) {
            self.pending.remove(at);
            self.ready.push(id);
        }
    }

    /// Gives all free memory of the default pool back to the device.
    pub fn empty_cache(&mut self, site: u32) {
        let context = self.capture(site, Stacks::All);
        self.release_cached(context);
    }

    /// Records the marker of a snapshot that was taken now.
    pub fn snapshot_marker(&mut self) {
        let active = self.counters.active;
        self.emit(Action::Snapshot, 0, active, Bin { pool: (0, 0), small: false, stream: 0 }, None);
    }

    /// The segments and their blocks now, by address.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let mapped = |id: BlockId| self.block(id).state != State::Unmapped;
        let ids = (0..self.blocks.len()).map(|i| BlockId(i as u32));
        let heads = ids.filter(|id| {
            let block = self.block(*id);
            block.alive && mapped(*id) && !block.prev.is_some_and(mapped)
        });
        let mut segments: Vec<SegmentInfo> = heads.map(|head| self.segment(head)).collect();
        segments.sort_by_key(|segment| segment.addr);
        segments
    }

    fn segment(&self, head: BlockId) -> SegmentInfo {
        let (mut bytes, mut blocks) = (Counters::default(), Vec::new());
        let mut next = Some(head);
        while let Some(block) = next.map(|id| self.block(id)).filter(|block| block.state != State::Unmapped) {
            let Block { addr, size, requested, state, context, .. } = *block;
            bytes.reserved += size;
            if state == State::Allocated {
                bytes.allocated += size;
            }
            if state != State::Inactive {
                bytes.active += size;
                bytes.requested += requested;
            }
            blocks.push(BlockInfo { addr, size, requested, state, context });
            next = block.next;
        }
        let Block { addr, bin, segment_context: context, .. } = *self.block(head);
        SegmentInfo { addr, bytes, stream: bin.stream, small: bin.small, pool: bin.pool, context, blocks }
    }

    /// A new context, if stacks are kept at this level.
    fn capture(&mut self, site: u32, level: Stacks) -> Option<Context> {
        if !self.recording || self.config.stacks < level {
            return None;
        }
        let serial = self.next_context;
        self.next_context += 1;
        Some(Context { serial, site })
    }

    fn emit(&mut self, action: Action, addr: u64, size: u64, bin: Bin, context: Option<Context>) {
        self.peaks = self.peaks.max(self.counters);
        self.time_us += 1;
        self.events += 1;
        if self.recording {
            let context = context.filter(|_| self.config.stacks >= Stacks::Alloc);
            let Bin { stream, pool, .. } = bin;
            let event = Event { action, addr, size, stream, pool, time_us: self.time_us, context };
            (self.sink)(&event, &self.counters);
        }
    }

    fn request_free(&mut self, id: BlockId, site: u32) -> Option<Context> {
        let context = self.capture(site, Stacks::All);
        let block = self.block(id);
        assert_eq!(block.state, State::Allocated, "freed twice");
        let (addr, size, requested, bin) = (block.addr, block.size, block.requested, block.bin);
        let shown = context.or(block.context);
        self.counters.allocated -= size;
        self.emit(Action::FreeRequested, addr, requested, bin, shown);
        context
    }

    /// Returns a block to the free ones and merges it with its free neighbours.
    fn complete(&mut self, id: BlockId, context: Option<Context>) {
        let block = self.block_mut(id);
        let (addr, size, requested, bin) = (block.addr, block.size, block.requested, block.bin);
        block.state = State::Inactive;
        let context = context.or(block.context.take());
        block.context = None;
        self.counters.active -= size;
        self.counters.requested -= requested;
        self.emit(Action::FreeCompleted, addr, requested, bin, context);
        self.merge_neighbours(id);
        self.insert_free(id);
    }

    fn best_fit(&mut self, bin: Bin, size: u64) -> Option<BlockId> {
        let free = self.free.get(&bin)?;
        let mut fits = free.blocks.range((size, 0, BlockId(0))..);
        let mut best = *fits.next()?;
        if self.config.expandable {
            // A block counts as large as it can grow; among those that fit, take it only if none is smaller.
            for other in fits {
                if self.block(best.2).next.is_none() || self.can_grow_to(other.2) >= self.can_grow_to(best.2)
                {
                    break;
                }
                best = *other;
            }
        }
        let oversize = self.config.max_split();
        let too_large = if size < oversize { best.0 >= oversize } else { best.0 >= size + LARGE_SEGMENT };
        if too_large {
            return None;
        }
        self.remove_free(best.2);
        Some(best.2)
    }

    fn new_memory(&mut self, bin: Bin, size: u64, context: Option<Context>) -> Option<BlockId> {
        if self.config.expandable {
            return self.grow(bin, size, context);
        }
        let bytes = match size {
            ..=SMALL_REQUEST => SMALL_SEGMENT,
            _ if size < LARGE_SEGMENT / 2 => LARGE_SEGMENT,
            _ => size.next_multiple_of(SMALL_SEGMENT),
        };
        if self.counters.reserved + bytes > self.config.capacity {
            return None;
        }
        let addr = self.space.reserve(bytes);
        let id = self.add_block(addr, bytes, bin, State::Inactive, None);
        self.block_mut(id).segment_context = context;
        self.counters.reserved += bytes;
        self.emit(Action::SegmentAlloc, addr, bytes, bin, context);
        Some(id)
    }

    /// With a `max_split_size`: gives back oversize blocks of this bin, just enough for the request.
    fn release_oversize(&mut self, bin: Bin, size: u64, context: Option<Context>) -> bool {
        let Some(oversize) = self.config.max_split_size.filter(|_| !self.config.expandable) else {
            return false;
        };
        let Some(free) = self.free.get(&bin) else { return false };
        let wanted = size.max(oversize);
        if let Some((_, _, id)) = free.blocks.range((wanted, 0, BlockId(0))..).next() {
            self.release_segment(*id, context);
            return true;
        }
        let mut released = 0;
        while released < wanted {
            let Some((size, _, id)) = self.free[&bin].blocks.last().copied() else { return false };
            if size < oversize {
                return false;
            }
            self.release_segment(id, context);
            released += size;
        }
        true
    }

    /// Waits for all streams, then gives back every segment (or page) of the default pool that is wholly free.
    fn release_cached(&mut self, context: Option<Context>) {
        for id in std::mem::take(&mut self.ready).into_iter().chain(std::mem::take(&mut self.pending)) {
            self.complete(id, context);
        }
        let bins = self.free.keys().copied().filter(|bin| bin.pool == (0, 0));
        // PyTorch empties the large blocks first.
        let mut bins: Vec<Bin> = bins.collect();
        bins.sort_by_key(|bin| (bin.small, bin.stream));
        for bin in bins {
            let ids: Vec<BlockId> = self.free[&bin].blocks.iter().map(|(_, _, id)| *id).collect();
            for id in ids {
                let block = self.block(id);
                if block.reservation.is_some() {
                    self.unmap(id, context);
                } else if block.prev.is_none() && block.next.is_none() {
                    self.release_segment(id, context);
                }
            }
        }
    }

    fn release_segment(&mut self, id: BlockId, context: Option<Context>) {
        let block = self.block(id);
        assert!(block.prev.is_none() && block.next.is_none(), "only a whole segment can be given back");
        let (addr, size, bin, context) =
            (block.addr, block.size, block.bin, context.or(block.segment_context));
        self.remove_free(id);
        self.remove_block(id);
        self.space.release(addr, size);
        self.counters.reserved -= size;
        self.emit(Action::SegmentFree, addr, size, bin, context);
    }
}

#[cfg(test)]
mod tests;
