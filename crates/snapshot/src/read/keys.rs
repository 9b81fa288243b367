//! The words that mean something to the reader.
//!
//! They are interned before anything else, in the order of the enums below, so a string id tells at
//! once whether it is a known key or action: no comparison of text happens per event.

use crate::model::{Action, StrId};

macro_rules! keys {
    ($($key:ident = $text:literal,)*) => {
        /// A dictionary key that the reader knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Key { $($key,)* }

        impl Key {
            const ALL: &'static [Key] = &[$(Key::$key,)*];
            const TEXTS: &'static [&'static str] = &[$($text,)*];
        }
    };
}

keys! {
    // Trace entries
    Action = "action",
    Addr = "addr",
    Size = "size",
    Stream = "stream",
    TimeUs = "time_us",
    CompileContext = "compile_context",
    UserMetadata = "user_metadata",
    InternalMetadata = "internal_metadata",
    PoolId = "pool_id",
    Frames = "frames",
    ForwardFrames = "forward_frames",
    CppFrames = "cpp_frames",
    Category = "category",
    DeviceFree = "device_free",
    // Segments
    Device = "device",
    Address = "address",
    TotalSize = "total_size",
    AllocatedSize = "allocated_size",
    ActiveSize = "active_size",
    RequestedSize = "requested_size",
    SegmentType = "segment_type",
    SegmentPoolId = "segment_pool_id",
    IsExpandable = "is_expandable",
    Blocks = "blocks",
    // Blocks
    State = "state",
    History = "history",
    RealSize = "real_size",
    // Frames
    Name = "name",
    Filename = "filename",
    Line = "line",
    FxNodeOp = "fx_node_op",
    FxNodeName = "fx_node_name",
    FxNodeTarget = "fx_node_target",
    FxOriginalTrace = "fx_original_trace",
    // Annotations
    Stage = "stage",
    // Top level
    Segments = "segments",
    DeviceTraces = "device_traces",
    AllocatorSettings = "allocator_settings",
    ExternalAnnotations = "external_annotations",
    HostSegments = "host_segments",
    HostTraces = "host_traces",
    Traces = "traces",
    // Of other recorders
    SourceCode = "source_code",
    ShapeData = "shape_data",
}

/// Id of the first key: 0 is the empty text.
const FIRST_KEY: u32 = 1;
const FIRST_ACTION: u32 = FIRST_KEY + Key::ALL.len() as u32;

/// What PyTorch writes for an event outside any compiled region.
pub(super) const NOT_COMPILED: StrId = StrId(FIRST_ACTION + Action::ALL.len() as u32);

/// Every known word in the order of its id.
pub(super) fn known_words() -> impl Iterator<Item = &'static str> {
    Key::TEXTS.iter().copied().chain(Action::ALL.iter().map(|action| action.name())).chain(["N/A"])
}

impl Key {
    /// The key with this text.
    #[inline]
    pub(super) fn of(text: StrId) -> Option<Self> {
        Self::ALL.get(text.0.wrapping_sub(FIRST_KEY) as usize).copied()
    }

    /// The key's bit in a set of keys.
    #[inline]
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// The action with this text.
#[inline]
pub(super) fn action(text: StrId) -> Option<Action> {
    Action::ALL.get(text.0.wrapping_sub(FIRST_ACTION) as usize).copied()
}

const _: () = assert!(Key::ALL.len() <= 64, "a set of keys is one word");
