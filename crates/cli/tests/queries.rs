//! Moments, filters and devices as users type them: the same words for every verb.

use serde_json::Value;

use crate::common::{failure, file, json, recording, recordings, text, vramscope};

/// The same moment by its event, its time, and as the peak.
#[test]
fn a_moment_can_be_named_in_every_way() {
    let path = recording("llama_python.pickle.xz");
    let peak = &json(&["summary", &path])["files"][0]["devices"][0]["peak"]["requested"];
    let by_peak = json(&["at", &path, "--peak", "--limit", "3"]);
    assert_eq!(by_peak["requested"], peak["bytes"]);
    assert_eq!(by_peak["event"], peak["event"]);
    let by_event = json(&["at", &path, "--event", &peak["event"].to_string(), "--limit", "3"]);
    assert_eq!(by_event, by_peak);
    let by_time = json(&["at", &path, "--time-us", &peak["time_us"].to_string(), "--limit", "3"]);
    assert!(by_time["event"].as_u64() >= by_peak["event"].as_u64(), "the last event at that time");
    let start = json(&["at", &path, "--start"]);
    assert_eq!((&start["event"], &start["reserved"]), (&Value::Null, &Value::from(0)));
    let before = json(&["at", &path, "--time-us", "0"]);
    assert_eq!(before["event"], Value::Null);
}

#[test]
fn moments_that_do_not_exist() {
    let path = recording("mempool.pickle.xz");
    let error = failure(&["at", &path, "--event", "53"]);
    assert!(error.contains("there is no event 53: the trace has events 0 to 52"), "{error}");
    let error = failure(&["at", &path, "--oom"]);
    assert!(error.contains("memory never ran out in this recording. Try peak"), "{error}");
    let error = failure(&["at", &path, "--end", "--device", "3"]);
    assert!(error.contains("there is no cuda:3 in this file; it has: cuda:0"), "{error}");
    // Without a moment the peak is meant.
    assert_eq!(json(&["at", &path]), json(&["at", &path, "--peak"]));
    let error = failure(&["at", recordings().to_str().unwrap(), "--end"]);
    assert!(error.contains("snapshots; name one of them"), "{error}");
}

/// What the filters leave of the peak is what `at` lists with the same filters at that moment.
#[test]
fn filters_apply_to_the_summary() {
    let path = recording("llama_python.pickle.xz");
    let filters = ["--stack", "modeling", "--min-size", "1MiB", "--since", "in:forward#2:start"];
    let device = &json(&[&["summary", &path][..], &filters[..]].concat())["files"][0]["devices"][0];
    let event = device["kept_peak"]["event"].to_string();
    let at = json(&[&["at", &path, "--event", &event][..], &filters[..]].concat());
    let listed: u64 =
        at["live"].as_array().unwrap().iter().map(|live| live["requested"].as_u64().unwrap()).sum();
    assert_eq!(device["kept_peak"]["bytes"], listed);
    let whole = &json(&["summary", &path])["files"][0]["devices"][0];
    assert_eq!(whole["kept_peak"], Value::Null);
    assert!(device["peak"]["requested"]["bytes"].as_u64() <= whole["peak"]["requested"]["bytes"].as_u64());
    assert!(
        failure(&["summary", &path, "--since", "end", "--until", "start"])
            .contains("--since is after --until")
    );
}

