//! Pure functions over a snapshot: the allocator replayed to the byte.
//!
//! [`Replay::new`] runs the trace of one device once and keeps what makes every later question cheap:
//! the life of every allocation, the four counters in an index, and checkpoints of the live set and of
//! the segments. After that, [`Replay::counters`] and [`Replay::state`] answer for any moment in time
//! that depends on the answer, not on the trace.
//!
//! How a replay works, in the order of the modules:
//! 1. [`pairing`](self): events are paired into allocations, with what the end of the trace and the
//!    final segments say about its start.
//! 2. `ranges`: the memory held from the driver, from the beginning to the end.
//! 3. `blocks`: every block is split, handed out and merged as PyTorch does it, which gives each
//!    allocation its exact size.
//! 4. `timeline`: the counters at every moment, their peaks, and the indices.

mod allocations;
mod blocks;
mod capacity;
pub mod categories;
mod compare;
mod counters;
mod difftree;
mod envelope;
mod fragmentation;
mod frames;
mod gap;
mod growth;
mod highest;
mod insight;
mod overlap;
mod pairing;
mod pending;
mod phases;
pub mod picture;
mod pins;
pub mod pools;
pub mod query;
mod ranges;
mod ranks;
mod replay;
mod rounding;
pub mod shapes;
mod spans;
mod state;
mod timeline;
mod times;
mod totals;
mod tree;
mod verdict;
mod walk;
mod weights;

pub use allocations::{AllocIdx, Allocation, Allocations, Moment};
pub use capacity::{Capacity, capacity};
pub use compare::{Change, Line, Sum, by_line, by_stack, changes};
pub use counters::{Counter, Counters};
pub use difftree::{DiffNode, DiffTree, lay_over};
pub use envelope::{Envelope, Known, Level};
pub use fragmentation::{Fragmentation, IdleSegment, Sample, fragmentation};
pub use frames::{is_internal, no_frame, user_frame};
pub use gap::{Gap, gap};
pub use growth::{Growth, growth};
pub use insight::{Amount, Evidence, Finding, Kind, Severity, ShowBytes, Site, insights};
pub use overlap::{GroupBy, Overlap, operator, overlap};
pub use pending::{Pending, PendingGroup, pending};
pub use phases::{Phase, phase_name, phases};
pub use pins::{Pinned, largest_fit, pinned};
pub use ranges::Range;
pub use ranks::{
    LEAST_RANKS, LineDifference, Lines, Outlier, RankDigest, RankGrowth, RankReport, compare_ranks, median,
    rank_insights, stands_out,
};
pub use replay::{Oom, Peak, Replay, moment_at_time};
pub use rounding::Rules;
pub use spans::{Span, is_internal_phase, open_spans, spans};
pub use state::{Hole, State};
pub use times::Times;
pub use tree::{CallTree, Direction, Node, Place};
pub use verdict::{Status, Verdict};
pub use weights::{Weight, lifetime_weights, live_weights, peak_of};
