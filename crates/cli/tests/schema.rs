//! The JSON output is what `docs/schema` says.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command with `--json` and checks every line it prints.
fn check(schema: &str, args: &[&str]) {
    let text = std::fs::read_to_string(root().join(format!("docs/schema/{schema}.json"))).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(args)
        .arg("--json")
        .args((schema != "shapes").then_some("--no-cache"))
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    for line in printed.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if let Err(error) = validator.validate(&value) {
            panic!("{args:?}: {} at {}", error, error.instance_path());
        }
    }
}

fn recording(name: &str) -> String {
    root().join(format!("testdata/recordings/{name}.xz")).to_str().unwrap().to_owned()
}

#[test]
fn every_verb_keeps_to_its_schema() {
    let names =
        ["llama_python", "oom", "mempool", "late_start", "empty", "formats_list", "cpp_dump", "skip_alloc"];
    for name in names.map(|name| recording(&format!("{name}.pickle"))) {
        check("summary", &["summary", &name]);
        check("insights", &["insights", &name]);
        check("doctor", &["doctor", &name]);
        if name.contains("empty") {
            continue;
        }
        for at in ["--peak", "--start", "--end"] {
            check("at", &["at", &name, at, "--limit", "40"]);
        }
        check("oom", &["oom", &name]);
        check("churn", &["churn", &name]);
        let is_state_only = name.contains("formats_list");
        for handle in ["a:0", "s:1", "e:0"].into_iter().take(if is_state_only { 2 } else { 3 }) {
            check("show", &["show", handle, &name]);
        }
        check("tree", &["tree", &name]);
        check("tree", &["tree", &name, "--lifetime", "--invert"]);
        for of in ["lines", "stacks", "allocations"] {
            check("top", &["top", &name, "--of", of, "--limit", "30"]);
        }
        check("segments", &["segments", &name, "--limit", "10"]);
        check("pools", &["pools", &name]);
        check("categories", &["categories", &name, "--series", "20"]);
        for by in ["module", "class", "function"] {
            check("modules", &["modules", &name, "--by", by]);
        }
        check("phases", &["phases", &name]);
        check("fragmentation", &["fragmentation", &name]);
        check("steps", &["steps", &name]);
        check("lives", &["lives", &name]);
        check("diff", &["diff", &name, &name, "--by", "category"]);
        check("diff", &["diff", &name, &recording("leak_graph.pickle"), "--by", "module"]);
        check("matrix", &["diff", &name, &name, &recording("leak_graph.pickle"), "--values", "1,2,4"]);
        check("minimum", &["minimum", &name, "--capacity", "H100"]);
        check("diff", &["diff", &name, &recording("leak_graph.pickle")]);
    }
    for handle in ["f:out_of_memory-1", "modeling_llama.py:67", "g:7f68cc000000"] {
        check("show", &["show", handle, &recording("oom.pickle")]);
    }
    check("oom", &["oom", &recording("alloc_retry.pickle"), "--budget", "600"]);
    check("at", &["at", &recording("oom.pickle"), "--oom", "--budget", "600"]);
    check("at", &["at", &recording("oom.pickle"), "--oom", "--limit", "5"]);
    check("events", &["events", &recording("oom.pickle"), "--since", "11000"]);
    check("pools", &["pools", &recording("cudagraph_pools.pickle"), "--at", "end"]);
    check("shapes", &["shapes", "64MiB", "8191", "--all", "--dims", "hidden=4096,heads=32,batch=4,seq=2048"]);
    let ranks: Vec<_> = (0..4).map(|rank| recording(&format!("rank{rank}_memory_snapshot.pickle"))).collect();
    for verb in ["ranks", "insights"] {
        check(verb, &[verb, &ranks[0], &ranks[1], &ranks[2], &ranks[3]]);
    }
    for name in ["oom.pickle", "llama_python.pickle"].map(recording) {
        check(
            "whatif",
            &["whatif", &name, "--set", "", "--set", "expandable_segments:True", "--moments", "start,100"],
        );
        check("tune", &["tune", &name]);
    }
    check("summary", &["summary", &recording("oom.pickle"), "--min-size", "1MiB", "--until", "oom"]);
    check("views", &["sql", "--list"]);
    if cfg!(feature = "sql") {
        check("sql", &["sql", &recording("oom.pickle"), "peak_by_line"]);
        check("sql", &["sql", &recording("oom.pickle"), "select null, 1.5, count(*) from ooms"]);
    }
}

/// What a file does not have is null, and still as the schemas say.
#[test]
fn other_inputs_keep_to_the_schemas() {
    let inputs = root().join("testdata/inputs");
    let profile = "ascend/actor_update/worker0_4100_20261115064500000_ascend_pt";
    let names = ["kineto/t.json.xz", "kineto/mt.json.gz", "kineto/mt.raw.json.gz", profile];
    for name in names.map(|name| inputs.join(name).to_str().unwrap().to_owned()) {
        for verb in [
            "summary",
            "insights",
            "tree",
            "doctor",
            "phases",
            "steps",
            "minimum",
            "overlap",
            "events",
            "categories",
            "ranks",
        ] {
            check(verb, &[verb, &name]);
        }
        check("at", &["at", &name, "--peak", "--limit", "4"]);
        check("top", &["top", &name, "--limit", "4"]);
        check("diff", &["diff", &name, &name]);
        check(
            "overlap",
            &["overlap", &name, "--at", "start", "--to", "end", "--by", "stack", "--limit", "3"],
        );
    }
    check("overlap", &["overlap", &recording("oom.pickle"), "--at", "oom"]);
}
