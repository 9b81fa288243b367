//! Questions about a whole run: its steps, the least it needs, files beside each other, the lives of blocks, findings.

use crate::common;
use serde_json::Value;

use crate::common::{failure, file, json, recording, text, vramscope};

const MIB: u64 = 1 << 20;

fn shown(args: &[&str]) -> String {
    let output = vramscope(&[args, &["--no-cache"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// PyTorch's own peaks of the backward passes: 543, 1036, 1959 and 3805 MiB. Twice what the last step added comes next.
#[test]
fn steps_say_what_the_next_one_needs() {
    let path = recording("oom.pickle.xz");
    let found = json(&["steps", &path]);
    let peaks: Vec<u64> =
        found["steps"].as_array().unwrap().iter().map(|step| step["peak"].as_u64().unwrap() / MIB).collect();
    let near = |(ours, theirs): (&u64, u64)| ours.abs_diff(theirs) <= 1;
    assert!(peaks.iter().zip([543, 1036, 1959, 3805]).all(near), "{peaks:?}");
    assert_eq!(found["steps"][4]["is_complete"], false);
    assert_eq!(found["trend"]["next"].as_u64().unwrap() / MIB, 3805 + 2 * 1846);
    assert_eq!(
        (&found["trend"]["shape"], &found["next_fits"]),
        (&Value::from("geometric"), &Value::from(false))
    );
    let text = shown(&["steps", &path]);
    assert!(text.contains("peaks double with each step") && text.contains("does not fit"), "{text}");
    let last = json(&["steps", &path, "--limit", "1"]);
    assert_eq!((last["steps"].as_array().unwrap().len(), &last["count"]), (1, &Value::from(5)));
    // Of some allocations only: no step peaks higher than with all.
    let some = json(&["steps", &path, "--min-size", "20MiB"]);
    assert!(some["steps"][3]["peak"].as_u64() < found["steps"][3]["peak"].as_u64());
}

#[test]
fn the_demo_lacks_memory_and_says_why() {
    let text = shown(&["demo"]);
    assert!(text.contains("modeling_llama.py:67 forward requested 32.0 MiB"), "{text}");
    let words = text.replace(['\n', ' '], "");
    for part in ["lack of memory", "peaks double with each step (543 MiB, 1.01 GiB, 1.91 GiB, 3.72 GiB)"] {
        assert!(words.contains(&part.replace(' ', "")), "{part}: {text}");
    }
    let found = json(&["insights", &recording("oom.pickle.xz")]);
    let oom = &found["files"][0]["findings"][0];
    assert_eq!(
        (&oom["id"], &oom["known_by"]),
        (&Value::from("out_of_memory/0/11822"), &Value::from("likely"))
    );
    assert_eq!(oom["devices"], serde_json::json!([0]));
    // Every query of a finding is one that can be asked.
    for evidence in found["files"][0]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|finding| finding["evidence"].as_array().unwrap())
    {
        let Some(query) = evidence["query"].as_str() else { continue };
        let words: Vec<&str> = query.split(' ').collect();
        let path = recording("oom.pickle.xz");
        let args = [&[words[0], &path][..], &words[1..]].concat();
        let output = vramscope(&args);
        assert_eq!(output.status.code(), Some(0), "{query}: {}", common::text(&output.stderr));
    }
}

#[test]
fn the_minimum_is_bounded_from_both_sides() {
    let path = recording("llama_python.pickle.xz");
    let found = json(&["minimum", &path, "--capacity", "1GiB"]);
    let number = |name: &str| found[name].as_u64().unwrap();
    assert!(number("requested_peak") <= number("lower_bound") && number("lower_bound") <= number("packed"));
    assert!(number("packed") <= number("reserved_peak"));
    assert_eq!(number("headroom"), (1 << 30) - number("packed"));
    let small = shown(&["minimum", &path, "--capacity", "64MiB"]);
    assert!(small.contains("of it would be missing"), "{small}");
    assert!(failure(&["minimum", &path, "--capacity", "abacus"]).contains("or one of"));
}

/// Three files of a run in which one line doubles, one quadruples and one stays.
#[test]
fn several_files_show_how_lines_grow() {
    let folder = tempfile::tempdir().unwrap();
    let run = |x: u64| {
        let block = |action: &str, row: u64, size: u64| {
            let frames = serde_json::json!([{"filename": "model.py", "line": row, "name": "forward"}]);
            serde_json::json!({"action": action, "addr": row << 40, "size": size, "stream": 0, "frames": frames})
        };
        let sizes = [1000, 10 * x, 20 * x * x];
        let mut events: Vec<Value> = (1..).zip(sizes).map(|(row, size)| block("alloc", row, size)).collect();
        for action in ["free_requested", "free_completed"] {
            events.extend((1..).zip(sizes).map(|(row, size)| block(action, row, size)));
        }
        let text = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
        file(&folder, &format!("seq{x}.json"), text.as_bytes())
    };
    let paths = [128, 256, 512].map(run);
    let [a, b, c] = paths.each_ref().map(String::as_str);
    let found = json(&["diff", a, b, c, "--capacity", "83MB"]);
    assert_eq!(found["schema"], "vramscope/matrix/1");
    let values: Vec<_> =
        found["files"].as_array().unwrap().iter().map(|file| file["value"].as_f64()).collect();
    assert_eq!(values, [Some(128.0), Some(256.0), Some(512.0)], "from the names");
    let growth: Vec<_> =
        found["rows"].as_array().unwrap().iter().map(|row| row["growth"].as_str().unwrap()).collect();
    assert_eq!(growth, ["quadratic", "linear", "constant"]);
    // 1000 + 10 x + 20 x² is 83 MB at about 2037.
    let largest = found["largest_value"].as_f64().unwrap();
    assert!((largest - 2036.9).abs() < 1.0, "{largest}");
    let text = shown(&["diff", a, b, c, "--values", "1,2,4"]);
    assert!(text.contains("quadratic") && text.contains("model.py:3 forward"), "{text}");
    assert!(failure(&["diff", a, b, c, "--values", "1,2"]).contains("--values has 2 values for 3 files"));
    assert!(failure(&["diff", a, b, c, "--fail-on", "peak+1%"]).contains("compare two files"));
    assert!(failure(&["diff", a]).contains("--vs"));
}

/// Categories add up to what is requested in each file.
#[test]
fn files_are_compared_by_category() {
    let (a, b) = (recording("rank0_memory_snapshot.pickle.xz"), recording("rank2_memory_snapshot.pickle.xz"));
    let found = json(&["diff", &a, &b, "--by", "category"]);
    let change: i64 =
        found["changes"].as_array().unwrap().iter().map(|change| change["change"].as_i64().unwrap()).sum();
    assert_eq!((found["by"].as_str(), found["requested_change"].as_i64()), (Some("category"), Some(change)));
}

/// Two forward passes with paths of modules, the second of them with a larger block in `model.layers.1`.
#[test]
fn files_are_compared_by_module() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, size: u64| {
        let block = |row: u64, size: u64, note: &Value| {
            serde_json::json!({"action": "alloc", "addr": row << 40, "size": size, "stream": 0,
                "frames": [{"filename": "model.py", "line": row, "name": "Mlp.forward"}], "user_metadata": note})
        };
        let note = |path: &str| serde_json::json!({"module": path, "class": "Block"});
        let events = [
            block(1, 512, &note("model.layers.0")),
            block(2, size, &note("model.layers.1")),
            block(3, 4096, &serde_json::json!("model.mlp")),
            block(4, 1024, &Value::Null),
        ];
        let text = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
        file(&folder, name, text.as_bytes())
    };
    let (a, b) = (run("a.json", 512), run("b.json", 2048));
    let found = json(&["diff", &a, &b, "--by", "module"]);
    assert_eq!(found["changes"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found["changes"][0]["change"], &found["by"]), (&Value::from(1536), &Value::from("module")));
    assert_eq!(found["changes"][0]["stack"][0]["name"], "model.layers.1");
    // Metadata names the class of two, and a frame that of the third.
    let classes = json(&["modules", &b, "--by", "class"]);
    let rows: Vec<_> = classes["modules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["path"].as_str().unwrap(), row["requested"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("Block", 512 + 2048), ("Mlp", 4096)]);
    // Layers that are inferred say so.
    let llama = recording("llama_python.pickle.xz");
    let found = json(&["diff", &llama, "--at", "peak", "--vs", "end", "--by", "module"]);
    let names: Vec<_> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["stack"][0]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"layers.0 (inferred)") && names.contains(&"(no module)"), "{names:?}");
}

/// What `torch.fx` knows of a frame of generated code is shown with it.
#[test]
fn graph_nodes_are_shown_with_their_frames() {
    let folder = tempfile::tempdir().unwrap();
    let frames = serde_json::json!([{"filename": "/tmp/c.py", "line": 4, "name": "call", "fx_node_op": "call_function",
        "fx_node_name": "mm_1", "fx_node_target": "aten.mm", "fx_original_trace": "File model.py, line 3"}]);
    let events = ["alloc", "free_requested", "free_completed"].map(|action| {
        serde_json::json!({"action": action, "addr": 4096, "size": 512, "stream": 0, "frames": frames})
    });
    let text = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
    let path = file(&folder, "fx.json", text.as_bytes());
    let found = json(&["at", &path, "--event", "0"]);
    let expected = serde_json::json!({"op": "call_function", "name": "mm_1", "target": "aten.mm",
        "original_trace": "File model.py, line 3"});
    assert_eq!(found["live"][0]["stack"][0]["fx"], expected);
}

/// How many parameters there are, and what comes with each: AdamW in float32.
#[test]
fn categories_say_what_comes_with_each_parameter() {
    let found = json(&["categories", &recording("llama_python.pickle.xz")]);
    let parameters = &found["parameters"];
    assert_eq!(parameters["bytes_each"], 16);
    assert_eq!(parameters["weights"].as_u64().unwrap(), 4 * parameters["count"].as_u64().unwrap());
    assert_eq!(json(&["categories", &recording("inference_kv.pickle.xz")])["parameters"], Value::Null);
}

/// Line 1 allocates, line 2 frees: three blocks at once, and a fourth 200 events later.
#[test]
fn lives_say_who_frees_and_who_is_late() {
    let folder = tempfile::tempdir().unwrap();
    let frames = |line: u64| serde_json::json!([{"filename": "train.py", "line": line, "name": "step"}]);
    let event = |action: &str, addr: u64, size: u64, line: u64| serde_json::json!({"action": action, "addr": addr << 40, "size": size, "stream": 0, "frames": frames(line)});
    let mut events: Vec<Value> = (1..=4).map(|addr| event("alloc", addr, 2 * MIB, 1)).collect();
    let free = |events: &mut Vec<Value>, addr: u64, line: u64| {
        events.extend(["free_requested", "free_completed"].map(|action| event(action, addr, 2 * MIB, line)));
    };
    let filler = |events: &mut Vec<Value>| {
        for _ in 0..50 {
            events.push(event("alloc", 9, 512, 7));
            events.extend(["free_requested", "free_completed"].map(|action| event(action, 9, 512, 7)));
            events.push(serde_json::json!({"action": "snapshot", "addr": 0, "size": 0, "stream": 0}));
        }
    };
    filler(&mut events);
    (1..=3).for_each(|addr| free(&mut events, addr, 2));
    filler(&mut events);
    free(&mut events, 4, 3);
    let text = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
    let path = file(&folder, "lives.json", text.as_bytes());
    let found = json(&["lives", &path, "--min-size", "1MiB"]);
    let groups = found["freed"].as_array().unwrap();
    let line = |group: &Value, by: &str| group[by][0]["line"].as_u64().unwrap();
    let rows: Vec<_> = groups
        .iter()
        .map(|group| {
            (
                line(group, "freed_by"),
                group["count"].as_u64().unwrap(),
                group["alone_bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(rows, [(2, 3, 0), (3, 1, 2 * MIB)]);
    // From the third release to the fourth: its completion, 200 events, and the release itself.
    assert_eq!(groups[1]["alone_events"], 202);
    // The first two lived and died together; the third and the fourth did not.
    assert_eq!(found["twins"][0]["pairs"], 1);
    assert!(shown(&["lives", &path]).contains("there twice"));
}

#[test]
fn a_recording_of_nothing_gets_advice() {
    let path = recording("empty.pickle.xz");
    let text = shown(&["doctor", &path]);
    assert!(text.contains("nothing was allocated") && text.contains("_record_memory_history()"), "{text}");
    assert_eq!(json(&["doctor", &path])["device"], Value::Null);
}

/// Bytes at the peak count, not allocations: a late start has a stack for nearly every allocation that it shows.
#[test]
fn stacks_are_weighed_by_bytes_at_the_peak() {
    let text = shown(&["doctor", &recording("late_start_training.pickle.xz")]);
    assert!(text.contains("of the bytes live at the peak have a stack"), "{text}");
    assert!(text.contains("they are older than the recording"), "{text}");
    // 293 events are no round number: the history was cleared, and a larger ring would not help.
    let cleared = shown(&["doctor", &recording("history_cleared.pickle.xz")]);
    assert!(!cleared.contains("max_entries=1") && cleared.contains("clears it"), "{cleared}");
}

/// Recording began after the model, the optimizer and a first step: what was live then has no stack, whoever made it.
#[test]
fn what_is_older_than_the_recording_is_called_that() {
    let late = recording("../roles/late_llama.pickle.xz");
    let text = text(&vramscope(&["at", &late, "--at", "start"]).stdout);
    assert!(text.contains("(before recording began)") && !text.contains("autograd"), "{text}");
}

/// A memory timeline lists blocks: what was requested is not in it, and neither is what was reserved.
#[test]
fn what_a_profile_does_not_say_is_no_number() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/inputs/kineto/mt.json.gz");
    let shown = shown(&["summary", path]);
    assert!(
        shown.contains("  exact: complete from the first allocation on, in sizes of blocks\n"),
        "{shown}"
    );
    // The oracle of the timeline is in analysis/tests/timeline.rs.
    let peak = shown.lines().find(|line| line.trim_start().starts_with("peak  ")).unwrap();
    let cells: Vec<&str> = peak.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["peak", "not in file", "210 KiB", "210 KiB", "not in file"], "{shown}");
    assert!(shown.contains("█ allocated") && !shown.contains("█ requested"), "{shown}");
}
