//! The command as its users run it: what it prints, where, and the exit code.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{failure, file, json, recording, recordings, text, unpacked, vramscope};

/// The numbers are PyTorch's, from `oom.oracle.json`, mark "oom".
#[test]
fn summary_as_json_is_the_contract() {
    let oracle: Value =
        serde_json::from_str(&fs::read_to_string(recording("oom.oracle.json")).unwrap()).unwrap();
    let marks = oracle["marks"].as_array().unwrap();
    let oom = marks.iter().find(|mark| mark["label"].as_str().unwrap().starts_with("oom")).unwrap();

    let summary = json(&["summary", &recording("oom.pickle.xz")]);
    assert_eq!(summary["schema"], "vramscope/summary/1");
    let file = &summary["files"][0];
    assert_eq!(file["format"], "xz, pickle 4");
    assert_eq!(file["rank"], Value::Null);
    assert_eq!(file["warnings"], Value::Array(vec![]));
    let device = &file["devices"][0];
    assert_eq!(device["device"], 0);
    assert_eq!(device["events"], 11_823);
    assert_eq!(device["verdict"]["status"], "exact");
    assert_eq!(device["verdict"]["estimated_bytes"], 0);
    for counter in ["requested", "allocated", "active", "reserved"] {
        assert_eq!(device["start"][counter], 0);
        assert_eq!(device["end"][counter], oom[counter], "{counter}");
        assert_eq!(device["peak"][counter]["bytes"], oom[format!("{counter}_peak")], "{counter}");
        assert!(device["peak"][counter]["event"].is_u64());
        assert!(device["peak"][counter]["time_us"].is_i64());
    }
    assert_eq!(device["oom"][0]["event"], 11_822);
    assert_eq!(device["oom"][0]["requested"], 32 << 20);
}

#[test]
fn at_as_json_is_the_contract() {
    let path = recording("mempool.pickle.xz");
    let at = json(&["at", &path, "--end"]);
    assert_eq!(at["schema"], "vramscope/at/1");
    let live = at["live"].as_array().unwrap();
    assert_eq!(at["live_count"], live.len());
    let sum = |field: &str| live.iter().map(|allocation| allocation[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(at["requested"], sum("requested"));
    assert_eq!(at["active"], sum("allocated"));
    let sizes: Vec<_> = live.iter().map(|allocation| allocation["requested"].as_u64().unwrap()).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "largest first");
    assert!(live.iter().any(|allocation| allocation["pool"] == serde_json::json!([0, 1])), "the MemPool's");
    assert_eq!(live[0]["stack"][0]["name"], "child");
    assert!(live[0]["stack"][0]["line"].is_u64() && live[0]["stack"][0]["file"].is_string());

    let limited = json(&["at", &path, "--end", "--limit", "2"]);
    assert_eq!(limited["live"].as_array().unwrap().len(), 2);
    assert_eq!(limited["live_count"], live.len());
}

#[test]
fn the_demo_can_be_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.pickle.xz");
    let path = path.to_str().unwrap();
    assert_eq!(vramscope(&["demo", "-o", path]).status.code(), Some(0));
    assert_eq!(fs::read(path).unwrap(), fs::read(recordings().join("oom.pickle.xz")).unwrap());
    assert!(failure(&["demo", "-o", path]).contains("already exists; pass --force to overwrite"));
}

