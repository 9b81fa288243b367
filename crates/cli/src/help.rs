//! Help that fits on a page: verbs grouped by what a user wants, options that all share described once.

use std::io::Write;

use anyhow::bail;
use clap::{Args as ClapArgs, CommandFactory};
use vramscope_analysis::query::MOMENT_GRAMMAR;
use vramscope_format::wrap;

use crate::args::Args;
use crate::text;

/// What verbs are for, and which they are.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("Record", &["run"]),
    (
        "Look",
        &["summary", "tui", "view", "at", "top", "tree", "show", "events", "segments", "overlap", "lives"],
    ),
    (
        "Explain",
        &[
            "insights",
            "oom",
            "churn",
            "categories",
            "modules",
            "phases",
            "steps",
            "fragmentation",
            "pools",
            "shapes",
            "doctor",
        ],
    ),
    ("Compare", &["diff", "ranks", "sql"]),
    ("Simulate", &["whatif", "tune", "minimum"]),
    ("Share", &["report", "serve", "export"]),
    ("Agents", &["guide", "mcp", "skill"]),
    ("More", &["demo", "cache", "help", "completions", "man"]),
];

/// What most people need: `vramscope -h` lists these.
const EVERYDAY: &[&str] = &[
    "run", "summary", "insights", "oom", "tui", "view", "at", "top", "tree", "diff", "ranks", "whatif",
    "report", "guide", "demo",
];

/// Options that every verb with files has: `vramscope help filters` describes them.
const FILTERS: &[&str] = &[
    "device",
    "stream",
    "pool",
    "since",
    "until",
    "min_size",
    "max_size",
    "stack",
    "address",
    "category",
    "phase",
    "ignore_frames",
    "hide_internal",
];

/// Options that every verb with a moment has: `vramscope help moments` describes them.
const MOMENTS: &[&str] = &["peak", "oom", "start", "end", "event", "time_us", "in"];

/// Options of everything that prints.
const OUTPUT: &[&str] = &["json", "no_cache"];

/// Those of them that are described once: `vramscope help output`.
const SHARED_OUTPUT: &[&str] = &["budget", "units", "color", "no_cache"];

/// As many columns as clap fills.
const MOST_COLUMNS: usize = 100;

/// The command line with its help in groups, and with shared options only where they are described.
pub(crate) fn command() -> clap::Command {
    let mut command = Args::command();
    let list = |names: &[&str]| {
        let about = |name: &&&str| {
            let found = command.find_subcommand(name)?;
            // The rest of a long description stays in its column; clap would begin it at the left.
            let columns = text::columns().min(MOST_COLUMNS).saturating_sub(17);
            let lines = wrap(&found.get_about()?.to_string(), columns);
            Some(format!("  {name:<14} {}\n", lines.join("\n                 ")))
        };
        names.iter().filter_map(|name| about(&name)).collect::<String>()
    };
    let short = format!(
        "Commands:\n{}\nAll commands: vramscope --help. One command: vramscope COMMAND --help.",
        list(EVERYDAY)
    );
    let groups: Vec<_> = GROUPS.iter().map(|(title, names)| format!("{title}:\n{}", list(names))).collect();
    let long = format!(
        "{}\nOne command: vramscope COMMAND --help. Shared options: vramscope help filters, moments, output.",
        groups.join("\n")
    );
    let template = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}";
    // Options of the terminal UI are not everyday ones. Global ones would be in the help of every verb.
    command =
        command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg.hide_short_help(true) });
    command = command.mut_subcommands(|verb| {
        let is_shared = |arg: &clap::Arg, shared: &[&str]| shared.contains(&arg.get_id().as_str());
        let has = |shared: &[&str]| verb.get_arguments().any(|arg| is_shared(arg, shared));
        // `shapes` has a --stack of its own.
        let (filters, moments, output) = (has(&["hide_internal"]), has(&["time_us"]), has(&["json"]));
        let mut hints = String::new();
        if moments {
            hints.push_str(
                "Moments: --peak --oom --start --end --event N, or in words: vramscope help moments\n",
            );
        }
        if filters {
            hints
                .push_str("Filters: --device --stack --min-size --since --until …: vramscope help filters\n");
        }
        if output {
            hints.push_str("Output: --budget N --units --color --no-cache: vramscope help output\n");
        }
        let examples = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let separator = if hints.is_empty() || examples.is_empty() { "" } else { "\n" };
        verb.mut_args(|arg| {
            let is_hidden = filters && is_shared(&arg, FILTERS)
                || moments && is_shared(&arg, MOMENTS)
                || output && is_shared(&arg, SHARED_OUTPUT);
            // The heading of what all share ends where a verb's own options begin.
            let heading = is_shared(&arg, OUTPUT).then_some("Output");
            let arg = if is_hidden { arg.hide(true) } else { arg };
            if arg.is_positional() { arg } else { arg.help_heading(heading) }
        })
        .after_help(format!("{hints}{separator}{examples}"))
    });
    command.help_template(template).after_help(short).after_long_help(long)
}

