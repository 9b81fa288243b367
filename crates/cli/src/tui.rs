//! `vramscope tui`, and what `vramscope PATH…` opens on a terminal.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Args as ClapArgs, CommandFactory, ValueEnum};
use vramscope_analysis::query::Pattern;
use vramscope_files::find;
use vramscope_tui::{Colors, Ground, Options, Theme};

use crate::args::{Args, CacheArgs, FilterArgs, OutputArgs, Sources, SummaryArgs};
use crate::batch::joined;
use crate::shapes::ModelArgs;
use crate::style::ColorChoice;
use crate::{summary, text};

/// Explore snapshots in the terminal
///
/// Memory over time, what is live at any moment as a call tree, segments, insights, ranks, comparison. Press ? for
/// all keys. `vramscope PATH` opens it too, on a terminal; elsewhere that prints the summary.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope snapshot.pickle
  vramscope tui runs/today/                      # all ranks; 6 lists them
  vramscope tui --compare before.pickle after.pickle")]
pub(crate) struct TuiArgs {
    /// Snapshot files, folders of them, or - for standard input
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Show two files side by side
    #[arg(long, short, help_heading = "Terminal UI")]
    compare: bool,
    /// Leave the mouse to the terminal
    #[arg(long, help_heading = "Terminal UI")]
    no_mouse: bool,
    /// Draw with ASCII only
    #[arg(long, help_heading = "Terminal UI")]
    ascii: bool,
    /// Colors for a dark or a light terminal (default: as COLORFGBG or VRAMSCOPE_THEME says, else dark)
    #[arg(long, value_enum, help_heading = "Terminal UI")]
    theme: Option<ThemeArg>,
    /// Pass over frames that match when looking for your own line
    #[arg(long, value_name = "REGEX", help_heading = "Terminal UI")]
    ignore_frames: Option<Pattern>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    cache: CacheArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ThemeArg {
    Dark,
    Light,
}

/// What no command at all means: the terminal UI on a terminal, the summary elsewhere.
pub(crate) fn open(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let open = &args.open;
    // A mistyped command looks like a path that is not there.
    if let Some(word) = open.paths.first().and_then(|path| path.to_str())
        && word.chars().all(|c| c.is_ascii_alphabetic())
        && !open.paths[0].exists()
    {
        let commands = Args::command();
        let mut names = commands.get_subcommands().map(clap::Command::get_name);
        let similar = names.find(|name| is_similar(name, word));
        let hint = similar.map_or(String::new(), |name| format!("; a similar subcommand exists: '{name}'"));
        bail!(
            "unrecognized subcommand '{word}', and no such file{hint}. vramscope --help lists the commands"
        );
    }
    if is_terminal() {
        return run(open, args.color);
    }
    let output = OutputArgs { json: false, cache: open.cache.clone() };
    let sources = Sources { paths: open.paths.clone(), filter: FilterArgs::default(), output };
    summary::run(&SummaryArgs { sources, fail_on: Vec::new() }, out)
}

/// Whether one word is the other with a letter or two wrong, too many or missing.
fn is_similar(name: &str, word: &str) -> bool {
    let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    let same = common(name, word) + common(&backwards(name), &backwards(word));
    name.len().abs_diff(word.len()) <= 2 && same + 2 >= name.len().max(word.len())
}

/// Whether there is a terminal that can be drawn on.
fn is_terminal() -> bool {
    let can_draw = cfg!(windows) || std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    std::io::stdout().is_terminal() && can_draw
}

pub(crate) fn run(args: &TuiArgs, color: ColorChoice) -> anyhow::Result<ExitCode> {
    ensure!(!args.paths.is_empty(), "name a snapshot: vramscope tui PATH");
    ensure!(is_terminal(), "not a terminal; vramscope summary prints the same numbers");
    let (inputs, errors) = find(&args.paths);
    ensure!(!inputs.is_empty(), joined(&errors));
    // They are on the screen again when the terminal UI has ended.
    errors.iter().for_each(|error| text::complain(&error.to_string()));
    if args.compare {
        ensure!(inputs.len() == 2, "--compare takes two snapshots, not {}", inputs.len());
    }
    // What cannot be opened at all is said before the screen is taken.
    if let [input] = inputs.as_slice()
        && !input.is_stdin()
        // Opening and closing a pipe would end the program that writes to it.
        && input.path.metadata().map_or(true, |metadata| metadata.is_file() || metadata.is_dir())
    {
        std::fs::File::open(&input.path).with_context(|| input.path.display().to_string())?;
    }
    let mut theme = Theme::of_environment();
    match color {
        ColorChoice::Never => theme.colors = Colors::None,
        ColorChoice::Always => theme.colors = theme.colors.max(Colors::Sixteen),
        ColorChoice::Auto => {}
    }
    theme.ascii |= args.ascii;
    theme.ground = match args.theme {
        Some(ThemeArg::Dark) => Ground::Dark,
        Some(ThemeArg::Light) => Ground::Light,
        None => theme.ground,
    };
    let options = Options {
        inputs,
        compare: args.compare,
        theme,
        mouse: !args.no_mouse,
        dims: args.model.dims()?,
        ignore_frames: args.ignore_frames.clone(),
        cache: args.cache.cache(),
    };
    Ok(ExitCode::from(vramscope_tui::run(options)?))
}
