//! The blocks of all segments and the sets of free ones.
//!
//! The blocks of a segment are a doubly linked list in the order of their addresses. A free block is also in the set
//! of its bin, by size and address; a range of an expandable segment without memory is in another set, by address.

use std::collections::BTreeMap;

/// A block in the table.
pub(crate) type BlockId = u32;

/// No block.
pub(super) const NONE: BlockId = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Free, with memory.
    Free,
    /// The program has it.
    Allocated,
    /// The program let it go, another stream may still use it.
    Pending,
    /// Addresses of an expandable segment without memory.
    Unmapped,
    /// The slot waits to be used again.
    Unused,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) addr: u64,
    pub(super) size: u64,
    pub(super) prev: BlockId,
    pub(super) next: BlockId,
    /// When it became free, in searches of its pool.
    pub(super) since: u32,
    pub(super) bin: u16,
    pub(super) state: State,
    pub(super) expandable: bool,
}

impl Block {
    pub(super) fn is_split(&self) -> bool {
        self.prev != NONE || self.next != NONE
    }
}

/// The free memory of one place, small or large.
#[derive(Clone, Debug, Default)]
pub(super) struct Bin {
    pub(super) free: BTreeMap<(u64, u64), BlockId>,
    pub(super) unmapped: BTreeMap<u64, BlockId>,
    pub(super) small: bool,
    pub(super) private: bool,
    pub(super) stream: u64,
    /// The pool whose searches age its blocks.
    pub(super) pool: u16,
    /// Bytes that a reservation of this bin has, and where the last one began.
    pub(super) reservations: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    table: Vec<Block>,
    unused: Vec<BlockId>,
    pub(super) bins: Vec<Bin>,
}

impl Blocks {
    #[inline]
    pub(super) fn get(&self, id: BlockId) -> &Block {
        &self.table[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.table[id as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.table
            .iter()
            .enumerate()
            .map(|(id, block)| (id as u32, block))
            .filter(|(_, b)| b.state != State::Unused)
    }

    pub(super) fn bin(&mut self, bin: u16) -> &mut Bin {
        &mut self.bins[bin as usize]
    }

    /// A block without neighbours, in no set.
    pub(super) fn add(&mut self, addr: u64, size: u64, bin: u16, state: State, expandable: bool) -> BlockId {
        let block = Block { addr, size, prev: NONE, next: NONE, since: 0, bin, state, expandable };
        if let Some(id) = self.unused.pop() {
            self.table[id as usize] = block;
            return id;
        }
        self.table.push(block);
        self.table.len() as u32 - 1
    }

    /// Takes a block out of its list; it is in no set.
    pub(super) fn remove(&mut self, id: BlockId) {
        let Block { prev, next, .. } = *self.get(id);
        self.link(prev, next);
        self.get_mut(id).state = State::Unused;
        self.unused.push(id);
    }

    fn link(&mut self, prev: BlockId, next: BlockId) {
        if prev != NONE {
            self.get_mut(prev).next = next;
        }
        if next != NONE {
            self.get_mut(next).prev = prev;
        }
    }

    pub(super) fn insert_after(&mut self, before: BlockId, id: BlockId) {
        let next = self.get(before).next;
        self.link(before, id);
        self.get_mut(id).next = next;
        self.get_mut(id).prev = before;
        if next != NONE {
            self.get_mut(next).prev = id;
        }
    }

    pub(super) fn insert_before(&mut self, after: BlockId, id: BlockId) {
        let prev = self.get(after).prev;
        self.get_mut(id).prev = prev;
        self.get_mut(id).next = after;
        self.get_mut(after).prev = id;
        if prev != NONE {
            self.get_mut(prev).next = id;
        }
    }

    /// Puts a block into the set that its state belongs to.
    pub(super) fn put(&mut self, id: BlockId, now: u32) {
        let block = self.get_mut(id);
        block.since = now;
        let Block { addr, size, bin, state, .. } = *block;
        let bin = self.bin(bin);
        if state == State::Unmapped {
            bin.unmapped.insert(addr, id);
        } else {
            bin.free.insert((size, addr), id);
        }
    }

    /// Takes a block out of its set.
    pub(super) fn take(&mut self, id: BlockId) {
        let Block { addr, size, bin, state, .. } = *self.get(id);
        let bin = self.bin(bin);
        if state == State::Unmapped {
            bin.unmapped.remove(&addr);
        } else {
            bin.free.remove(&(size, addr));
        }
    }

    /// Merges a block that is in no set with a neighbour of the same state, which is in one. Says whether it did.
    pub(super) fn merge(&mut self, id: BlockId, other: BlockId) -> bool {
        if other == NONE || self.get(other).state != self.get(id).state {
            return false;
        }
        self.take(other);
        let Block { addr, size, .. } = *self.get(other);
        let block = self.get_mut(id);
        block.size += size;
        block.addr = block.addr.min(addr);
        self.remove(other);
        true
    }
}
