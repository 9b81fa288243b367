//! What looks wrong, a line each: what, how much, and what to do.

use std::collections::BTreeMap;

use vramscope_analysis::{Gap, Growth, Replay, State};
use vramscope_snapshot::{PoolId, Snapshot};

use crate::text;

/// A gap below these is nothing to act on.
const LEAST_GAP: u64 = 64 << 20;
const LEAST_GAP_SHARE: f64 = 0.15;

fn bytes(n: u64) -> String {
    text::bytes(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Out of memory: what was asked, what was free, and whether a hole would have served.
pub(super) fn out_of_memory(replay: &Replay) -> Vec<String> {
    let mut found = Vec::new();
    for oom in replay.ooms() {
        let state = replay.state(vramscope_analysis::Moment::after(oom.event));
        let (largest, free) = (state.largest_hole(), state.holes.iter().map(|hole| hole.size).sum::<u64>());
        let why = if oom.device_free >= oom.requested {
            "the device itself had room, so a limit was in force (set_per_process_memory_fraction)".to_owned()
        } else if largest >= oom.requested {
            format!("a hole of {} was there, but for another pool or stream", bytes(largest))
        } else if free >= oom.requested {
            format!(
                "fragmentation: {} were free in pieces, the largest {}. Try expandable_segments:True",
                bytes(free),
                bytes(largest)
            )
        } else {
            format!("plain lack: the largest of {} in holes was {}", bytes(free), bytes(largest))
        };
        found.push(format!(
            "out of memory at event {}: {} asked, {} free on the device, {} of {} reserved in use; {why}",
            text::count(oom.event.0),
            bytes(oom.requested),
            bytes(oom.device_free),
            text::bytes(state.counters.active),
            text::bytes(state.counters.reserved),
        ));
    }
    // A loop that catches the error can make thousands.
    if found.len() > 3 {
        let more = found.len() - 3;
        found.truncate(3);
        found.push(format!("out of memory {} more times", text::count(more as u64)));
    }
    found
}

/// Growth from step to step.
pub(super) fn leak(snapshot: &Snapshot, growth: &Growth) -> String {
    let place = |frame| text::frame(snapshot, frame);
    let through = growth.through.map(|(frame, n)| format!(": {} of that through {}", bytes(n), place(frame)));
    let through = through.unwrap_or_default();
    let line = growth.lines.first().map(|&(frame, _)| format!(", most in {}", place(frame)));
    let line = line.unwrap_or_default();
    format!(
        "memory grows by {} with each {:?}, {} over {} of them{through}{line}. Is a loss or an output kept with its \
         graph? detach() it",
        bytes(growth.bytes_per_step),
        text::printable(snapshot.text(growth.phase)),
        bytes(growth.bytes),
        growth.repetitions,
    )
}

/// Memory that is held and not used.
pub(super) fn wide_gap(gap: &Gap, reserved: i64) -> Option<String> {
    let (cause, most) = gap.parts()[0];
    if most < LEAST_GAP || (most as f64) < reserved.max(0) as f64 * LEAST_GAP_SHARE {
        return None;
    }
    let advice = match cause {
        "pinned_holes" => "are holes in segments that something still lives in. Try expandable_segments:True",
        "cached" => "are cached segments in which nothing lives; torch.cuda.empty_cache() gives them back",
        "pools" => "lie idle in private pools of CUDA graphs or MemPools, which serve nothing else",
        "rounding" => "are lost to rounding. Look at roundup_power2_divisions",
        "unsplit" => "are remainders of blocks that were not split. Look at max_split_size_mb",
        _ => "wait for other streams (record_stream)",
    };
    Some(format!("{} of the reserved memory at the peak {advice}", bytes(most)))
}

/// What private pools cost at the end.
pub(super) fn pools(snapshot: &Snapshot, replay: &Replay, end: &State) -> Vec<String> {
    let mut reserved: BTreeMap<(i64, i64), (u64, u64)> = BTreeMap::new();
    let private = |pool: PoolId| snapshot.pool(pool).filter(|pool| *pool != (0, 0));
    for range in &end.ranges {
        if let Some(pool) = private(range.pool) {
            reserved.entry(pool).or_default().0 += range.size;
        }
    }
    for &index in &end.live {
        let allocation = replay.allocation(index);
        if let Some(pool) = private(end.pool_of(allocation.addr, allocation.pool)) {
            reserved.entry(pool).or_default().1 += allocation.size;
        }
    }
    let line = |((a, b), (held, used)): (&(i64, i64), &(u64, u64))| {
        format!("private pool ({a}, {b}) holds {} at the end, {} of it in use", bytes(*held), bytes(*used))
    };
    reserved.iter().map(line).collect()
}
