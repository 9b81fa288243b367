//! How much each stack is responsible for: at a moment, or over a stretch of the trace.

use hashbrown::HashMap;
use vramscope_snapshot::StackId;

use crate::allocations::{Allocation, Moment};
use crate::replay::Replay;
use crate::state::State;

/// What one stack weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Which stack.
    pub stack: StackId,
    /// Bytes requested; over a stretch, bytes times events lived.
    pub bytes: u64,
    /// Allocations.
    pub count: u64,
}

/// Requested bytes of what is live, by stack, heaviest first. `keep` says which allocations count.
pub fn live_weights(replay: &Replay, state: &State, keep: impl Fn(&Allocation) -> bool) -> Vec<Weight> {
    let live = state.live.iter().map(|&index| replay.allocation(index));
    sum(live.filter(keep).map(|allocation| (allocation.stack, allocation.requested)))
}

/// Requested bytes times the number of events lived between two moments, by stack, heaviest first.
pub fn lifetime_weights(
    replay: &Replay,
    from: Moment,
    to: Moment,
    keep: impl Fn(&Allocation) -> bool,
) -> Vec<Weight> {
    let all = replay.allocations().iter().map(|(_, allocation)| allocation);
    let lived = all.filter(|allocation| allocation.opened < to && allocation.closed > from).filter(keep);
    sum(lived.map(|allocation| {
        let events = allocation.closed.min(to).0.saturating_sub(allocation.opened.max(from).0);
        (allocation.stack, allocation.requested.saturating_mul(events.into()))
    }))
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
