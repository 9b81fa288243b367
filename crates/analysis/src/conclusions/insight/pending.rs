//! Pending frees, as a finding. What they are is defined in [`crate::questions::pending`].

use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::questions::frames::user_frame;
use crate::questions::pending::pending;

/// Less than this, or than this share of the peak, is nothing to act on.
const LEAST_BYTES: u64 = 32 << 20;
const LEAST_SHARE: f64 = 0.05;

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let Case { snapshot, replay, bytes, device, .. } = *case;
    let found = pending(device);
    let peak = replay.peak(crate::Counter::Active).bytes.max(1) as f64;
    if found.peak_bytes < LEAST_BYTES || (found.peak_bytes as f64) < peak * LEAST_SHARE {
        return None;
    }
    let worst = found.groups.first()?;
    let frame = user_frame(snapshot, worst.stack);
    let place = frame.map_or_else(|| "the program".to_owned(), |frame| case.place(frame));
    let what = format!(
        "{} was released by the program but still in use by another stream; most of it was allocated by {place}",
        bytes(found.peak_bytes)
    );
    let advice = "Let go of it after the other stream is done with it, and drop record_stream. A free that waits costs \
                  memory, and time only where segments are acquired instead";
    let site = Site {
        stack: Some(worst.stack),
        line: case.line(frame),
        stream: Some(snapshot.stream(worst.stream)),
        ..Site::default()
    };
    let waited = found.groups.iter().map(|group| group.count).sum();
    let when = (found.peak_at, found.peak_at);
    let mut finding = Finding::new(Kind::PendingFree, Severity::Medium, found.peak_bytes, when)
        .says(what, advice)
        .on(site)
        .with("frees that had to wait", Amount::Count(waited))
        .with("segments acquired while as much waited", Amount::Count(found.acquired))
        .shown_by(format!("at --at {}", super::moment(found.peak_at)))
        .with("bytes of the worst stack", Amount::Bytes(worst.bytes));
    if found.acquired > 0 {
        finding = finding.with("bytes of those segments", Amount::Bytes(found.acquired_bytes));
    }
    if let Some(frame) = worst.released_by.and_then(|stack| user_frame(snapshot, stack)) {
        finding = finding.with("released by", Amount::Text(case.place(frame)));
    }
    if let Some(longest) = found.groups.iter().map(|group| group.longest_us).max().filter(|&us| us > 0) {
        finding = finding.with("longest wait", Amount::Micros(longest));
    }
    Some(finding)
}
