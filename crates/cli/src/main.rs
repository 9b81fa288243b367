//! The `vramscope` command.

mod args;
mod at;
mod categories;
mod demo;
mod diff;
mod doctor;
mod events;
mod export;
mod filter;
mod finding;
mod flame;
mod fragmentation;
mod insights;
mod many;
#[cfg(target_os = "linux")]
mod memory;
mod moment;
mod output;
mod overlap;
mod phases;
mod pools;
mod progress;
mod ranks;
mod report;
mod segments;
mod serve;
mod shapes;
mod site;
mod style;
mod summary;
mod text;
mod top;
mod tree;
mod tui;
mod tune;
mod view;
mod whatif;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command};

#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

/// What a command ends with: 0 fine, 1 a limit that was asked for is exceeded, 2 an error.
fn main() -> ExitCode {
    let args = Args::parse();
    style::choose(args.units, args.color);
    // Not locked: the terminal UI gives the terminal back from another thread.
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout());
    let result = run(&args, &mut out).and_then(|code| Ok(out.flush().map(|()| code)?));
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            text::complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args, mut out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Some(command) = &args.command else { return tui::open(args, out) };
    match command {
        Command::Tui(tui) => tui::run(tui, args.color),
        Command::Summary(summary) => summary::run(summary, out),
        Command::At(at) => at::run(at, out),
        Command::Tree(tree) => tree::run(tree, out),
        Command::Top(top) => top::run(top, out),
        Command::Flame(flame) => flame::run(flame, out),
        Command::Diff(diff) => diff::run(diff, out),
        Command::Insights(insights) => insights::run(insights, out),
        Command::Phases(phases) => phases::run(phases, out),
        Command::Fragmentation(args) => fragmentation::run(args, out),
        Command::Ranks(ranks) => ranks::run(ranks, out),
        Command::Segments(segments) => segments::run(segments, out),
        Command::Overlap(overlap) => overlap::run(overlap, out),
        Command::Pools(pools) => pools::run(pools, out),
        Command::Categories(categories) => categories::run(categories, out),
        Command::Shapes(shapes) => shapes::run(shapes, out),
        Command::Export(export) => export::run(export, out),
        Command::View(view) => view::run(view, out),
        Command::Report(report) => report::run(report, out),
        Command::Serve(serve) => serve::run(serve, out),
        Command::Tune(tune) => tune::run(tune, out),
        Command::Whatif(whatif) => whatif::run(whatif, out),
        Command::Doctor(doctor) => doctor::run(doctor, out),
        Command::Events(events) => events::run(events, out),
        Command::Demo(demo) => demo::run(demo, out),
        Command::Completions(args) => {
            clap_complete::generate(args.shell, &mut Args::command(), "vramscope", &mut out);
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(_) => {
            clap_mangen::Man::new(Args::command()).render(&mut out)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Whoever read our output has had enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
        || error.chain().any(|cause| {
            cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
        })
}
