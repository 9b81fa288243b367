//! Runs of thousands of ranks, and datasets of them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{json, recording, text, vramscope};

/// Two steps of a small program: one allocation stays, one comes and goes. `kept` and `passing` are their sizes in MiB.
fn snapshot(kept: u64, passing: u64) -> String {
    let frames =
        |line: u64| format!(r#""frames": [{{"name": "step", "filename": "train.py", "line": {line}}}]"#);
    let event = |action: &str, addr: u64, mib: u64, line: u64| {
        let size = mib << 20;
        let frames = frames(line);
        format!(r#"{{"action": "{action}", "addr": {addr}, "size": {size}, "stream": 0, {frames}}}"#)
    };
    let (low, high) = (1_u64 << 30, 1_u64 << 40);
    let events = [
        event("segment_alloc", low, kept, 7),
        event("alloc", low, kept, 7),
        event("segment_alloc", high, passing, 9),
        event("alloc", high, passing, 9),
        event("free_requested", high, passing, 9),
        event("free_completed", high, passing, 9),
    ];
    let segment = |addr: u64, mib: u64, used: u64, state: &str| {
        let (size, used) = (mib << 20, used << 20);
        format!(
            r#"{{"device": 0, "address": {addr}, "total_size": {size}, "allocated_size": {used}, "active_size": {used},
            "requested_size": {used}, "stream": 0, "segment_type": "large", "blocks": [
            {{"address": {addr}, "size": {size}, "requested_size": {used}, "state": "{state}", "frames": []}}]}}"#
        )
    };
    let segments = [segment(low, kept, kept, "active_allocated"), segment(high, passing, 0, "inactive")];
    format!(r#"{{"segments": [{}], "device_traces": [[{}]]}}"#, segments.join(","), events.join(","))
}

/// 4 096 ranks, of which rank 1000 keeps 64 MiB instead of 40: links to two files.
#[test]
fn thousands_of_ranks_are_a_heat_map_and_the_one_that_stands_out() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, usual, odd) =
        (folder.path().join("runs"), folder.path().join("usual"), folder.path().join("odd"));
    fs::create_dir(&runs).unwrap();
    fs::write(&usual, snapshot(40, 20)).unwrap();
    fs::write(&odd, snapshot(64, 20)).unwrap();
    for rank in 0..4096 {
        let file = if rank == 1000 { &odd } else { &usual };
        fs::hard_link(file, runs.join(format!("rank{rank}.json"))).unwrap();
    }
    let path = runs.to_str().unwrap();
    let report = json(&["ranks", path]);
    assert_eq!(report["ranks"].as_array().unwrap().len(), 4096);
    let outliers = report["outliers"].as_array().unwrap();
    assert!(outliers.iter().all(|outlier| outlier["rank"] == 1000), "{outliers:?}");
    let [peak, end] = outliers.as_slice() else { panic!("the peak and the end: {outliers:?}") };
    assert_eq!((&peak["bytes"], &peak["median"]), (&(84_u64 << 20).into(), &(60_u64 << 20).into()));
    assert_eq!((&end["bytes"], &end["median"]), (&(64_u64 << 20).into(), &(40_u64 << 20).into()));
    assert_eq!(peak["lines"][0]["line"], 7);

    let shown = text(&vramscope(&["ranks", path, "--no-cache", "--budget", "0"]).stdout);
    let first = shown.lines().nth(2).unwrap();
    assert!(first.contains("1000") && first.contains("84.0 MiB"), "who stands out comes first: {first}");
    assert!(shown.contains("4076 more"), "{shown}");
    let map: Vec<_> = shown.lines().filter(|line| line.contains('█') && line.contains('–')).collect();
    assert!(map.iter().any(|line| line.trim_start().starts_with("896–1023")), "{shown}");
    assert!(shown.lines().count() < 80, "one screen or two: {}", shown.lines().count());
}

#[test]
fn files_of_several_steps_are_a_heat_map_of_ranks_and_steps() {
    let folder = tempfile::tempdir().unwrap();
    for step in [100, 200, 300] {
        for rank in 0..4 {
            let kept = if rank == 2 { 40 + step / 10 } else { 40 };
            let name = format!("step{step}_rank{rank}.json");
            fs::write(folder.path().join(name), snapshot(kept, 20)).unwrap();
        }
    }
    let path = folder.path().to_str().unwrap();
    let shown = text(&vramscope(&["ranks", path, "--no-cache", "--budget", "0"]).stdout);
    let (_, map) = shown.split_once("ranks × steps, from step 100 to step 300").unwrap();
    let rows: Vec<_> = map.lines().skip(1).take(4).map(str::trim).collect();
    // Peaks of 60 MiB, and of 70, 80 and 90 on rank 2.
    assert_eq!(rows, ["0 ···", "1 ···", "2 ░▓█", "3 ···"], "{shown}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn export(inputs: &Path, dataset: &Path) -> std::process::Output {
    vramscope(&["export", inputs.to_str().unwrap(), "--dataset", dataset.to_str().unwrap(), "--no-cache"])
}

#[test]
fn a_damaged_rank_is_reported_and_the_others_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, dataset) = (folder.path().join("runs"), folder.path().join("tables"));
    fs::create_dir(&runs).unwrap();
    fs::write(runs.join("rank0.json"), snapshot(40, 20)).unwrap();
    fs::write(runs.join("rank1.pickle"), b"").unwrap();
    let output = export(&runs, &dataset);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("rank1.pickle"), "{}", text(&output.stderr));
    let written = files(&dataset);
    let of = |table: &str, rank: &str| {
        written
            .iter()
            .filter(|path| path.starts_with(dataset.join(table)) && path.to_string_lossy().contains(rank))
            .count()
    };
    assert_eq!((of("events", "rank=0"), of("events", "rank=1")), (1, 0));
    assert_eq!((of("problems", "rank=0"), of("problems", "rank=1")), (1, 1));
}

