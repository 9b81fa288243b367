//! The life of every block: the table that all questions about a trace are answered from.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use vramscope_format::count;
use vramscope_mapped::Buffer;
use vramscope_snapshot::{EventIdx, PoolId, StackId, StreamId};

/// An allocation's number, in the order in which the trace shows them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Pod, Zeroable,
)]
#[repr(transparent)]
pub struct AllocIdx(pub u32);

impl AllocIdx {
    /// Row of the allocation in columns.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A point between events: how many of them have happened.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Pod, Zeroable,
)]
#[repr(transparent)]
pub struct Moment(pub u32);

impl Moment {
    /// Before the first event.
    pub const START: Self = Self(0);
    /// After anything that the trace shows.
    pub const NEVER: Self = Self(u32::MAX);

    /// The moment after an event.
    #[inline]
    pub fn after(event: EventIdx) -> Self {
        Self(event.0.saturating_add(1))
    }

    /// The event that this moment follows; `None` at the start.
    #[inline]
    pub fn event(self) -> Option<EventIdx> {
        self.0.checked_sub(1).filter(|_| self != Self::NEVER).map(EventIdx)
    }

    /// The same moment, if the trace shows it.
    #[inline]
    pub fn known(self) -> Option<Self> {
        (self != Self::NEVER).then_some(self)
    }

    /// The moment in words: `after event 11 822`.
    pub fn words(self) -> String {
        self.event().map_or_else(
            || "before the first event".into(),
            |event| format!("after event {}", count(event.0)),
        )
    }
}

/// One row of [`Allocations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First address.
    pub addr: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of the block that serves it.
    pub size: u64,
    /// When it began; [`Moment::START`] if it was there before.
    pub opened: Moment,
    /// When the program let it go; [`Moment::START`] if that was before the first event.
    pub released: Moment,
    /// When the block went back to its pool.
    pub closed: Moment,
    /// Where in the program it was allocated; for memory of a backward pass without a line of its own, the forward line
    /// that it belongs to.
    pub stack: StackId,
    /// The stack that was recorded.
    pub recorded: StackId,
    /// Stream of the block.
    pub stream: StreamId,
    /// Pool of the block, where the trace says so.
    pub pool: PoolId,
    /// Whether `size` is inferred from `requested` and could be larger.
    pub estimated: bool,
}

impl Allocation {
    /// Whether the block is in use, or awaits its free, at a moment.
    pub fn is_live(&self, at: Moment) -> bool {
        self.opened <= at && at < self.closed
    }
}

/// All allocations of a device, as columns.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    /// Addresses.
    pub addr: Buffer<u64>,
    /// Bytes that the program asked for.
    pub requested: Buffer<u64>,
    /// Bytes of the blocks.
    pub size: Buffer<u64>,
    /// Moments of allocation.
    pub opened: Buffer<Moment>,
    /// Moments of release.
    pub released: Buffer<Moment>,
    /// Moments of the completed free.
    pub closed: Buffer<Moment>,
    /// As they were recorded.
    pub stack: Buffer<StackId>,
    /// The same with what backward memory belongs to; empty if that changes none.
    pub attributed: Buffer<StackId>,
    /// Streams.
    pub stream: vramscope_snapshot::Column<StreamId>,
    /// Pools.
    pub pool: vramscope_snapshot::Column<PoolId>,
    /// 1 where it is.
    pub estimated: vramscope_snapshot::Column<u8>,
}

impl Allocations {
    /// Number of allocations.
    #[inline]
    pub fn len(&self) -> usize {
        self.addr.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.addr.is_empty()
    }

    /// One allocation. The index must come from this table.
    #[inline]
    pub fn get(&self, index: AllocIdx) -> Allocation {
        let row = index.index();
        Allocation {
            addr: self.addr[row],
            requested: self.requested[row],
            size: self.size[row],
            opened: self.opened[row],
            released: self.released[row],
            closed: self.closed[row],
            stack: self.stack_of(index),
            recorded: self.stack[row],
            stream: self.stream.get(row),
            pool: self.pool.get(row),
            estimated: self.is_estimated(row),
        }
    }

    /// Where in the program an allocation belongs.
    #[inline]
    pub fn stack_of(&self, index: AllocIdx) -> StackId {
        self.attributed.get(index.index()).copied().unwrap_or_else(|| self.stack[index.index()])
    }

    /// Whether the size of a row is inferred.
    #[inline]
    pub fn is_estimated(&self, row: usize) -> bool {
        self.estimated.get(row) != 0
    }

