//! Which allocations count: by size, pool, stream and stack, typed as one line.

use regex_lite::{Regex, RegexBuilder};
use vramscope_analysis::{Allocation, Range, State};
use vramscope_snapshot::{Event, Pool, Snapshot, StackId};

/// What the prompt says.
pub(crate) const GRAMMAR: &str = "size>=20MiB pool=0,1 stream=0 stack=REGEX";

/// A filter, with the stacks that pass looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) text: String,
    min_size: u64,
    max_size: Option<u64>,
    pool: Option<Pool>,
    stream: Option<u64>,
    /// For each stack whether a frame matches.
    stacks: Option<Vec<bool>>,
}

impl Filter {
    /// Reads what was typed. Words without a name are part of a stack.
    pub(crate) fn parse(text: &str, snapshot: &Snapshot) -> Result<Self, String> {
        let mut filter = Self { text: text.trim().to_owned(), ..Self::default() };
        for word in text.split_whitespace() {
            let value = |names: &[&str]| names.iter().find_map(|name| word.strip_prefix(name));
            if let Some(size) = value(&["size>=", "size>", ">=", ">"]) {
                filter.min_size = vramscope_format::parse_bytes(size)?;
            } else if let Some(size) = value(&["size<=", "size<", "<=", "<"]) {
                filter.max_size = Some(vramscope_format::parse_bytes(size)?);
            } else if let Some(pool) = value(&["pool="]) {
                let wrong = || format!("{pool:?} is no pool: two numbers, e.g. 0,1");
                let (a, b) = pool.trim_matches(['(', ')']).split_once(',').ok_or_else(wrong)?;
                filter.pool = Some((a.parse().map_err(|_| wrong())?, b.parse().map_err(|_| wrong())?));
            } else if let Some(stream) = value(&["stream="]) {
                let parsed = match stream.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => stream.parse(),
                };
                filter.stream = Some(parsed.map_err(|_| format!("{stream:?} is no stream: a number"))?);
            } else {
                let regex = regex(value(&["stack="]).unwrap_or(word))?;
                let matches = |stack: StackId| {
                    snapshot.frames(stack).any(|frame| {
                        is_match(&regex, snapshot.text(frame.file), frame.line, snapshot.text(frame.name))
                    })
                };
                let also = filter.stacks.take();
                let passes = |stack: StackId| {
                    also.as_ref().is_none_or(|also| also.get(stack.index()).copied().unwrap_or(false))
                        && matches(stack)
                };
                filter.stacks = Some(snapshot.stacks.ids().map(passes).collect());
            }
        }
        Ok(filter)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn keeps_stack(&self, stack: StackId) -> bool {
        self.stacks.as_ref().is_none_or(|stacks| stacks.get(stack.index()).copied().unwrap_or(false))
    }

    fn keeps_size(&self, size: u64) -> bool {
        size >= self.min_size && self.max_size.is_none_or(|max| size <= max)
    }

    /// Whether an allocation passes.
    pub(crate) fn keeps(&self, snapshot: &Snapshot, state: &State, allocation: &Allocation) -> bool {
        self.keeps_size(allocation.requested)
            && self.keeps_stack(allocation.stack)
            && self.stream.is_none_or(|stream| snapshot.stream(allocation.stream) == stream)
            && self.pool.is_none_or(|pool| {
                snapshot.pool(state.pool_of(allocation.addr, allocation.pool)) == Some(pool)
            })
    }

    /// Whether a segment passes: its pool and stream count, not its size.
    pub(crate) fn keeps_segment(&self, snapshot: &Snapshot, range: &Range) -> bool {
        self.stream.is_none_or(|stream| snapshot.stream(range.stream) == stream)
            && self.pool.is_none_or(|pool| snapshot.pool(range.pool) == Some(pool))
    }

    /// Whether an event passes.
    pub(crate) fn keeps_event(&self, snapshot: &Snapshot, event: &Event) -> bool {
        self.keeps_size(event.size)
            && self.keeps_stack(event.stack)
            && self.stream.is_none_or(|stream| snapshot.stream(event.stream) == stream)
            && self.pool.is_none_or(|pool| snapshot.pool(event.pool) == Some(pool))
    }
}

/// A pattern as it is typed: upper case only counts if there is some.
pub(crate) fn regex(pattern: &str) -> Result<Regex, String> {
    let is_lower = !pattern.chars().any(char::is_uppercase);
    RegexBuilder::new(pattern)
        .case_insensitive(is_lower)
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or("not a pattern").to_owned())
}

/// Whether a frame matches, as `file:line name`.
pub(crate) fn is_match(regex: &Regex, file: &str, line: u32, name: &str) -> bool {
    regex.is_match(&format!("{file}:{line} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_as_they_are_typed() {
        let snapshot = Snapshot::default();
        let filter = Filter::parse("size>=20MiB pool=1,0 stream=0x10", &snapshot).unwrap();
        assert_eq!((filter.min_size, filter.pool, filter.stream), (20 << 20, Some((1, 0)), Some(16)));
        assert!(Filter::parse("size>=20parsecs", &snapshot).unwrap_err().contains("unknown unit"));
        assert!(Filter::parse("pool=7", &snapshot).is_err());
        assert!(Filter::parse("stack=(", &snapshot).is_err());
        assert!(Filter::parse("  ", &snapshot).unwrap().is_empty());
    }

    #[test]
    fn case_counts_if_there_is_some() {
        assert!(regex("softmax").unwrap().is_match("Softmax"));
        assert!(!regex("Softmax").unwrap().is_match("softmax"));
    }
}
