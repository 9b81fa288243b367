//! Synthetic snapshots of any size.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use vramscope_testkit::{Dialect, Options, Program, write};

/// What to write.
#[derive(Args)]
pub(crate) struct GenArgs {
    /// The file; with several ranks, a folder of rankN_memory_snapshot.pickle
    out: PathBuf,
    /// Events of each device
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Ranks, each a file
    #[arg(long, default_value_t = 1)]
    ranks: u32,
    /// Devices in each file
    #[arg(long, default_value_t = 1)]
    devices: u32,
    /// Seed of all that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Shortest and longest stack
    #[arg(long, num_args = 2, default_values_t = [10, 40])]
    depth: Vec<u32>,
    /// Different frames
    #[arg(long, default_value_t = 1000)]
    frames: u32,
    /// Private pools
    #[arg(long, default_value_t = 0)]
    pools: u32,
    /// Side streams
    #[arg(long, default_value_t = 2)]
    streams: u32,
    /// Use expandable segments
    #[arg(long)]
    expandable: bool,
    /// Leave out the first N events, as a recording that starts late
    #[arg(long, default_value_t = 0)]
    late_start: u64,
    /// Keep only the last N events, as a full ring
    #[arg(long)]
    ring: Option<u64>,
    /// Write pool_id with every event, as PyTorch 2.12 does
    #[arg(long)]
    pool_id: bool,
    /// Which writer to imitate
    #[arg(long, value_enum, default_value_t = Writer::Python)]
    writer: Writer,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Writer {
    Python,
    Cpp,
    CppTagged,
}

pub(crate) fn run(args: &GenArgs) -> anyhow::Result<()> {
    ensure!(
        args.depth[0] <= args.depth[1],
        "--depth takes the shortest and the longest stack, in this order"
    );
    let dialect = match args.writer {
        Writer::Python => Dialect::Protocol(4),
        Writer::Cpp => Dialect::Cpp,
        Writer::CppTagged => Dialect::CppTagged,
    };
    for rank in 0..args.ranks.max(1) {
        let path = match args.ranks {
            0 | 1 => args.out.clone(),
            _ => args.out.join(format!("rank{rank}_memory_snapshot.pickle")),
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        ensure!(args.force || !path.exists(), "{} exists; --force overwrites it", path.display());
        let mut options = Options {
            events: args.events,
            seed: args.seed + u64::from(rank),
            devices: args.devices,
            depth: (args.depth[0], args.depth[1]),
            frames: args.frames,
            pools: args.pools,
            streams: args.streams,
            late_start: args.late_start,
            ring: args.ring,
            pool_id: args.pool_id,
            ..Options::default()
        };
        options.allocator.expandable = args.expandable;
        let began = Instant::now();
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let out = BufWriter::with_capacity(1 << 20, file);
        let written = write::write(&Program::new(options), dialect, out)?;
        let bytes = path.metadata()?.len();
        println!(
            "{}: {} events, {:.1} MiB in {:.2} s",
            path.display(),
            written.events.iter().sum::<u64>(),
            bytes as f64 / (1 << 20) as f64,
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// A snapshot of ordinary shape, for benchmarks. A process of its own writes it: of a program that is started, the system
/// counts as much memory as the one that starts it has used.
pub(crate) fn quietly(path: &Path, events: u64) -> anyhow::Result<()> {
    let mut writer = Command::new(std::env::current_exe()?);
    writer.arg("gen").arg(path).args(["--events", &events.to_string()]).stderr(Stdio::null());
    let status = writer.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "cannot write {}: {status}", path.display());
    Ok(())
}
