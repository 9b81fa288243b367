//! PyTorch's four numbers.

use std::ops::{Index, IndexMut};

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// One of the four numbers, named as in `torch.cuda.memory_stats()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Counter {
    /// What the program asked for, in blocks that are not yet back in their pool.
    #[default]
    Requested,
    /// Rounded size of the blocks that the program holds.
    Allocated,
    /// Allocated, and blocks that await their free.
    Active,
    /// Memory held from the driver.
    Reserved,
}

impl Counter {
    /// All four, from what was asked for to what is held.
    pub const ALL: [Self; 4] = [Self::Requested, Self::Allocated, Self::Active, Self::Reserved];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Allocated => "allocated",
            Self::Active => "active",
            Self::Reserved => "reserved",
        }
    }
}

/// The four numbers at one moment, in bytes.
///
/// They are signed because differences of them are, and never below zero: where the events of a file
/// contradict each other, the verdict says by how much. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Pod, Zeroable)]
#[repr(C)]
pub struct Counters {
    /// See [`Counter::Requested`].
    pub requested: i64,
    /// See [`Counter::Allocated`].
    pub allocated: i64,
    /// See [`Counter::Active`].
    pub active: i64,
    /// See [`Counter::Reserved`].
    pub reserved: i64,
}

impl Counters {
    /// The larger of each.
    #[must_use]
    #[inline]
    pub fn max(self, other: Self) -> Self {
        self.zip(other, i64::max)
    }

    /// The smaller of each.
    #[must_use]
    #[inline]
    pub fn min(self, other: Self) -> Self {
        self.zip(other, i64::min)
    }

    #[inline]
    fn zip(self, other: Self, f: impl Fn(i64, i64) -> i64) -> Self {
        Self {
            requested: f(self.requested, other.requested),
            allocated: f(self.allocated, other.allocated),
            active: f(self.active, other.active),
            reserved: f(self.reserved, other.reserved),
        }
    }
}

impl Index<Counter> for Counters {
    type Output = i64;

    fn index(&self, counter: Counter) -> &i64 {
        match counter {
            Counter::Requested => &self.requested,
            Counter::Allocated => &self.allocated,
            Counter::Active => &self.active,
            Counter::Reserved => &self.reserved,
        }
    }
}

impl IndexMut<Counter> for Counters {
    fn index_mut(&mut self, counter: Counter) -> &mut i64 {
        match counter {
            Counter::Requested => &mut self.requested,
            Counter::Allocated => &mut self.allocated,
            Counter::Active => &mut self.active,
            Counter::Reserved => &mut self.reserved,
        }
    }
}
