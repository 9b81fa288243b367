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

/// The command line with queries of `sql` that begin with a comment: a space before them keeps them from being taken
/// for options, whose names have no spaces.
pub(crate) fn with_comments(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let verb = line.iter().position(|word| ["sql", "run", "--"].iter().any(|verb| word == verb));
    let is_name = |text: &str| !text.split('=').next().unwrap_or_default().contains(char::is_whitespace);
    let is_comment = |text: &str| text.starts_with("--") && !is_name(text);
    let verb = verb.filter(|&at| line.get(at).is_some_and(|word| word == "sql")).unwrap_or(line.len());
    for word in line.iter_mut().skip(verb) {
        if word.to_str().is_some_and(is_comment) {
            let mut query = OsString::from(" ");
            query.push(&*word);
            *word = query;
        }
    }
    line
}

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
    fn a_query_may_begin_with_a_comment() {
        let asked = |words: &[&str]| with_comments(words.iter().map(OsString::from));
        let query = "-- all events\nselect count(*) from events";
        let spaced = format!(" {query}");
        assert_eq!(
            asked(&["vramscope", "sql", "a.pickle", query]),
            ["vramscope", "sql", "a.pickle", &spaced]
        );
        // Options stay options, and what is for another program stays as it is.
        let line = ["vramscope", "sql", "--format=csv", "--limit", "3", "a.pickle"];
        assert_eq!(asked(&line), line);
        let line = ["vramscope", "run", "sql", "--prompt hello world"];
        assert_eq!(asked(&line), line);
    }

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
