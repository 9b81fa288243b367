//! The settings of the allocator, and what follows from them alone: rounding and splitting.

const MIB: u64 = 1 << 20;
const MIN_BLOCK: u64 = 512;
pub(super) const SMALL_REQUEST: u64 = MIB;
pub(super) const SMALL_SEGMENT: u64 = 2 * MIB;
pub(super) const LARGE_SEGMENT: u64 = 20 * MIB;

/// Which stacks PyTorch keeps (`context=` of `_record_memory_history`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stacks {
    /// None at all.
    None,
    /// Those of live blocks and segments.
    State,
    /// Events too; a free has the stack of its allocation.
    Alloc,
    /// A free has its own stack.
    All,
}

/// The settings of the allocator.
#[derive(Clone, Debug)]
pub struct Config {
    /// `expandable_segments`
    pub expandable: bool,
    /// `max_split_size` in bytes, at least 20 MiB; `None` is no limit.
    pub max_split_size: Option<u64>,
    /// `roundup_power2_divisions`: entry 0 for sizes below 2 MiB, then one per doubling.
    pub roundup_power2_divisions: [u64; 16],
    /// Bytes that the device has.
    pub capacity: u64,
    /// Which stacks are kept.
    pub stacks: Stacks,
    /// The lowest address that the device hands out.
    pub base: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            expandable: false,
            max_split_size: None,
            roundup_power2_divisions: [0; 16],
            capacity: 80 << 30,
            stacks: Stacks::All,
            base: 0x7f2a_0000_0000,
        }
    }
}

impl Config {
    /// The bytes that a request takes.
    pub fn round(&self, requested: u64) -> u64 {
        if requested < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let entry = requested.ilog2().saturating_sub(20).min(15);
        let divisions = self.roundup_power2_divisions[entry as usize];
        if divisions > 1 && requested > MIN_BLOCK * divisions {
            requested.next_multiple_of((1 << requested.ilog2()) / divisions)
        } else {
            requested.next_multiple_of(MIN_BLOCK)
        }
    }

    pub(super) fn splits(&self, size: u64, rest: u64) -> bool {
        if size <= SMALL_REQUEST || self.expandable {
            rest >= MIN_BLOCK
        } else {
            rest > SMALL_REQUEST && size < self.max_split()
        }
    }

    pub(super) fn max_split(&self) -> u64 {
        self.max_split_size.unwrap_or(u64::MAX)
    }
}
