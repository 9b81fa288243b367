//! What memory is for, against what PyTorch itself knew: at marks, the address and role of every parameter, gradient,
//! optimizer state, saved activation and tensor of a KV cache.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss, reason = "a test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use vramscope_analysis::categories::{Rules, classify};
use vramscope_analysis::{Replay, moment_at_time};
use vramscope_snapshot::DeviceId;

use common::recording_at;

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

fn score(case: &Path) -> Score {
    let roles: Value = serde_json::from_slice(&std::fs::read(case).unwrap()).unwrap();
    let base = case.to_str().unwrap().trim_end_matches(".roles.json").to_owned();
    let packed = format!("{base}.pickle.xz");
    let path = if Path::new(&packed).exists() { packed } else { format!("{base}.pickle") };
    let snapshot = recording_at(Path::new(&path));
    let replay = Replay::new(&snapshot, DeviceId(0));
    let categories = classify(&replay, &snapshot, &Rules::default());
    let events = snapshot.events(DeviceId(0));
    let mut score = Score::default();
    for mark in roles["marks"].as_array().unwrap() {
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

/// With `VRAMSCOPE_ROLES=folder:folder`, prints the shares of every case in them.
#[test]
fn shares_of_other_folders() {
    let folders = std::env::var("VRAMSCOPE_ROLES").unwrap_or_default();
    let mut all = Score::default();
    for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
        let mut cases: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        cases.retain(|path| path.to_str().unwrap().ends_with(".roles.json"));
        cases.sort();
        for case in cases {
            let score = score(&case);
            let share = |bytes: u64| 100.0 * bytes as f64 / score.total.max(1) as f64;
            let mut worst: Vec<_> = score.called.iter().collect();
            worst.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
            let name = case.file_name().unwrap().to_str().unwrap();
            println!("{name:32} {:5.1} right {:5.1} wrong", share(score.right), share(score.wrong));
            for ((truth, called), bytes) in worst.iter().take(3) {
                println!("      {truth} called {called}: {:.2} MB", **bytes as f64 / 1e6);
            }
            all.total += score.total;
            all.right += score.right;
            all.wrong += score.wrong;
        }
    }
    let share = |bytes: u64| 100.0 * bytes as f64 / all.total.max(1) as f64;
    println!("all: {:.2} right, {:.2} wrong", share(all.right), share(all.wrong));
}
