//! Answers for agents: one call per question, handles, and answers that stay small.

use serde_json::{Value, json as value};
use vramscope_testkit::verbs::PLAIN;

use crate::common::{failure, file, json, recording, text, vramscope};

const MIB: u64 = 1 << 20;

fn shown(args: &[&str]) -> String {
    let output = vramscope(&[args, &["--no-cache"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn event(action: &str, addr: u64, size: u64, line: u64, time: u64) -> Value {
    let frames = value!([{"filename": "/home/me/train.py", "line": line, "name": "step"}]);
    value!({"action": action, "addr": addr * MIB, "device_free": addr * MIB, "size": size * MIB, "stream": 0,
        "time_us": time, "frames": frames})
}

fn snapshot(folder: &tempfile::TempDir, name: &str, traces: &[Vec<Value>], segments: &Value) -> String {
    let text = value!({"segments": segments, "device_traces": traces}).to_string();
    file(folder, name, text.as_bytes())
}

/// Two segments of 40 MiB, one of them unused, 8 MiB free on the device: line 7 asks for 60 MiB.
fn failed() -> Vec<Value> {
    vec![
        event("segment_alloc", 64, 40, 5, 10),
        event("alloc", 64, 30, 5, 11),
        event("segment_alloc", 128, 40, 6, 20),
        event("alloc", 128, 40, 6, 21),
        event("free_requested", 128, 40, 6, 30),
        event("free_completed", 128, 40, 6, 30),
        event("oom", 8, 60, 7, 40),
    ]
}

/// What is held at its end.
fn held() -> Value {
    let block = |addr: u64, size: u64, state: &str| value!({"address": addr * MIB, "size": size * MIB, "requested_size": size * MIB, "state": state, "frames": []});
    let segment = |addr: u64, blocks: Value| {
        value!({"device": 0, "address": addr * MIB, "total_size": 40 * MIB, "stream": 0, "segment_type": "large",
            "segment_pool_id": [0, 0], "is_expandable": false, "blocks": blocks})
    };
    let used = value!([block(64, 30, "active_allocated"), block(94, 10, "inactive")]);
    value!([segment(64, used), segment(128, value!([block(128, 40, "inactive")]))])
}

#[test]
fn an_error_is_explained_in_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = snapshot(&folder, "a.json", &[failed()], &held());
    let found = json(&["oom", &path]);
    let failure = &found["failure"];
    assert_eq!(failure["line"], value!({"file": "/home/me/train.py", "line": 7, "name": "step"}));
    assert_eq!((&failure["requested"], &failure["device_free"]), (&(60 * MIB).into(), &(8 * MIB).into()));
    // 10 MiB beside the block of 30, and the unused segment of 40: in one piece with the device that is 58 of 60.
    assert_eq!(failure["cause"], "lack");
    let room = &failure["free"][0];
    assert_eq!((&room["free"], &room["holes"]), (&(50 * MIB).into(), &2.into()));
    assert_eq!((&room["largest"], &room["releasable"]), (&(40 * MIB).into(), &(40 * MIB).into()));
    assert_eq!(failure["held_by"][0]["bytes"], 30 * MIB);
    assert_eq!(failure["handle"], "e:6");
    let text = shown(&["oom", &path]);
    for part in ["60.0 MiB by train.py:7 step", "40.0 MiB in completely unused segments", "train.py:5 step"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let never = shown(&["oom", &recording("leak_graph.pickle.xz")]);
    assert!(never.contains("memory never ran out") && never.contains("vramscope insights"), "{never}");
    assert_eq!(json(&["oom", &recording("leak_graph.pickle.xz")])["failure"], Value::Null);
}

/// PyTorch's own limits of this recording: 4.17 GiB were reserved when 32 MiB more were refused.
#[test]
fn the_limit_has_bounds_and_settings_are_simulated() {
    let found = json(&["oom", &recording("oom.pickle.xz")]);
    let failure = &found["failure"];
    let limit = &failure["limit"];
    assert_eq!(limit["at_least"], failure["reserved"]);
    assert_eq!(limit["below"].as_u64().unwrap(), failure["reserved"].as_u64().unwrap() + 32 * MIB);
    assert_eq!((&failure["cause"], &limit["is_limit"]), (&"lack".into(), &true.into()));
    let settings = failure["simulated"]["settings"].as_array().unwrap();
    let of = |name: &str| settings.iter().find(|row| row["settings"] == name).unwrap();
    assert_eq!(of("expandable_segments:True")["gets_past"], true);
    assert_eq!(of("as recorded, without the limit")["gets_past"], true);
}

/// Line 5 acquires 40 MiB in each of three rounds, line 9 releases them; each call takes 2 µs by the times of the events.
#[test]
fn churn_is_counted_by_line_with_the_time_that_it_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = Vec::new();
    for round in 0..3 {
        let time = round * 100;
        events.push(event("segment_alloc", 64, 40, 5, time + 2));
        events.push(event("alloc", 64, 40, 5, time + 3));
        events.push(event("free_requested", 64, 40, 6, time + 4));
        events.push(event("free_completed", 64, 40, 6, time + 4));
        events.push(event("segment_free", 64, 40, 9, time + 10));
        events.push(value!({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": time + 100}));
    }
    let path = snapshot(&folder, "a.json", &[events], &value!([]));
    let found = json(&["churn", &path]);
    let line = |number: u64| {
        let lines = found["lines"].as_array().unwrap();
        lines.iter().find(|row| row["line"]["line"] == number).unwrap().clone()
    };
    assert_eq!((&line(5)["acquired"], &line(5)["released"]), (&3.into(), &0.into()));
    assert_eq!((&line(9)["released"], &line(9)["released_bytes"]), (&3.into(), &(120 * MIB).into()));
    // From each release to the next event 90; before the first acquisition there is none, before the others 2.
    assert_eq!((&line(9)["at_most_us"], &line(5)["at_most_us"]), (&270.into(), &4.into()));
    assert_eq!(found["cycles"], 2);
    let text = shown(&["churn", &path]);
    assert!(text.contains("3 segments acquired (120 MiB), 3 released (120 MiB)"), "{text}");
}

#[test]
fn handles_lead_from_one_answer_to_the_next() {
    let path = recording("oom.pickle.xz");
    let found = json(&["insights", &path]);
    let handle = found["files"][0]["findings"][0]["handle"].as_str().unwrap();
    assert_eq!(handle, "f:out_of_memory-1");
    let finding = json(&["show", handle, &path]);
    assert_eq!(finding["finding"]["id"], "out_of_memory/0/11822");
    let event = json(&["show", "e:11822", &path]);
    assert_eq!((&event["event"]["action"], &event["event"]["size"]), (&"oom".into(), &(32 * MIB).into()));
    let stack = event["event"]["stack_handle"].as_str().unwrap();
    assert_eq!(json(&["show", stack, &path])["stack"]["frames"], event["event"]["stack"]);
    // The largest allocation by its handle: what begins it is an event, and that event names it.
    let top = json(&["top", &path, "--of", "allocations", "--by", "size", "--limit", "1"]);
    let handle = top["rows"][0]["handle"].as_str().unwrap();
    let block = json(&["show", handle, &path]);
    assert_eq!(block["allocation"]["requested"], top["rows"][0]["largest"]);
    let begun = format!("e:{}", block["allocation"]["alloc_event"]);
    assert_eq!(json(&["show", &begun, &path])["event"]["allocation"], handle);
    // A stack's handle is a filter, an event's handle a moment.
    let filtered = json(&["top", &path, "--stack", stack, "--at", "e:11822"]);
    let line = json(&["show", "modeling_llama.py:67", &path, "--at", "e:11822"]);
    let of_stack =
        line["line"]["stacks"].as_array().unwrap().iter().find(|row| row["handle"] == stack).unwrap();
    assert_eq!(filtered["total"]["live"], of_stack["live_bytes"]);
    let segment = json(&["segments", &path, "--limit", "1"]);
    let handle = segment["segments"][0]["handle"].as_str().unwrap();
    assert_eq!(json(&["show", handle, &path])["segment"]["size"], segment["segments"][0]["size"]);
}

#[test]
fn on_several_devices_handles_name_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let other = vec![event("segment_alloc", 64, 20, 3, 1), event("alloc", 64, 20, 3, 2)];
    let path = snapshot(&folder, "a.json", &[failed(), other], &held());
    assert_eq!(json(&["show", "a:0@1", &path])["allocation"]["requested"], 20 * MIB);
    assert_eq!(json(&["show", "a:0", &path])["devices"][0]["handle"], "a:0@0");
    let found = json(&["oom", &path]);
    assert_eq!(found["devices"][0]["failure"]["handle"], "e:6@0");
    assert_eq!(found["devices"][1]["failure"], Value::Null);
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let path = recording("oom.pickle.xz");
    assert!(failure(&["show", "f:growth-7", &path]).contains("f:out_of_memory-1"));
    assert!(failure(&["show", "e:99999", &path]).contains("11 823 events"));
    assert!(failure(&["show", "a:99999999", &path]).contains("there is no allocation"));
    assert!(failure(&["show", "nowhere.py:1", &path]).contains("vramscope top"));
    assert!(failure(&["show", "g:1", &path]).contains("vramscope segments"));
    assert!(failure(&["show", "x", &path]).contains("Handles are"));
    assert!(
        failure(&["oom", &recording("alloc_retry.pickle.xz"), "--number", "9"]).contains("--number takes: 1")
    );
}

#[test]
fn default_answers_are_small_and_say_what_is_missing() {
    for name in ["oom", "leak_graph", "mempool", "late_start", "rank0_memory_snapshot"] {
        let path = recording(&format!("{name}.pickle.xz"));
        for verb in PLAIN {
            let text = shown(&[verb, &path]);
            let tokens = vramscope_format::tokens(&text);
            assert!(tokens <= 1500, "{verb} {name}: {tokens}");
        }
    }
    let path = recording("oom.pickle.xz");
    let events = shown(&["events", &path]);
    assert!(events.contains("lines left out") && events.contains("--budget 0"), "{events}");
    assert!(vramscope_format::tokens(&shown(&["insights", &path, "--budget", "300"])) <= 300);
    let cut = json(&["at", &path, "--budget", "700"]);
    assert!(cut["left_out"]["command"].as_str().unwrap().ends_with("--json --no-cache --budget 0"), "{cut}");
    assert_eq!(cut["left_out"]["lists"][0]["list"], "live");
    assert!(cut["live"].as_array().unwrap().len() >= 2, "{cut}");
    // A number that was asked for counts, and so does a file.
    assert_eq!(shown(&["events", &path, "--limit", "400"]).lines().count(), 400);
}

#[test]
fn help_is_small() {
    let all = text(&vramscope(&["--help"]).stdout);
    // `  name           what it is for`
    let verbs = all
        .lines()
        .skip_while(|line| *line != "Look:")
        .filter_map(|line| line.strip_prefix("  ")?.get(..15).map(str::trim));
    let mut seen = 0;
    for verb in verbs.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase())) {
        let help = vramscope(&[verb, "--help"]);
        // Words of a wrapped line are no verbs.
        if !text(&help.stdout).contains(&format!("Usage: vramscope {verb}")) {
            continue;
        }
        let tokens = vramscope_format::tokens(&text(&help.stdout));
        assert!(tokens <= 600, "{verb}: {tokens}");
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn the_doctor_names_what_is_missing_and_what_helps() {
    let named = |name: &str, what: &str| {
        let found = json(&["doctor", &recording(name)]);
        let has = found["has"].as_array().unwrap().iter().find(|one| one["name"] == what).unwrap();
        has["present"].as_bool().unwrap()
    };
    assert!(named("oom.pickle.xz", "stacks") && named("oom.pickle.xz", "annotations"));
    assert!(!named("context_none.pickle.xz", "stacks"));
    assert!(!named("formats_list.pickle.xz", "history"));
    let text = shown(&["doctor", &recording("oom.pickle.xz")]);
    assert!(text.contains("vramscope oom"), "{text}");
    assert_eq!(shown(&["capabilities", &recording("oom.pickle.xz")]), text, "its former name");
}

/// Device calls of the backward pass are named by forward lines, whose stacks no file has.
#[test]
fn every_stack_that_is_printed_can_be_shown() {
    let path = recording("oom.pickle.xz");
    let churn = shown(&["churn", &path, "--limit", "100"]);
    assert!(churn.contains("(backward, inferred)") && !churn.contains("no Python frame"), "{churn}");
    let handles: Vec<&str> = churn.split_whitespace().filter(|word| word.starts_with("s:")).collect();
    assert!(handles.len() > 10, "{churn}");
    for handle in handles {
        assert!(shown(&["show", handle, &path]).contains(handle), "{handle}");
    }
    assert!(failure(&["show", "s:4000", &path]).contains("there is no stack s:4000: the last is s:"));
}
