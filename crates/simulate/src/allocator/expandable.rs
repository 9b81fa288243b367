//! Expandable segments: one large reservation of addresses for each place, whose pages get memory as they are
//! needed and lose it when nothing on them is in use.

use super::blocks::{Block, BlockId, NONE, State};
use super::{Action, Allocator};

/// A reservation is this much of the device, so that a fragmented one still has room.
const RESERVED_EIGHTHS: u64 = 9;
/// The device's size where nobody says it. Only has to be larger than any program needs.
const ANY_DEVICE: u64 = 1 << 40;

impl Allocator<'_> {
    /// How large a free block can become by mapping what follows it.
    pub(super) fn can_become(&self, id: BlockId) -> u64 {
        let Block { size, next, .. } = *self.blocks.get(id);
        if next == NONE {
            return size;
        }
        let next = self.blocks.get(next);
        if next.state == State::Unmapped { size + next.size } else { size }
    }

    /// Maps memory until there is a free block of this size, and takes it out of its set.
    pub(super) fn grow(&mut self, bin: u16, size: u64) -> Option<BlockId> {
        let mut id = self.room(bin, size);
        let Block { state, size: first, .. } = *self.blocks.get(id);
        if state == State::Unmapped {
            id = self.map(id, size.min(first))?;
        }
        while self.blocks.get(id).size < size {
            let Block { size: have, next, .. } = *self.blocks.get(id);
            if next == NONE {
                return None;
            }
            let part = (size - have).min(self.blocks.get(next).size);
            id = self.map(next, part)?;
        }
        self.blocks.take(id);
        Some(id)
    }

    /// The lowest addresses with enough room, free or without memory; a new reservation if there are none.
    fn room(&mut self, bin: u16, size: u64) -> BlockId {
        let is_free =
            |id: BlockId| id != NONE && matches!(self.blocks.get(id).state, State::Free | State::Unmapped);
        for &id in self.blocks.bins[bin as usize].unmapped.values() {
            let prev = self.blocks.get(id).prev;
            let start = if is_free(prev) { prev } else { id };
            let (mut bytes, mut next) = (0, start);
            while bytes < size && is_free(next) {
                bytes += self.blocks.get(next).size;
                next = self.blocks.get(next).next;
            }
            if bytes >= size {
                return start;
            }
        }
        let small = self.blocks.bins[bin as usize].small;
        let device = self.settings.device.unwrap_or(ANY_DEVICE);
        let bytes = (device / 8).saturating_mul(RESERVED_EIGHTHS).max(size);
        let bytes = bytes.next_multiple_of(self.settings.grain(small));
        let addr = self.addresses.reservation(bytes);
        self.blocks.bin(bin).reservations.push(addr);
        let id = self.blocks.add(addr, bytes, bin, State::Unmapped, true);
        self.blocks.put(id, 0);
        id
    }

    /// Maps the pages under the first `size` bytes of a range without memory. The result is in its set.
    fn map(&mut self, id: BlockId, size: u64) -> Option<BlockId> {
        let Block { addr, size: all, bin, .. } = *self.blocks.get(id);
        let grain = self.settings.grain(self.blocks.bins[bin as usize].small);
        let bytes = size.next_multiple_of(grain).min(all);
        if self.settings.device.is_some_and(|device| self.counters.reserved + bytes > device) {
            return None;
        }
        self.blocks.take(id);
        let block = self.blocks.get_mut(id);
        (block.state, block.size) = (State::Free, bytes);
        if bytes < all {
            let rest = self.blocks.add(addr + bytes, all - bytes, bin, State::Unmapped, true);
            self.blocks.insert_after(id, rest);
            self.blocks.put(rest, 0);
        }
        self.merge_both(id);
        let now = self.age_now(id);
        self.blocks.put(id, now);
        self.took(Action::Map, addr, bytes);
        Some(id)
    }

    /// Takes the memory from every page that lies wholly in this free block.
    pub(super) fn unmap(&mut self, id: BlockId) {
        let Block { addr, size, bin, .. } = *self.blocks.get(id);
        let kind = &self.blocks.bins[bin as usize];
        let grain = self.settings.grain(kind.small);
        let base = kind.reservations.iter().copied().filter(|&base| base <= addr).max().unwrap_or(addr);
        let start = base + (addr - base).next_multiple_of(grain);
        let end = base + (addr + size - base) / grain * grain;
        if start >= end {
            return;
        }
        self.blocks.take(id);
        let now = self.age_now(id);
        if start > addr {
            let before = self.blocks.add(addr, start - addr, bin, State::Free, true);
            self.blocks.insert_before(id, before);
            self.blocks.put(before, now);
        }
        if addr + size > end {
            let after = self.blocks.add(end, addr + size - end, bin, State::Free, true);
            self.blocks.insert_after(id, after);
            self.blocks.put(after, now);
        }
        let block = self.blocks.get_mut(id);
        (block.addr, block.size, block.state) = (start, end - start, State::Unmapped);
        self.merge_both(id);
        self.blocks.put(id, 0);
        self.gave_back(Action::Unmap, start, end - start);
        let block = *self.blocks.get(id);
        if !block.is_split() {
            self.blocks.take(id);
            self.blocks.remove(id);
            self.blocks.bin(bin).reservations.retain(|&base| base != block.addr);
        }
    }

    fn merge_both(&mut self, id: BlockId) {
        let Block { prev, next, .. } = *self.blocks.get(id);
        self.blocks.merge(id, prev);
        self.blocks.merge(id, next);
    }
}