/// Describes options that all commands share: filters, moments; or a command
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope help moments
  vramscope help filters
  vramscope help at")]
pub(crate) struct HelpArgs {
    /// filters, moments, output, or a command
    topic: Option<String>,
}

pub(crate) fn run(args: &HelpArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(topic) = &args.topic else { return Ok(write!(out, "{}", command().render_long_help())?) };
    match topic.as_str() {
        "moments" | "moment" => Ok(writeln!(
            out,
            "A moment is the state after an event. Commands that look at one take --at MOMENT, or one of the flags;\n\
             without any, they look at the peak of requested bytes.\n\n{}\n\nMOMENT is one of:\n  {}\n\n\
             --since and --until take a MOMENT too. They bound the part of the trace that counts, and where the peak is\n\
             looked for. The same words work after : in the terminal UI and in the window's search.",
            options(MOMENTS),
            MOMENT_GRAMMAR.replace('\n', "\n  ")
        )?),
        "filters" | "filter" => Ok(writeln!(
            out,
            "Filters say which allocations, events and segments count. They combine: all must hold.\n\n{}\n\n\
             In the terminal UI (f) and in the window's tables the same filters are one line:\n  {}",
            options(FILTERS),
            vramscope_analysis::query::FILTER_GRAMMAR
        )?),
        "output" => Ok(writeln!(
            out,
            "Options of every command that prints an answer.\n\n{}",
            options(&["json", "budget", "units", "color", "no_cache"])
        )?),
        name => match command().find_subcommand_mut(name) {
            Some(verb) => Ok(write!(out, "{}", verb.render_long_help())?),
            None => bail!("there is no help on '{name}': try moments, filters, output, or a command"),
        },
    }
}

/// The manual: the command, and each of its verbs, on one page.
pub(crate) fn write_manual(out: &mut dyn Write) -> std::io::Result<()> {
    let command = Args::command();
    clap_mangen::Man::new(command.clone().disable_help_flag(true)).render(&mut &mut *out)?;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_name().to_uppercase();
        writeln!(out, ".SH \"VRAMSCOPE {name}\"")?;
        let manual = clap_mangen::Man::new(verb.clone().bin_name(format!("vramscope {}", verb.get_name())));
        manual.render_description_section(&mut &mut *out)?;
        manual.render_synopsis_section(&mut &mut *out)?;
        manual.render_options_section(&mut &mut *out)?;
    }
    Ok(())
}

/// The options as the verb that has all of them describes them.
fn options(names: &[&str]) -> String {
    let command = Args::command();
    let Some(verb) = command.find_subcommand("at") else { return String::new() };
    let line = |name: &&str| {
        let arg = verb.get_arguments().chain(command.get_arguments()).find(|arg| arg.get_id() == name)?;
        let values: Vec<_> =
            arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
        let takes_value = arg.get_action().takes_values();
        let values = match (takes_value, arg.is_require_equals_set()) {
            (false, _) => String::new(),
            (true, true) => format!("[={}]", values.join(" ")),
            (true, false) => format!(" {}", values.join(" ")),
        };
        let option = format!("--{}{values}", arg.get_long()?);
        Some(format!("  {option:<24} {}", arg.get_help()?))
    };
    names.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        listed.sort_unstable();
        let command = Args::command();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut names: Vec<&str> = visible.map(clap::Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(listed, names);
    }

    #[test]
    fn shared_options_are_described_once() {
        let mut out = Vec::new();
        run(&HelpArgs { topic: Some("filters".into()) }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for name in FILTERS {
            let option = format!("--{}", name.replace('_', "-"));
            assert!(text.contains(&option), "{option}");
        }
        let mut at = command();
        let at = at.find_subcommand_mut("at").unwrap().render_long_help().to_string();
        assert!(!at.contains("--ignore-frames") && at.contains("vramscope help filters"), "{at}");
    }

    #[test]
    fn definitions_are_sound() {
        command().debug_assert();
    }
}
