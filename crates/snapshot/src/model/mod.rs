//! The tables of a snapshot, one file each.

mod added;
mod annotation;
mod column;
mod event;
mod extras;
mod ids;
mod segment;
mod settings;
mod sidecar;
mod snapshot;
mod stack;
mod strings;
mod totals;

pub use added::Additions;
pub use annotation::{Annotation, Stage};
pub use column::Column;
pub use event::{Action, Actions, Event, EventTable, Meta, TimeBounds, Trace};
pub(crate) use event::{Kept, MAX_SIZE};
pub use extras::{Extras, LoggedShape, Source};
pub use ids::{DeviceId, EventIdx, FrameId, MetaId, PoolId, StackId, StrId, StreamId};
pub use segment::{Block, BlockState, BlockTable, Segment, SegmentKind};
pub use settings::Settings;
pub use sidecar::{DeviceMemory, Holder, Pinned, Sidecar, Storage, TensorRole};
pub use snapshot::{Damage, Pool, Snapshot};
pub use stack::{Frame, Fx, StackTable};
pub use strings::StringTable;
pub use totals::{Has, Outside, Total, Totals};
