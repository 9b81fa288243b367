//! Recordings that other rules served: refused, with the reason.

use serde_json::{Value, json};
use vramscope_simulate::Study;
use vramscope_snapshot::{DeviceId, Reader};

const MIB: u64 = 1 << 20;
const ADDR: u64 = 0x7f00_0000_0000;

/// A MemPool `(0, 1)` with one request of 4 MiB, which takes a segment of 20 MiB; `block` bytes of it are in use.
fn pool(block: u64, expandable: bool) -> Value {
    let event = |action: &str, size: u64| {
        json!({"action": action, "addr": ADDR, "size": size, "stream": 0, "time_us": 1, "frames": [],
               "segment_pool_id": [0, 1], "pool_id": [0, 1]})
    };
    let mut blocks =
        vec![json!({"address": ADDR, "size": block, "requested_size": 4 * MIB, "state": "active_allocated"})];
    if block < 20 * MIB {
        blocks.push(json!({"address": ADDR + block, "size": 20 * MIB - block, "requested_size": 0, "state": "inactive"}));
    }
    json!({
        "segments": [{"device": 0, "address": ADDR, "total_size": 20 * MIB, "allocated_size": block,
            "active_size": block, "requested_size": 4 * MIB, "stream": 0, "segment_type": "large",
            "segment_pool_id": [0, 1], "is_expandable": false, "blocks": blocks}],
        "device_traces": [[event("segment_alloc", 20 * MIB), event("alloc", 4 * MIB)]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": expandable,
            "garbage_collection_threshold": 0.0, "roundup_power2_divisions": {}},
    })
}

fn refusal(snapshot: &Value, device: DeviceId) -> Option<String> {
    let mut reader = Reader::new();
    reader.feed(snapshot.to_string().as_bytes()).unwrap();
    let snapshot = reader.finish().unwrap();
    Study::new(&snapshot, device, None).err().map(|error| error.to_string())
}

#[track_caller]
fn refuses(snapshot: &Value, device: DeviceId, words: &str) {
    let reason = refusal(snapshot, device).unwrap_or_default();
    assert!(reason.contains(words), "{reason:?} does not say {words:?}");
}

#[test]
fn pools_with_rules_of_their_own() {
    let cuda = DeviceId(0);
    assert_eq!(refusal(&pool(4 * MIB, false), cuda), None, "split as any other");
    refuses(
        &pool(20 * MIB, false),
        cuda,
        "MemPool (0, 1) has blocks that are not split: it was made with no_split",
    );
    refuses(
        &pool(4 * MIB, true),
        cuda,
        "MemPool (0, 1) has whole segments although new segments are expandable: it has a custom allocator",
    );
}

#[test]
fn other_allocators() {
    let mut xpu = pool(4 * MIB, false);
    xpu["allocator_settings"] = json!({"PYTORCH_ALLOC_CONF": "", "expandable_segments": false});
    refuses(&xpu, DeviceId(0), "the memory of an XPU is not managed by PyTorch's CUDA caching allocator");

    // torch_npu writes pools, and neither settings nor times.
    let mut npu = pool(4 * MIB, false);
    npu.as_object_mut().unwrap().remove("allocator_settings");
    for event in npu["device_traces"][0].as_array_mut().unwrap() {
        event.as_object_mut().unwrap().remove("time_us");
    }
    refuses(&npu, DeviceId(0), "the memory of an NPU is not managed by");

    // PyTorch 2.14 records pinned host memory beside the devices.
    let mut host = pool(4 * MIB, false);
    host["host_traces"] = host["device_traces"][0].clone();
    refuses(&host, DeviceId::HOST, "pinned host memory is not managed by");
}
