//! Out of memory on a device that others fill: the finding says who, as the recorder's sidecar tells.

use crate::common;
use serde_json::{Value, json};
use vramscope_analysis::categories::{Rules, classify};
use vramscope_analysis::{Capacity, Device, Finding, Kind, recorded};
use vramscope_format::Units;
use vramscope_snapshot::{DeviceId, Snapshot, add_sidecar};

const GIB: u64 = 1 << 30;

/// A segment of 4 GiB that is in use, then a request for 10 GiB that fails with 1 GiB free on the device.
fn snapshot() -> Snapshot {
    let event = |action: &str, addr: u64, size: u64, time: u64| json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time});
    let oom =
        json!({"action": "oom", "addr": 0, "size": 10 * GIB, "device_free": GIB, "stream": 0, "time_us": 3});
    let json = json!({
        "segments": [{"device": 0, "address": 4096, "total_size": 4 * GIB, "allocated_size": 4 * GIB,
            "active_size": 4 * GIB, "requested_size": 4 * GIB, "stream": 0, "segment_type": "large", "blocks": [
                {"address": 4096, "size": 4 * GIB, "requested_size": 4 * GIB, "state": "active_allocated"}]}],
        "device_traces": [[event("segment_alloc", 4096, 4 * GIB, 1), event("alloc", 4096, 4 * GIB, 2), oom]]
    });
    common::snapshot(json.to_string().as_bytes())
}

/// 80 GiB, of which 1 is free and 4 are PyTorch's: 75 are others'.
fn sidecar(device: &Value) -> Value {
    let mut all = json!({"device": 0, "capacity": 80 * GIB, "free": GIB, "reserved": 4 * GIB});
    all.as_object_mut().unwrap().extend(device.as_object().unwrap().clone());
    json!({"schema": "vramscope/sidecar/1", "snapshot": "run.pickle", "reason": "oom", "time_us": 4, "pid": 1,
        "devices": [all]})
}

fn finding(sidecar: &Value) -> (Finding, Capacity) {
    let mut snapshot = snapshot();
    add_sidecar(&mut snapshot, "run", sidecar.to_string().as_bytes());
    assert_eq!(snapshot.warnings, [""; 0]);
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let _size = |bytes: u64| vramscope_format::size(bytes);
    let mut found = replay.findings(Units::Binary);
    found.retain(|finding| finding.kind == Kind::OutOfMemory);
    (found.remove(0), Capacity::of(&replay).unwrap())
}

#[test]
fn another_process_fills_the_device() {
    let processes = json!({"processes": [{"pid": 1, "bytes": 5 * GIB}, {"pid": 4711, "bytes": 74 * GIB}]});
    let (finding, capacity) = finding(&sidecar(&processes));
    let said = "1.00 GiB was free on the device, and 75.0 GiB of its 80.0 GiB held outside PyTorch \
                (process 4711 74.0 GiB, CUDA context and libraries 1.00 GiB)";
    assert!(finding.what.contains(said), "{}", finding.what);
    let advice = "End process 4711, which holds 74.0 GiB of this device, or use another device";
    assert_eq!(finding.advice, advice);
    let facts = finding.facts(&|bytes| vramscope_format::size(bytes), "run.pickle");
    let held: Vec<_> =
        facts.iter().filter(|(name, _)| name.contains("outside")).map(|(_, is)| &**is).collect();
    assert_eq!(held, ["75.0 GiB", "74.0 GiB  process 4711", "1.00 GiB  CUDA context and libraries"]);
    // What nobody else holds.
    assert_eq!((capacity.bytes, capacity.is_limit), (5 * GIB as i64, false));
}

#[test]
fn a_context_of_usual_size_is_evidence_but_not_in_the_sentence() {
    let device =
        json!({"capacity": 6 * GIB - GIB / 2, "processes": [{"pid": 1, "bytes": 4 * GIB + GIB / 2}]});
    let (finding, _) = finding(&sidecar(&device));
    assert!(
        finding.what.contains("held outside PyTorch (CUDA context and libraries 512 MiB)"),
        "9 % of a small device"
    );
    let device = json!({"capacity": 80 * GIB, "free": 75 * GIB, "processes": [{"pid": 1, "bytes": 5 * GIB}]});
    // The event says that 1 GiB was free, the sidecar 75: much happened between, so nobody is blamed.
    let (finding, _) = self::finding(&sidecar(&device));
    assert!(finding.what.contains("75.0 GiB of its 80.0 GiB held outside PyTorch;"), "{}", finding.what);
    assert!(!finding.advice.contains("process"), "{}", finding.advice);
}

#[test]
fn a_limit_is_known_to_the_byte() {
    let (finding, capacity) = finding(&sidecar(&json!({"limit": 5 * GIB, "processes": null})));
    assert_eq!((capacity.bytes, capacity.is_limit), (5 * GIB as i64, true));
    assert_eq!(capacity.words(&|bytes| vramscope_format::size(bytes)), "the per-process limit of 5.00 GiB");
    let limit = finding.evidence.iter().find(|evidence| evidence.name == "per-process limit");
    assert!(limit.is_some(), "{:?}", finding.evidence);
}

/// Sums saturate, and nothing is below zero.
#[test]
fn numbers_that_no_machine_has() {
    for most in [u64::MAX, i64::MAX as u64, 0] {
        let device = json!({"capacity": most, "free": most, "reserved": 4 * GIB, "limit": most,
            "processes": [{"pid": most, "bytes": most}, {"pid": 1, "bytes": most}, {"pid": 2, "bytes": most}]});
        let mut sidecar = sidecar(&device);
        sidecar["host_memory"] =
            json!({"allocated_bytes.current": i64::MAX, "active_bytes.current": i64::MIN});
        sidecar["pinned_tensors"] = json!({"count": most, "bytes": most, "rounded": 0});
        sidecar["nccl"] = json!([{"group": "a", "stats": {"total": i64::MAX}}, {"group": "b", "stats": {"total": i64::MAX}}]);
        sidecar["roles"] = json!({"from": "given", "storages": [
            {"name": "w", "role": "parameter", "device": 0, "address": u64::MAX, "bytes": u64::MAX},
            {"name": "v", "role": "gradient", "device": -7, "address": 4096, "bytes": u64::MAX}]});
        let (_, capacity) = finding(&sidecar);
        assert!(capacity.bytes >= 0);
        let mut snapshot = snapshot();
        add_sidecar(&mut snapshot, "run", sidecar.to_string().as_bytes());
        assert!(!recorded(&snapshot, DeviceId(0), &|bytes| vramscope_format::size(bytes)).is_empty());
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let categories = classify(&replay, &Rules::default());
        assert!(!categories.names().is_empty());
    }
}
