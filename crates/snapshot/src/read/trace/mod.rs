//! Traces in Chrome's format: a list of events with a name, a thread and a time.
//!
//! Kineto (PyTorch's profiler) writes its memory events this way, and the Ascend profiler its call
//! stacks. Such files are gigabytes of what is of no interest here, so a [`Sink`] keeps one short row per
//! slice or memory event and nothing of the rest.

mod kineto;
mod sink;
mod stacks;

pub(super) use kineto::{annotations, build as kineto};
pub(super) use sink::TraceSink;
pub(super) use stacks::Frames;

#[cfg(doc)]
use super::json::Sink;
use crate::model::StrId;

/// What a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceKind {
    /// An operator of the framework.
    Operator,
    /// A Python function.
    Python,
    /// What the program or the profiler's schedule marked.
    Annotation,
}

/// Something that took time on a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) thread: u32,
    pub(super) name: StrId,
    /// The call stack that is written beside it; empty for none.
    pub(super) call_stack: StrId,
    pub(super) kind: SliceKind,
}

/// A `[memory]` or `[OutOfMemory]` event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryEvent {
    pub(super) time_ns: i64,
    pub(super) thread: u32,
    pub(super) device_type: i64,
    pub(super) device_id: i64,
    pub(super) bytes: i64,
    pub(super) addr: u64,
    pub(super) allocated: Option<u64>,
    pub(super) reserved: Option<u64>,
    pub(super) is_oom: bool,
}
