//! The columnar model of a memory snapshot, and one reader per input format.
//!
//! A [`Snapshot`] is what a file says, with nothing computed from it: the trace of every device in
//! columns, the segments and blocks that were there at the end, and the tables that both refer to.
//! [`Reader`] fills one from bytes pushed in chunks of any size, whatever the format.
//!
//! Nothing here touches a path, a clock or a thread: callers bring the bytes.

pub mod embedded;
pub mod model;
mod read;
pub mod stored;

pub use model::*;
pub use read::{
    AscendFolder, AscendPart, AscendProfile, PROBE_BYTES, ReadError, Reader, add_memory_usage, add_sidecar,
    looks_like_snapshot, profile_rank,
};
