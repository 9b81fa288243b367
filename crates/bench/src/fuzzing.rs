//! The fuzz targets for as long as one likes, and mutants through all readers on stable.

#[path = "../../../fuzz/seeds.rs"]
mod seeds;

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;

use crate::process;

/// The targets, as in `fuzz/Cargo.toml`.
const TARGETS: [&str; 8] = ["read", "sqlite", "verbs", "http", "report", "sidecar", "store", "wire"];

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// How long, all targets together
    #[arg(long, default_value_t = 6)]
    minutes: u32,
    /// One target only: read, sqlite, verbs, http, report, sidecar, store or wire
    #[arg(long)]
    target: Option<String>,
}

#[derive(Args)]
pub(crate) struct MutantsArgs {
    /// How many
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// The number of the first; each is made from its number alone
    #[arg(long, default_value_t = 0)]
    from: u64,
}

/// Runs the targets under libFuzzer with the address sanitizer. What they find new stays in `fuzz/corpus`.
pub(crate) fn fuzz(args: &FuzzArgs) -> anyhow::Result<()> {
    let known = |target: &String| TARGETS.contains(&target.as_str());
    if let Some(target) = args.target.as_ref().filter(|target| !known(target)) {
        anyhow::bail!("there is no target {target}; there are: {}", TARGETS.join(", "));
    }
    let targets: Vec<&str> = match &args.target {
        Some(target) => vec![target],
        None => TARGETS.to_vec(),
    };
    let seconds = (args.minutes * 60 / targets.len() as u32).max(1);
    let made = tempfile::tempdir()?;
    for target in targets {
        let folder = made.path().join(target);
        write_seeds(target, &folder)?;
        let kept = process::root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&kept)?;
        process::run(
            process::cargo(&["+nightly", "fuzz", "run", target])
                .args(needs_command_line(target).then_some("--features=cli"))
                .args([&kept, &folder])
                .arg("--")
                .args([format!("-max_total_time={seconds}"), "-rss_limit_mb=4096".into()])
                .args(["-timeout=20", "-max_len=65536"]),
        )?;
    }
    Ok(())
}

/// Whether a target is built with the command line.
fn needs_command_line(target: &str) -> bool {
    ["verbs", "http"].contains(&target)
}

fn write_seeds(target: &str, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let mut corpus = Vec::new();
    let stored = process::root().join("fuzz/corpus/read");
    for entry in fs::read_dir(&stored).with_context(|| stored.display().to_string())? {
        corpus.push(fs::read(entry?.path())?);
    }
    let seeds = seeds::seeds(target, &corpus);
    ensure!(!seeds.is_empty(), "{target} starts from nothing");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(number.to_string()), seed)?;
    }
    Ok(())
}

/// Runs mutants of every format through all readers and the replay, in a process whose memory is counted. Overflow is
/// checked everywhere.
pub(crate) fn mutants(args: &MutantsArgs) -> anyhow::Result<()> {
    let mut command = process::cargo(&["run", "--locked", "--release", "--quiet"]);
    for package in ["pickle", "snapshot", "analysis"] {
        let checks = format!("profile.release.package.vramscope-{package}.overflow-checks=true");
        command.args(["--config", &checks]);
    }
    command.args(["--package", "vramscope-analysis", "--example", "mutants", "--"]);
    process::run(command.args([args.from.to_string(), args.count.to_string()]))
}