#[test]
fn filters_restrict_what_is_shown_and_moments_have_names() {
    let path = recording("leak_graph.pickle.xz");
    let all = json(&["tree", &path, "--at", "end"]);
    let kept = json(&["tree", &path, "--at", "end", "--stack", "activations.py", "--min-size", "1MiB"]);
    let (all, kept) = (all["root"]["bytes"].as_u64().unwrap(), kept["root"]["bytes"].as_u64().unwrap());
    assert!(0 < kept && kept < all, "{kept} of {all}");

    let second = json(&["at", &path, "--in", "backward", "--nth", "2", "--limit", "0"]);
    let third = json(&["at", &path, "--in", "backward", "--nth", "3", "--limit", "0"]);
    assert!(second["event"].as_u64() < third["event"].as_u64());
    let error = failure(&["tree", &path, "--at", "in:sideways"]);
    assert!(
        error.contains("there is no phase 'sideways'; there are: backward, forward, optimizer"),
        "{error}"
    );
    let error = failure(&["tree", &path, "--at", "peak:yesterday"]);
    assert!(error.contains("'peak:yesterday' is not a moment"), "{error}");
    // The in: may be left out, and every verb takes the same words.
    assert_eq!(json(&["tree", &path, "--at", "backward#2"]), json(&["tree", &path, "--in", "backward#2"]));

    let pool = json(&["at", &recording("mempool.pickle.xz"), "--end", "--pool", "0,1"]);
    assert!(pool["live"].as_array().unwrap().iter().all(|live| live["pool"] == serde_json::json!([0, 1])));
    assert!(pool["shown_count"].as_u64() < pool["live_count"].as_u64());
}

