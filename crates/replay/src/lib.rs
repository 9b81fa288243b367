//! The exact past of one device: its trace, replayed as PyTorch's caching allocator went through it.
//!
//! [`Replay::new`] runs the trace once and keeps what makes every later question cheap: the life of every allocation,
//! the four counters in an index, and checkpoints of the live set and of the segments. After that
//! [`Replay::counters`] and [`Replay::state`] answer for any moment in time that depends on the answer, not on the
//! trace. This crate gives data; sentences, conclusions and pictures are made of it elsewhere.
//!
//! In the order of the work:
//! 1. `pairing`: events are paired into allocations, with what the end of the trace and the final segments say about
//!    its start. (`totals` does it for sources that state totals and have no map of memory.)
//! 2. `ranges`: the memory held from the driver, from the beginning to the end.
//! 3. `blocks`: every block is split, handed out and merged as PyTorch does it, which gives each allocation its exact
//!    size (the rules are in `rounding`).
//! 4. `timeline`: the counters at every moment, their peaks, and the indices.
//! 5. `verdict`: which of it can be trusted.

mod allocations;
mod begun;
mod blocks;
mod counters;
mod extreme;
mod extremes;
mod live;
mod made;
mod pairing;
mod parallel;
mod ranges;
mod replay;
mod rounding;
mod source;
mod state;
mod stored;
mod stretch;
mod timeline;
mod times;
mod totals;
mod verdict;
mod walk;

pub use allocations::{AllocIdx, Allocation, Allocations, Moment};
pub use begun::Begun;
pub use counters::{Counter, Counters};
pub use extremes::Extremes;
pub use made::{Made, makers};
pub use pairing::Link;
pub use parallel::{Both, IN_TURN};
pub use ranges::{Change, Changes, Range, RangeSet};
pub use replay::{Oom, Peak, Replay, moment_at_time};
pub use rounding::{GRANULE, Rules, SMALL, UNIT};
pub use source::{Source, signed};
pub use state::{Hole, State};
pub use times::Times;
pub use verdict::{Note, Status, Verdict};
pub use walk::Effect;
