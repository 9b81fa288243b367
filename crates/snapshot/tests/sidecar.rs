//! What the recorder writes beside a snapshot, and what becomes of it.

use serde_json::{Value, json};
use vramscope_snapshot::{DeviceId, Holder, Pinned, Reader, Snapshot, TensorRole, add_sidecar, embedded};

const MIB: u64 = 1 << 20;

/// A segment of 2 MiB; its last event is at 1 000 000 µs.
fn snapshot() -> Snapshot {
    let json = json!({
        "segments": [{"device": 0, "address": 4096, "total_size": 2 * MIB, "allocated_size": 1024, "active_size": 1024,
            "requested_size": 1000, "stream": 0, "segment_type": "small", "blocks": [
                {"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated"},
                {"address": 5120, "size": 2 * MIB - 1024, "requested_size": 0, "state": "inactive"}]}],
        "device_traces": [[
            {"action": "segment_alloc", "addr": 4096, "size": 2 * MIB, "stream": 0, "time_us": 999_999},
            {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "time_us": 1_000_000}]]
    });
    let mut reader = Reader::new();
    reader.feed(json.to_string().as_bytes()).unwrap();
    reader.finish().unwrap()
}

/// A device of 100 MiB: 40 free, 2 reserved by PyTorch, 58 elsewhere. Of those, process 7 has 30; this one, number 5, has
/// 17 in all, so 15 outside, of which NCCL has 6; nobody has the other 13.
fn sidecar() -> Value {
    json!({
        "schema": "vramscope/sidecar/1", "snapshot": "run.pickle", "reason": "oom", "time_us": 1_000_500, "rank": 3,
        "pid": 5, "step": 2,
        "versions": {"python": "3.12", "torch": "2.14.0", "cuda": "13.0", "hip": null, "driver": "580.1"},
        "recording": {}, "allocator": {"backend": "native", "settings": "expandable_segments:True"},
        "devices": [{"device": 0, "name": "NVIDIA H200", "capacity": 100 * MIB, "free": 40 * MIB, "reserved": 2 * MIB,
            "outside": 58 * MIB, "limit": 90 * MIB,
            "processes": [{"pid": 5, "bytes": 17 * MIB}, {"pid": 7, "bytes": 30 * MIB}]}],
        "host_memory": {"allocations.current": 2, "allocated_bytes.current": 12 * MIB, "allocated_bytes.peak": 16 * MIB,
            "active_bytes.current": 8 * MIB},
        "pinned_tensors": {"count": 1, "bytes": 5 * MIB, "rounded": 8 * MIB},
        "nccl": [{"group": "default", "stats": {"persist": 1, "total": 6 * MIB}}], "oom": null,
        "roles": {"from": "given", "storages": [
            {"name": "fc.weight", "role": "parameter", "device": 0, "address": 4096, "bytes": 1000}]},
        "sources": {"/home/me/train.py": {"40": "y = model(x)", "7": "import torch"}},
        "a key of a later version": 1
    })
}

fn with(sidecar: &Value) -> Snapshot {
    let mut snapshot = snapshot();
    add_sidecar(&mut snapshot, "run", sidecar.to_string().as_bytes());
    snapshot
}

#[test]
fn everything_that_a_sidecar_says() {
    let snapshot = with(&sidecar());
    assert_eq!(snapshot.warnings, [""; 0]);
    assert_eq!((snapshot.rank, &*snapshot.capacities), (Some(3), &[(DeviceId(0), 100 * MIB)][..]));
    let memory = snapshot.device_memory(DeviceId(0)).unwrap();
    assert_eq!((memory.outside(), memory.room(), memory.limit), (58 * MIB, 42 * MIB, Some(90 * MIB)));
    let holders = [
        (Holder::Process(7), 30 * MIB),
        (Holder::Nccl, 6 * MIB),
        (Holder::Context, 9 * MIB),
        (Holder::Unlisted, 13 * MIB),
    ];
    assert_eq!(memory.holders, holders);
    let outside: Vec<_> =
        snapshot.outside.iter().map(|row| (snapshot.text(row.name), row.bytes / MIB)).collect();
    let words = [
        ("process 7", 30),
        ("NCCL", 6),
        ("CUDA context and libraries", 9),
        ("driver and unlisted processes", 13),
    ];
    assert_eq!(outside, words);
    let sidecar = snapshot.sidecar.as_ref().unwrap();
    let pinned = Pinned {
        blocks: 2,
        held: 12 * MIB,
        peak: 16 * MIB,
        active: 8 * MIB,
        tensors: Some((5 * MIB, 8 * MIB)),
    };
    assert_eq!(sidecar.pinned, Some(pinned));
    assert_eq!(sidecar.versions[0], ("torch".to_owned(), "2.14.0".to_owned()));
    assert_eq!(sidecar.backend.as_deref(), Some("native"));
    let storage = sidecar.storages[0];
    assert_eq!((storage.addr, storage.bytes, storage.role), (4096, 1000, TensorRole::Parameter));
    assert_eq!(snapshot.text(storage.name), "fc.weight");
    assert_eq!(snapshot.extras.source_line("/home/me/train.py", 40), Some("y = model(x)"));
    assert_eq!(snapshot.extras.source_line("/home/me/train.py", 8), None);
}

