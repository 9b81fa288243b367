//! Why memory ran out or went to the driver and back, in traces worked out by hand.

use crate::common;
use serde_json::{Value, json};
use std::sync::Arc;
use vramscope_analysis::{
    Amount, Capacity, Counter, Device, Finding, Kind, KnownBy, Moment, Severity, fragmentation, gap,
    nothing_found, refused_before,
};
use vramscope_format::Units;
use vramscope_snapshot::{DeviceId, Snapshot};

const MIB: u64 = 1 << 20;

/// Events of (action, address, size in MiB, line of train.py), and the segments at the end.
fn trace(events: &[(&str, u64, u64, u32)], segments: &Value) -> (Snapshot, Device) {
    let event = |(at, &(action, addr, size, line)): (usize, &(&str, u64, u64, u32))| {
        let frames = json!([{"filename": "train.py", "line": line, "name": "step"}]);
        json!({"action": action, "addr": addr * MIB, "device_free": addr * MIB, "size": size * MIB, "stream": 0,
            "time_us": at, "frames": frames})
    };
    let events: Vec<_> = events.iter().enumerate().map(event).collect();
    let text = json!({"segments": segments, "device_traces": [events]}).to_string();
    let snapshot = common::snapshot(text.as_bytes());
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    (snapshot, replay)
}

/// A segment of a pool with one block at its beginning, in MiB.
fn segment(addr: u64, size: u64, used: u64, pool: u64) -> Value {
    let block = |addr: u64, size: u64, state: &str| json!({"address": addr * MIB, "size": size * MIB, "requested_size": size * MIB, "state": state, "frames": []});
    let mut blocks = vec![];
    if used > 0 {
        blocks.push(block(addr, used, "active_allocated"));
    }
    if used < size {
        blocks.push(block(addr + used, size - used, "inactive"));
    }
    json!({"device": 0, "address": addr * MIB, "total_size": size * MIB, "stream": 0, "segment_type": "large",
        "segment_pool_id": [0, pool], "is_expandable": false, "blocks": blocks})
}

fn found(replay: &Device) -> Vec<Finding> {
    replay.findings(Units::Binary)
}

fn evidence(finding: &Finding, name: &str) -> Amount {
    finding.evidence.iter().find(|evidence| evidence.name == name).unwrap().value.clone()
}

/// `empty_cache()` at line 9 in each of `steps`, after which line 5 allocates `each` segments of 40 MiB.
fn emptied(steps: u64, each: u64) -> Vec<(&'static str, u64, u64, u32)> {
    let mut events = Vec::new();
    for _ in 0..steps {
        for row in 0..each {
            events.push(("segment_alloc", row * 64, 40, 5));
            events.push(("alloc", row * 64, 40, 5));
        }
        for row in 0..each {
            events.push(("free_requested", row * 64, 40, 6));
            events.push(("free_completed", row * 64, 40, 6));
        }
        events.extend((0..each).map(|row| ("segment_free", row * 64, 40, 9)));
    }
    events
}

#[test]
fn cycles_are_counted_not_segments() {
    // 100 segments after one empty_cache(): nothing to tell.
    let (_, replay) = trace(&emptied(2, 100), &json!([]));
    assert!(found(&replay).iter().all(|finding| finding.kind != Kind::DriverCalls));
    // Two segments in each of 10 steps: 9 releases are followed by an acquisition, of 80 MiB each.
    let (_, replay) = trace(&emptied(10, 2), &json!([]));
    let found = found(&replay);
    let calls = found.iter().find(|finding| finding.kind == Kind::DriverCalls).unwrap();
    assert_eq!(evidence(calls, "times"), Amount::Count(9));
    assert_eq!((calls.bytes, calls.severity), (9 * 80 * MIB, Severity::Medium));
    assert_eq!(calls.site.line.as_ref().unwrap().line, 9, "the line that releases");
    // An event each microsecond. Of each step, one acquisition and two releases have a neighbor that is no device call or
    // comes after; the last release has none.
    assert_eq!(evidence(calls, "in these calls, at most"), Amount::Micros(3 * 10 - 1));
    assert_eq!(calls.known_by, KnownBy::Likely, "no stack has empty_cache()");
    assert!(calls.advice.contains("train.py:9"), "{}", calls.advice);
}

