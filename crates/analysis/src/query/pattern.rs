//! Patterns that people type.

use regex_lite::{Regex, RegexBuilder};
use vramscope_snapshot::{Snapshot, StackId};

use super::{Handle, Thing};

/// A regular expression with one case rule: it ignores case unless it contains an upper-case letter. `s:44` is the
/// handle of a stack, and matches that stack.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    stack: Option<StackId>,
}

impl Pattern {
    /// Compiles a pattern, or says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        build(text).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("'{text}' is not a valid regular expression: {reason}")
        })
    }

    /// The same for text that is searched while it is typed: what is not a pattern is taken literally.
    pub fn lenient(text: &str) -> Option<Self> {
        build(text).or_else(|_| build(&regex_lite::escape(text))).ok()
    }

    /// Whether some part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Whether some frame of a stack matches, or the stack is the one that is named.
    pub fn matches_stack(&self, snapshot: &Snapshot, stack: StackId) -> bool {
        match self.stack {
            Some(named) => stack == named,
            None => snapshot.frames(stack).any(|frame| {
                self.matches_frame(snapshot.text(frame.file), frame.line, snapshot.text(frame.name))
            }),
        }
    }

    /// Whether a frame matches, written as `file:line name` with its whole path.
    pub fn matches_frame(&self, file: &str, line: u32, name: &str) -> bool {
        self.regex.is_match(&vramscope_format::frame_text(file, line, name))
    }
}

fn build(text: &str) -> Result<Pattern, regex_lite::Error> {
    let ignores_case = !text.chars().any(char::is_uppercase);
    let regex = RegexBuilder::new(text).case_insensitive(ignores_case).build()?;
    let stack = match text.parse().map(|handle: Handle| handle.thing) {
        Ok(Thing::Stack(stack)) => Some(stack),
        _ => None,
    };
    Ok(Pattern { regex, stack })
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_counts_only_if_there_is_an_upper_case_letter() {
        assert!(Pattern::new("softmax").unwrap().is_match("Softmax"));
        assert!(!Pattern::new("Softmax").unwrap().is_match("softmax"));
    }

    #[test]
    fn what_is_not_a_pattern_can_be_searched_literally() {
        assert!(Pattern::new("f(").unwrap_err().starts_with("'f(' is not a valid regular expression"));
        assert!(Pattern::lenient("f(").unwrap().is_match("x = f(y)"));
    }
}
