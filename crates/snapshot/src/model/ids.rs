//! Typed numbers of rows, so that a frame is never taken for a stack.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Pod, Zeroable,
        )]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The row's position in its table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the row at `index`. Tables stop growing before `u32` runs out.
            #[inline]
            pub fn from_index(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok());
                $name(index as u32)
            }
        }
    )*};
}

ids! {
    /// An event's number in its device's trace, from 0 in trace order.
    EventIdx
    /// A text in [`StringTable`](crate::StringTable). 0 is the empty text.
    StrId
    /// A frame in [`StackTable`](crate::StackTable).
    FrameId
    /// A stack in [`StackTable`](crate::StackTable).
    StackId
    /// A stream handle in [`Snapshot::streams`](crate::Snapshot::streams). 0 is the default stream.
    StreamId
    /// A row of [`Snapshot::pools`](crate::Snapshot::pools). 0 says that the file names no pool.
    PoolId
    /// A row of [`Snapshot::metas`](crate::Snapshot::metas). 0 has nothing set.
    MetaId
}

impl StrId {
    /// The empty text.
    pub const EMPTY: Self = Self(0);
}

impl StackId {
    /// No stack was recorded.
    pub const ABSENT: Self = Self(0);
    /// A stack was recorded, and it has no frames.
    pub const EMPTY: Self = Self(1);

    /// Whether there are frames to show.
    pub fn has_frames(self) -> bool {
        self > Self::EMPTY
    }
}

impl PoolId {
    /// The file does not say which pool: events had no `pool_id` before PyTorch 2.12.
    pub const UNKNOWN: Self = Self(0);
    /// The default pool, `(0, 0)`.
    pub const DEFAULT: Self = Self(1);
}

/// A device ordinal, as the position in `device_traces` gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId(pub i32);

impl DeviceId {
    /// Pinned host memory, which PyTorch 2.14 and later record as device -1.
    pub const HOST: Self = Self(-1);
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::HOST => f.write_str("host"),
            Self(n) => write!(f, "{n}"),
        }
    }
}
