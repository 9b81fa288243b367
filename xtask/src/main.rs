//! Developer commands, in Rust so that they run wherever the project builds: `cargo xtask --help`.

mod ci;
mod dist;
mod layers;
mod licenses;
mod package;
mod process;
mod setup;
mod spark;
mod steps;
mod web;
mod wheel;

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
    /// Everything that must hold before a change lands: format, lints, licenses, tests
    Ci,
    /// Build the viewer as a static site in dist/web
    Web {
        /// Keep the names of functions, for a browser's profiler
        #[arg(long)]
        names: bool,
    },
    /// Check that the crates below the surfaces build for the browser
    Wasm,
    /// Package the crates as they would be published, and compile what was packaged (after `web`)
    Package,
    /// Make a wheel of the program in target/debug, and try it in a new environment (after `web` and a build)
    Wheel,
    /// Build what is handed out: page, wheels, static programs, checksums, list of contents, notes; and try it
    Dist(dist::Args),
    /// Run the views in DataFusion and in Spark with executors of its own (needs a Java runtime; nightly, not in the gate:
    /// Spark takes minutes)
    Spark,
    /// Check the licenses of all dependencies, and that each is there once
    Licenses,
    /// Check that crates depend only on crates above them, and that modules form no cycle
    Layers {
        /// Print the cycles of one crate of the folder `crates`, allowed or not
        name: Option<String>,
    },
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
    /// Run the fuzz targets for a while (needs a nightly toolchain and cargo-fuzz)
    #[command(disable_help_flag = true)]
    Fuzz {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run damaged files of every format through all readers
    #[command(disable_help_flag = true)]
    Mutants {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Ask every verb about inputs of n and 4 n, and compare what that costs
    #[command(disable_help_flag = true)]
    Scale {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// A table of every kind of finding and every recording, for docs/insights.md
    #[command(disable_help_flag = true)]
    Findings {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Ask every verb about every file of a folder of attacks
    #[command(disable_help_flag = true)]
    Attacks {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Setup => setup::setup(),
        Command::Ci => ci::run(),
        Command::Web { names: false } => web::build(Page::Small),
        Command::Web { names: true } => web::build(Page::Named),
        Command::Wasm => web::check(),
        Command::Package => package::package(),
        Command::Wheel => wheel::quick(),
        Command::Dist(args) => dist::dist(&args),
        Command::Spark => spark::check(),
        Command::Licenses => licenses::check(),
        Command::Layers { name: None } => layers::check(),
        Command::Layers { name: Some(name) } => layers::show(&name),
        Command::Notices => licenses::write(),
        Command::Screenshots => screenshots(),
        Command::Bench { args } => bench(&args),
        Command::Gen { args } => bench_verb("gen", args),
        Command::Fuzz { args } => bench_verb("fuzz", args),
        Command::Mutants { args } => bench_verb("mutants", args),
        Command::Scale { args } => bench_verb("verbs", args),
        Command::Findings { args } => bench_verb("findings", args),
        Command::Attacks { args } => bench_verb("attacks", args),
    }
}

fn bench_verb(verb: &str, mut args: Vec<OsString>) -> anyhow::Result<()> {
    args.insert(0, verb.into());
    bench(&args)
}

/// Benchmarks are a program of their own, optimized; paths stay relative to where this was called.
fn bench(args: &[OsString]) -> anyhow::Result<()> {
    let here = std::env::current_dir()?;
    let build = ["run", "--release", "--quiet", "--locked", "--package", "vramscope-bench", "--"];
    process::run(process::cargo(&build).args(args).current_dir(here))
}

fn screenshots() -> anyhow::Result<()> {
    for tests in [["vramscope-tui", "--test=all"], ["vramscope-viewer", "--lib"]] {
        let build = ["test", "--locked", "--features", "screenshots", "--package"];
        process::run(process::cargo(&build).args(tests).args(["--", "screenshots"]))?;
    }
    Ok(())
}
