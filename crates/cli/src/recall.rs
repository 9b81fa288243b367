//! Answers that were given before.
//!
//! Most verbs go through the whole trace, which takes seconds for a file of gigabytes even if it is mapped. What they
//! print is short and follows from the file, the build and the command line, so it is kept beside the entry of
//! the cache. The terminal, its colors and a budget are not part of the question: they are applied to what comes back.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use vramscope_files::{Answer, Cache, Question};

use crate::help::GROUPS;
use crate::layout::{Laid, Recording};
use crate::text;

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

/// A question whose answer can be kept.
pub(crate) struct Asked {
    question: Question,
    /// JSON is the same everywhere; text is laid out.
    is_json: bool,
}

/// The question that a command line asks, if its answer can be kept.
pub(crate) fn question(matches: &ArgMatches, line: &[OsString]) -> Option<Asked> {
    let (verb, options) = matches.subcommand()?;
    let names_others = options.ids().any(|id| OTHER_FILES.iter().any(|other| id == *other));
    let flag = |id: &str| options.try_get_one::<bool>(id).ok().flatten().copied();
    let is_refused = flag("no_cache").unwrap_or(true);
    // Events are shown as they come.
    let is_stream = verb == "events" && io::stdout().is_terminal();
    if is_stream
        || !plain().chain(OTHERS.iter().copied()).any(|kept| kept == verb)
        || names_others
        || is_refused
    {
        return None;
    }
    let path = |id: &str| options.try_get_many::<PathBuf>(id).ok().flatten();
    let mut paths = path("path").into_iter().chain(path("paths")).flatten();
    let (Some(path), None) = (paths.next(), paths.next()) else { return None };
    let cache = Cache::of_user().filter(|cache| cache.problem().is_none())?;
    let question = cache.question(path, words(line))?;
    Some(Asked { question, is_json: flag("json").unwrap_or(false) })
}

/// Options that say how an answer is printed.
const PRINTING: [&str; 2] = ["--budget", "--color"];

/// Everything that an answer depends on beside the file, wherever in the line `--json` is.
fn words(line: &[OsString]) -> String {
    let is_json = |word: &OsString| word == "--json";
    let mut words = vec![if line.iter().any(is_json) { "JSON" } else { "text" }.to_owned()];
    let mut rest = line.iter().skip(1).filter(|word| !is_json(word));
    // Of events no more are put into words than fit.
    let printing = if line.iter().any(|word| word == "events") { &[][..] } else { &PRINTING };
    while let Some(word) = rest.next() {
        let bytes = word.as_encoded_bytes();
        let with_value = |option: &&str| {
            bytes.strip_prefix(option.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
        };
        if printing.iter().any(|option| bytes == option.as_bytes()) {
            rest.next();
        } else if !printing.iter().any(with_value) {
            words.push(format!("{word:?}"));
        }
    }
    words.join(" ")
}

/// Repeats an answer, or works it out and keeps it if that took long.
pub(crate) fn answer(
    asked: Option<&Asked>,
    out: &mut dyn Write,
    run: impl FnOnce(&mut dyn Write) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let Some(Asked { question, is_json }) = asked else { return run(out) };
    if let Some(answer) = question.recall() {
        answer.warnings.iter().for_each(|warning| text::complain(warning));
        laid_out(*is_json, out, |out| out.write_all(&answer.text))??;
        return Ok(ExitCode::SUCCESS);
    }
    // The first answer is not worked out from the cache, and may say so.
    if !question.is_cached() {
        return run(out);
    }
    let began = Instant::now();
    let recording = (!is_json).then(Recording::begin);
    let (text, code) = laid_out(*is_json, out, |out| {
        let mut copy = Copy { out, text: Some(Vec::new()) };
        let code = run(&mut copy);
        (copy.text, code)
    })?;
    drop(recording);
    let code = code?;
    if let Some(text) = text
        && code == ExitCode::SUCCESS
        && began.elapsed() >= LEAST
    {
        question.keep(&Answer { text: text.into(), warnings: text::complaints() });
    }
    Ok(code)
}

/// Lays out what is written, but for JSON.
fn laid_out<T>(is_json: bool, out: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> T) -> io::Result<T> {
    if is_json {
        return Ok(write(out));
    }
    let mut laid = Laid::new(out);
    let written = write(&mut laid);
    laid.finish()?;
    Ok(written)
}

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
        self.text.take_if(|text| text.len() > Answer::MOST_BYTES);
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
    fn how_an_answer_is_printed_is_not_part_of_the_question() {
        let line = |text: &str| words(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(line("vramscope at a.pickle --budget 7 --json"), line("vramscope at a.pickle --json"));
        assert_eq!(line("vramscope at a.pickle --budget=7"), line("vramscope at a.pickle"));
        assert_eq!(line("vramscope --color=never at a.pickle"), line("vramscope at a.pickle --color always"));
        assert_eq!(line("vramscope at --json a.pickle"), line("vramscope at a.pickle --json"));
        assert_ne!(line("vramscope at a.pickle --json"), line("vramscope at a.pickle"));
        assert_ne!(line("vramscope at a.pickle"), line("vramscope at b.pickle"));
        assert_ne!(line("vramscope events a.pickle --budget 7"), line("vramscope events a.pickle"));
    }
}