#[test]
fn a_report_keeps_it() {
    let snapshot = with(&sidecar());
    let mut bytes = Vec::new();
    embedded::encode(&snapshot, &mut bytes).unwrap();
    assert_eq!(embedded::decode(&bytes).unwrap(), snapshot);
}

/// In a container the driver tells the host's process ids, or none at all.
#[test]
fn who_holds_memory_is_said_only_where_it_is_known() {
    let holders = |processes: Value| {
        let mut sidecar = sidecar();
        sidecar["devices"][0]["processes"] = processes;
        with(&sidecar).device_memory(DeviceId(0)).unwrap().holders.clone()
    };
    let unknown = [(Holder::Nccl, 6 * MIB), (Holder::Unknown, 52 * MIB)];
    assert_eq!(holders(Value::Null), unknown);
    assert_eq!(holders(json!([{"pid": 800, "bytes": 17 * MIB}, {"pid": 801, "bytes": 30 * MIB}])), unknown);
    let alone = [(Holder::Nccl, 6 * MIB), (Holder::Context, 9 * MIB), (Holder::Unlisted, 43 * MIB)];
    assert_eq!(holders(json!([{"pid": 800, "bytes": 17 * MIB}])), alone);
}

#[test]
fn one_that_cannot_be_used_produces_a_warning_and_nothing_else() {
    let check = |sidecar: &[u8], why: &str| {
        let mut changed = snapshot();
        add_sidecar(&mut changed, "run", sidecar);
        assert_eq!(changed.warnings.len(), 1);
        assert!(changed.warnings[0].contains(why), "{:?}", changed.warnings);
        changed.warnings.clear();
        assert_eq!(changed, snapshot());
    };
    let text = sidecar().to_string();
    check(&text.as_bytes()[..text.len() / 2], "cannot be read");
    check(b"[1, 2]", "cannot be read");
    let change = |key: &str, value: Value| {
        let mut sidecar = sidecar();
        sidecar[key] = value;
        sidecar.to_string()
    };
    check(change("schema", json!("vramscope/sidecar/9")).as_bytes(), "schema");
    // Older than the last event by more than a second.
    let mut late = snapshot();
    late.traces[0].events = {
        let json = r#"{"device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "stream": 0, "time_us": 9000000}]]}"#;
        let mut reader = Reader::new();
        reader.feed(json.as_bytes()).unwrap();
        reader.finish().unwrap().traces.remove(0).events
    };
    add_sidecar(&mut late, "run", text.as_bytes());
    assert!(late.warnings[0].contains("older than the last event"));
}

/// Snapshot and sidecar may be renamed together; what they say has to agree then.
#[test]
fn a_sidecar_of_another_snapshot_is_not_used() {
    let mut renamed = sidecar();
    renamed["snapshot"] = json!("before.pickle");
    assert!(with(&renamed).sidecar.is_some(), "both have 2 MiB reserved");
    renamed["devices"][0]["reserved"] = json!(4 * MIB);
    let other = with(&renamed);
    assert!(other.sidecar.is_none());
    assert_eq!(other.warnings, ["the sidecar is not used: it belongs to before.pickle"]);
}

/// Cut anywhere, and with any byte changed, it is read or refused.
#[test]
fn damaged_anywhere() {
    let text = sidecar().to_string();
    let read = |bytes: &[u8]| add_sidecar(&mut snapshot(), "run", bytes);
    for at in 0..text.len() {
        read(&text.as_bytes()[..at]);
        for byte in [b'9', b'"', b'{', b'-', 0xff] {
            let mut changed = text.clone().into_bytes();
            changed[at] = byte;
            read(&changed);
        }
    }
}

#[test]
fn opened_by_itself_it_says_what_it_is() {
    let mut reader = Reader::new();
    let read = reader.feed(sidecar().to_string().as_bytes()).and_then(|()| reader.finish().map(drop));
    let error = read.unwrap_err().to_string();
    assert!(
        error.contains("the sidecar of a snapshot, which is read with the snapshot beside it"),
        "{error}"
    );
}
