//! The stretches of a run that repeat, and how high memory went in each.

use vramscope_snapshot::Snapshot;

use crate::questions::phases::phase_name;
use crate::questions::spans::{Span, is_internal_phase};
use crate::replay::allocations::Moment;

/// Steps by the phases that the program marks: from one beginning of the phase that repeats most to the next, of several
/// such phases of the one that begins first. The last one ends with the trace.
pub(super) fn marked(snapshot: &Snapshot, spans: &[Span], end: Moment) -> Vec<(Moment, Moment)> {
    let mut phases: hashbrown::HashMap<&str, Vec<Moment>> = hashbrown::HashMap::new();
    for span in spans.iter().filter(|span| span.depth == 0 && !is_internal_phase(snapshot.text(span.name))) {
        phases.entry(phase_name(snapshot.text(span.name))).or_default().push(span.from);
    }
    let starts =
        phases.into_values().max_by_key(|starts| (starts.len(), std::cmp::Reverse(starts.first().copied())));
    let starts = starts.unwrap_or_default();
    let ends = starts.iter().skip(1).copied().chain([end]);
    starts.iter().copied().zip(ends).collect()
}