/// Two devices: memory runs out on the first, the second has the longer trace and allocates more.
fn two_devices(folder: &tempfile::TempDir) -> String {
    let frames = r#""frames": [{"name": "step", "filename": "train.py", "line": 7}]"#;
    let first = format!(
        r#"{{"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, {frames}}},
           {{"action": "alloc", "addr": 4096, "size": 1048576, "stream": 0, {frames}}},
           {{"action": "oom", "addr": 1024, "size": 8388608, "stream": 0, "device_free": 1024, {frames}}}"#
    );
    let second: Vec<_> = (0..4)
        .flat_map(|n| {
            let addr = 1_u64 << (30 + n);
            [
                format!(r#"{{"action": "segment_alloc", "addr": {addr}, "size": 20971520, "stream": 0, {frames}}}"#),
                format!(r#"{{"action": "alloc", "addr": {addr}, "size": 16777216, "stream": 0, {frames}}}"#),
            ]
        })
        .collect();
    let segment = |device: u32, addr: u64, total: u64, used: u64| {
        let free = total - used;
        format!(
            r#"{{"device": {device}, "address": {addr}, "total_size": {total}, "allocated_size": {used},
                "active_size": {used}, "requested_size": {used}, "stream": 0, "segment_type": "large", "blocks": [
                {{"address": {addr}, "size": {used}, "requested_size": {used}, "state": "active_allocated", "frames": []}},
                {{"address": {}, "size": {free}, "requested_size": 0, "state": "inactive", "frames": []}}]}}"#,
            addr + used
        )
    };
    let mut segments = vec![segment(0, 4096, 2 << 20, 1 << 20)];
    segments.extend((0..4).map(|n| segment(1, 1 << (30 + n), 20 << 20, 16 << 20)));
    let (segments, second) = (segments.join(","), second.join(","));
    let text = format!(r#"{{"segments": [{segments}], "device_traces": [[{first}], [{second}]]}}"#);
    file(folder, "two.json", text.as_bytes())
}

#[test]
fn no_device_is_hidden_by_one_with_a_longer_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_devices(&folder);
    // The error is found, wherever it is.
    let output = vramscope(&["insights", &path, "--fail-on", "high"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("train.py:7 step requested 8.00 MiB"), "{}", text(&output.stdout));
    let at = json(&["at", &path, "--oom"]);
    assert_eq!(
        (&at["device"], &at["requested"]),
        (&0.into(), &1_048_576.into()),
        "only there memory ran out"
    );
    // Of both devices where both have the moment, of one where it is named.
    let both = json(&["at", &path]);
    assert_eq!(both["schema"], "vramscope/devices/1");
    let requested: Vec<_> =
        both["devices"].as_array().unwrap().iter().map(|at| at["requested"].as_u64().unwrap()).collect();
    assert_eq!(requested, [1 << 20, 4 * (16 << 20)]);
    assert_eq!(json(&["at", &path, "--device", "cuda:1"])["requested"], 4 * (16 << 20));
    let ranks = json(&["ranks", &path]);
    let ooms: Vec<_> = ranks["ranks"].as_array().unwrap().iter().map(|rank| rank["oom"].as_u64()).collect();
    assert_eq!(ooms, [Some(1), Some(0)]);
    // Pictures of one device ask for it.
    assert!(failure(&["flame", &path]).contains("the file has cuda:0, cuda:1: name one with --device"));
}

#[test]
fn bounds_decide_what_the_peak_is() {
    let path = recording("oom.pickle.xz");
    let bounds = ["--since", "in:forward#2:start", "--until", "in:forward#2:end"];
    let summary = json(&[&["summary", &path][..], &bounds].concat());
    let peak = &summary["files"][0]["devices"][0]["peak"]["requested"];
    for verb in ["at", "tree", "top", "categories"] {
        let report = json(&[&[verb, &path][..], &bounds].concat());
        assert_eq!(report["event"], peak["event"], "{verb}");
    }
}

#[test]
fn a_filter_that_matches_nothing_says_so() {
    let path = recording("oom.pickle.xz");
    for verb in ["summary", "at", "top", "tree", "categories"] {
        let output = vramscope(&[verb, &path, "--stack", "no_such_function"]);
        let printed = text(&output.stdout);
        assert!(
            printed.contains("no match: the filters leave none of 4 006 allocations"),
            "{verb}: {printed}"
        );
    }
}

#[test]
fn frames_that_are_passed_over_do_not_swallow_your_line() {
    let path = recording("oom.pickle.xz");
    let output = vramscope(&["at", &path, "--ignore-frames", "site-packages"]);
    let printed = text(&output.stdout);
    assert!(!printed.contains("modeling_llama.py"), "{printed}");
    assert!(printed.contains("capture.py:"), "the script's own line: {printed}");
}

/// The engine behind the window's and the page's SQL: the same rows as the command, in pages, and as CSV.
#[cfg(feature = "sql")]
#[test]
fn sql_of_viewers_is_that_of_the_command() {
    use vramscope_engine::{OpenSnapshot, Sql};

    let path = recording("oom.pickle.xz");
    let opened =
        vramscope_files::open(&vramscope_files::find(&[path.clone().into()]).0[0], None, &()).unwrap();
    let files = || {
        vec![OpenSnapshot {
            name: path.clone(),
            snapshot: opened.snapshot.clone(),
            devices: opened.devices.clone(),
        }]
    };
    let sql = vramscope_sql::OpenFiles::default();
    assert_eq!(sql.catalog().views.len(), 16);
    for view in sql.catalog().views {
        let found = sql.run(files(), &view.sql, &|| true).unwrap();
        assert_eq!((found.problem, found.files, found.is_cut), (None, 1, false), "{}", view.name);
        let csv = sql.csv(found.result, 0, 50_000).unwrap();
        assert_eq!(csv.total, found.total + 1, "{}", view.name);
        let printed = text(&vramscope(&["sql", &path, &view.name, "--format", "csv"]).stdout);
        assert_eq!(csv.rows.concat(), printed, "{}", view.name);
        let rows = sql.rows(found.result, 1, 2).unwrap();
        assert_eq!(rows.rows.len(), found.total.saturating_sub(1).min(2) as usize, "{}", view.name);
        assert!(rows.rows.iter().all(|row| row.len() == found.columns.len()), "{}", view.name);
    }
    let ask = |query: &str| sql.run(files(), query, &|| true).unwrap();
    assert_eq!(
        ask("select peaks from events").problem.unwrap(),
        "no such column: peaks, at: peaks from events"
    );
    assert!(ask("drop table events").problem.unwrap().contains("only queries that read"));
    let far = ask("select a.event from events a, events b, events c limit 3");
    assert_eq!((far.total, far.problem), (3, None));
    let stopped = sql.run(files(), "select count(*) from events a, events b, events c", &|| false);
    assert_eq!(stopped, None, "nobody waits for it");
    assert_eq!(ask("select count(*) as events from events").total, 1, "the next query is not stopped");
}
