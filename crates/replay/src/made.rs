//! What each stack allocated in all, whenever it was.

use std::cmp::Reverse;

use bytemuck::{Pod, Zeroable};
use vramscope_mapped::Buffer;
use vramscope_snapshot::StackId;

use crate::allocations::{AllocIdx, Allocation, Moment};
use crate::source::Source;

/// What a stack, or several, allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Made {
    /// Allocations. If there are none, nothing else here means anything.
    pub count: u64,
    /// Bytes that the program asked for.
    pub bytes: u64,
    /// Of these, what was freed again.
    pub freed: u64,
    /// Events that the allocations lived, summed.
    pub lifetime: u64,
    /// Bytes of the largest.
    pub largest: u64,
    /// Which that is; the first of several.
    pub largest_index: AllocIdx,
    /// The first allocation.
    pub first: AllocIdx,
    /// The last one.
    pub last: AllocIdx,
    /// Always 0.
    unused: u32,
}

impl Made {
    /// What one allocation is, in a trace with this end.
    pub fn one(index: AllocIdx, allocation: &Allocation, end: Moment) -> Self {
        Self {
            count: 1,
            bytes: allocation.requested,
            freed: if allocation.closed == Moment::NEVER { 0 } else { allocation.requested },
            lifetime: allocation.closed.min(end).0.saturating_sub(allocation.opened.0).into(),
            largest: allocation.requested,
            largest_index: index,
            first: index,
            last: index,
            unused: 0,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { *other } else { self };
        }
        let largest = |made: &Self| (made.largest, Reverse(made.largest_index));
        let (largest, Reverse(largest_index)) = largest(&self).max(largest(other));
        Self {
            count: self.count + other.count,
            bytes: self.bytes.saturating_add(other.bytes),
            freed: self.freed.saturating_add(other.freed),
            lifetime: self.lifetime.saturating_add(other.lifetime),
            largest,
            largest_index,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            unused: 0,
        }
    }

    /// What each stack made of some allocations of a trace with this end, by the number of the stack.
    pub fn by_stack(end: Moment, allocations: impl Iterator<Item = (AllocIdx, Allocation)>) -> Vec<Self> {
        let mut by_stack = Vec::new();
        for (index, allocation) in allocations {
            let stack = allocation.stack.index();
            if by_stack.len() <= stack {
                by_stack.resize(stack + 1, Self::default());
            }
            by_stack[stack] = by_stack[stack].plus(&Self::one(index, &allocation, end));
        }
        by_stack
    }
}

/// Events of which what was made in them is kept together, in a file in the cache.
pub(crate) const STRIDE: usize = 1 << 18;

/// What a stack made in [`STRIDE`] events, as it is stored.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct MadeRow {
    pub(crate) made: Made,
    pub(crate) stack: StackId,
    /// Always 0.
    unused: u32,
}

/// What each stack made in each [`STRIDE`] events.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeOverTime {
    /// Where the rows of each end.
    pub(crate) ends: Vec<usize>,
    pub(crate) rows: Buffer<MadeRow>,
}

impl MadeOverTime {
    pub(crate) fn new(source: &Source<'_>) -> Self {
        let (mut ends, mut rows) = (Vec::new(), Vec::new());
        let end = Moment(source.links.len() as u32);
        for start in (0..source.links.len()).step_by(STRIDE) {
            let (from, to) = (Moment(start as u32), Moment((start + STRIDE) as u32));
            let opened = source.opened_between(from, to);
            let made = Made::by_stack(end, opened.map(|index| (index, source.allocations.get(index))));
            rows.extend(makers(&made).map(|(stack, &made)| MadeRow { made, stack, unused: 0 }));
            ends.push(rows.len());
        }
        Self { ends, rows: rows.into() }
    }

    /// The rows of some stretches.
    pub(crate) fn between(&self, stretches: std::ops::Range<usize>) -> &[MadeRow] {
        let end = |stretch: usize| stretch.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let rows = end(stretches.start).unwrap_or(0)..end(stretches.end).unwrap_or(0);
        self.rows.slice(rows).unwrap_or_default()
    }
}

/// The stacks that made anything, with what they made.
pub fn makers(made: &[Made]) -> impl Iterator<Item = (StackId, &Made)> {
    let stacks = made.iter().enumerate().filter(|(_, made)| made.count > 0);
    stacks.map(|(stack, made)| (StackId::from_index(stack), made))
}
