//! Speed and memory beside a baseline that runs on the same machine in the same minute.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::generate;
use crate::measure::{Measurement, Stage};

pub(crate) fn read(file: &Path, runs: u32) -> anyhow::Result<()> {
    let bytes = fs::metadata(file).with_context(|| file.display().to_string())?.len();
    // Two rounds, because a neighbour on the machine may spoil one of them.
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let stages = [Stage::Walk, Stage::Read, Stage::Open, Stage::Reopen];
        rounds.push(stages.map(|stage| in_own_process(stage, file, runs)));
    }
    let mut best = Vec::new();
    let (first, second) = (rounds.remove(0), rounds.remove(0));
    for (a, b) in first.into_iter().zip(second) {
        let (a, b) = (a?, b?);
        best.push(if a.seconds <= b.seconds { a } else { b });
    }
    let [walk, reading, opening, reopening] = best.as_slice() else { unreachable!("four stages") };
    let python = pickle_load(file, runs.min(3));

    println!("{}: {:.1} MiB, {} events", file.display(), mib(bytes), reading.events);
    println!("{:38}{:>10}{:>11}{:>13}", "", "seconds", "MiB/s", "peak MiB");
    let row = |name: &str, measured: &Measurement| {
        let (seconds, peak) = (measured.seconds, mib(measured.peak_bytes));
        println!("{name:38}{seconds:>10.4}{:>11.0}{peak:>13.1}", mib(bytes) / seconds);
    };
    row("bare walk over the operations", walk);
    row("reading into the model", reading);
    row("opening: reading, replay, indices", opening);
    row("reopening from the cache", reopening);
    match &python {
        Some(python) => row("CPython pickle.load", python),
        None => println!("CPython pickle.load: python3 is not here"),
    }
    println!();
    println!("reading / walk                  {:>8.2} x the speed", walk.seconds / reading.seconds);
    println!("opening, peak memory / file     {:>8.2} x the size", opening.peak_bytes as f64 / bytes as f64);
    if let Some(python) = python {
        println!("opening / pickle.load           {:>8.1} x the speed", python.seconds / opening.seconds);
        println!("reopening / pickle.load         {:>8.1} x the speed", python.seconds / reopening.seconds);
    }
    Ok(())
}

pub(crate) fn scale(events: &[u64]) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    println!(
        "{:>12}{:>12}{:>12}{:>12}{:>14}{:>16}",
        "events", "MiB", "read s", "open s", "open ns/event", "peak bytes/event"
    );
    for &events in events {
        let file = folder.path().join(format!("{events}.pickle"));
        generate::quietly(&file, events)?;
        let reading = in_own_process(Stage::Read, &file, 3)?;
        let opening = in_own_process(Stage::Open, &file, 3)?;
        let count = opening.events as f64;
        println!(
            "{:>12}{:>12.1}{:>12.3}{:>12.3}{:>14.0}{:>16.0}",
            opening.events,
            mib(file.metadata()?.len()),
            reading.seconds,
            opening.seconds,
            opening.seconds * 1e9 / count,
            opening.peak_bytes as f64 / count,
        );
        fs::remove_file(file)?;
    }
    Ok(())
}

pub(crate) fn in_own_process(stage: Stage, file: &Path, runs: u32) -> anyhow::Result<Measurement> {
    let stage = stage.to_possible_value().context("a stage")?.get_name().to_owned();
    let output = Command::new(std::env::current_exe()?)
        .args(["measure", &stage])
        .arg(file)
        .arg(runs.to_string())
        .output()?;
    ensure!(output.status.success(), "{stage}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The best of several `pickle.load`, and the memory of the whole process beyond an empty one.
fn pickle_load(file: &Path, runs: u32) -> Option<Measurement> {
    let script = "
import json, pickle, resource, sys, time
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
best, before = 1e9, used()
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    with open(sys.argv[1], 'rb') as f:
        loaded = pickle.load(f)
    best = min(best, time.perf_counter() - began)
    del loaded
print(json.dumps({'seconds': best, 'peak_bytes': used() - before, 'events': 0}))";
    let output =
        Command::new("python3").args(["-c", script]).arg(file).arg(runs.to_string()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
