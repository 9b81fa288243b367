//! What a source says of itself: how much memory there was, and what it cannot tell.
//!
//! A profiler's trace begins in the middle of a program. What it lists adds up to a fraction of what
//! was in use, but beside each event it writes the allocator's own totals. They are kept here, event
//! by event, and they are the truth about the level; what the events do not explain of them is memory
//! that the source does not name.

use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;

use super::{DeviceId, StrId};

/// The allocator's totals after events, as the source states them. Empty for snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub(crate) allocated: Buffer<u64>,
    pub(crate) active: Buffer<u64>,
    pub(crate) reserved: Buffer<u64>,
    pub(crate) resolution: u64,
}

/// The totals after one event; `None` where the source does not state one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Bytes of blocks in use.
    pub allocated: Option<u64>,
    /// The same with blocks that await their free.
    pub active: Option<u64>,
    /// Bytes held from the driver.
    pub reserved: Option<u64>,
}

const NOT_STATED: u64 = u64::MAX;

/// Bytes that no machine has. A total from here on is none: sums of it would overflow.
const TOO_LARGE: u64 = 1 << 50;

impl Totals {
    /// Totals of no event.
    pub(crate) const EMPTY: Self =
        Self { allocated: Buffer::new(), active: Buffer::new(), reserved: Buffer::new(), resolution: 0 };

    /// Whether the source states none at all.
    pub fn is_empty(&self) -> bool {
        self.allocated.is_empty()
    }

    /// Whether the source states what is held from the driver.
    pub fn has_reserved(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Whether the source states what awaits its free.
    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Bytes by which totals may be off because the source writes them rounded.
    pub fn resolution(&self) -> u64 {
        self.resolution
    }

    /// What is stated after an event.
    pub fn get(&self, row: usize) -> Total {
        let at = |column: &Buffer<u64>| column.get(row).copied().filter(|&bytes| bytes != NOT_STATED);
        Total { allocated: at(&self.allocated), active: at(&self.active), reserved: at(&self.reserved) }
    }

    /// Adds what is stated after the next event.
    pub(crate) fn push(&mut self, total: Total) {
        let known = |bytes: Option<u64>| bytes.filter(|&bytes| bytes < TOO_LARGE).unwrap_or(NOT_STATED);
        self.allocated.push(known(total.allocated));
        self.active.push(known(total.active));
        self.reserved.push(known(total.reserved));
    }

    /// Whether every total is one that [`Totals::push`] adds.
    pub(crate) fn is_sound(&self) -> bool {
        let mut all = [&self.allocated, &self.active, &self.reserved].into_iter().flatten();
        all.all(|&bytes| bytes < TOO_LARGE || bytes == NOT_STATED)
    }

    /// Lets go of what is stated nowhere.
    pub(crate) fn forget_absent(&mut self) {
        for column in [&mut self.active, &mut self.reserved] {
            if column.iter().all(|&bytes| bytes == NOT_STATED) {
                column.to_mut().clear();
            }
            column.to_mut().shrink_to_fit();
        }
        if [&self.allocated, &self.active, &self.reserved]
            .iter()
            .all(|column| column.iter().all(|&bytes| bytes == NOT_STATED))
        {
            self.allocated.to_mut().clear();
        }
        self.allocated.to_mut().shrink_to_fit();
    }
}

/// What a source can tell at all. Snapshots tell everything; views say of the rest that it is not in
/// the file, instead of drawing zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Has {
    /// Where blocks and segments lie: the map of memory, holes, pools. Without it addresses are numbers
    /// that only tell blocks apart.
    pub addresses: bool,
    /// What the program asked for, beside the size of the block that it got.
    pub requested: bool,
    /// Where in the program: Python frames, not only the name of an operator.
    pub stacks: bool,
}

impl Default for Has {
    fn default() -> Self {
        Self { addresses: true, requested: true, stacks: true }
    }
}

/// Memory of the device that the framework's allocator does not manage: a library's, the driver's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// Which device.
    pub device: DeviceId,
    /// Who holds it, e.g. `HCCL`.
    pub name: StrId,
    /// When, in microseconds since the Unix epoch; [`EventTable::NO_TIME`](super::EventTable::NO_TIME)
    /// for when the file was written.
    pub time_us: i64,
    /// Bytes held.
    pub bytes: u64,
    /// The most that it ever held, where that is known.
    pub peak: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stated_nowhere_is_absent() {
        let mut totals = Totals::default();
        totals.push(Total { allocated: Some(5), ..Total::default() });
        totals.push(Total { allocated: None, active: None, reserved: Some(9) });
        totals.forget_absent();
        assert!(!totals.has_active() && totals.has_reserved());
        assert_eq!(totals.get(1), Total { allocated: None, active: None, reserved: Some(9) });
        assert_eq!(totals.get(7), Total::default());
    }
}
