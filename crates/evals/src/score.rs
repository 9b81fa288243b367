//! Scores a transcript: were the line and the cause found, in how many calls, at how many tokens?

use std::fmt;

use vramscope_format::tokens;

use crate::case::{Case, Cause};
use crate::scripted::Transcript;

/// Calls and tokens that a case may take.
pub const CALLS: usize = 3;
/// Tokens that a case may take.
pub const TOKENS: u64 = 2500;

/// How a case went.
#[derive(Clone, Debug)]
pub struct Score {
    /// The case.
    pub case: String,
    /// Whether a right line is named, or none is to blame.
    pub line: bool,
    /// Whether the cause that is named first is right.
    pub cause: bool,
    /// Commands that were run.
    pub calls: usize,
    /// Tokens of the commands and of what they printed.
    pub tokens: u64,
}

impl Score {
    /// Compares a transcript with the truth.
    pub fn new(case: &Case, transcript: &Transcript) -> Self {
        let answer = &transcript.answer;
        let names = |line: &String| {
            let after = |at: usize| answer[at + line.len()..].chars().next();
            answer.match_indices(line.as_str()).any(|(at, _)| !after(at).is_some_and(|c| c.is_ascii_digit()))
        };
        let lines = &case.truth.lines;
        let cost = |call: &crate::scripted::Call| tokens(&call.command) + tokens(&call.output);
        Self {
            case: case.id.clone(),
            line: lines.is_empty() || lines.iter().any(names),
            cause: Cause::named_first(answer).is_some_and(|cause| case.truth.causes.contains(&cause)),
            calls: transcript.calls.len(),
            tokens: transcript.calls.iter().map(cost).sum(),
        }
    }

    /// Whether line and cause were found within the limits.
    pub fn passes(&self) -> bool {
        self.line && self.cause && self.calls <= CALLS && self.tokens < TOKENS
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |right: bool| if right { "right" } else { "WRONG" };
        let Self { case, calls, tokens, .. } = self;
        write!(f, "{case:<22} {:>5} {:>5} {calls:>6} {tokens:>7}", word(self.line), word(self.cause))
    }
}

/// The table of all scores, with its sums.
pub fn table(scores: &[Score]) -> String {
    let mut text = String::from("case                    line cause  calls  tokens\n");
    for score in scores {
        text += &format!("{score}\n");
    }
    let right = scores.iter().filter(|score| score.line && score.cause).count();
    let within = scores.iter().filter(|score| score.passes()).count();
    let calls: usize = scores.iter().map(|score| score.calls).sum();
    let tokens: u64 = scores.iter().map(|score| score.tokens).sum();
    let each = tokens / scores.len().max(1) as u64;
    text + &format!(
        "{right} of {} right, {within} of them within {CALLS} calls and {TOKENS} tokens; {calls} calls, {each} tokens a case\n",
        scores.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Truth;

    fn scored(answer: &str) -> Score {
        let truth = Truth {
            lines: vec!["a.py:7".into()],
            causes: vec![Cause::Leak],
            fix: String::new(),
            source: String::new(),
        };
        let case =
            Case { id: "x".into(), recording: String::new(), program: None, question: String::new(), truth };
        Score::new(&case, &Transcript { case: "x".into(), calls: Vec::new(), answer: answer.into() })
    }

    #[test]
    fn line_and_cause_are_read_from_free_text() {
        let right = scored("src/a.py:7 keeps the graph of every step");
        assert!(right.line && right.cause);
        assert!(!scored("a.py:71 leaks").line, "another line");
        // An answer that lists all causes counts for the first one only.
        assert!(!scored("a.py:7: fragmentation, or a leak").cause);
        assert!(!scored("a.py:7").cause);
    }
}
