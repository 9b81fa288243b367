//! What private pools cost. What they are is defined in [`crate::questions::pools`].
//!
//! CUDA graphs and `MemPool`s have memory of their own, which serves nothing else. What a pool holds at the end
//! and does not use is idle for as long as the pool lives.

use super::{Amount, Case, Finding, Kind, Severity, Site, signed};
use crate::questions::pools::{DEFAULT_POOL, PoolSummary, Pools};

/// A pool with less that is idle is nothing to act on, only good to know.
const LEAST_IDLE: u64 = 64 << 20;

/// Whether the graphs that `torch.compile` records allocate from a pool.
fn is_of_compile(case: &Case<'_>, pools: &Pools, number: usize) -> bool {
    let snapshot = case.snapshot;
    let is_tree =
        |frame: vramscope_snapshot::Frame| snapshot.text(frame.file).ends_with("cudagraph_trees.py");
    let mut looked_at = hashbrown::HashSet::new();
    case.replay.allocations().iter().any(|(index, allocation)| {
        pools.envelope_of(index) == Some(number)
            && looked_at.insert(allocation.stack)
            && snapshot.frames(allocation.stack).any(is_tree)
    })
}

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Case { snapshot: _, replay, bytes, device, .. } = *case;
    let pools = Pools::private(device);
    let summaries = pools.summaries(device, replay.end());
    let mut found = Vec::new();
    for (number, (envelope, summary)) in pools.envelopes().iter().zip(summaries).enumerate() {
        let PoolSummary { now, segments, peak_at, peak, .. } = summary;
        let (reserved, used, idle) = (signed(now.reserved), signed(now.active), signed(now.idle()));
        let Some(pool) = envelope.pool.filter(|pool| *pool != DEFAULT_POOL && reserved > 0) else { continue };
        let (a, b) = pool;
        // The first number is of a CUDA graph, the second of a handle that the program made.
        let (owner, advice) = match b {
            _ if is_of_compile(case, &pools, number) => (
                "torch.compile's CUDA graphs (mode=\"reduce-overhead\")",
                "Compile with mode=\"default\" if the memory is needed; each new shape records another graph \
                 (mark_dynamic avoids it)",
            ),
            0 => (
                "a CUDA graph",
                "Let graphs that never run at the same time share a pool: torch.cuda.graph(g, pool=other.pool())",
            ),
            _ => (
                "a MemPool or graph_pool_handle()",
                "Drop the MemPool when its phase is over: only then does its memory go back",
            ),
        };
        let severity = if idle >= LEAST_IDLE { Severity::Medium } else { Severity::Low };
        let when = (summary.first.unwrap_or(peak_at), summary.last.unwrap_or(replay.end()));
        let what = format!(
            "private pool ({a}, {b}) of {owner} holds {} at the end, {} of it in use",
            bytes(reserved),
            bytes(used)
        );
        found.push(
            Finding::new(Kind::PrivatePool, severity, reserved, when)
                .says(what, advice)
                .on(Site { pool: Some(pool), stream: Some(envelope.stream), ..Site::default() })
                .with("reserved", Amount::Bytes(reserved))
                .shown_by("pools")
                .with("in use", Amount::Bytes(used))
                .with("idle", Amount::Bytes(idle))
                .with("segments", Amount::Count(segments as u64))
                .with("peak reserved", Amount::Bytes(signed(peak.reserved)))
                .with("idle at that peak", Amount::Bytes(signed(peak.idle())))
                .with("pool membership", Amount::Text(envelope.known.words().to_owned())),
        );
    }
    found
}
