//! What private pools cost. What they are is defined in [`crate::questions::pools`].
//!
//! CUDA graphs and `MemPool`s have memory of their own, which serves nothing else. What a pool holds at the end
//! and does not use is idle for as long as the pool lives.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_replay::{Counter, Moment};
use vramscope_snapshot::Frame;

use super::{Amount, Case, Finding, Kind, Severity, Site, signed};
use crate::questions::frames::user_frame;
use crate::questions::pools::{DEFAULT_POOL, PoolSummary, Pools};

/// The share of what is reserved that pools hold beside the largest, if one that they shared would serve all.
const SHARED_SHARE: f64 = 0.2;
/// The share of what is reserved that a pool leaves idle, if it is worth acting on.
const IDLE_SHARE: f64 = 0.25;

/// Whether the graphs that `torch.compile` records allocate from a pool.
fn is_of_compile(case: &Case<'_>, pools: &Pools, number: usize) -> bool {
    let snapshot = case.snapshot;
    let is_tree = |frame: Frame| snapshot.text(frame.file).ends_with("cudagraph_trees.py");
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
        let when = (summary.first.unwrap_or(peak_at), summary.last.unwrap_or(replay.end()));
        let what = format!(
            "private pool ({a}, {b}) of {owner} holds {} at the end, {} of it in use",
            bytes(reserved),
            bytes(used)
        );
        found.push(
            Finding::new(Kind::PrivatePool, Severity::Low, reserved, when)
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
    found.extend(shared(case, &pools, &found));
    found
}

/// Several pools where one would do: what all but the largest hold.
fn shared(case: &Case<'_>, pools: &Pools, each: &[Finding]) -> Option<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let reserved = signed(replay.peak(Counter::Reserved).bytes).max(1);
    let all = each.iter().fold(0_u64, |sum, found| sum.saturating_add(found.bytes));
    let largest = each.iter().map(|found| found.bytes).max()?;
    let beside = all - largest;
    if each.len() < 2 || (beside as f64) < reserved as f64 * SHARED_SHARE {
        return None;
    }
    // The lines that allocate in them, most bytes first.
    let mut lines: HashMap<Frame, u64> = HashMap::new();
    for (index, block) in replay.allocations().iter() {
        if pools.pool_of(index).is_some_and(|pool| pool != DEFAULT_POOL)
            && let Some(frame) = user_frame(snapshot, block.stack)
        {
            let sum = lines.entry(frame).or_default();
            *sum = sum.saturating_add(block.requested);
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(frame, bytes)| (Reverse(*bytes), frame.file, frame.line));
    let line = lines.first().map(|(frame, _)| *frame);
    let at = replay.end();
    let severity =
        if beside as f64 >= reserved as f64 * IDLE_SHARE { Severity::High } else { Severity::Medium };
    let what = format!(
        "{} hold {} at the end, and the largest alone {}: one that they share would leave the rest to others",
        vramscope_format::plural(each.len() as u64, "private pool"),
        bytes(all),
        bytes(largest)
    );
    let advice = "Capture graphs that never run at the same time into one pool: torch.cuda.graph(g, pool=first.pool())";
    let mut finding = Finding::new(Kind::PrivatePool, severity, beside, (Moment::START, at))
        .says(what, advice)
        .on(Site { line: case.line(line), ..Site::default() })
        .likely()
        .with("pools", Amount::Count(each.len() as u64))
        .shown_by("pools")
        .with("beside the largest", Amount::Bytes(beside));
    for (frame, bytes) in lines.into_iter().take(5) {
        finding = finding.at("allocates in them", case.place(frame), bytes);
    }
    Some(finding)
}
