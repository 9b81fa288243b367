//! Pinned host memory: a device of its own, and what rounding to powers of two costs.

use crate::common;
use serde_json::{Value, json};
use vramscope_analysis::{Counter, Device, Status, recorded};
use vramscope_snapshot::{DeviceId, Snapshot, add_sidecar};

const MIB: u64 = 1 << 20;

/// As torch 2.14 writes it: blocks of 8 and 16 MiB, each a segment; then the first is given back to the cache.
fn snapshot() -> Snapshot {
    let event = |action: &str, addr: u64, size: u64, time: u64| json!({"action": action, "addr": addr, "size": size * MIB, "stream": 0, "time_us": time});
    let segment = |addr: u64, size: u64, active: u64, state: &str| {
        json!({"device": -1, "address": addr, "total_size": size * MIB, "allocated_size": active * MIB,
            "active_size": active * MIB, "requested_size": active * MIB, "stream": 0, "segment_type": "large",
            "blocks": [{"address": addr, "size": size * MIB, "requested_size": size * MIB, "state": state}]})
    };
    let (a, b) = (1 << 30, 2 << 30);
    let json = json!({
        "segments": [{"device": 0, "address": 4096, "total_size": 2 * MIB, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "small",
            "blocks": [{"address": 4096, "size": 2 * MIB, "requested_size": 0, "state": "inactive"}]}],
        "device_traces": [[{"action": "segment_alloc", "addr": 4096, "size": 2 * MIB, "stream": 0, "time_us": 1}]],
        "host_segments": [segment(a, 8, 0, "inactive"), segment(b, 16, 16, "active_allocated")],
        "host_traces": [
            event("segment_alloc", a, 8, 2), event("alloc", a, 8, 3), event("segment_alloc", b, 16, 4),
            event("alloc", b, 16, 5), event("free_requested", a, 8, 6), event("free_completed", a, 8, 7)]
    });
    common::snapshot(json.to_string().as_bytes())
}

fn words(snapshot: &Snapshot, device: DeviceId) -> Option<String> {
    let facts = recorded(snapshot, device, &|bytes| vramscope_format::size(bytes));
    facts.into_iter().find(|(name, _)| *name == "pinned host memory").map(|(_, words)| words)
}

#[test]
fn host_traces_are_a_device_of_their_own() {
    let snapshot = snapshot();
    let host = Device::new(snapshot.clone(), DeviceId::HOST);
    assert_eq!(host.verdict().status, Status::Exact);
    let (peak, end) = (host.peak(Counter::Allocated).bytes as u64, host.counters(host.end()));
    assert_eq!((peak, end.allocated as u64, end.reserved as u64), (24 * MIB, 16 * MIB, 24 * MIB));
    let rounds = "PyTorch rounds each request up to a power of two";
    let held = "24.0 MiB held in 2 blocks, 16.0 MiB of it in use, peak 24.0 MiB";
    assert_eq!(words(&snapshot, DeviceId::HOST), Some(format!("{held}; {rounds}")));
    assert_eq!(words(&snapshot, DeviceId(0)), Some(format!("{held}; {rounds}; see device host")));
}

#[test]
fn the_recorder_counts_what_rounding_costs() {
    let mut snapshot = snapshot();
    let sidecar: Value = json!({"schema": "vramscope/sidecar/1", "snapshot": "run.pickle", "reason": "call",
        "host_memory": {"allocations.current": 2, "allocated_bytes.current": 24 * MIB, "allocated_bytes.peak": 40 * MIB,
            "active_bytes.current": 16 * MIB},
        "pinned_tensors": {"count": 1, "bytes": 9 * MIB, "rounded": 16 * MIB}});
    add_sidecar(&mut snapshot, "run", sidecar.to_string().as_bytes());
    let said = words(&snapshot, DeviceId::HOST).unwrap();
    let expected = "24.0 MiB held in 2 blocks, 16.0 MiB of it in use, peak 40.0 MiB; 7.00 MiB lost to rounding: tensors of \
                    9.00 MiB are in blocks of 16.0 MiB, since PyTorch rounds each up to a power of two";
    assert_eq!(said, expected);
}