/// Pool (0, 1) holds 20 MiB that are full, the default pool has a hole of 68 MiB. The program allocated from (0, 1)
/// before the error: the default pool would have had room.
#[test]
fn a_failed_request_belongs_to_the_pool_that_had_no_room() {
    let events = [
        ("segment_alloc", 1000, 70, 2),
        ("alloc", 1000, 2, 2),
        ("segment_alloc", 0, 20, 4),
        ("alloc", 0, 20, 4),
        ("oom", 4, 32, 5),
    ];
    let segments = json!([segment(0, 20, 20, 1), segment(1000, 70, 2, 0)]);
    let (_, replay) = trace(&events, &segments);
    let found = found(&replay);
    let oom = &found[0];
    assert_eq!(oom.site.pool, Some((0, 1)));
    assert_eq!(evidence(oom, "cause"), Amount::Text("other pool or stream".into()));
    assert_eq!(
        evidence(oom, "largest request that would have fitted"),
        Amount::Bytes(4 * MIB),
        "on the device"
    );
    assert!(oom.evidence.iter().any(|evidence| evidence.name.starts_with("pool, inferred")));
    assert!(
        oom.advice.starts_with(
            "Before this request, free what keeps segments of pool default, stream default in use: 1 of 1 blocks in \
             partly used segments are from train.py:2 step. Or allocate both from one pool"
        ),
        "{}",
        oom.advice
    );
}

/// The segment is acquired by one event and used by the next: at the peak of reserved bytes nothing is cached.
#[test]
fn the_peak_of_reserved_is_after_the_allocation_that_needed_it() {
    let events = [
        ("segment_alloc", 0, 100, 1),
        ("alloc", 0, 98, 1),
        ("free_requested", 0, 98, 2),
        ("free_completed", 0, 98, 2),
    ];
    let (_, replay) = trace(&events, &json!([segment(0, 100, 0, 0)]));
    let peak = replay.peak(Counter::Reserved);
    assert_eq!((peak.at, peak.bytes as u64), (Moment(2), 100 * MIB));
    assert_eq!(replay.highest(Counter::Reserved, Moment::START, replay.end()), Moment(2));
    assert_eq!(
        replay.highest(Counter::Reserved, Moment::START, Moment(1)),
        Moment(1),
        "the stretch ends before"
    );
    assert_eq!(gap(&replay, &replay.state(peak.at)).cached, 0);
}

/// 40 MiB in a segment without anything in it go back to the driver on demand: only the 6 MiB hole is unusable.
#[test]
fn completely_unused_segments_are_usable() {
    let events = [
        ("segment_alloc", 0, 10, 1),
        ("alloc", 0, 4, 1),
        ("segment_alloc", 100, 40, 2),
        ("alloc", 100, 40, 2),
        ("free_requested", 100, 40, 3),
        ("free_completed", 100, 40, 3),
    ];
    let (_, replay) = trace(&events, &json!([segment(0, 10, 4, 0), segment(100, 40, 0, 0)]));
    let found = fragmentation(&replay, (replay.end(), replay.end()), 1, Some(100 * MIB), |_| true);
    let last = found.samples.last().unwrap();
    assert_eq!((last.free, last.unusable), (46 * MIB, 6 * MIB));
    let small = fragmentation(&replay, (replay.end(), replay.end()), 1, None, |range| range.size < 20 * MIB);
    let last = small.samples.last().unwrap();
    assert_eq!((last.reserved, last.free), (10 << 20, 6 * MIB), "only the segments that count");
}