#[test]
fn a_file_that_changed_is_written_again_and_another_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, dataset) = (folder.path().join("runs"), folder.path().join("tables"));
    fs::create_dir(&runs).unwrap();
    fs::write(runs.join("rank0.json"), snapshot(40, 20)).unwrap();
    fs::write(runs.join("rank1.json"), snapshot(40, 20)).unwrap();
    let said = |output: std::process::Output| text(&output.stdout);
    assert!(said(export(&runs, &dataset)).contains("2 files written"));
    fs::write(runs.join("rank1.json"), snapshot(400, 20)).unwrap();
    // What an export leaves that is killed while it writes the manifest or a table.
    let table = files(&dataset).into_iter().find(|path| path.to_string_lossy().contains("rank=1")).unwrap();
    let abandoned = [&dataset, table.parent().unwrap()].map(|folder| folder.join(".vramscope-a1b2c3.tmp"));
    for path in &abandoned {
        fs::write(path, b"PAR1").unwrap();
    }
    let again = said(export(&runs, &dataset));
    assert_eq!(abandoned.map(|path| path.exists()), [false, false]);
    assert!(again.contains("1 file written") && again.contains("1 file complete from before"), "{again}");
    let refused = export(&runs, &runs);
    assert!(text(&refused.stderr).contains("not a dataset"), "{}", text(&refused.stderr));
    assert_eq!(files(&runs).len(), 2);
}

/// Whether every Parquet file below a folder is whole.
fn are_whole(dataset: &Path) -> bool {
    let is_parquet = |path: &&PathBuf| path.extension().is_some_and(|end| end == "parquet");
    files(dataset).iter().filter(is_parquet).all(|path| fs::read(path).unwrap().ends_with(b"PAR1"))
}

#[test]
fn a_killed_export_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, dataset) = (folder.path().join("runs"), folder.path().join("tables"));
    fs::create_dir(&runs).unwrap();
    for rank in 0..6 {
        let name = format!("rank{rank}.pickle.xz");
        fs::copy(recording("llama_python.pickle.xz"), runs.join(name)).unwrap();
    }
    let mut export = std::process::Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(["export", runs.to_str().unwrap(), "--dataset", dataset.to_str().unwrap(), "--no-cache"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // As soon as the manifest names a rank, or the export is done.
    let manifest = || fs::read_to_string(dataset.join("_manifest.jsonl")).unwrap_or_default();
    let is_any = || manifest().lines().count() > 1;
    while !is_any() && export.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let _ = export.kill();
    export.wait().unwrap();
    assert!(are_whole(&dataset), "a killed export leaves no half-written table");
    let again = self::export(&runs, &dataset);
    let said = text(&again.stdout);
    assert!(said.contains("complete from before"), "{said}");
    let (_, numbers) = said.rsplit_once(": ").unwrap();
    let written: usize = numbers.split(' ').next().unwrap().parse().unwrap();
    assert!(written < 6, "what is complete is not written again: {said}");
    assert!(are_whole(&dataset));
    let rows = files(&dataset).iter().filter(|path| path.starts_with(dataset.join("ranks"))).count();
    assert_eq!(rows, 6, "all ranks are there");
}

/// A limit on the size of files stands for a full disk: both refuse to write on.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_no_half_written_file() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, dataset) = (folder.path().join("runs"), folder.path().join("tables"));
    fs::create_dir(&runs).unwrap();
    fs::copy(recording("llama_python.pickle.xz"), runs.join("rank0.pickle.xz")).unwrap();
    let program = env!("CARGO_BIN_EXE_vramscope");
    let line = format!(
        "ulimit -f 16; exec {program} export {} --dataset {} --no-cache",
        runs.display(),
        dataset.display()
    );
    let output = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let half = files(&dataset);
    assert!(half.iter().all(|path| !path.to_string_lossy().ends_with(".tmp")), "{half:?}");
    // Every file that is there is whole, and the manifest does not say that the rank is.
    assert!(are_whole(&dataset));
    let again = export(&runs, &dataset);
    assert!(text(&again.stdout).contains("1 file written"), "{}", text(&again.stdout));
}
