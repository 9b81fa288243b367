//! Growth from step to step, as a finding. What growth is, is defined in [`crate::conclusions::growth`].

use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::conclusions::growth::growth;
use crate::questions::spans::phase_name;

/// Growth that is this sure, and this share of the peak, ends in an out-of-memory error.
const SURE: f64 = 0.9;
const HIGH_SHARE: f64 = 0.05;

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let found = growth(case.device)?;
    let step = match found.phase {
        Some(phase) => format!("each {:?}", phase_name(case.snapshot.text(phase))),
        None => "each cycle".to_owned(),
    };
    let (kind, name) = match found.is_kept_graph {
        true => (Kind::KeptGraph, "an autograd graph is kept: memory"),
        false => (Kind::Growth, "memory"),
    };
    let line = found.through.or_else(|| found.lines.first().copied()).map(|(frame, _)| frame);
    let through = line.map(|frame| format!(", through {}", case.place(frame))).unwrap_or_default();
    let bytes = case.bytes;
    let what = format!(
        "{name} grows by {} with {step}, {} over the last {} of {}{through}",
        bytes(found.bytes_per_step),
        bytes(found.bytes),
        found.counted,
        found.steps
    );
    let advice = match line.map(|frame| case.place(frame)) {
        Some(place) if found.is_kept_graph => format!(
            "Keep numbers, not tensors: use .item() or .detach() on what {place} returns before storing it"
        ),
        Some(place) => {
            format!("Find what keeps the result of {place}: drop the reference, or give the cache a limit")
        }
        None => "Record with stacks (context=\"all\"): they name the line whose results are kept".to_owned(),
    };
    let peak = super::signed(case.replay.peak(crate::Counter::Requested).bytes).max(1);
    let is_high = found.confidence >= SURE && found.bytes as f64 >= peak as f64 * HIGH_SHARE;
    let when = (*found.ends.first()?, *found.ends.last()?);
    let site = Site { stack: Some(found.stack), line: case.line(line), ..Site::default() };
    let severity = if is_high { Severity::High } else { Severity::Medium };
    let mut finding = Finding::new(kind, severity, found.bytes, when)
        .says(what, advice)
        .on(site)
        .with("bytes per step", Amount::Bytes(found.bytes_per_step))
        .with("steps", Amount::Count(found.steps as u64))
        .with("of which are counted", Amount::Count(found.counted as u64))
        .shown_by("steps");
    if found.grew < 1.0 {
        finding = finding.with("of these grew", Amount::Share(found.grew));
    }
    if found.blocks > 0 {
        finding = finding.with("more blocks live", Amount::Count(found.blocks));
    }
    // Steps that are guessed from the curve, and graphs, are explanations of what the events show.
    if found.phase.is_none() || found.is_kept_graph {
        finding = finding.likely();
    }
    for (frame, per_step) in found.lines.iter().take(3) {
        finding = finding.at("each step by", case.place(*frame), *per_step);
    }
    Some(finding)
}
