//! The part of the simulated allocator that deals with expandable segments.
//!
//! An expandable segment is one reservation of addresses, larger than the device, whose pages get memory when
//! they are needed (`segment_map`) and lose it when nothing on them is in use (`segment_unmap`). Ranges without
//! memory are blocks of the same list, in the state [`State::Unmapped`].

use super::{Allocator, Bin, BlockId};
use crate::trace::{Action, Context, Counters, Event, State};

impl<S: FnMut(&Event, &Counters)> Allocator<S> {
    /// How large a free block can become by mapping what follows it.
    pub(super) fn can_grow_to(&self, id: BlockId) -> u64 {
        let block = self.block(id);
        let next = block.next.map(|next| self.block(next));
        block.size + next.filter(|next| next.state == State::Unmapped).map_or(0, |next| next.size)
    }

    /// Maps memory until a free block of this size exists, and takes it. `None` when the device is full.
    pub(super) fn grow(&mut self, bin: Bin, size: u64, context: Option<Context>) -> Option<BlockId> {
        let mut id = self.room(bin, size);
        if self.block(id).state == State::Unmapped {
            let first = size.min(self.block(id).size);
            id = self.map(id, first, context)?;
        }
        while self.block(id).size < size {
            let next = self.block(id).next.unwrap();
            let rest = (size - self.block(id).size).min(self.block(next).size);
            id = self.map(next, rest, context)?;
        }
        self.remove_free(id);
        Some(id)
    }

    /// The lowest place with enough free or unmapped addresses; a new reservation if there is none.
    fn room(&mut self, bin: Bin, size: u64) -> BlockId {
        let unmapped = self.free.get(&bin).map(|free| free.unmapped.iter()).into_iter().flatten();
        for (_, id) in unmapped {
            let before = self.block(*id).prev.filter(|prev| self.is_free(*prev));
            let start = before.unwrap_or(*id);
            let (mut bytes, mut next) = (0, Some(start));
            while let Some(id) = next.filter(|id| bytes < size && self.is_free(*id)) {
                bytes += self.block(id).size;
                next = self.block(id).next;
            }
            if bytes >= size {
                return start;
            }
        }
        let bytes = (self.config.capacity / 8 * 9).next_multiple_of(bin.page());
        let addr = self.space.reserve(bytes);
        let id = self.add_block(addr, bytes, bin, State::Unmapped, Some(addr));
        self.insert_free(id);
        id
    }

    fn is_free(&self, id: BlockId) -> bool {
        matches!(self.block(id).state, State::Inactive | State::Unmapped)
    }

    /// Maps the pages under the first `size` bytes of an unmapped block. The result is among the free blocks.
    fn map(&mut self, id: BlockId, size: u64, context: Option<Context>) -> Option<BlockId> {
        let (addr, all, bin, reservation) = {
            let block = self.block(id);
            (block.addr, block.size, block.bin, block.reservation)
        };
        let bytes = size.next_multiple_of(bin.page());
        if self.counters.reserved + bytes > self.config.capacity {
            return None;
        }
        self.remove_free(id);
        let block = self.block_mut(id);
        (block.state, block.size) = (State::Inactive, bytes);
        if bytes < all {
            let next = block.next;
            let rest = self.add_block(addr + bytes, all - bytes, bin, State::Unmapped, reservation);
            self.link_between(Some(id), rest, next);
            self.insert_free(rest);
        }
        self.merge_neighbours(id);
        self.insert_free(id);
        self.counters.reserved += bytes;
        self.emit(Action::SegmentMap, addr, bytes, bin, context);
        let block = self.block_mut(id);
        if block.prev.is_none() && block.segment_context.is_none() {
            block.segment_context = context;
        }
        Some(id)
    }

    /// Takes the memory from every page that lies wholly in this free block.
    pub(super) fn unmap(&mut self, id: BlockId, context: Option<Context>) {
        let (addr, size, bin, reservation, segment_context) = {
            let block = self.block(id);
            (block.addr, block.size, block.bin, block.reservation, block.segment_context)
        };
        let (page, base) = (bin.page(), reservation.unwrap());
        let start = base + (addr - base).next_multiple_of(page);
        let end = base + (addr + size - base) / page * page;
        if start >= end {
            return;
        }
        self.remove_free(id);
        if start > addr {
            let before = self.add_block(addr, start - addr, bin, State::Inactive, reservation);
            self.link_between(self.block(id).prev, before, Some(id));
            self.insert_free(before);
        }
        if addr + size > end {
            let after = self.add_block(end, addr + size - end, bin, State::Inactive, reservation);
            self.link_between(Some(id), after, self.block(id).next);
            self.insert_free(after);
        }
        let block = self.block_mut(id);
        (block.addr, block.size, block.state) = (start, end - start, State::Unmapped);
        self.merge_neighbours(id);
        self.insert_free(id);
        self.counters.reserved -= end - start;
        self.emit(Action::SegmentUnmap, start, end - start, bin, context.or(segment_context));
        let block = self.block(id);
        if block.prev.is_none() && block.next.is_none() {
            let (addr, size) = (block.addr, block.size);
            self.remove_free(id);
            self.remove_block(id);
            self.space.release(addr, size);
        }
    }
}