/// An NPU's workspace is held, and no hole: 64 of 84 MiB, 2 of the rest in use.
#[test]
fn a_workspace_is_not_free() {
    let events = [
        ("workspace_snapshot", 500, 64, 0),
        ("segment_alloc", 500, 64, 0),
        ("alloc", 500, 64, 0),
        ("segment_alloc", 0, 20, 10),
        ("alloc", 0, 2, 10),
        ("oom", 1, 32 * 1024, 10),
    ];
    let (_, replay) = trace(&events, &json!([segment(0, 20, 2, 0), segment(500, 64, 0, 0)]));
    let state = replay.state(replay.end());
    let gap = gap(&replay, &state);
    assert_eq!((gap.workspaces, gap.cached, gap.pinned_holes, gap.unexplained), (64 * MIB, 0, 18 * MIB, 0));
    let found = found(&replay);
    assert_eq!(evidence(&found[0], "free in holes"), Amount::Bytes(18 * MIB));
    assert!(found[0].advice.contains("Make the request smaller"), "{}", found[0].advice);
    assert!(found.iter().all(|finding| finding.kind != Kind::Cached));
}

/// A block of 40 MiB waits for another stream while a segment of 40 MiB is acquired that it would have served; then it is
/// let go of, and serves the next request.
#[test]
fn frees_that_wait_say_what_they_cost() {
    let (_, replay) = trace(
        &[
            ("segment_alloc", 0, 40, 1),
            ("alloc", 0, 40, 1),
            ("free_requested", 0, 40, 2),
            ("segment_alloc", 100, 40, 3),
            ("alloc", 100, 40, 3),
            ("segment_alloc", 200, 60, 4),
            ("free_completed", 0, 40, 5),
            ("alloc", 0, 40, 6),
        ],
        &json!([segment(0, 40, 40, 0), segment(100, 40, 40, 0), segment(200, 60, 0, 0)]),
    );
    let found = found(&replay);
    let waits = found.iter().find(|finding| finding.kind == Kind::PendingFree).unwrap();
    assert_eq!(waits.bytes, 40 * MIB);
    // Not the segment of 60 MiB, for which it is too small.
    assert_eq!(evidence(waits, "segments acquired while as much waited"), Amount::Count(1));
    assert_eq!(evidence(waits, "bytes of those segments"), Amount::Bytes(40 * MIB));
    assert_eq!(evidence(waits, "released by"), Amount::Text("train.py:2 step".into()));
    // While it waits, PyTorch counts it as requested and active, and not as allocated.
    let state = replay.state(Moment(5));
    let gap = gap(&replay, &state);
    assert_eq!((state.counters.requested, state.counters.allocated), (80 << 20, 40 << 20));
    assert_eq!((gap.waiting, gap.awaiting_free, gap.total), (40 * MIB, 0, 0));
}

/// The 13 releases of 60 MiB at events 133 to 145 make room for the request at event 146; the one at event 152 fails.
#[test]
fn a_request_that_was_refused_at_first_bounds_the_limit() {
    let snapshot = common::recording("alloc_retry");
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let refused = refused_before(&replay, replay.end());
    let [refused] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((refused.at, refused.released, refused.acquired), (Moment(134), 780 * MIB, 334 * MIB));
    let limit = Capacity::of(&replay).unwrap();
    assert_eq!(limit.refused_at, Some(refused.at));
    assert_eq!(limit.bytes, refused.reserved + (334 << 20));
}

#[test]
fn silence_says_what_the_file_cannot_tell() {
    let (_, replay) =
        trace(&[("segment_alloc", 0, 20, 1), ("alloc", 0, 20, 1)], &json!([segment(0, 20, 20, 0)]));
    let said = |replay: &Device| nothing_found(replay, &vramscope_format::size);
    let peaks = "nothing looks wrong: requested peaks at 20.0 MiB, reserved at 20.0 MiB";
    assert_eq!(said(&replay), peaks);
    for (name, part) in [
        ("context_none", "no allocation has a stack"),
        ("late_start", "late start"),
        ("no_recording", "without a history"),
    ] {
        let snapshot = common::recording(name);
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let said = said(&replay);
        assert!(said.contains(part), "{name}: {said}");
    }
}

/// A name stands for one finding.
#[test]
fn ids_are_unique_in_every_recording() {
    for entry in std::fs::read_dir(common::recordings()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".pickle.xz") else { continue };
        let snapshot = Arc::new(common::recording(name));
        for replay in Device::all(&snapshot) {
            let mut ids: Vec<_> = found(&replay).iter().map(Finding::id).collect();
            let all = ids.len();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), all, "{name}: {ids:?}");
        }
    }
}
