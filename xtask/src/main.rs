//! Developer commands, in Rust so that they run wherever the project builds: `cargo xtask --help`.

mod ci;
mod licenses;
mod process;
mod setup;
mod steps;
mod web;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use web::Page;

/// Developer commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the checks need: the wasm32 target, browsers, a virtual screen, DuckDB and polars
    Setup,
    /// Everything that must hold before a change lands: format, lints, licenses, docs, tests
    Ci,
    /// Build the viewer as a static site in dist/web
    Web {
        /// Keep the names of functions, for a browser's profiler
        #[arg(long)]
        names: bool,
    },
    /// Check that the crates below the surfaces build for the browser
    Wasm,
    /// Check the licenses of all dependencies, and that each is there once
    Licenses,
    /// Write THIRD-PARTY.md: the licenses of what ships
    Notices,
    /// Write the pictures of docs/screenshots anew
    Screenshots,
    /// Measure speed and memory against a baseline in the same run; `bench --help` lists what
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Write synthetic snapshots of any size, one per rank
    #[command(disable_help_flag = true)]
    Gen {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the fuzz target for a while (needs a nightly toolchain and cargo-fuzz)
    Fuzz {
        /// How long
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Setup => setup::setup(),
        Command::Ci => ci::run(),
        Command::Web { names: false } => web::build(Page::Small),
        Command::Web { names: true } => web::build(Page::Named),
        Command::Wasm => web::check(),
        Command::Licenses => licenses::check(),
        Command::Notices => licenses::write(),
        Command::Screenshots => screenshots(),
        Command::Bench { args } => bench(&args),
        Command::Gen { mut args } => {
            args.insert(0, "gen".into());
            bench(&args)
        }
        Command::Fuzz { seconds } => {
            process::run(process::cargo(&["+nightly", "fuzz", "run", "read", "--"]).args([
                format!("-max_total_time={seconds}"),
                "-rss_limit_mb=4096".into(),
                "-timeout=20".into(),
                "-max_len=65536".into(),
            ]))
        }
    }
}

/// Benchmarks are a program of their own, optimised; paths stay relative to where this was called.
fn bench(args: &[OsString]) -> anyhow::Result<()> {
    let here = std::env::current_dir()?;
    let build = ["run", "--release", "--quiet", "--locked", "--package", "vramscope-bench", "--"];
    process::run(process::cargo(&build).args(args).current_dir(here))
}

fn screenshots() -> anyhow::Result<()> {
    let build = ["test", "--locked", "--package", "vramscope-viewer", "--lib", "--features", "screenshots"];
    process::run(process::cargo(&build).args(["--", "screenshots"]))
}
