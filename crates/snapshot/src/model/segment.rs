//! The allocator's state when the snapshot was taken: segments, and the blocks that fill them.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use super::{DeviceId, PoolId, StackId, StreamId};

/// The pool of sizes that a segment serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SegmentKind {
    /// Requests up to 1 MiB.
    Small,
    /// Requests above 1 MiB.
    #[default]
    Large,
}

/// A contiguous range held from the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Which device.
    pub device: DeviceId,
    /// First address.
    pub addr: u64,
    /// Bytes held.
    pub total_size: u64,
    /// Bytes in blocks that the program holds, as the file states them.
    pub allocated_size: u64,
    /// The same with blocks that await their free.
    pub active_size: u64,
    /// What the program asked for, over active blocks.
    pub requested_size: u64,
    /// Stream that the segment serves.
    pub stream: StreamId,
    /// Pool that the segment belongs to.
    pub pool: PoolId,
    /// Sizes that the segment serves.
    pub kind: SegmentKind,
    /// Whether it is a mapped range of an expandable segment.
    pub expandable: bool,
    /// Where in the program it was taken from the driver.
    pub stack: StackId,
    /// Its blocks: rows of [`BlockTable`], by address.
    pub blocks: Range<u32>,
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum BlockState {
    /// Free.
    #[default]
    Inactive,
    /// The program holds it.
    Allocated,
    /// The program let it go; another stream still uses it.
    PendingFree,
}

/// One row of a [`BlockTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First address.
    pub addr: u64,
    /// Bytes of the block, rounded.
    pub size: u64,
    /// Bytes asked for; 0 for a free block.
    pub requested: u64,
    /// What it is doing.
    pub state: BlockState,
    /// Where in the program it was allocated.
    pub stack: StackId,
}

/// The blocks of all segments, those of one segment together and by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockTable {
    pub(crate) addr: Vec<u64>,
    pub(crate) size: Vec<u64>,
    pub(crate) requested: Vec<u64>,
    pub(crate) state: Vec<BlockState>,
    pub(crate) stack: Vec<StackId>,
}

impl BlockTable {
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.addr.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.addr.is_empty()
    }

    /// One block; a default one past the end.
    pub fn get(&self, row: usize) -> Block {
        if row >= self.len() {
            return Block::default();
        }
        Block {
            addr: self.addr[row],
            size: self.size[row],
            requested: self.requested[row],
            state: self.state[row],
            stack: self.stack[row],
        }
    }

    /// The blocks of a segment, by address.
    pub fn of<'a>(&'a self, segment: &Segment) -> impl ExactSizeIterator<Item = Block> + use<'a> {
        let (start, end) = (segment.blocks.start as usize, segment.blocks.end as usize);
        (start..end.min(self.len())).map(|row| self.get(row))
    }

    /// Adds a block at the end.
    pub(crate) fn push(&mut self, block: Block) {
        self.addr.push(block.addr);
        self.size.push(block.size);
        self.requested.push(block.requested);
        self.state.push(block.state);
        self.stack.push(block.stack);
    }
}
