//! What a command line says about its answer, whatever the verb: whether it is JSON, and what it may cost.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::args::Args;
use crate::budget::{self, Budget};

/// Verbs that print data, a page or a program's input: never shortened.
const WHOLE: &[&str] = &[
    "export",
    "report",
    "serve",
    "view",
    "tui",
    "flame",
    "demo",
    "help",
    "guide",
    "completions",
    "man",
    "mcp",
    "skill",
    "cache",
];

/// What the answer to a command line may cost; nothing if it is not limited.
pub(crate) fn budget(
    args: &Args,
    matches: &ArgMatches,
    line: &[OsString],
    to_terminal: bool,
) -> Option<Budget> {
    let (verb, options) = matches.subcommand()?;
    let is_given = |name: &str| {
        options.ids().any(|id| id == name) && options.value_source(name) == Some(ValueSource::CommandLine)
    };
    // A flame graph is data, and a file is no answer.
    let is_data = ["format", "output_file", "files", "print"].into_iter().any(is_given);
    if WHOLE.contains(&verb) || is_data {
        return None;
    }
    // Of simulations --limit is a size.
    let is_counted = is_given("limit") && !matches!(verb, "whatif" | "tune");
    let is_json = is_given("json");
    let tokens = match args.budget {
        Some(tokens) => tokens,
        None if is_json || to_terminal || is_counted => 0,
        None => budget::DEFAULT,
    };
    (tokens > 0).then(|| Budget { tokens, is_json, command: whole(line) })
}

/// The command line without its budget, as it is typed into a shell.
fn whole(line: &[OsString]) -> String {
    let mut words = vec!["vramscope".to_owned()];
    let mut rest = line.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = rest.next() {
        if word == "--budget" {
            rest.next();
        } else if !word.starts_with("--budget=") {
            words.push(quoted(&word));
        }
    }
    words.push("--budget 0".to_owned());
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,=@+%#".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            whole(&line(&["vramscope", "top", "my run.pickle", "--budget", "20", "--stack", "it's"])),
            r"vramscope top 'my run.pickle' --stack 'it'\''s' --budget 0"
        );
        assert_eq!(whole(&line(&["x", "at", "a.pickle", "--budget=9"])), "vramscope at a.pickle --budget 0");
    }
}
