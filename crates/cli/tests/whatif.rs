//! `whatif` and `tune` on recordings whose reruns under other settings are known.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn path(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    path.to_str().unwrap().to_owned()
}

fn vramscope(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramscope")).args(args).arg("--no-cache").output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = vramscope(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// PyTorch's counters at the end of the real rerun.
fn rerun(name: &str) -> Value {
    let oracle = std::fs::read(path(&format!("whatif/{name}.oracle.json"))).unwrap();
    let oracle: Value = serde_json::from_slice(&oracle).unwrap();
    oracle["marks"].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn settings_are_answered_as_they_really_were() {
    let source = path("whatif/resize.default.pickle.xz");
    for (conf, limit, name) in [
        ("expandable_segments:True", "2200000000", "resize.explimit"),
        ("max_split_size_mb:64", "2200000000", "resize.splitlimit"),
        ("roundup_power2_divisions:8", "none", "resize.round8"),
    ] {
        let answer = json(&["whatif", &source, "--set", conf, "--limit", limit]);
        let (counters, truth) = (&answer["settings"][0]["counters"], rerun(name));
        assert_eq!(answer["self_check"]["exact"], true);
        assert_eq!(answer["settings"][0]["oom"], Value::Null, "{name}");
        assert_eq!(counters["reserved_peak"], truth["reserved_peak"], "{name}");
        assert_eq!(counters["device_allocs"], truth["device_alloc"], "{name}");
    }
}

#[test]
fn tune_finds_what_really_helped() {
    // Ran out of memory under the default settings; the real reruns explimit and splitlimit did not.
    let found = json(&["tune", &path("whatif/resize.limit.pickle.xz")]);
    assert_eq!(found["baseline"]["runs"], false);
    for best in ["least_memory", "fewest_device_calls"] {
        assert_eq!(found[best]["runs"], true);
        assert!(found[best]["line"].as_str().unwrap().starts_with("export PYTORCH_CUDA_ALLOC_CONF="));
    }
    // 1 GiB is less than what the program holds at once: nothing helps.
    let output = vramscope(&["tune", &path("whatif/resize.limit.pickle.xz"), "--limit", "300MiB"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no setting helps: every one runs out of memory"), "{text}");
}

#[test]
fn assumptions_are_marked() {
    let source = path("recordings/llama_python.pickle.xz");
    let output = vramscope(&["whatif", &source, "--set", "", "--without", "category:gradients"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("assumed: without category:gradients"), "{text}");
    let all = json(&["whatif", &source, "--set", ""]);
    let less = json(&["whatif", &source, "--set", "", "--scale", "category:activations=0.5"]);
    let peak = |answer: &Value| answer["settings"][0]["counters"]["requested_peak"].as_u64().unwrap();
    assert!(peak(&less) < peak(&all));
    let early = json(&["whatif", &source, "--set", "", "--free-early", "category:activations"]);
    assert!(peak(&early) <= peak(&all));
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_reason() {
    let error = |args: &[&str]| {
        let output = vramscope(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let whatif = |name: &str, conf: &str| {
        error(&["whatif", &path(&format!("recordings/{name}.pickle.xz")), "--set", conf])
    };
    assert_eq!(whatif("late_start", "").matches("the recording started late").count(), 1, "said once");
    assert!(whatif("skip_free_completed", "").contains("free_completed events were skipped"));
    assert!(whatif("skip_segments", "").contains("segment events were skipped"));
    assert!(whatif("expandable_toggled", "").contains("settings changed while recording"));
    assert!(whatif("graphs_pools", "").contains("a private pool"));
    assert!(whatif("no_recording", "").contains("only its final state"));
    assert!(whatif("oom", "expandable:True").contains("'expandable' is not an allocator option"));
}
