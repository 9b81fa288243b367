//! How much each stack is responsible for: at a moment, or over a stretch of the trace.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Allocation, Moment, Peak, Replay, State};
use vramscope_snapshot::StackId;

/// What one stack weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// Which stack.
    pub stack: StackId,
    /// Bytes requested; over a stretch, bytes times events lived.
    pub bytes: u64,
    /// Allocations.
    pub count: u64,
}

/// Requested bytes of what is live, by stack, heaviest first. `keep` says which allocations count.
pub fn live_weights(state: &State, keep: impl Fn(AllocIdx, &Allocation) -> bool) -> Vec<Weight> {
    let kept = state.allocations().filter(|(index, allocation)| keep(*index, allocation));
    sum(kept.map(|(_, allocation)| (allocation.stack, allocation.requested)))
}

/// Requested bytes times the number of events lived between two moments, by stack, heaviest first.
pub fn lifetime_weights(
    replay: &Replay,
    from: Moment,
    to: Moment,
    keep: impl Fn(AllocIdx, &Allocation) -> bool,
) -> Vec<Weight> {
    let lived = replay.allocations().iter().filter(|(index, allocation)| {
        allocation.opened < to && allocation.closed > from && keep(*index, allocation)
    });
    sum(lived.map(|(_, allocation)| {
        let events = allocation.closed.min(to).0.saturating_sub(allocation.opened.max(from).0);
        (allocation.stack, allocation.requested.saturating_mul(events.into()))
    }))
}

/// When the requested bytes of some of the allocations were highest between two moments, both included.
pub fn peak_of(
    replay: &Replay,
    from: Moment,
    to: Moment,
    keep: impl Fn(AllocIdx, &Allocation) -> bool,
) -> Peak {
    let to = to.min(replay.end()).max(from);
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let mut changes = vec![0_i64; (to.0 - from.0) as usize + 1];
    let mut change = |at: Moment, bytes: i64| {
        if let Some(sum) = changes.get_mut((at.max(from).0 - from.0) as usize) {
            *sum = sum.saturating_add(bytes);
        }
    };
    for (index, allocation) in replay.allocations().iter() {
        if allocation.opened <= to && allocation.closed > from && keep(index, &allocation) {
            change(allocation.opened, signed(allocation.requested));
            change(allocation.closed, -signed(allocation.requested));
        }
    }
    let mut bytes = 0_i64;
    let mut peak = Peak { bytes: i64::MIN, at: from };
    for (row, change) in changes.into_iter().enumerate() {
        bytes = bytes.saturating_add(change);
        if bytes > peak.bytes {
            peak = Peak { bytes, at: Moment(from.0 + row as u32) };
        }
    }
    peak
}

fn sum(items: impl Iterator<Item = (StackId, u64)>) -> Vec<Weight> {
    let mut by_stack: HashMap<StackId, Weight> = HashMap::new();
    for (stack, bytes) in items {
        let weight = by_stack.entry(stack).or_insert(Weight { stack, ..Weight::default() });
        weight.bytes = weight.bytes.saturating_add(bytes);
        weight.count += 1;
    }
    let mut weights: Vec<_> = by_stack.into_values().collect();
    weights.sort_unstable_by_key(|weight| (std::cmp::Reverse(weight.bytes), weight.stack));
    weights
}