#[test]
fn text_is_for_people() {
    let output = vramscope(&["demo"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout);
    assert!(printed.contains("11 823 events"), "{printed}");
    assert!(printed.contains("exact: complete from the first allocation on"), "{printed}");
    assert!(printed.contains("peak   3.99 GiB   3.99 GiB  3.99 GiB  4.17 GiB"), "{printed}");
    assert!(
        printed.contains(
            "!! out of memory at event 11 822: modeling_llama.py:67 forward requested 32.0 MiB; 135 GiB was free on the device"
        ),
        "{printed}"
    );
    assert!(printed.contains("31.6%     15  modeling_llama.py:175 forward"), "what filled it: {printed}");
    assert!(printed.contains("lack of memory: peaks double with each step"), "{printed}");
    assert!(printed.lines().all(|line| !line.ends_with(' ')), "no trailing spaces: {printed}");

    let output = vramscope(&["at", &recording("oom.pickle.xz"), "--oom", "--limit", "1"]);
    let printed = text(&output.stdout);
    // Ten tensors of 86 MiB are one row; 169 allocations in 32 groups are left.
    let row = printed.lines().find(|line| line.contains("860 MiB  21.1%     10  11 313 …  a:")).unwrap();
    assert!(row.ends_with("  modeling_llama.py:175 forward  (86.0 MiB each)"), "{printed}");
    assert!(printed.contains("3.15 GiB  78.9%    169            32 more"), "{printed}");
}

#[test]
fn standard_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(["summary", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&unpacked("mempool.pickle.xz")).unwrap();
    let output = child.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["files"][0]["path"], "-");
    assert_eq!(summary["files"][0]["devices"][0]["events"], 53);
}

