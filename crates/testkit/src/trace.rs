//! The plain data of a recording: events, counters, and the segments and blocks at the end.

/// What happened, in PyTorch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the file format")]
pub enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Snapshot,
    Oom,
}

impl Action {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
        }
    }
}

/// A captured stack. Two captures of the same call site are two contexts: PyTorch writes two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Context {
    /// Which capture; the identity of the `frames` list.
    pub serial: u32,
    /// Which stack.
    pub site: u32,
}

/// A pool id as in the file; `(0, 0)` is the default pool.
pub type PoolId = (u32, u32);

/// One entry of a device's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Where; for [`Action::Oom`] the free bytes of the device.
    pub addr: u64,
    /// How many bytes: as requested for blocks, as rounded for segments and [`Action::Oom`].
    pub size: u64,
    /// The stream of the block.
    pub stream: u64,
    /// The pool of the block.
    pub pool: PoolId,
    /// When.
    pub time_us: i64,
    /// The stack, if one was recorded.
    pub context: Option<Context>,
}

/// PyTorch's four counters, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What the program asked for, of blocks in use or awaiting their free.
    pub requested: u64,
    /// Blocks in use.
    pub allocated: u64,
    /// Blocks in use or awaiting their free.
    pub active: u64,
    /// Memory held from the driver.
    pub reserved: u64,
}

impl Counters {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            requested: self.requested.max(other.requested),
            allocated: self.allocated.max(other.allocated),
            active: self.active.max(other.active),
            reserved: self.reserved.max(other.reserved),
        }
    }
}

/// What a block is being used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In use.
    Allocated,
    /// The program freed it, another stream may still use it.
    PendingFree,
    /// Free.
    Inactive,
    /// Address space of an expandable segment without memory.
    Unmapped,
}

/// A block of the final state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its address.
    pub addr: u64,
    /// Its rounded size.
    pub size: u64,
    /// What was asked for; what the last tenant asked for if it is free.
    pub requested: u64,
    /// Never [`State::Unmapped`].
    pub state: State,
    /// The stack of its allocation.
    pub context: Option<Context>,
}

/// A segment of the final state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its address.
    pub addr: u64,
    /// The sums over its blocks; `reserved` is its size.
    pub bytes: Counters,
    /// Its stream.
    pub stream: u64,
    /// Whether it serves requests up to 1 MiB.
    pub small: bool,
    /// Its pool.
    pub pool: PoolId,
    /// The stack that got the segment, where PyTorch still knows it.
    pub context: Option<Context>,
    /// Its blocks by address, without gaps.
    pub blocks: Vec<BlockInfo>,
}
