//! Answers that were given before.
//!
//! Most verbs go through the whole trace, which takes seconds for a file of gigabytes even if it is mapped. What they
//! print is short and follows from the file, the build and the command line, so it is kept beside the entry of
//! the cache. A budget is not part of the question: it is applied to what comes back, too.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use vramscope_files::{Answer, Cache, Question, is_cache_damaged};

use crate::help::GROUPS;
use crate::{style, text};

/// Verbs that answer about one file without options: those that look and explain, and what else is asked like them.
pub(crate) fn plain() -> impl Iterator<Item = &'static str> {
    let groups = GROUPS.iter().filter(|(group, _)| matches!(*group, "Look" | "Explain"));
    let verbs = groups.flat_map(|(_, verbs)| verbs.iter().copied());
    verbs.filter(|verb| !matches!(*verb, "tui" | "view" | "show" | "shapes")).chain(["minimum", "ranks"])
}

/// More verbs whose answer is kept.
const OTHERS: &[&str] = &["show", "whatif", "tune"];

/// Options that name other files.
const OTHER_FILES: [&str; 2] = ["rules", "config"];

/// Quicker answers are worked out again.
const LEAST: Duration = Duration::from_millis(20);

/// Of longer files the answers of all verbs are worked out in the background, after the first.
const FILL_BYTES: u64 = 256 << 20;

/// The question that a command line asks, if its answer can be kept.
pub(crate) fn question(matches: &ArgMatches, line: &[OsString]) -> Option<Question> {
    let (verb, options) = matches.subcommand()?;
    let names_others = options.ids().any(|id| OTHER_FILES.iter().any(|other| id == *other));
    let is_refused = options.try_get_one::<bool>("no_cache").ok().flatten().is_none_or(|&refused| refused);
    if !plain().chain(OTHERS.iter().copied()).any(|kept| kept == verb) || names_others || is_refused {
        return None;
    }
    let path = |id: &str| options.try_get_many::<PathBuf>(id).ok().flatten();
    let mut paths = path("path").into_iter().chain(path("paths")).flatten();
    let (Some(path), None) = (paths.next(), paths.next()) else { return None };
    Cache::of_user()?.question(path, words(line))
}

/// Everything that an answer depends on beside the file.
fn words(line: &[OsString]) -> String {
    let mut words = vec![format!(
        "{} columns, {} colors, {} terminal",
        text::columns(),
        if style::is_colored() { "with" } else { "no" },
        if io::stdout().is_terminal() { "on a" } else { "no" },
    )];
    let mut rest = line.iter().skip(1);
    let is_events = line.iter().any(|word| word == "events");
    while let Some(word) = rest.next() {
        match word.as_encoded_bytes() {
            // Of events no more are put into words than fit.
            _ if is_events => words.push(format!("{word:?}")),
            b"--budget" => drop(rest.next()),
            word if word.starts_with(b"--budget=") => {}
            _ => words.push(format!("{word:?}")),
        }
    }
    words.join(" ")
}

/// Repeats an answer, or works it out and keeps it if that took long.
pub(crate) fn answer(
    question: Option<&Question>,
    out: &mut dyn Write,
    run: impl FnOnce(&mut dyn Write) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let Some(question) = question else { return run(out) };
    if let Some(answer) = question.recall() {
        answer.warnings.iter().for_each(|warning| text::complain(warning));
        out.write_all(&answer.text)?;
        return Ok(ExitCode::SUCCESS);
    }
    // The first answer is not worked out from the cache, and may say so.
    if !question.is_cached() {
        let result = run(out);
        if question.bytes() >= FILL_BYTES && question.is_cached() {
            crate::cache::fill_later(question.path());
        }
        return result;
    }
    let began = Instant::now();
    let mut copy = Copy { out, text: Some(Vec::new()) };
    let code = run(&mut copy)?;
    let warnings = WARNINGS.lock().map(|warnings| warnings.clone()).unwrap_or_default();
    if let Some(text) = copy.text
        && code == ExitCode::SUCCESS
        && began.elapsed() >= LEAST
        && !is_cache_damaged()
    {
        question.keep(&Answer { text, warnings });
    }
    Ok(code)
}

/// What was said on standard error.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes down what is said on standard error.
pub(crate) fn note(warning: &str) {
    if let Ok(mut warnings) = WARNINGS.lock() {
        warnings.push(warning.to_owned());
    }
}

/// Answers that are longer are not kept.
const MOST_BYTES: usize = 1 << 20;

/// Passes an answer on and copies it.
struct Copy<'a> {
    out: &'a mut dyn Write,
    text: Option<Vec<u8>>,
}

impl Write for Copy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        if let Some(text) = &mut self.text {
            text.extend_from_slice(bytes.get(..len).unwrap_or_default());
        }
        self.text.take_if(|text| text.len() > MOST_BYTES);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plain_verb_is_kept() {
        let mut kept: Vec<_> = plain().collect();
        let mut all = vramscope_testkit::verbs::PLAIN.to_vec();
        kept.sort_unstable();
        all.sort_unstable();
        assert_eq!(kept, all);
    }

    #[test]
    fn a_budget_is_not_part_of_the_question() {
        let line = |text: &str| words(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(line("vramscope at a.pickle --budget 7 --json"), line("vramscope at a.pickle --json"));
        assert_eq!(line("vramscope at a.pickle --budget=7"), line("vramscope at a.pickle"));
        assert_ne!(line("vramscope at a.pickle"), line("vramscope at b.pickle"));
    }
}
