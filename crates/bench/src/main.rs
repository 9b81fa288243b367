//! Benchmarks, and the files that they need. `cargo xtask bench` and `cargo xtask gen` build and run this with
//! optimizations and with the allocator that ships.

mod attacks;
mod findings;
mod fuzzing;
mod generate;
mod inputs;
mod measure;
mod process;
mod read;
mod reopen;
mod scaling;
mod tui;
mod view;
mod web;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static MEMORY: vramscope_memory::Memory = vramscope_memory::Memory;

/// Measure speed and memory against a baseline in the same run
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Reading and opening one file, beside a bare walk over it and CPython's pickle.load
    Read {
        /// A snapshot as PyTorch writes it, not packed
        file: PathBuf,
        /// Runs of each; the best counts
        #[arg(long, default_value_t = 5)]
        runs: u32,
    },
    /// Every verb on a file that is in the cache, with the page cache warm and cold
    Reopen(reopen::ReopenArgs),
    /// Keys of the terminal UI: CPU time for the change and the drawing
    Tui {
        /// A snapshot; without one, a generated one of --events
        file: Option<PathBuf>,
        /// Events of the generated snapshot
        #[arg(long, default_value_t = 10_000_000)]
        events: u64,
    },
    /// The window without a screen, driven through a gesture: what a frame costs, how soon it is sharp
    View {
        /// A snapshot
        file: PathBuf,
    },
    /// A million rows of each other input, beside a plain scan of the same file
    Inputs {
        /// Rows of each file
        #[arg(long, default_value_t = 1_000_000)]
        rows: u64,
        /// Runs of each; the best counts
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// The page in a Chromium without a screen: from the drop to the picture, beside opening natively
    Web {
        /// Snapshots
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// How the cost grows: synthetic files of more and more events
    Scale {
        /// Events of each file
        #[arg(long, value_delimiter = ',', default_values_t = [100_000, 1_000_000, 10_000_000])]
        events: Vec<u64>,
    },
    /// Ask every verb about inputs of n and 4 n, and compare what that costs
    Verbs(scaling::ScaleArgs),
    /// Ask every verb about every file of a folder of attacks
    Attacks(attacks::AttacksArgs),
    /// A table of every kind of finding and every recording
    Findings(findings::FindingsArgs),
    /// Run the fuzz targets for a while (needs a nightly toolchain and cargo-fuzz)
    Fuzz(fuzzing::FuzzArgs),
    /// Run damaged files of every format through all readers
    Mutants(fuzzing::MutantsArgs),
    /// Write synthetic snapshots of any size, one per rank
    Gen(generate::GenArgs),
    /// One measurement in a process of its own (used by the others)
    #[command(hide = true)]
    Measure { stage: measure::Stage, file: PathBuf, runs: u32 },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Read { file, runs } => read::read(&file, runs),
        Command::Reopen(args) => reopen::run(&args),
        Command::Tui { file, events } => tui::run(file.as_deref(), events),
        Command::View { file } => view::run(&file),
        Command::Inputs { rows, runs } => inputs::run(rows, runs),
        Command::Web { files } => web::run(&files),
        Command::Scale { events } => read::scale(&events),
        Command::Verbs(args) => scaling::run(&args),
        Command::Attacks(args) => attacks::run(&args),
        Command::Findings(args) => findings::run(&args),
        Command::Fuzz(args) => fuzzing::fuzz(&args),
        Command::Mutants(args) => fuzzing::mutants(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Measure { stage, file, runs } => measure::run(stage, &file, runs),
    }
}

/// CPU time of this process: others on the machine do not count.
fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory that this process has held, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}
