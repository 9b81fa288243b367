//! The blocks of all segments, and the sets of those that are free.
//!
//! The blocks of a segment are a doubly linked list in one table, in the order of their addresses and without
//! gaps. A free block (or, in an expandable segment, a range without memory) is also in one set of its bin.

use std::collections::BTreeSet;

use super::Allocator;
use super::config::{LARGE_SEGMENT, SMALL_SEGMENT};
use crate::trace::{Context, PoolId, State};

/// A handle to a block that is in use or awaits its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(super) u32);

/// Blocks that may replace each other: PyTorch's `BlockPool`, and the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bin {
    pub(super) pool: PoolId,
    pub(super) small: bool,
    pub(super) stream: u64,
}

impl Bin {
    /// What an expandable segment of this bin grows by.
    pub(super) fn page(self) -> u64 {
        if self.small { SMALL_SEGMENT } else { LARGE_SEGMENT }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) addr: u64,
    pub(super) size: u64,
    pub(super) requested: u64,
    pub(super) state: State,
    pub(super) bin: Bin,
    pub(super) prev: Option<BlockId>,
    pub(super) next: Option<BlockId>,
    pub(super) context: Option<Context>,
    pub(super) segment_context: Option<Context>,
    /// Where the address range of an expandable segment starts.
    pub(super) reservation: Option<u64>,
    /// False for a slot that waits to be used again.
    pub(super) alive: bool,
}

/// The free memory and free address space of one bin.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// By size, then address: the first that is large enough is the best fit.
    pub(super) blocks: BTreeSet<(u64, u64, BlockId)>,
    pub(super) unmapped: BTreeSet<(u64, BlockId)>,
}

/// Lists of blocks, and the sets of free ones.
impl<S> Allocator<S> {
    pub(super) fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    pub(super) fn block_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }

    pub(super) fn add_block(
        &mut self,
        addr: u64,
        size: u64,
        bin: Bin,
        state: State,
        reservation: Option<u64>,
    ) -> BlockId {
        let block = Block {
            addr,
            size,
            requested: 0,
            state,
            bin,
            prev: None,
            next: None,
            context: None,
            segment_context: None,
            reservation,
            alive: true,
        };
        if let Some(id) = self.unused.pop() {
            self.blocks[id.0 as usize] = block;
            return id;
        }
        self.blocks.push(block);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Takes a block out of its list.
    pub(super) fn remove_block(&mut self, id: BlockId) {
        let block = &mut self.blocks[id.0 as usize];
        block.alive = false;
        let (prev, next) = (block.prev, block.next);
        self.link(prev, next);
        self.unused.push(id);
    }

    pub(super) fn link(&mut self, prev: Option<BlockId>, next: Option<BlockId>) {
        if let Some(prev) = prev {
            self.blocks[prev.0 as usize].next = next;
        }
        if let Some(next) = next {
            self.blocks[next.0 as usize].prev = prev;
        }
    }

    pub(super) fn link_between(&mut self, prev: Option<BlockId>, id: BlockId, next: Option<BlockId>) {
        self.link(prev, Some(id));
        self.link(Some(id), next);
    }

    /// Cuts a new block off the front of one that is in no set; the rest is free.
    pub(super) fn split_front(&mut self, rest: BlockId, size: u64) -> BlockId {
        let Block { addr, bin, reservation, prev, .. } = self.blocks[rest.0 as usize];
        let front = self.add_block(addr, size, bin, State::Inactive, reservation);
        let block = &mut self.blocks[rest.0 as usize];
        block.addr += size;
        block.size -= size;
        self.link_between(prev, front, Some(rest));
        self.insert_free(rest);
        front
    }

    /// Merges a block that is in no set with its neighbours of the same state, which are.
    pub(super) fn merge_neighbours(&mut self, id: BlockId) {
        let Block { state, prev, next, .. } = self.blocks[id.0 as usize];
        for (other, before) in [(prev, true), (next, false)] {
            let Some(other) = other.filter(|other| self.blocks[other.0 as usize].state == state) else {
                continue;
            };
            self.remove_free(other);
            let Block { addr, size, segment_context, .. } = self.blocks[other.0 as usize];
            let block = &mut self.blocks[id.0 as usize];
            block.size += size;
            if before {
                block.addr = addr;
                block.segment_context = segment_context;
            }
            self.remove_block(other);
        }
    }

    pub(super) fn insert_free(&mut self, id: BlockId) {
        let Block { addr, size, state, bin, .. } = self.blocks[id.0 as usize];
        let free = self.free.entry(bin).or_default();
        if state == State::Unmapped {
            free.unmapped.insert((addr, id))
        } else {
            free.blocks.insert((size, addr, id))
        };
    }

    pub(super) fn remove_free(&mut self, id: BlockId) {
        let Block { addr, size, state, bin, .. } = self.blocks[id.0 as usize];
        let free = self.free.get_mut(&bin).unwrap();
        let was = if state == State::Unmapped {
            free.unmapped.remove(&(addr, id))
        } else {
            free.blocks.remove(&(size, addr, id))
        };
        assert!(was, "the block at {addr:#x} was not among the free ones");
    }
}
