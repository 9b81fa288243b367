//! Steps that grow until one does not fit: told before it happens, with what the next one needs.

use super::{Amount, Case, Finding, Kind, Severity, signed};
use crate::conclusions::trend::{Shape, Trend};
use crate::questions::capacity::Capacity;

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let Case { snapshot: _, replay, bytes, device, .. } = *case;
    // An error that happened says it itself.
    if !replay.ooms().is_empty() {
        return None;
    }
    let peaks = case.peaks_before(crate::Moment::NEVER);
    let trend = Trend::of(&peaks).filter(Trend::grows)?;
    let capacity = Capacity::of(device);
    let is_too_much = capacity.is_some_and(|capacity| trend.next > signed(capacity.bytes));
    // Even growth is reported as a leak, with its lines.
    if trend.shape == Shape::Linear && !is_too_much {
        return None;
    }
    let steps = case.device.steps();
    let (first, last) = (steps.list.first()?, steps.list.last()?);
    let will = match (is_too_much, capacity) {
        (true, Some(capacity)) => format!(", more than {}", capacity.words(bytes)),
        _ => String::new(),
    };
    let shown: Vec<_> = peaks.iter().rev().take(5).rev().map(|n| bytes(*n)).collect();
    let what = format!(
        "{} ({}): the next one needs about {}{will}",
        trend.words(bytes),
        shown.join(", "),
        bytes(trend.next)
    );
    let severity = if is_too_much { Severity::High } else { Severity::Medium };
    Some(
        Finding::new(Kind::WillNotFit, severity, trend.next, (first.from, last.to))
            .says(what, "Keep the batch and the sequence of the last step, or check that the device holds the next one")
            .likely()
            .with("needed by the next step", Amount::Bytes(trend.next))
            .shown_by("steps")
            .with("peak of the last step", Amount::Bytes(peaks.last().copied().unwrap_or_default())),
    )
}
