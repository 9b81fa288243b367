//! Snapshots of NPUs and XPUs, and the file beside an NPU's that says who else holds memory.

use std::fs;
use std::path::{Path, PathBuf};

use vramscope_analysis::{Counter, Moment, Status};
use vramscope_files::{Opened, find, open, open_bytes};
use vramscope_naming::RankKind;

const MIB: i64 = 1 << 20;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs/npu_oom")
}

fn opened(path: &Path) -> Opened {
    open(&find(&[path.to_owned()]).0[0], None, &()).unwrap()
}

fn outside(opened: &Opened) -> Vec<(&str, i64, i64)> {
    let rows = opened.snapshot.outside.iter();
    rows.map(|row| (opened.snapshot.text(row.name), row.bytes as i64, row.peak as i64)).collect()
}

/// A workspace of 64 MiB stands in front of the trace, as it was at the end. Then: 20 MiB from the driver, 2
/// and 4 MiB of it handed out, the 4 MiB given back, and a request for 32 GiB that fails.
#[test]
fn a_workspace_is_a_constant_band() {
    let opened = opened(&fixture().join("oom_snapshot_4100_20261115064512.pickle"));
    let replay = &opened.devices[0];
    let level = |at: u32| {
        let counters = replay.counters(Moment(at));
        (counters.allocated / MIB, counters.reserved / MIB)
    };
    let levels: Vec<_> = (0..=10).map(level).collect();
    let (before, held) = ((0, 64), 84);
    assert_eq!(levels[..4], [before; 4], "the prologue is no history");
    assert_eq!(levels[4..], [(0, held), (2, held), (6, held), (2, held), (2, held), (2, held), (2, held)]);
    assert_eq!(replay.peak(Counter::Allocated).bytes, 6 * MIB);
    let oom = replay.ooms()[0];
    assert_eq!((oom.event.0, oom.requested, oom.device_free), (8, 32 << 30, 1 << 20));
    assert_eq!(opened.snapshot.events(replay.device()).time_us(4), None, "NPUs have no clock");
    assert_eq!((opened.name.rank, opened.name.oom), (Some((RankKind::Process, 4100)), true));
}

#[test]
fn the_file_beside_it_says_who_else_holds_memory() {
    let folder = fixture();
    let expected = [
        ("workspace", 64 * MIB, 64 * MIB),
        ("APP", 29_010 * MIB + MIB / 2, 30_120 * MIB),
        ("HCCL", 400 * MIB, 400 * MIB),
        ("RUNTIME", 210 * MIB + MIB / 2, 220 * MIB + MIB / 4),
    ];
    assert_eq!(outside(&opened(&folder.join("oom_snapshot_4100_20261115064512.pickle"))), expected);

    // Another time is another snapshot's.
    let other = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| fs::copy(folder.join(from), other.path().join(to)).unwrap();
    copy("oom_snapshot_4100_20261115064512.pickle", "oom_snapshot_4100_20261115070000.pickle");
    copy("device_0_memUsageInfo_20261115064512.csv", "device_0_memUsageInfo_20261115064512.csv");
    let path = other.path().join("oom_snapshot_4100_20261115070000.pickle");
    assert_eq!(outside(&opened(&path)), expected[..1]);
}

/// XPUs write what GPUs write, less what only CUDA has.
#[test]
fn an_xpu_is_replayed_like_a_gpu() {
    let json = r#"{"segments": [{"device": 0, "address": 4096, "total_size": 2097152, "allocated_size": 1024,
        "active_size": 1024, "requested_size": 1000, "stream": 139637976727552, "segment_type": "small",
        "segment_pool_id": [0, 0], "is_expandable": false, "frames": [], "blocks": [
          {"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []},
          {"address": 5120, "size": 2096128, "requested_size": 0, "state": "inactive", "frames": []}]}],
      "device_traces": [[
        {"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 139637976727552, "time_us": 10},
        {"action": "alloc", "addr": 4096, "size": 1000, "stream": 139637976727552, "time_us": 11},
        {"action": "alloc", "addr": 5120, "size": 500, "stream": 139637976727552, "time_us": 12},
        {"action": "free_requested", "addr": 5120, "size": 500, "stream": 139637976727552, "time_us": 13},
        {"action": "free_completed", "addr": 5120, "size": 500, "stream": 139637976727552, "time_us": 13}]],
      "allocator_settings": {"PYTORCH_ALLOC_CONF": "", "expandable_segments": false}}"#;
    let opened = open_bytes("xpu.json", json.as_bytes()).unwrap();
    let replay = &opened.devices[0];
    assert_eq!(replay.verdict().status, Status::Exact);
    // 1000 bytes are a block of 1024, 500 one of 512.
    let peak = replay.counters(replay.peak(Counter::Requested).at);
    assert_eq!((peak.requested, peak.allocated, peak.reserved), (1500, 1536, 2 * MIB));
}
