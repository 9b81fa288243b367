//! Developer commands, in Rust so that they run wherever the project builds: `cargo xtask --help`.

mod attacks;
mod bench;
mod browser;
mod ci;
mod fuzzing;
mod generate;
mod inputs;
mod measure;
mod process;
mod scale;
mod tables;
mod tui;
mod wasm;
mod web;
mod window;

use std::alloc::System;
use std::path::PathBuf;

use cap::Cap;
use clap::{Parser, Subcommand};

/// Counts what is allocated, for the memory column of the benchmarks.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Developer commands.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must hold before a change lands: format, lints, tests, docs, portability
    Ci,
    /// Check that the crates below the surfaces build for the browser
    Wasm,
    /// Open the real window on a virtual screen and look at what it draws
    Window,
    /// Build the viewer as a static site in dist/web
    Web {
        /// Keep the names of functions, for a browser's profiler
        #[arg(long)]
        names: bool,
    },
    /// Drive the page, a report and `serve` in a real Chromium (Debian: chromium)
    Browser,
    /// Check that exported tables open in DuckDB and polars and give the same numbers
    Tables,
    /// Write synthetic snapshots of any size, one per rank
    Gen(generate::GenArgs),
    /// Measure speed and memory against a baseline in the same run
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// One measurement in a process of its own (used by `bench`)
    #[command(hide = true)]
    Measure { stage: measure::Stage, file: PathBuf, runs: u32 },
    /// Run the fuzz targets for a while (needs a nightly toolchain and cargo-fuzz)
    Fuzz(fuzzing::FuzzArgs),
    /// Run damaged files of every format through all readers
    Mutants(fuzzing::MutantsArgs),
    /// Ask every verb about inputs of n and 4 n, and compare what that costs
    Scale(scale::ScaleArgs),
    /// Ask every verb about every file of a folder of attacks
    Attacks(attacks::AttacksArgs),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Ci => ci::run(),
        Command::Wasm => wasm::check(),
        Command::Window => process::build().and_then(|()| window::check()),
        Command::Web { names } => web::build(names),
        Command::Browser => browser::check(),
        Command::Tables => process::build().and_then(|()| tables::check()),
        Command::Gen(args) => generate::run(&args),
        Command::Bench(bench) => bench::run(&bench),
        Command::Measure { stage, file, runs } => measure::run(stage, &file, runs),
        Command::Fuzz(args) => fuzzing::fuzz(&args),
        Command::Mutants(args) => fuzzing::mutants(&args),
        Command::Scale(args) => scale::run(&args),
        Command::Attacks(args) => attacks::run(&args),
    }
}