#[test]
fn a_cut_file_gives_what_is_intact_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let whole = unpacked("oom.pickle.xz");
    let path = file(&folder, "cut.pickle", &whole[..whole.len() / 2]);
    let output = vramscope(&["summary", &path, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("damaged or cut at byte"), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = &summary["files"][0]["devices"][0];
    assert_eq!(device["verdict"]["status"], "truncated");
    assert!(device["events"].as_u64().unwrap() > 3000);
    assert_eq!(summary["files"][0]["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn each_kind_of_wrong_file_has_its_own_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = failure(&["summary", &file(&folder, "zero.pickle", b"")]);
    assert!(error.contains("zero.pickle: the file is empty (0 bytes)"), "{error}");
    let error = failure(&["summary", &file(&folder, "model.pt", b"PK\x03\x04\0\0")]);
    assert!(error.contains("begins with \"PK\" (a zip file). A torch.save() checkpoint?"), "{error}");
    let error = failure(&["summary", &file(&folder, "log.txt", b"loss 3.1\n")]);
    assert!(error.contains("a text file that begins with \"loss 3.1\""), "{error}");
    let error = failure(&["summary", &file(&folder, "evil.pickle", b"\x80\x02cos\nsystem\n.")]);
    assert!(error.contains("wants to load os.system at byte 2"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = failure(&["summary", empty.path().to_str().unwrap()]);
    assert!(error.contains("no memory snapshot among 0 files"), "{error}");
    let error = failure(&["summary", "/no/such/path"]);
    assert!(error.contains("/no/such/path: No such file or directory"), "{error}");
}

/// One bad file among good ones: the good ones are shown, and the exit code says that not all was well.
#[test]
fn a_bad_file_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let bad = file(&folder, "bad.pickle", b"");
    let output = vramscope(&["summary", &recording("mempool.pickle.xz"), &bad]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("53 events"));
    assert!(text(&output.stderr).contains("bad.pickle: the file is empty"));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(["at", &recording("inference_kv.pickle.xz"), "--peak", "--json", "--no-cache"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn summary_says_what_looks_wrong() {
    let summary =
        |name: &str| text(&vramscope(&["summary", &recording(&format!("{name}.pickle.xz"))]).stdout);
    let leak = summary("leak_graph");
    assert!(
        leak.contains("!! activations of 5 of 5 steps outlive the backward pass after their own"),
        "{leak}"
    );
    assert!(leak.contains("by capture.py:79 train"), "the line of the script: {leak}");
    let pools = summary("cudagraph_pools");
    assert!(
        pools
            .contains("private pool (3, 0) of a CUDA graph holds 28.0 MiB at the end, 7.50 MiB of it in use"),
        "{pools}"
    );
    for healthy in ["llama_python", "inference_kv", "empty"] {
        assert!(!summary(healthy).contains("  ! "), "{healthy}: {}", summary(healthy));
    }
}

/// The lines and the rest add up to the peak, the causes to the gap.
#[test]
fn tables_of_the_summary_add_up() {
    for name in EXACT {
        let device = &json(&["summary", &recording(&format!("{name}.pickle.xz"))])["files"][0]["devices"][0];
        let lines = device["live_at_peak"].as_array().unwrap();
        let shown: u64 = lines.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
        let rest = device["rest_at_peak"]["bytes"].as_u64().unwrap();
        assert_eq!(shown + rest, device["peak"]["requested"]["bytes"].as_u64().unwrap(), "{name}");
        let gap = device["gap_at_peak"].as_object().unwrap();
        let causes: i64 =
            gap.iter().filter(|(name, _)| *name != "total").map(|(_, bytes)| bytes.as_i64().unwrap()).sum();
        assert_eq!(causes, gap["total"].as_i64().unwrap(), "{name}");
    }
}

/// The recordings whose verdict is exact, one per kind.
const EXACT: [&str; 6] =
    ["llama_python", "leak_graph", "oom", "cudagraph_pools", "expandable_mixed", "record_stream"];

/// Rows of every table add up to the counter at that moment.
#[test]
fn tree_and_top_add_up_to_the_counter() {
    fn check(node: &Value) {
        let children = node["children"].as_array().unwrap();
        let sum: u64 = children.iter().map(|child| child["bytes"].as_u64().unwrap()).sum();
        let own = node["own_bytes"].as_u64().unwrap();
        assert_eq!(sum + own, node["bytes"].as_u64().unwrap(), "{}", node["name"]);
        children.iter().for_each(check);
    }
    for name in EXACT {
        let path = recording(&format!("{name}.pickle.xz"));
        let peak = json(&["summary", &path])["files"][0]["devices"][0]["peak"]["requested"]["bytes"].clone();
        for direction in [&[][..], &["--invert"], &["--hide-internal=false"]] {
            let tree = json(&[&["tree", &path, "--min", "0", "--depth", "400"], direction].concat());
            assert_eq!(tree["root"]["bytes"], peak, "{name}");
            check(&tree["root"]);
        }
        for of in ["lines", "stacks", "allocations"] {
            let top = json(&["top", &path, "--of", of, "--limit", "7"]);
            assert_eq!(top["total"]["live"], peak, "{name} {of}");
            let shown: u64 =
                top["rows"].as_array().unwrap().iter().map(|row| row["live"].as_u64().unwrap()).sum();
            assert_eq!(shown + top["rest"]["live"].as_u64().unwrap(), peak.as_u64().unwrap(), "{name} {of}");
        }
        let folded = vramscope(&["tree", &path, "--format", "folded"]);
        let bytes = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        assert_eq!(text(&folded.stdout).lines().map(bytes).sum::<u64>(), peak.as_u64().unwrap(), "{name}");
    }
}

#[test]
fn a_flame_graph_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (recording("mempool.pickle.xz"), folder.path().join("peak.svg"));
    let file = file.to_str().unwrap();
    assert_eq!(vramscope(&["flame", &path, "-o", file]).status.code(), Some(0));
    let svg = fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let error = failure(&["flame", &path, "-o", file]);
    assert!(error.contains("already exists; pass --force to overwrite"), "{error}");
    assert_eq!(vramscope(&["flame", &path, "-o", file, "--force"]).status.code(), Some(0));
    let speedscope: Value =
        serde_json::from_slice(&vramscope(&["flame", &path, "--format", "speedscope"]).stdout).unwrap();
    let profile = &speedscope["profiles"][0];
    assert_eq!(profile["samples"].as_array().unwrap().len(), profile["weights"].as_array().unwrap().len());
}

#[test]
fn ranks_name_who_differs_and_why() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let name = format!("rank{rank}_memory_snapshot.pickle");
        fs::copy(recordings().join(format!("{name}.xz")), folder.path().join(name)).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let printed = text(&vramscope(&["ranks", path]).stdout);
    assert!(
        printed.contains("! rank 2: 369 MiB requested at the peak, +80.0 MiB against the median"),
        "{printed}"
    );
    assert!(
        printed.contains("! rank 3: 353 MiB requested at the peak, +64.0 MiB against the median"),
        "{printed}"
    );
    let leak = "!! only rank 2 leaks: 16.0 MiB more with each step, through ranks.py:15 <module>";
    assert!(printed.contains(leak), "{printed}");
    assert_eq!(vramscope(&["insights", path, "--fail-on", "high"]).status.code(), Some(1));
    // Without that line all ranks but rank 3 are alike.
    let others = json(&["ranks", path, "--stack", "ranks.py:1[0-4]"]);
    let odd: Vec<_> = others["outliers"].as_array().unwrap().iter().map(|outlier| &outlier["rank"]).collect();
    assert!(odd.iter().all(|rank| **rank == 3), "{odd:?}");
    let report = json(&["ranks", path]);
    let odd: Vec<_> = report["outliers"].as_array().unwrap().iter().map(|outlier| &outlier["rank"]).collect();
    assert!(odd.iter().all(|rank| **rank == 2 || **rank == 3), "{odd:?}");
    assert_eq!(report["ranks"].as_array().unwrap().len(), 4);
}

#[test]
fn diff_says_what_grew_and_can_fail() {
    let (llama, leak) = (recording("llama_python.pickle.xz"), recording("leak_graph.pickle.xz"));
    let same = vramscope(&["diff", &llama, &llama, "--fail-on", "peak+0%"]);
    assert_eq!(same.status.code(), Some(0));
    assert!(text(&same.stdout).contains("nothing differs"));

    let grown = vramscope(&["diff", &llama, &leak, "--fail-on", "peak+5%,end+10GiB"]);
    assert_eq!(grown.status.code(), Some(1));
    assert!(text(&grown.stdout).contains("B requests 552 MiB more"), "{}", text(&grown.stdout));
    let complaint = text(&grown.stderr);
    assert!(complaint.contains("peak+5%: peak requested is 994 MiB, was 442 MiB"), "{complaint}");
    assert!(
        complaint.contains("the largest part: loss_utils.py:40"),
        "160 of 552 MiB is not most: {complaint}"
    );
    // Each line once, with all that it holds.
    let report = json(&["diff", &llama, &leak]);
    let lines: Vec<_> = report["changes"].as_array().unwrap().iter().map(|change| &change["stack"]).collect();
    assert!(lines.iter().enumerate().all(|(n, line)| !lines[..n].contains(line)), "{lines:?}");
    assert!(!complaint.contains("end+10GiB"), "the other limit holds: {complaint}");

    // Two moments of one file: the changes add up to the change of the counter.
    let steps =
        json(&["diff", &leak, "--at", "in:## optimizer ###2:end", "--vs", "in:## optimizer ###5:end"]);
    let sum: i64 =
        steps["changes"].as_array().unwrap().iter().map(|change| change["change"].as_i64().unwrap()).sum();
    assert_eq!(sum, steps["requested_change"].as_i64().unwrap());
    assert!(sum > 300 << 20, "three steps of a leak");
}

#[test]
fn events_stream_and_filter() {
    let path = recording("oom.pickle.xz");
    let all = text(&vramscope(&["events", &path, "--budget", "0"]).stdout);
    assert_eq!(all.lines().count(), 11_823);
    let oom = vramscope(&["events", &path, "--action", "oom", "--json"]);
    let oom: Value = serde_json::from_slice(&oom.stdout).unwrap();
    assert_eq!(
        (&oom["event"], &oom["size"], &oom["addr"]),
        (&11_822.into(), &(32 << 20).into(), &Value::Null)
    );
    let page = text(&vramscope(&["events", &path, "--skip", "5", "--limit", "2"]).stdout);
    assert_eq!(page.lines().collect::<Vec<_>>(), all.lines().skip(5).take(2).collect::<Vec<_>>());
    let error = failure(&["events", &path, "--action", "malloc"]);
    assert!(error.contains("there is no action \"malloc\"; there are: alloc,"), "{error}");
}

/// Segments, blocks and holes add up to the counters at that moment.
#[test]
fn the_map_adds_up() {
    for name in EXACT {
        let path = recording(&format!("{name}.pickle.xz"));
        for at in ["peak", "end", "peak:reserved"] {
            let map = json(&["segments", &path, "--at", at]);
            let segments = map["segments"].as_array().unwrap();
            let sum = |list: &Value, field: &str| -> u64 {
                list.as_array().unwrap().iter().map(|entry| entry[field].as_u64().unwrap()).sum()
            };
            let size: u64 = segments.iter().map(|segment| segment["size"].as_u64().unwrap()).sum();
            let blocks: u64 = segments.iter().map(|segment| sum(&segment["blocks"], "size")).sum();
            let holes: u64 = segments.iter().map(|segment| sum(&segment["holes"], "size")).sum();
            assert_eq!(Value::from(size), map["reserved"], "{name} at {at}");
            assert_eq!(Value::from(blocks), map["active"], "{name} at {at}");
            assert_eq!(size, blocks + holes, "{name} at {at}");
        }
    }
    let printed =
        text(&vramscope(&["segments", &recording("cudagraph_pools.pickle.xz"), "--at", "end"]).stdout);
    assert!(printed.contains("CUDA graph (3, 0), stream 0x"), "pools by name: {printed}");
}

#[test]
fn the_doctor_knows_what_is_missing() {
    let doctor = |name: &str| text(&vramscope(&["doctor", &recording(&format!("{name}.pickle.xz"))]).stdout);
    assert!(doctor("llama_python").contains("✓ verdict      exact"));
    assert!(doctor("ring_buffer").contains("_record_memory_history(max_entries="));
    assert!(doctor("context_state").contains("context=None or context=\"state\""));
    assert!(doctor("context_alloc").contains("frees carry the stack of their allocation"));
    assert!(doctor("late_start").contains("Start recording before the first tensor"));
    assert!(doctor("mempool").contains("record_function(\"forward\")"));
}

#[test]
fn completions_and_the_manual_name_every_verb() {
    let completions = text(&vramscope(&["completions", "bash"]).stdout);
    let manual = text(&vramscope(&["man"]).stdout);
    for verb in ["summary", "at", "tree", "top", "diff", "ranks", "events", "export"] {
        assert!(completions.contains(verb) && manual.contains(verb), "{verb}");
    }
    let typo = failure(&["sumary", "x"]);
    assert!(typo.contains("a similar subcommand exists: 'summary'"), "{typo}");
}

/// The tables say the same in every format, and the same as the summary.
#[test]
fn exported_tables_agree_with_the_summary() {
    let path = recording("llama_python.pickle.xz");
    let device = &json(&["summary", &path])["files"][0]["devices"][0];
    let rows = |table: &str, format: &str| {
        let output = vramscope(&["export", &path, "--table", table, "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let events: Vec<Value> =
        rows("events", "jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), device["events"].as_u64().unwrap() as usize);
    for counter in ["requested", "allocated", "active", "reserved"] {
        let peak = events.iter().map(|event| event[counter].as_i64().unwrap()).max();
        assert_eq!(peak, device["peak"][counter]["bytes"].as_i64(), "{counter}");
        assert_eq!(events.last().unwrap()[counter], device["end"][counter], "{counter}");
    }
    // What is live at the end, by the table of allocations.
    let live: u64 = rows("allocations", "jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|allocation| allocation["free_event"].is_null())
        .map(|allocation| allocation["requested"].as_u64().unwrap())
        .sum();
    assert_eq!(Value::from(live), device["end"]["requested"]);
    for table in ["allocations", "events", "stacks", "frames", "segments", "annotations"] {
        let (csv, jsonl) = (rows(table, "csv"), rows(table, "jsonl"));
        assert_eq!(csv.lines().count(), jsonl.lines().count() + 1, "{table}: a header and the same rows");
    }
    let trace: Value = serde_json::from_str(&rows("events", "perfetto")).unwrap();
    let entries = trace["traceEvents"].as_array().unwrap();
    let highest =
        entries.iter().filter(|entry| entry["ph"] == "C").map(|entry| entry["args"]["requested"].as_i64());
    assert_eq!(highest.max().unwrap(), device["peak"]["requested"]["bytes"].as_i64());
    assert_eq!(entries.iter().filter(|entry| entry["ph"] == "X" && entry["name"] == "forward").count(), 3);
}

#[test]
fn units_and_colors_are_chosen_once_for_all() {
    let path = recording("oom.pickle.xz");
    let printed = |args: &[&str]| text(&vramscope(&[&["summary", &path], args].concat()).stdout);
    assert!(!printed(&[]).contains('\x1b'), "no colors off a terminal");
    assert!(printed(&["--color", "always"]).contains("\x1b[32mexact"));
    assert!(printed(&["--units", "decimal"]).contains("4.28 GB"));
    assert!(printed(&["--units", "bytes"]).contains("4 279 452 896 B"));
    let tree = text(&vramscope(&["at", &path, "--oom", "--tree"]).stdout);
    assert!(tree.contains("3.99 GiB  100.0%      179  all"), "{tree}");
}

#[test]
fn pools_add_up_to_what_is_reserved() {
    let path = recording("cudagraph_pools.pickle.xz");
    let report = json(&["pools", &path, "--at", "end"]);
    let pools = report["pools"].as_array().unwrap();
    let sum = |keep: &dyn Fn(&&Value) -> bool| -> i64 {
        pools.iter().filter(keep).map(|pool| pool["reserved"].as_i64().unwrap()).sum()
    };
    assert_eq!(sum(&|_| true), report["reserved"].as_i64().unwrap());
    // Three captured graphs; their segments at the end are 36, 6 and 28 MiB.
    assert_eq!(sum(&|pool| pool["private"] == true), (36 + 6 + 28) << 20);
    let first = &pools[0];
    assert_eq!(
        (&first["pool"], &first["known"], &first["segments"]),
        (&[1, 0].into(), &"by address".into(), &3.into())
    );
    let text = text(&vramscope(&["pools", &path, "--pool", "3,0", "--at", "end"]).stdout);
    assert!(text.contains("28.0 MiB of it in private pools") && !text.contains("(1, 0)"), "{text}");
}

#[test]
fn categories_and_a_rule_file() {
    let path = recording("llama_python.pickle.xz");
    let requested = |args: &[&str], name: &str| -> i64 {
        let report = json(args);
        let rows = report["categories"].as_array().unwrap();
        assert_eq!(
            rows.iter().map(|row| row["requested"].as_i64().unwrap()).sum::<i64>(),
            report["requested"]
        );
        rows.iter().find(|row| row["name"] == name).unwrap()["requested"].as_i64().unwrap()
    };
    // The weights: see analysis/tests/categories.rs.
    assert_eq!(requested(&["categories", &path], "parameters"), 51_590_272);
    let folder = tempfile::tempdir().unwrap();
    let rules = file(&folder, "rules.toml", b"[[rule]]\ncategory = \"weights\"\nstack = \"_apply\"\n");
    assert_eq!(requested(&["categories", &path, "--rules", &rules], "weights"), 51_590_272);
    let wrong = file(&folder, "wrong.toml", b"[[rule]]\ncategory = \"x\"\nstack = \"(\"\n");
    let error = failure(&["categories", &path, "--rules", &wrong]);
    assert!(error.contains("wrong.toml: line 3: stack: "), "{error}");
}

#[test]
fn shapes_explain_sizes() {
    let dims = "hidden=4096,intermediate=14336,heads=32,kv=8,batch=4,seq=2048";
    let printed = text(&vramscope(&["shapes", "112MiB", "1000000", "--dims", dims, "--json"]).stdout);
    let report: Value = serde_json::from_str(&printed).unwrap();
    let best = &report["sizes"][0]["hints"][0];
    assert_eq!((&best["shape"], &best["dtype"]), (&[14336, 4096].into(), &"bf16/fp16".into()));
    assert_eq!(report["sizes"][1]["hints"], Value::Array(Vec::new()));
    let folder = tempfile::tempdir().unwrap();
    let config = file(&folder, "config.json", br#"{"n_embd": 768, "n_head": 12, "vocab_size": 50257}"#);
    let printed = text(&vramscope(&["shapes", "154389504", "--config", &config]).stdout);
    assert!(printed.contains("[50257, 768]") && printed.contains("fp32"), "{printed}");
    assert!(failure(&["shapes", "1", "--dims", "hiden=4"]).contains("no dimension is called \"hiden\""));
    assert!(failure(&["shapes", "1"]).contains("--dims"));
}

/// The totals of the profile's own columns: 12 512 MiB and 10 KiB at the peak, 13 024 MiB reserved.
#[test]
fn a_profile_has_the_level_of_its_totals() {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs");
    let folder = inputs.join("ascend/actor_update/worker0_4100_20261115064500000_ascend_pt");
    let folder = folder.to_str().unwrap();
    let file = &json(&["summary", folder])["files"][0];
    assert_eq!((&file["rank"], &file["role"]), (&0.into(), &"actor_update".into()));
    let device = &file["devices"][0];
    assert_eq!(device["name"], "NPU 0");
    assert_eq!(device["peak"]["allocated"]["bytes"], 12_512_i64 * (1 << 20) + 10_240);
    assert_eq!(device["peak"]["reserved"]["bytes"], 13_024_i64 * (1 << 20));
    let overlap = json(&["overlap", folder, "--at", "peak:allocated"]);
    let group = &overlap["groups"][1];
    assert_eq!((&group["name"], &group["count"]), (&"aten::mul".into(), &2.into()));
    // The row of the table: 1790000000000200.500 to 1790000000000250.700 µs.
    let times: Vec<_> =
        group["allocations"].as_array().unwrap().iter().map(|life| life["start_ns"].as_i64()).collect();
    assert_eq!(times, [Some(1_790_000_000_000_200_500), Some(1_790_000_000_000_240_000)]);
    assert_eq!(group["allocations"][0]["end_ns"].as_i64(), Some(1_790_000_000_000_250_700));
}

#[test]
fn what_is_not_in_a_file_is_not_zero() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs/kineto/t.json.xz");
    let trace = trace.to_str().unwrap();
    let device = json(&["summary", trace])["files"][0]["devices"][0].clone();
    assert!(
        device["peak"]["reserved"].is_null()
            && device["gap_at_peak"].is_null()
            && device["segments"].is_null()
    );
    let at = text(&vramscope(&["at", trace, "--peak"]).stdout);
    assert!(
        at.contains("reserved      not in this file") && at.contains("largest hole  not in this file"),
        "{at}"
    );
    for verb in ["segments", "pools", "fragmentation"] {
        let output = vramscope(&[verb, trace]);
        assert_eq!(output.status.code(), Some(2), "{verb}");
        let error = text(&output.stderr);
        assert!(error.contains("are not in this file (xz, Kineto trace)"), "{verb}: {error}");
    }
}