    /// All allocations in order.
    #[inline]
    pub fn iter(&self) -> Walk<'_> {
        Walk { allocations: self, slices: Slices::new(self), rows: 0..self.len() }
    }

    /// Reserves room.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.addr.to_mut().reserve_exact(more);
        self.requested.to_mut().reserve_exact(more);
        self.size.to_mut().reserve_exact(more);
        self.opened.to_mut().reserve_exact(more);
        self.released.to_mut().reserve_exact(more);
        self.closed.to_mut().reserve_exact(more);
        self.stack.to_mut().reserve_exact(more);
    }

    #[inline]
    pub(crate) fn push(&mut self, allocation: &Allocation) -> AllocIdx {
        self.growing().push(allocation)
    }

    /// Ends an allocation at a moment, unless it has ended before.
    pub(crate) fn end(&mut self, allocation: AllocIdx, at: Moment) {
        self.growing().end(allocation, at);
    }

    /// The table, to be added to in a loop.
    pub(crate) fn growing(&mut self) -> Growing<'_> {
        Growing {
            addr: self.addr.to_mut(),
            requested: self.requested.to_mut(),
            size: self.size.to_mut(),
            opened: self.opened.to_mut(),
            released: self.released.to_mut(),
            closed: self.closed.to_mut(),
            stack: self.stack.to_mut(),
            stream: &mut self.stream,
            pool: &mut self.pool,
            estimated: &mut self.estimated,
        }
    }
}

/// Columns that grow: that they are in memory is asked once, not for every row.
pub(crate) struct Growing<'a> {
    addr: &'a mut Vec<u64>,
    pub(crate) requested: &'a mut Vec<u64>,
    size: &'a mut Vec<u64>,
    opened: &'a mut Vec<Moment>,
    pub(crate) released: &'a mut Vec<Moment>,
    pub(crate) closed: &'a mut Vec<Moment>,
    stack: &'a mut Vec<StackId>,
    stream: &'a mut vramscope_snapshot::Column<StreamId>,
    pool: &'a mut vramscope_snapshot::Column<PoolId>,
    estimated: &'a mut vramscope_snapshot::Column<u8>,
}

impl Growing<'_> {
    #[inline]
    pub(crate) fn push(&mut self, allocation: &Allocation) -> AllocIdx {
        let row = self.addr.len();
        self.addr.push(allocation.addr);
        self.requested.push(allocation.requested);
        self.size.push(allocation.size);
        self.opened.push(allocation.opened);
        self.released.push(allocation.released);
        self.closed.push(allocation.closed);
        self.stack.push(allocation.recorded);
        self.stream.set(row, allocation.stream);
        self.pool.set(row, allocation.pool);
        self.estimated.set(row, allocation.estimated.into());
        AllocIdx(row as u32)
    }

    #[inline]
    pub(crate) fn end(&mut self, allocation: AllocIdx, at: Moment) {
        let row = allocation.index();
        self.released[row] = self.released[row].min(at);
        self.closed[row] = self.closed[row].min(at);
    }
}

/// A walk over all allocations. It is inlined, and over slices where the columns are in memory, so that a loop looks only at
/// the columns that it uses and need not ask of each row whether it was read.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    allocations: &'a Allocations,
    slices: Option<Slices<'a>>,
    rows: Range<usize>,
}

/// Columns that are in memory.
#[derive(Clone, Copy, Debug)]
struct Slices<'a> {
    bytes: [&'a [u64]; 3],
    moments: [&'a [Moment]; 3],
    recorded: &'a [StackId],
    attributed: &'a [StackId],
    stream: &'a [StreamId],
    pool: &'a [PoolId],
    estimated: &'a [u8],
}

impl<'a> Slices<'a> {
    fn new(allocations: &'a Allocations) -> Option<Self> {
        let Allocations { addr, requested, size, opened, released, closed, .. } = allocations;
        Some(Self {
            bytes: [addr.in_memory()?, requested.in_memory()?, size.in_memory()?],
            moments: [opened.in_memory()?, released.in_memory()?, closed.in_memory()?],
            recorded: allocations.stack.in_memory()?,
            attributed: allocations.attributed.in_memory()?,
            stream: allocations.stream.in_memory()?,
            pool: allocations.pool.in_memory()?,
            estimated: allocations.estimated.in_memory()?,
        })
    }

    #[inline(always)]
    fn get(&self, row: usize) -> Allocation {
        let ([addr, requested, size], [opened, released, closed]) = (self.bytes, self.moments);
        let recorded = self.recorded[row];
        Allocation {
            addr: addr[row],
            requested: requested[row],
            size: size[row],
            opened: opened[row],
            released: released[row],
            closed: closed[row],
            stack: self.attributed.get(row).copied().unwrap_or(recorded),
            recorded,
            stream: self.stream.get(row).copied().unwrap_or_default(),
            pool: self.pool.get(row).copied().unwrap_or_default(),
            estimated: self.estimated.get(row).is_some_and(|&estimated| estimated != 0),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = (AllocIdx, Allocation);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        let index = AllocIdx(row as u32);
        // Not `map_or_else`: that would be a call for each row.
        let allocation = match &self.slices {
            Some(slices) => slices.get(row),
            None => self.allocations.get(index),
        };
        Some((index, allocation))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl ExactSizeIterator for Walk<'_> {}
