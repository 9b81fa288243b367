//! Churn: a line that makes a large part of all allocations, to let them go again at once.
//!
//! The caching allocator makes this cheap, but not free: every allocation takes a lock and a search, and a million
//! of them are seconds. So its severity is low.

use hashbrown::HashMap;
use vramscope_replay::Moment;
use vramscope_snapshot::{Frame, StackId};

use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::questions::frames::user_frame;

/// Fewer allocations in all take no time to speak of.
const LEAST_COUNT: u64 = 100_000;
/// A line with a smaller part of them is one of many.
const LEAST_SHARE: f64 = 0.25;

#[derive(Clone, Copy, Default)]
struct Freed {
    count: u64,
    bytes: u64,
    stack: StackId,
    first: u32,
    last: u32,
}

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let all = replay.allocations().len() as u64;
    if all < LEAST_COUNT {
        return None;
    }
    // A row per stack: there are far fewer of them than allocations.
    let mut by_stack = vec![Freed::default(); snapshot.stacks.ids().len()];
    let allocations = replay.allocations();
    for row in 0..allocations.len() {
        let (opened, closed) = (allocations.opened[row], allocations.closed[row]);
        if closed == Moment::NEVER || opened == Moment::START {
            continue;
        }
        let stack = allocations.stack[row];
        let Some(freed) = by_stack.get_mut(stack.index()) else { continue };
        if freed.count == 0 {
            (freed.stack, freed.first) = (stack, opened.0);
        }
        freed.count += 1;
        freed.bytes = freed.bytes.saturating_add(allocations.requested[row]);
        freed.last = freed.last.max(closed.0);
    }
    let mut by_line: HashMap<Frame, Freed> = HashMap::new();
    for freed in by_stack.into_iter().filter(|freed| freed.count > 0) {
        let Some(frame) = user_frame(snapshot, freed.stack) else { continue };
        let sum = by_line.entry(frame).or_insert(Freed { count: 0, bytes: 0, ..freed });
        sum.count += freed.count;
        sum.bytes = sum.bytes.saturating_add(freed.bytes);
        (sum.first, sum.last) = (sum.first.min(freed.first), sum.last.max(freed.last));
    }
    let (frame, worst) = by_line
        .into_iter()
        .max_by_key(|(frame, freed)| (freed.count, std::cmp::Reverse((frame.file, frame.line))))?;
    let share = worst.count as f64 / all as f64;
    if share < LEAST_SHARE {
        return None;
    }
    let place = case.place(frame);
    Some(
        Finding::new(Kind::Churn, Severity::Low, worst.bytes, (Moment(worst.first), Moment(worst.last)))
            .says(
                format!(
                    "{place} makes {:.0} % of all allocations, and frees them again: {} in all",
                    share * 100.0,
                    bytes(worst.bytes)
                ),
                format!(
                    "If time matters, reuse buffers in {place} (out=, in-place operations, torch.compile)"
                ),
            )
            .on(Site { stack: Some(worst.stack), line: case.line(Some(frame)), ..Site::default() })
            .with("allocations", Amount::Count(worst.count))
            .shown_by("top --by churn")
            .with("share", Amount::Share(share)),
    )
}
