//! Private pools that hold more than they use.
//!
//! CUDA graphs and `MemPool`s have memory of their own, which serves nothing else. What a pool holds at the end
//! and does not use is idle for as long as the pool lives.

use std::collections::BTreeMap;

use vramscope_snapshot::{Pool, PoolId, StreamId};

use super::{Amount, Case, Finding, Kind, Severity, Site};

/// A pool that holds less is nothing to act on, only good to know.
const LEAST_IDLE: u64 = 64 << 20;

#[derive(Default)]
struct Held {
    reserved: u64,
    used: u64,
    segments: u64,
    stream: Option<StreamId>,
}

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let state = replay.state(replay.end());
    let mut pools: BTreeMap<Pool, Held> = BTreeMap::new();
    let private = |pool: PoolId| snapshot.pool(pool).filter(|pool| *pool != (0, 0));
    for range in &state.ranges {
        if let Some(pool) = private(range.pool) {
            let held = pools.entry(pool).or_default();
            held.reserved = held.reserved.saturating_add(range.size);
            held.segments += 1;
            held.stream = Some(range.stream);
        }
    }
    for &index in &state.live {
        let allocation = replay.allocation(index);
        if let Some(pool) = private(state.pool_of(allocation.addr, allocation.pool)) {
            let held = pools.entry(pool).or_default();
            held.used = held.used.saturating_add(allocation.size);
        }
    }
    let tell = |(pool, held): (Pool, Held)| {
        let idle = held.reserved.saturating_sub(held.used);
        let (a, b) = pool;
        let is_graph = b == 0;
        let advice = if is_graph {
            "Let graphs that never run at the same time share a pool: torch.cuda.graph(g, pool=other.pool())"
        } else {
            "Drop the MemPool when its phase is over: only then does its memory go back"
        };
        Finding {
            kind: Kind::PrivatePool,
            severity: if idle >= LEAST_IDLE { Severity::Medium } else { Severity::Low },
            bytes: held.reserved,
            when: (replay.end(), replay.end()),
            site: Site {
                pool: Some(pool),
                stream: held.stream.map(|stream| snapshot.stream(stream)),
                ..Site::default()
            },
            what: format!(
                "private pool ({a}, {b}) of {} holds {} at the end, {} of it in use",
                if is_graph { "a CUDA graph" } else { "a MemPool or graph_pool_handle()" },
                bytes(held.reserved),
                bytes(held.used)
            ),
            evidence: Vec::new(),
            advice: advice.to_owned(),
        }
        .with("reserved", Amount::Bytes(held.reserved))
        .with("in use", Amount::Bytes(held.used))
        .with("idle", Amount::Bytes(idle))
        .with("segments", Amount::Count(held.segments))
    };
    pools.into_iter().map(tell).collect()
}
