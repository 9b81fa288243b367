//! Answers that stay small: what exceeds a budget of tokens is left out, and the answer says so.
//!
//! Verbs print as if there were no budget. The writer around their output keeps the head of every block of lines, so that
//! each section of an answer survives, and says at the end what is missing and which command shows it. Of JSON it
//! shortens the lists. Nothing is left out silently.

mod json;

use std::io::{self, Write};

use vramscope_format::{plural, printable, tokens};

/// Tokens of an answer where nobody asked for a number.
pub(crate) const DEFAULT: u64 = 1500;

/// What an answer may cost, and the command that shows all of it.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) tokens: u64,
    pub(crate) is_json: bool,
    pub(crate) command: String,
}

impl Budget {
    /// The estimate of tokens may be a seventh below the truth.
    fn allowed(&self) -> u64 {
        self.tokens - self.tokens / 7
    }
}

/// Keeps what fits.
pub(crate) enum Limited<'a> {
    Text(Text<'a>),
    Json(json::Json<'a>),
}

impl<'a> Limited<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, budget: Budget) -> Self {
        match budget.is_json {
            true => Self::Json(json::Json::new(out, budget)),
            false => Self::Text(Text::new(out, budget)),
        }
    }

    /// Writes what fits, and what does not.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Text(text) => text.finish(),
            Self::Json(json) => json.finish(),
        }
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Text(text) => text.take(bytes),
            Self::Json(json) => json.take(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines without an empty one between them: a paragraph or a table.
#[derive(Default)]
struct Block {
    lines: Vec<(String, u64)>,
    /// Tokens of those.
    tokens: u64,
    /// Lines that are not kept, since no budget has room for them.
    dropped: u64,
}

impl Block {
    fn push(&mut self, line: String, tokens: u64) {
        self.tokens += tokens;
        self.lines.push((line, tokens));
    }

    /// How many lines fit into some tokens: at least the first.
    fn fits(&self, tokens: u64) -> usize {
        let mut sum = 0;
        let fits = self.lines.iter().take_while(|(_, tokens_of)| {
            sum += tokens_of;
            sum <= tokens
        });
        fits.count().max(1).min(self.lines.len())
    }

    fn cost(&self, tokens: u64) -> u64 {
        let shown = self.fits(tokens);
        let cut = if shown < self.lines.len() || self.dropped > 0 { NOTE } else { 1 };
        self.lines.iter().take(shown).map(|(_, tokens)| tokens).sum::<u64>() + cut
    }
}

/// Tokens of the line that says what a block leaves out, and of the last line.
const NOTE: u64 = 8;
const LAST: u64 = 60;
/// Blocks that are kept before it is known which of them are shown.
const MOST_BLOCKS: usize = 4096;

/// A text on its way through a budget.
pub(crate) struct Text<'a> {
    out: &'a mut dyn Write,
    budget: Budget,
    line: Vec<u8>,
    blocks: Vec<Block>,
    /// Whether the next line begins a block.
    is_apart: bool,
    lines: u64,
    tokens: u64,
}

impl<'a> Text<'a> {
    fn new(out: &'a mut dyn Write, budget: Budget) -> Self {
        Self { out, budget, line: Vec::new(), blocks: Vec::new(), is_apart: true, lines: 0, tokens: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
        if line.is_empty() {
            self.is_apart = true;
            self.tokens += 1;
            return;
        }
        let cost = tokens(&line) + 1;
        self.lines += 1;
        self.tokens += cost;
        if self.is_apart && self.blocks.len() < MOST_BLOCKS {
            self.blocks.push(Block::default());
        }
        self.is_apart = false;
        let Some(block) = self.blocks.last_mut() else { return };
        // More of a block than the whole budget is never shown.
        match block.tokens <= self.budget.tokens {
            true => block.push(line, cost),
            false => block.dropped += 1,
        }
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.end_line();
        }
        let allowed = self.budget.allowed();
        if self.tokens <= allowed {
            return self.write(self.blocks.len(), u64::MAX).map(|_| ());
        }
        let room = allowed.saturating_sub(LAST);
        // Long blocks are cut first; if there are too many blocks, the last ones go.
        let cost = |blocks: usize, each: u64| -> u64 {
            self.blocks.iter().take(blocks).map(|block| block.cost(each)).sum()
        };
        let mut least = 0;
        let heads = self.blocks.iter().take_while(|block| {
            least += block.cost(0);
            least <= room
        });
        let blocks = heads.count().max(1);
        let (mut each, mut too_much) = (0, self.budget.tokens + 1);
        while each + 1 < too_much {
            let middle = each + (too_much - each) / 2;
            if cost(blocks, middle) <= room {
                each = middle;
            } else {
                too_much = middle;
            }
        }
        let shown = self.write(blocks, each)?;
        let left = plural(self.lines - shown, "line");
        let (budget, command) = (self.budget.tokens, &self.budget.command);
        // As many as there may be: what is left out is above the budget.
        let all = self.tokens + self.tokens / 6;
        writeln!(
            self.out,
            "\n… {left} left out: the answer has up to {} tokens, the budget is {budget}. All of it: {}",
            vramscope_format::count(all.max(budget + 1)),
            printable(command)
        )
    }

    /// Writes the first lines of the first blocks; returns how many.
    fn write(&mut self, blocks: usize, each: u64) -> io::Result<u64> {
        let mut shown = 0;
        for (number, block) in self.blocks.iter().take(blocks).enumerate() {
            if number > 0 {
                writeln!(self.out)?;
            }
            let fits = block.fits(each);
            for (line, _) in block.lines.iter().take(fits) {
                writeln!(self.out, "{line}")?;
            }
            shown += fits as u64;
            let left = (block.lines.len() - fits) as u64 + block.dropped;
            if left > 0 {
                writeln!(self.out, "  … {}", plural(left, "more line"))?;
            }
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(text: &str, tokens: u64) -> String {
        let mut out = Vec::new();
        let budget = Budget { tokens, is_json: false, command: "vramscope top FILE --budget 0".into() };
        let mut writer = Limited::new(&mut out, budget);
        // In pieces that do not end where lines do.
        text.as_bytes().chunks(7).for_each(|piece| writer.write_all(piece).unwrap());
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_fits_is_left_alone() {
        let text = "heading\n\n  one\n  two\n\nlast\n";
        assert_eq!(limited(text, 1000), text);
    }

    #[test]
    fn every_block_keeps_its_head_and_the_end_says_what_is_missing() {
        let rows: String = (0..500).map(|row| format!("  row {row}\n")).collect();
        let text = format!("heading\n\n{rows}\nadvice\n");
        let shown = limited(&text, 200);
        assert!(tokens(&shown) <= 200, "{shown}");
        for part in ["heading", "  row 0\n", "advice", "--budget 0"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let rows = shown.lines().filter(|line| line.starts_with("  row")).count();
        assert!(rows > 5 && shown.contains(&format!("  … {} more lines", 500 - rows)), "{shown}");
        assert!(shown.contains(&format!("… {} lines left out", 500 - rows)), "{shown}");
    }

    #[test]
    fn of_too_many_blocks_the_last_ones_go() {
        let text: String = (0..300).map(|row| format!("block {row}\n\n")).collect();
        let shown = limited(&text, 200);
        assert!(shown.starts_with("block 0\n\nblock 1\n") && tokens(&shown) <= 200, "{shown}");
        let kept = shown.lines().filter(|line| line.starts_with("block")).count();
        assert!(shown.contains(&format!("… {} lines left out", 300 - kept)), "{shown}");
    }
}
