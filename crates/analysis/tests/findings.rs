//! What is said about real recordings, against PyTorch's counters.

use serde_json::Value;
use std::sync::Arc;
use vramscope_analysis::{Device, Moment, Status, gap, growth, moment_at_time};
use vramscope_snapshot::DeviceId;

use crate::common::{recording, recordings};

/// On every recording, at every mark and in between. What is left unexplained is what holes in the history hide.
#[test]
fn the_parts_of_the_gap_add_up() {
    let mut exact = 0;
    for entry in std::fs::read_dir(recordings()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".pickle.xz") else { continue };
        let snapshot = Arc::new(recording(name));
        for replay in Device::all(&snapshot) {
            let is_exact = replay.verdict().status == Status::Exact;
            exact += usize::from(is_exact);
            let events = snapshot.events(replay.device());
            let oracle = std::fs::read_to_string(recordings().join(format!("{name}.oracle.json")));
            let oracle: Value = oracle.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
            let marks = oracle["marks"].as_array().into_iter().flatten();
            let marks = marks.map(|mark| moment_at_time(events, mark["time_ns"].as_i64().unwrap() / 1000));
            for at in marks.chain((0..=20).map(|step| Moment(replay.end().0 / 20 * step))) {
                let state = replay.state(at);
                let gap = gap(&replay, &state);
                let sum: u64 = gap.parts().iter().map(|(_, bytes)| bytes).sum();
                let difference = state.counters.reserved - state.counters.requested;
                let added_up = (sum + gap.unexplained) as i64 - gap.contradicted as i64;
                assert_eq!(added_up, difference, "{name} at {at:?}: {gap:?}");
                assert_eq!(gap.total as i64, difference.max(0));
                let is_explained = gap.unexplained + gap.contradicted == 0;
                assert!(is_explained || !is_exact, "{name} at {at:?}: {gap:?}");
            }
        }
    }
    assert!(exact > 50);
}

/// Six steps that keep their graph. PyTorch's counter at the end of each step says how fast it grows.
#[test]
fn a_kept_graph_grows_with_every_step() {
    let snapshot = recording("leak_graph");
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let found = growth(&replay).unwrap();
    let oracle = std::fs::read_to_string(recordings().join("leak_graph.oracle.json")).unwrap();
    let oracle: Value = serde_json::from_str(&oracle).unwrap();
    let ends: Vec<i64> = oracle["marks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mark| mark["label"].as_str().unwrap().ends_with(".optimizer"))
        .map(|mark| mark["requested"].as_i64().unwrap())
        .collect();
    assert_eq!(ends.len(), 6);
    let per_step = (ends[5] - ends[1]) as f64 / 4.0;
    let off = (found.bytes_per_step as f64 - per_step).abs() / per_step;
    assert!(off < 0.05, "{} per step, PyTorch {per_step}", found.bytes_per_step);
    // The script's line 79 calls the model; what the model keeps is held by its result.
    let (through, bytes) = found.through.unwrap();
    assert!(snapshot.text(through.file).ends_with("capture.py"), "the user's own line");
    assert_eq!((snapshot.text(through.name), through.line), ("train", 79));
    assert!(bytes * 10 > found.bytes_per_step * 9, "nearly all of it");
}

#[test]
fn healthy_runs_do_not_grow() {
    for name in ["llama_python", "inference_kv", "empty", "expandable", "cudagraph_pools"] {
        let snapshot = recording(name);
        assert_eq!(growth(&Device::new(snapshot.clone(), DeviceId(0))), None, "{name}");
    }
}
