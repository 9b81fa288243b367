//! Real reruns: what was simulated from one recording against what PyTorch counted when the same program ran under
//! other settings, and every recording against itself.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vramscope_simulate::{Counters, Moments, Order, Settings, Study};
use vramscope_snapshot::{Action, DeviceId, Reader, Snapshot};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/whatif")
}

fn snapshot(path: &Path) -> Snapshot {
    let packed = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(packed, true).read_to_end(&mut bytes).unwrap();
    let mut reader = Reader::new();
    reader.feed(&bytes).unwrap();
    reader.finish().unwrap()
}

fn oracle(name: &str) -> Value {
    let path = folder().join(format!("{name}.oracle.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".pickle.xz")?.to_owned())).collect();
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    names
}

fn study(name: &str) -> (Snapshot, Study) {
    let snapshot = snapshot(&folder().join(format!("{name}.pickle.xz")));
    let limit = oracle(name)["limit"].as_u64().filter(|&limit| limit > 0);
    let study = Study::new(&snapshot, DeviceId(0), limit).unwrap();
    (snapshot, study)
}

/// For each mark the moment of the recording: by time, put right by PyTorch's own requested bytes.
fn moments(snapshot: &Snapshot, marks: &[Value]) -> Vec<(String, u32)> {
    let events = snapshot.events(DeviceId(0));
    let mut requested = vec![0_i64];
    for event in events.iter() {
        let change = match event.action {
            Action::Alloc => event.size as i64,
            Action::FreeCompleted => -(event.size as i64),
            _ => 0,
        };
        requested.push(requested[requested.len() - 1] + change);
    }
    let moment = |mark: &Value| {
        let time = mark["time_ns"].as_i64().unwrap() / 1000;
        let by_time = (0..events.len()).take_while(|&row| events.time_us(row).unwrap() <= time).count();
        let close = by_time.saturating_sub(40)..requested.len().min(by_time + 41);
        let mut equal = close.filter(|&at| requested[at] == mark["requested"].as_i64().unwrap());
        let first = equal.next();
        equal.chain(first).min_by_key(|at| at.abs_diff(by_time)).unwrap_or(by_time)
    };
    marks.iter().map(|mark| (mark["label"].as_str().unwrap().to_owned(), moment(mark) as u32)).collect()
}

const KEYS: [&str; 13] = [
    "requested",
    "allocated",
    "active",
    "reserved",
    "requested_peak",
    "allocated_peak",
    "active_peak",
    "reserved_peak",
    "segments",
    "retries",
    "inactive_split",
    "device_alloc",
    "device_free",
];

fn counted(counters: &Counters) -> [u64; 13] {
    let c = counters;
    [
        c.requested,
        c.allocated,
        c.active,
        c.reserved,
        c.requested_peak,
        c.allocated_peak,
        c.active_peak,
        c.reserved_peak,
        c.segments,
        c.retries,
        c.inactive_split,
        c.device_allocs,
        c.device_frees,
    ]
}

#[test]
fn every_recording_reproduces_itself() {
    for name in names() {
        let (_, study) = study(&name);
        let agreement = &study.agreement;
        assert!(agreement.is_exact(), "{name}: {agreement} {:?}", agreement.first_difference);
    }
}

#[test]
fn other_settings_are_predicted() {
    for name in names() {
        let (program, config) = name.split_once('.').unwrap();
        if config == "default" {
            continue;
        }
        let (snapshot, study) = study(&format!("{program}.default"));
        let source = oracle(&format!("{program}.default"));
        let target = oracle(&name);
        let marks = target["marks"].as_array().unwrap();
        let failed = target["oom"].as_bool().unwrap();
        let mut wanted = Vec::new();
        for (label, moment) in moments(&snapshot, source["marks"].as_array().unwrap()) {
            let after_end = failed && ["after oom", "dump"].contains(&label.as_str());
            let mark = marks.iter().find(|mark| mark["label"] == label.as_str());
            wanted.extend(mark.filter(|_| !after_end).map(|mark| (moment, mark)));
        }
        wanted.sort_by_key(|(moment, _)| *moment);
        let limit = target["limit"].as_u64().filter(|&limit| limit > 0);
        let settings = Settings { limit, ..Settings::parse(target["alloc_conf"].as_str().unwrap()).unwrap() };
        let mut found = Moments::new(wanted.iter().map(|(moment, _)| *moment).collect());
        let outcome = study.simulator.run(&settings, Order::Predicted, &mut found);
        assert_eq!(outcome.out_of_memory.is_some(), failed, "{name}");
        for (counters, (_, mark)) in found.finish().iter().zip(wanted) {
            let stated = KEYS.map(|key| mark[key].as_u64().unwrap());
            assert_eq!(counted(counters), stated, "{name} at {}", mark["label"]);
        }
    }
}
