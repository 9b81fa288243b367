//! Everything that follows from a replay: facts, answers, conclusions, pictures and tables.
//!
//! * [`Device`]: one device of a recording with its facts, each worked out once.
//! * [`query`]: what users type: moments, filters, patterns, devices.
//! * `questions`: what a replay answers: the gap, pools, phases, call trees, overlaps.
//! * `conclusions`: categories, growth and findings, which follow from the answers.
//! * [`tables`]: what leaves as CSV, JSON or Parquet, by column.
//! * [`pictures`]: for every pixel, the allocation that owns it.

mod conclusions;
mod device;
pub mod pictures;
pub mod query;
mod questions;
mod shelf;
pub mod tables;
mod words;

pub use conclusions::categories;
pub use conclusions::cycles::{Cycles, CyclesBy, Stretch};
pub use conclusions::device_calls::{CallTable, Calls, DeviceCalls};
pub use conclusions::each::{Conclusion, Conclusions};
pub use conclusions::growth::{Growth, growth};
pub use conclusions::heat::{HeatCell, HeatInput, HeatMap, HeatRow, curve};
pub use conclusions::insight::{
    Amount, Evidence, Finding, GOES_ON, Kind, Severity, ShowBytes, Site, command, nothing_found,
};
pub use conclusions::known::KnownBy;
pub use conclusions::lives::{Freed, Lives, Twins, lives};
pub use conclusions::module_tree::{Held, ModuleNode, ModulePeaks, ModulesBy, module_tree};
pub use conclusions::modules::Modules;
pub use conclusions::passes::{Part, Pass, Passes};
pub use conclusions::ranks::{
    LEAST_RANKS, LineDifference, Lines, Outlier, RankDigest, RankGrowth, RankReport, compare_ranks, median,
    outliers, rank_insights, stands_out,
};
pub use conclusions::recipe::Recipe;
pub use conclusions::steps::{Step, Steps, StepsBy};
pub use conclusions::stepwise::{Keep, Outliving, StepRow, Stepwise};
pub use conclusions::trend::{Shape, Trend};
pub use device::Device;
pub use questions::capacity::{Capacity, Refusal, capacity, refused_before};
pub use questions::compare::{Change, Line, Sum, by_line, by_stack, changes};
pub use questions::device::{device_sentence, pinned_sentence, recorded, versions};
pub use questions::difftree::{DiffNode, DiffTree, lay_over};
pub use questions::envelope::{Envelope, Known, Level};
pub use questions::fragmentation::{Fragmentation, IdleSegment, SAMPLES, Sample, fragmentation};
pub use questions::frames::{autograd_node, fx_words, is_internal, is_of_program, no_frame, user_frame};
pub use questions::gap::{Gap, gap};
pub use questions::minimum::{Minimum, Packing, minimum};
pub use questions::overlap::{GroupBy, Overlap, operator, overlap};
pub use questions::pending::{Pending, PendingGroup, pending};
pub use questions::phases::{Phase, SpanSums, phases, phases_of};
pub use questions::pins::{Pinned, largest_fit, pinned};
pub use questions::room::{Room, room};
pub use questions::scaling::{Fit, Law, largest_within};
pub use questions::spans::{Span, is_internal_phase, open_spans, phase_name};
pub use questions::tree::{CallTree, Direction, Node, Place};
pub use questions::weights::{Weight, lifetime_weights, live_weights, peak_of};
pub use questions::{pools, shapes, whatif};
pub use shelf::{Put, Shelf};
pub use vramscope_replay::{
    AllocIdx, Allocation, Allocations, Both, Counter, Counters, Extremes, Hole, Made, Moment, Note, Oom,
    Peak, Range, Replay, Rules, State, Status, Times, Verdict, makers, moment_at_time,
};
pub use words::{verdict_notes, verdict_sentence};
