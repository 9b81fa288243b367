//! `summary --fail-on`: what a recording may not have, for scripts and continuous integration.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The exit code, what is printed and what is complained about.
fn summary(file: &Path, limits: &str, json: bool) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .arg("summary")
        .arg(file)
        .args(["--fail-on", limits, "--no-cache"])
        .args(json.then_some("--json"))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn recording(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recordings/{name}.pickle.xz"))
}

/// The peak of allocated bytes, as PyTorch counted it.
fn peak(name: &str) -> u64 {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recordings/{name}.oracle.json"));
    let oracle: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let marks = oracle["marks"].as_array().unwrap();
    let peak = |mark: &Value| mark["allocated_peak"].as_u64().unwrap();
    marks.iter().map(peak).max().unwrap()
}

#[test]
fn a_peak_above_a_size() {
    let (file, peak) = (recording("llama_python"), peak("llama_python"));
    let (code, printed, complained) = summary(&file, &format!("peak:allocated>{peak}"), false);
    assert_eq!((code, complained.as_str()), (0, ""), "as much is allowed");
    assert!(printed.contains("requested"));
    let (code, _, complained) = summary(&file, &format!("peak:allocated>{}", peak - 1), false);
    assert_eq!(code, 1);
    assert!(complained.contains("cuda:0: peak allocated is "), "{complained}");
}

#[test]
fn failures_and_findings() {
    let code = |name: &str, limits: &str| summary(&recording(name), limits, false).0;
    assert_eq!((code("oom", "oom"), code("llama_python", "oom")), (1, 0));
    assert_eq!((code("leak_graph", "leak"), code("llama_python", "leak")), (1, 0));
    assert_eq!((code("oom", "high"), code("oom", "out_of_memory"), code("llama_python", "high")), (1, 1, 0));
    assert_eq!(code("llama_python", "oom,leak,peak>1KiB"), 1, "one of several is enough");
    let (_, printed, _) = summary(&recording("oom"), "oom", true);
    let value: Value = serde_json::from_str(&printed).unwrap();
    let id = value["files"][0]["devices"][0]["findings"][0]["id"].as_str().unwrap();
    assert_eq!(code("oom", id), 1);
    assert_eq!(value["exceeded"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_limit_and_what_cannot_be_judged() {
    let (code, _, complained) = summary(&recording("oom"), "peak+5%", false);
    assert_eq!(code, 2);
    assert!(complained.contains("'peak+5%' is not a limit (try 'peak>30GiB'"), "{complained}");
    // Nothing in this file says how much the device has.
    let (code, _, complained) = summary(&recording("llama_python"), "peak>90%", false);
    assert_eq!(code, 2);
    assert!(complained.contains("give a size"), "{complained}");
}
