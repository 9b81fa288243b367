//! The `vramscope` command, as a library: `main.rs` starts it, and tests and fuzzers call it without a process.

mod args;
mod asked;
mod at;
mod batch;
mod budget;
mod cache;
mod categories;
mod churn;
mod demo;
mod diff;
mod doctor;
mod events;
mod export;
mod finding;
mod flame;
mod fragmentation;
mod guide;
mod help;
mod insights;
mod layout;
mod lives;
mod mcp;
mod measure;
mod minimum;
mod modules;
mod oom;
mod output;
mod overlap;
mod phases;
mod pools;
mod progress;
mod ranks;
mod recall;
mod record;
mod report;
mod segments;
mod serve;
mod shapes;
mod show;
mod site;
mod skill;
mod sql;
mod stack;
mod steps;
mod style;
mod subject;
mod summary;
mod table;
mod text;
mod top;
mod tree;
mod tui;
mod tune;
mod view;
mod whatif;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use vramscope_files::WriteError;

use args::{Args, Command, FlameFormat};
use budget::{Budget, Limited};
use recall::Asked;

/// Does what the command line says. What it ends with: 0 fine, 1 a limit that was asked for is exceeded, 2 an error.
pub fn main() -> ExitCode {
    let line: Vec<OsString> = asked::with_comments(std::env::args_os());
    // Help takes longer to lay out than a small file to summarize: only for those who asked for it, or need it.
    let matches = match Args::command().try_get_matches_from(&line) {
        Ok(matches) => matches,
        Err(_) => help::command().get_matches_from(&line),
    };
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    style::choose(args.units, args.color);
    // Not locked: the terminal UI gives the terminal back from another thread.
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout());
    let budget = asked::budget(&args, &matches, &line, io::stdout().is_terminal());
    let question = recall::question(&matches, &line);
    let result = run_within(&args, budget, question.as_ref(), &mut out);
    let result = result.and_then(|code| Ok(out.flush().map(|()| code)?));
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            text::complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Answers a command line that prints something: what standard output would get goes to `out`. What opens a
/// window, a terminal or a port, or runs a program, is refused. An error is what standard error would say.
pub fn answer<Text>(line: impl IntoIterator<Item = Text>, out: &mut dyn Write) -> Result<(), String>
where
    Text: Into<OsString> + Clone,
{
    let line: Vec<OsString> = asked::with_comments(line.into_iter().map(Into::into));
    let matches = Args::command().try_get_matches_from(&line).map_err(|error| error.to_string())?;
    let args = Args::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    let budget = asked::budget(&args, &matches, &line, false);
    match &args.command {
        None
        | Some(
            Command::Tui(_)
            | Command::View(_)
            | Command::Serve(_)
            | Command::Run(_)
            | Command::Mcp(_)
            | Command::Skill(_)
            | Command::Cache(_),
        ) => Err("not here".into()),
        Some(_) => run_within(&args, budget, None, out).map(|_| ()).map_err(|error| format!("{error:#}")),
    }
}

/// Parses all requests of a connection to `serve` that sends these bytes; returns how many there are.
pub fn hear(bytes: &[u8]) -> usize {
    serve::hear(bytes)
}

/// The same within a budget, if there is one.
fn run_within(
    args: &Args,
    budget: Option<Budget>,
    asked: Option<&Asked>,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let tokens = budget.as_ref().map(|budget| budget.tokens);
    let run = |out: &mut dyn Write| run(args, tokens, out);
    let Some(budget) = budget else { return recall::answer(asked, out, run) };
    let mut limited = Limited::new(out, budget);
    let result = recall::answer(asked, &mut limited, run);
    limited.finish()?;
    result
}

/// `budget` is what the answer may cost in tokens, if that is limited.
fn run(args: &Args, budget: Option<u64>, mut out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Some(command) = &args.command else { return tui::open(args, out) };
    match command {
        Command::Tui(tui) => tui::run(tui, args.color),
        Command::Summary(summary) => summary::run(summary, out),
        Command::At(at) => at::run(at, out),
        Command::Tree(tree) => tree::run(tree, out),
        Command::Top(top) => top::run(top, out),
        Command::Flame(tree) => flame::run(tree, tree.format.unwrap_or(FlameFormat::Svg), out),
        Command::Diff(diff) => diff::run(diff, out),
        Command::Insights(insights) => insights::run(insights, out),
        Command::Phases(phases) => phases::run(phases, out),
        Command::Steps(args) => steps::run(args, out),
        Command::Minimum(args) => minimum::run(args, out),
        Command::Lives(args) => lives::run(args, out),
        Command::Fragmentation(args) => fragmentation::run(args, out),
        Command::Ranks(ranks) => ranks::run(ranks, out),
        Command::Segments(segments) => segments::run(segments, out),
        Command::Overlap(overlap) => overlap::run(overlap, out),
        Command::Pools(pools) => pools::run(pools, out),
        Command::Categories(categories) => categories::run(categories, out),
        Command::Modules(modules) => modules::run(modules, out),
        Command::Shapes(shapes) => shapes::run(shapes, out),
        Command::Export(export) => export::run(export, out),
        Command::Sql(args) => sql::run(args, out),
        Command::View(view) => view::run(view, out),
        Command::Report(report) => report::run(report, out),
        Command::Serve(serve) => serve::run(serve, out),
        Command::Run(args) => record::run(args),
        Command::Doctor(doctor) => doctor::run(doctor, out),
        Command::Guide(_) => guide::run(out),
        Command::Mcp(args) => mcp::run(args, out),
        Command::Skill(args) => skill::run(args, out),
        Command::Oom(args) => oom::run(args, out),
        Command::Churn(args) => churn::run(args, out),
        Command::Show(args) => show::run(args, out),
        Command::Events(events) => events::run(events, budget, out),
        Command::Whatif(args) => whatif::run(args, out),
        Command::Tune(args) => tune::run(args, out),
        Command::Cache(args) => cache::run(args, out),
        Command::Demo(demo) => demo::run(demo, out),
        Command::Help(args) => help::run(args, out).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => {
            clap_complete::generate(args.shell, &mut Args::command(), "vramscope", &mut out);
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(_) => {
            help::write_manual(&mut out)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The reader of our output closed the pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
        || matches!(error.downcast_ref(), Some(WriteError::Io { error, .. }) if error.kind() == io::ErrorKind::BrokenPipe)
        || error.chain().any(|cause| {
            cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
        })
}
