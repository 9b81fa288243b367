//! An agent without a model: it follows `vramscope guide` to the letter, and reads what the commands print.

use std::path::Path;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::case::Case;

/// What an agent did and said: the form in which transcripts are scored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Transcript {
    /// The case.
    pub case: String,
    /// What it ran, and what it read.
    pub calls: Vec<Call>,
    /// What it concluded, in words.
    pub answer: String,
}

/// One command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// As it is typed.
    pub command: String,
    /// What it printed.
    pub output: String,
}

impl Transcript {
    /// Runs a command of vramscope on the file, and keeps what it prints.
    fn ask(&mut self, words: &[&str], file: &Path) -> String {
        let mut line: Vec<String> =
            std::iter::once("vramscope").chain(words.iter().copied()).map(str::to_owned).collect();
        line.push(file.display().to_string());
        let mut out = Vec::new();
        let asked = line.iter().cloned().chain(["--no-cache".to_owned()]);
        let result = vramscope_cli::answer(asked, &mut out);
        let mut output = String::from_utf8_lossy(&out).into_owned();
        if let Err(error) = result {
            output.push_str(&error);
        }
        self.calls.push(Call { command: line.join(" "), output: output.clone() });
        output
    }
}

/// Steps 1 to 3 of the guide: what the file can tell, then the command that this suggests first.
pub fn investigate(case: &Case, file: &Path) -> Transcript {
    let mut transcript = Transcript { case: case.id.clone(), ..Transcript::default() };
    let about = transcript.ask(&["doctor"], file);
    let suggested = first(&about, r"(?m)^ +vramscope ([a-z]+) ").unwrap_or_default();
    let has_stacks = !about.lines().any(|line| line.starts_with("  ✗ stacks"));
    transcript.answer = match suggested.as_str() {
        "oom" => out_of_memory(&mut transcript, file),
        "insights" if has_stacks => insights(&mut transcript, file),
        _ => format!("not recorded: {}", about.lines().nth(1).unwrap_or_default().trim()),
    };
    transcript
}

/// The line that asked, and the cause, as `oom` has them.
fn out_of_memory(transcript: &mut Transcript, file: &Path) -> String {
    let found = transcript.ask(&["oom"], file);
    let cause = first(&found, r"(?m)^  cause +(.+)$").unwrap_or_default();
    let line = first(&found, r"(?m)^  requested +.* by (\S+:\d+)").unwrap_or_default();
    format!("{cause}, {line}")
}

/// The first finding that is more than good to know; where its sentence names no line, `show` does.
fn insights(transcript: &mut Transcript, file: &Path) -> String {
    let found = transcript.ask(&["insights"], file);
    let Some(at) = found.find("\n  !") else { return "healthy: nothing looks wrong".to_owned() };
    let finding = found[at..].trim_start_matches('\n').split("\n\n").next().unwrap_or_default();
    let kind = first(finding, r"^  !.{13}(.+?)  f:").unwrap_or_default();
    let sentence = finding.lines().nth(1).unwrap_or_default().trim();
    let place = r"(\S+\.py:\d+)";
    let line = first(sentence, place).or_else(|| {
        let handle = first(finding, r"(f:\S+)")?;
        first(&transcript.ask(&["show", &handle], file), place)
    });
    format!("{kind}, {}. {sentence}", line.unwrap_or_default())
}

/// What the group of a pattern matches first.
fn first(text: &str, pattern: &str) -> Option<String> {
    let pattern = Regex::new(pattern).ok()?;
    Some(pattern.captures(text)?.get(1)?.as_str().to_owned())
}
