//! Memory of a backward pass belongs to the forward line that it was made for.

use serde_json::{Value, json};
use std::sync::Arc;
use vramscope_analysis::{Counter, Device, Line, by_line, live_weights};
use vramscope_snapshot::{Reader, Snapshot, StackId};

use crate::common::recording;

fn read(events: &Value) -> Snapshot {
    let file = json!({"segments": [], "device_traces": [events]}).to_string();
    let mut reader = Reader::new();
    reader.feed(file.as_bytes()).unwrap();
    reader.finish().unwrap()
}

fn frame(line: u32) -> Value {
    json!([{"name": "linear", "filename": "/opt/site-packages/torch/nn/functional.py", "line": 3},
        {"name": "forward", "filename": "/me/model.py", "line": line},
        {"name": "main", "filename": "/me/train.py", "line": 1}])
}

fn alloc(addr: u64, frames: &Value) -> Value {
    json!({"action": "alloc", "addr": addr, "size": 512, "stream": 0, "frames": frames})
}

fn free(addr: u64) -> Value {
    json!({"action": "free_completed", "addr": addr, "size": 512, "stream": 0, "frames": []})
}

/// Two lines keep something for the backward pass, which frees the last first. `made` are the allocations of the
/// backward pass before each of the two frees.
fn two_lines(made: [&Value; 2]) -> Snapshot {
    read(&json!([
        alloc(0x1000, &frame(10)),
        alloc(0x2000, &frame(20)),
        made[0],
        free(0x2000),
        made[1],
        free(0x1000)
    ]))
}

/// Lines of the allocations that the backward pass made, as people read them.
fn places(snapshot: &Arc<Snapshot>) -> Vec<String> {
    let replay = Device::all(snapshot).remove(0);
    let made = replay.allocations().iter().skip(2);
    made.map(|(_, allocation)| Line::of(snapshot, allocation.stack).short()).collect()
}

#[test]
fn what_is_freed_next_says_for_which_line() {
    let snapshot = Arc::new(two_lines([&alloc(0x3000, &json!([])), &alloc(0x4000, &json!([]))]));
    let expected = ["model.py:20 forward (backward, inferred)", "model.py:10 forward (backward, inferred)"];
    assert_eq!(places(&snapshot), expected);
    let replay = Device::all(&snapshot).remove(0);
    let made = replay.allocations().iter().nth(2).unwrap().1;
    assert_eq!(made.recorded, StackId::EMPTY, "what was recorded is still there");
    let names: Vec<_> = snapshot.frames(made.stack).map(|frame| snapshot.text(frame.name)).collect();
    assert_eq!(names, ["forward (backward, inferred)", "main"], "the callers of the line are its callers");
}

#[test]
fn nodes_of_the_graph_are_named() {
    let node = json!([
        {"name": "at::native::empty_cuda(c10::ArrayRef<long>)", "filename": "??", "line": 0},
        {"name": "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "filename": "??", "line": 0},
        {"name": "torch::autograd::Engine::evaluate_function(int)", "filename": "??", "line": 0}]);
    let snapshot = Arc::new(two_lines([&alloc(0x3000, &node), &alloc(0x4000, &json!([]))]));
    let expected =
        ["model.py:20 forward (MmBackward0, inferred)", "model.py:10 forward (backward, inferred)"];
    assert_eq!(places(&snapshot), expected);
}

#[test]
fn what_anomaly_detection_recorded_comes_first() {
    let mut traced = alloc(0x3000, &json!([]));
    traced["forward_frames"] = json!([
        "  File \"/me/train.py\", line 1, in main\n    loss = model(x)\n",
        "  File \"/me/model.py\", line 15, in attend\n    y = q @ k\n",
        "  File \"/opt/site-packages/torch/nn/functional.py\", line 9, in softmax\n"
    ]);
    let snapshot = Arc::new(two_lines([&traced, &alloc(0x4000, &json!([]))]));
    let expected = ["model.py:15 attend (backward)", "model.py:10 forward (backward, inferred)"];
    assert_eq!(places(&snapshot), expected);
}

/// A line of the user's own inside the backward pass, such as that of a `torch.autograd.Function`, stays.
#[test]
fn a_line_of_its_own_stays() {
    let own = json!([{"name": "backward", "filename": "/me/kernel.py", "line": 7}]);
    let snapshot = Arc::new(two_lines([&alloc(0x3000, &own), &alloc(0x4000, &json!([]))]));
    let expected = ["kernel.py:7 backward", "model.py:10 forward (backward, inferred)"];
    assert_eq!(places(&snapshot), expected);
}

/// At the peak of real training every byte that was recorded has a line.
#[test]
fn no_bytes_at_a_peak_are_without_a_line() {
    for name in ["llama_python", "cpp_dump"] {
        let snapshot = Arc::new(recording(name));
        let replay = Device::all(&snapshot).remove(0);
        let state = replay.state(replay.peak(Counter::Requested).at);
        let weights = live_weights(&state, |_, _| true);
        let lines = by_line(&snapshot, &weights);
        let nameless: Vec<_> =
            lines.keys().filter(|line| line.is_missing() || line.file.is_empty()).collect();
        assert_eq!(nameless, Vec::<&Line>::new(), "{name}");
        let total: u64 = lines.values().map(|sum| sum.bytes).sum();
        assert_eq!(total as i64, replay.peak(Counter::Requested).bytes, "{name}: nothing is lost");
    }
}

/// PyTorch's own tracebacks of the forward pass, from a recording with anomaly detection.
#[test]
fn recorded_tracebacks_say_the_line() {
    let snapshot = Arc::new(recording("anomaly_forward"));
    let replay = Device::all(&snapshot).remove(0);
    let events = snapshot.events(replay.device());
    let mut traced = 0;
    for (_, block) in replay.allocations().iter().filter(|(_, block)| block.recorded == StackId::EMPTY) {
        let Some(event) = block.opened.event() else { continue };
        let traceback = snapshot.text(snapshot.meta(events.get(event.index()).meta).forward);
        if traceback.is_empty() {
            continue;
        }
        assert!(traceback.contains("line 166, in train_mlp"));
        assert_eq!(Line::of(&snapshot, block.stack).short(), "gen_case.py:166 train_mlp (backward)");
        traced += 1;
    }
    assert!(traced > 0);
}
