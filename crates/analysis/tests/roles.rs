//! What memory is for, against what PyTorch itself knew: at marks, the address and role of every parameter, gradient,
//! optimizer state, saved activation and tensor of a KV cache.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss, reason = "a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vramscope_analysis::categories::{Rules, classify};
use vramscope_analysis::{Device, moment_at_time};
use vramscope_snapshot::{DeviceId, add_sidecar};

use crate::common::{recording_at, unpack};

/// Bytes judged, right and definitely wrong, and what was called what.
#[derive(Default)]
struct Score {
    total: u64,
    right: u64,
    wrong: u64,
    called: BTreeMap<(String, String), u64>,
}

fn category(role: &str) -> Option<&'static str> {
    Some(match role {
        "parameter" | "buffer" => "parameters",
        "gradient" => "gradients",
        "optimizer" => "optimizer state",
        "activation" => "activations",
        "kv_cache" => "KV cache",
        _ => return None,
    })
}

/// What is listed beside a recording.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    /// A sidecar with the roles of the last mark.
    Sidecar,
}

/// A sidecar as the recorder writes it when it dumps at a mark: it lists what models and optimizers have.
fn sidecar(mark: &Value) -> Value {
    let listed = ["parameter", "buffer", "gradient", "optimizer"];
    let rows = mark["roles"].as_array().unwrap().iter();
    let storages: Vec<_> = rows
        .filter(|row| listed.contains(&row[2].as_str().unwrap()))
        .map(|row| json!({"address": row[0], "bytes": row[1], "role": row[2], "name": row[3], "device": 0}))
        .collect();
    json!({"schema": "vramscope/sidecar/1", "snapshot": "case.pickle", "reason": "call",
        "roles": {"from": "given", "storages": storages}})
}

fn score(case: &Path, beside: Beside) -> Score {
    let (base, ending) = case.to_str().unwrap().split_once(".roles.json").unwrap();
    let bytes = std::fs::read(case).unwrap();
    let text = if ending == ".xz" { unpack(&bytes) } else { bytes };
    let roles: Value = serde_json::from_slice(&text).unwrap();
    let packed = format!("{base}.pickle.xz");
    let path = if Path::new(&packed).exists() { packed } else { format!("{base}.pickle") };
    let mut snapshot = recording_at(Path::new(&path));
    let mut marks = roles["marks"].as_array().unwrap().as_slice();
    if beside == Beside::Sidecar {
        marks = &marks[marks.len() - 1..];
        add_sidecar(&mut snapshot, "case", sidecar(&marks[0]).to_string().as_bytes());
        assert_eq!(snapshot.warnings, Vec::<String>::new());
    }
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    let categories = classify(&replay, &Rules::default());
    let events = snapshot.events(DeviceId(0));
    let mut score = Score::default();
    for mark in marks {
        let at = moment_at_time(events, mark["time_ns"].as_i64().unwrap() / 1000);
        let mut live: Vec<_> =
            replay.live(at).into_iter().map(|index| (replay.allocation(index), index)).collect();
        live.sort_by_key(|(allocation, _)| allocation.addr);
        let mut truth: BTreeMap<usize, (u64, String)> = BTreeMap::new();
        for role in mark["roles"].as_array().unwrap() {
            let (addr, bytes) = (role[0].as_u64().unwrap(), role[1].as_u64().unwrap());
            let after = live.partition_point(|(allocation, _)| allocation.addr <= addr);
            let Some(row) = after.checked_sub(1) else { continue };
            if addr < live[row].0.addr + live[row].0.size {
                let entry = truth.entry(row).or_default();
                *entry = entry.clone().max((bytes, role[2].as_str().unwrap().to_owned()));
            }
        }
        for (row, (allocation, index)) in live.iter().enumerate() {
            let called = categories.names()[categories.of(*index)].clone();
            let claims =
                ["parameters", "gradients", "optimizer state", "KV cache"].contains(&called.as_str());
            let truth = match truth.get(&row) {
                Some((_, role)) => match category(role) {
                    Some(category) => category,
                    None => continue,
                },
                None if claims => "no role",
                None => continue,
            };
            score.total += allocation.requested;
            if truth == called {
                score.right += allocation.requested;
            } else {
                if !["unknown", "other"].contains(&called.as_str()) {
                    score.wrong += allocation.requested;
                }
                *score.called.entry((truth.to_owned(), called)).or_default() += allocation.requested;
            }
        }
    }
    score
}

/// The cases of a folder, by name.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = files.filter(|path| path.to_str().unwrap().contains(".roles.json")).collect();
    cases.sort();
    cases
}

/// Every model: with amp, batch norm, checkpointing, accumulation, factored state, adapters, shards, experts; recordings
/// that began late; a state without a trace. At most one byte in twenty may be left open, and 1.5 % wrong.
#[test]
fn categories_are_what_pytorch_knew() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/roles");
    let cases = cases(&folder);
    assert!(!cases.is_empty());
    for case in cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let Score { total, right, wrong, called } = score(&case, Beside::Nothing);
        // FSDP2 swaps the parameters of its root for whole ones while it is in use: the marks name only those.
        let shards =
            if name.starts_with("fsdp2") { called[&("no role".into(), "parameters".into())] } else { 0 };
        assert!(right + shards >= total - total / 20, "{name}: {right} of {total}: {called:?}");
        assert!(wrong - shards <= total * 15 / 1000, "{name}: {wrong} of {total}: {called:?}");
    }
}

/// With the roles of a dump, everything that they name is right and nothing else claims to be a part of the model:
/// what is left open are activations and caches, which no model or optimizer has.
#[test]
fn with_a_sidecar_nothing_of_the_model_is_guessed() {
    for case in cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/roles")) {
        let Score { total, right, called, .. } = score(&case, Beside::Sidecar);
        assert!(right > total / 2, "{case:?}");
        let wrong = called.keys().filter(|(truth, _)| !["activations", "KV cache"].contains(&truth.as_str()));
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "{case:?}: {called:?}");
    }
}

/// With `VRAMSCOPE_ROLES=folder:folder`, prints the shares of the cases in them.
#[test]
fn shares_of_other_folders() {
    let folders = std::env::var("VRAMSCOPE_ROLES").unwrap_or_default();
    for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
        for case in cases(Path::new(folder)) {
            let Score { total, right, wrong, called } = score(&case, Beside::Nothing);
            let share = |bytes: u64| 100.0 * bytes as f64 / total.max(1) as f64;
            let name = case.file_name().unwrap().to_str().unwrap();
            println!("{name:32} {:5.1} right {:5.1} wrong  {called:?}", share(right), share(wrong));
        }
    }
}
