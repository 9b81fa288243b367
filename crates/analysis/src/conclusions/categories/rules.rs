//! A user's own rules, as TOML:
//!
//! ```toml
//! [[rule]]
//! category = "KV cache"            # a category of ours, or a new one
//! stack = "paged_attention|swap"   # a frame matches, as file:line name
//! pool = [0, 1]
//! min_size = "20MiB"               # requested bytes, or a number of them
//! max_size = 1048576
//! lifetime = "1000.."              # events that it lives: "N..", "..N", "N..M"
//! ```
//!
//! All conditions of a rule have to hold. The first rule that does decides; the defaults come after the last.

use std::ops::RangeInclusive;

use regex_lite::Regex;
use serde::Deserialize;
use toml::Spanned;
use vramscope_snapshot::{Pool, Snapshot};

/// Rules in order.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
}

/// What is wrong with a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RulesError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) category: String,
    stack: Option<Regex>,
    pub(crate) pool: Option<Pool>,
    size: RangeInclusive<u64>,
    lifetime: RangeInclusive<u64>,
}

/// Categories are numbered in a byte, and a chart of more is none.
const MOST_RULES: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    category: Spanned<String>,
    stack: Option<Spanned<String>>,
    pool: Option<Pool>,
    min_size: Option<Spanned<Size>>,
    max_size: Option<Spanned<Size>>,
    lifetime: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Rules {
    /// The rules of a file's text.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let line_of = |span: Option<std::ops::Range<usize>>| {
            let upto = span.map_or(0, |span| span.start).min(text.len());
            1 + text.as_bytes()[..upto].iter().filter(|&&byte| byte == b'\n').count()
        };
        let file: File = toml::from_str(text).map_err(|error| RulesError {
            line: line_of(error.span()),
            message: error.message().replace('\n', ", "),
        })?;
        if let Some(entry) = file.rule.get(MOST_RULES) {
            let message = format!("more than {MOST_RULES} rules");
            return Err(RulesError { line: line_of(Some(entry.span())), message });
        }
        let mut rules = Vec::with_capacity(file.rule.len());
        for entry in file.rule {
            let entry = entry.into_inner();
            let at = |span, message| RulesError { line: line_of(Some(span)), message };
            let size = |size: Option<Spanned<Size>>, otherwise| match size {
                None => Ok(otherwise),
                Some(size) => {
                    let span = size.span();
                    bytes(&size.into_inner()).map_err(|message| at(span, message))
                }
            };
            if entry.category.get_ref().trim().is_empty() {
                return Err(at(entry.category.span(), "a category needs a name".into()));
            }
            let stack = entry.stack.map(|stack| {
                Regex::new(stack.get_ref()).map_err(|error| at(stack.span(), format!("stack: {error}")))
            });
            let lifetime = entry.lifetime.map(|range| {
                lifetime(range.get_ref()).ok_or_else(|| {
                    let message = format!("{:?} is no lifetime: try \"1000..\" or \"..20\"", range.get_ref());
                    at(range.span(), message)
                })
            });
            rules.push(Rule {
                category: entry.category.get_ref().trim().to_owned(),
                stack: stack.transpose()?,
                pool: entry.pool,
                size: size(entry.min_size, 0)?..=size(entry.max_size, u64::MAX)?,
                lifetime: lifetime.transpose()?.unwrap_or(0..=u64::MAX),
            });
        }
        Ok(Self { rules })
    }

    /// For each rule and stack, whether a frame of the stack matches; `None` where the rule has no condition
    /// on stacks. Each frame is looked at once for each rule.
    pub(crate) fn by_stack(&self, snapshot: &Snapshot) -> Vec<Option<Vec<bool>>> {
        let frames = &snapshot.stacks;
        let matches = |regex: &Regex| {
            let is_match = |row: usize| {
                let frame = frames.frame(vramscope_snapshot::FrameId::from_index(row));
                let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
                regex.is_match(&format!("{file}:{} {name}", frame.line))
            };
            let matching: Vec<bool> = (0..frames.frame_count()).map(is_match).collect();
            let any = |stack| frames.get(stack).iter().any(|id| matching.get(id.index()) == Some(&true));
            frames.ids().map(any).collect()
        };
        self.rules.iter().map(|rule| rule.stack.as_ref().map(matches)).collect()
    }
}

impl Rule {
    /// Whether the conditions on size and lifetime hold.
    pub(crate) fn fits(&self, requested: u64, lifetime: u64) -> bool {
        self.size.contains(&requested) && self.lifetime.contains(&lifetime)
    }
}

fn bytes(size: &Size) -> Result<u64, String> {
    let text = match size {
        Size::Bytes(bytes) => return Ok(*bytes),
        Size::Text(text) => text,
    };
    vramscope_format::parse_bytes(text)
}

/// `N..M` is from N events on and fewer than M; what is live at the end lives longer than any number.
fn lifetime(text: &str) -> Option<RangeInclusive<u64>> {
    let (from, to) = text.split_once("..")?;
    let from = if from.trim().is_empty() { 0 } else { from.trim().parse().ok()? };
    let most = match to.trim() {
        "" => u64::MAX,
        to => to.parse::<u64>().ok()?.checked_sub(1)?,
    };
    (from <= most).then_some(from..=most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_a_rule() {
        let rules = Rules::parse(
            "[[rule]]\ncategory = \"big\"\nmin_size = \"1MiB\"\nlifetime = \"..20\"\n\n\
             [[rule]]\ncategory = \"pool\"\npool = [0, 1]\nmax_size = 512\n",
        )
        .unwrap();
        let [big, pool] = rules.rules.as_slice() else { panic!() };
        assert!(big.fits(1 << 20, 19) && !big.fits(1 << 20, 20) && !big.fits(1000, 1));
        assert!(pool.fits(512, u64::MAX) && !pool.fits(513, 1));
        assert_eq!(pool.pool, Some((0, 1)));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| Rules::parse(text).unwrap_err().to_string();
        let unknown = error("# mine\n[[rule]]\ncategory = \"a\"\nstak = \"x\"\n");
        assert!(unknown.starts_with("line 4: unknown field `stak`"), "{unknown}");
        assert!(error("[[rule]]\ncategory = \"a\"\nstack = \"(\"\n").starts_with("line 3: stack: "));
        assert!(error("[[rule]]\nstack = \"x\"\n").starts_with("line 1: missing field `category`"));
        assert!(
            error("[[rule]]\ncategory = \"a\"\nmin_size = \"2 parsecs\"\n")
                .starts_with("line 3: '2 parsecs' is not a valid size")
        );
        assert!(
            error("[[rule]]\ncategory = \"a\"\nlifetime = \"long\"\n").starts_with("line 3: \"long\" is no")
        );
        assert!(error("x = [").starts_with("line 1: "));
    }
}
