//! Answers before they are laid out: how wide and how colorful they are is decided when they are printed.
//!
//! An answer that is kept may be printed again on a terminal of any width, and into a pipe. So while one is recorded, what
//! depends on the terminal goes into the text as a [`Piece`]: JSON between two control characters, which no other text
//! has (`printable` takes them out), and colors go into it in any case. [`Laid`] makes of that what the terminal shows.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::table::Table;
use crate::{style, text};

const BEGIN: char = '\u{1}';
const END: char = '\u{2}';
const ESCAPE: char = '\u{1b}';

/// For the whole process: some answers are put together on several threads.
static RECORDING: AtomicBool = AtomicBool::new(false);

/// Whether an answer is recorded.
pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Records until it is dropped.
pub(crate) struct Recording(());

impl Recording {
    pub(crate) fn begin() -> Self {
        RECORDING.store(true, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDING.store(false, Ordering::Relaxed);
    }
}

/// What is laid out by the width of the terminal.
#[derive(Serialize, Deserialize)]
pub(crate) enum Piece<'a> {
    /// A text in lines that fit, the later ones indented.
    Wrapped {
        text: Cow<'a, str>,
        indent: usize,
    },
    /// The rest of a line.
    Cut(Cut<'a>),
    Table(Cow<'a, Table>),
    /// Texts, each with the columns from which on it is shown, in ascending order.
    Choice(Vec<(usize, String)>),
}

/// The rest of a line, in the columns that are left.
#[derive(Serialize, Deserialize)]
pub(crate) struct Cut<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Columns before it.
    pub(crate) taken: usize,
    /// Columns that it has in any case.
    pub(crate) least: usize,
    /// Steps of indentation: at most half of the columns that are left.
    pub(crate) depth: usize,
    pub(crate) keep: Keep,
}

/// Which part of a text stays.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Keep {
    Begin,
    End,
    /// The line and the function of a place.
    Place,
}

impl Cut<'_> {
    fn laid_out(&self, columns: usize) -> String {
        let room = columns.saturating_sub(self.taken);
        // However wide the line may be, a deep stack is not indented without end.
        let indent = "  ".repeat(self.depth.min(room.min(text::PIPED) / 4));
        let room = room.saturating_sub(indent.len()).max(self.least);
        let text = match self.keep {
            Keep::Begin => text::fit(&self.text, room),
            Keep::End => text::fit_end(&self.text, room),
            Keep::Place => text::elide(&self.text, room),
        };
        indent + &text
    }
}

impl Piece<'_> {
    /// What is printed: the piece itself while an answer is recorded.
    pub(crate) fn print(&self) -> String {
        match is_recording() {
            true => format!("{BEGIN}{}{END}", serde_json::to_string(self).unwrap_or_default()),
            false => self.laid_out(),
        }
    }

    fn laid_out(&self) -> String {
        match self {
            Self::Wrapped { text, indent } => text::wrap_at(text, *indent),
            Self::Cut(cut) => cut.laid_out(text::room()),
            Self::Table(table) => table.laid_out(text::room()),
            Self::Choice(texts) => {
                let columns = text::columns();
                let fitting = texts.iter().take_while(|(from, _)| *from <= columns).last();
                fitting.or(texts.first()).map(|(_, text)| lay_out(text)).unwrap_or_default()
            }
        }
    }
}

/// What is made for the largest of some widths that fits: one text, or all of them while an answer is recorded. The widths
/// are in ascending order.
pub(crate) fn choose(widths: &[usize], make: impl Fn(usize) -> String) -> String {
    if is_recording() {
        return Piece::Choice(widths.iter().map(|&columns| (columns, make(columns))).collect()).print();
    }
    let columns = text::columns();
    let fitting = widths.iter().take_while(|&&from| from <= columns).last();
    make(fitting.or(widths.first()).copied().unwrap_or(columns))
}

/// Lays out a text with pieces in it.
fn lay_out(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, piece, after)) = next_piece(rest) {
        out.push_str(before);
        if let Ok(piece) = serde_json::from_str::<Piece<'_>>(piece) {
            out.push_str(&piece.laid_out());
        }
        rest = after;
    }
    out.push_str(rest);
    if style::is_colored() { out } else { without_colors(&out) }
}

/// The first piece of a text, and what is around it.
fn next_piece(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (piece, after) = rest.split_once(END)?;
    Some((before, piece, after))
}

fn without_colors(text: &str) -> String {
    let mut parts = text.split(ESCAPE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Lays out a recorded answer on its way, line by line.
pub(crate) struct Laid<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
}

impl<'a> Laid<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, line: Vec::new() }
    }

    /// Writes what no end of a line followed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.pass_on()
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(lay_out(&String::from_utf8_lossy(&line)).as_bytes())
    }
}

impl Write for Laid<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.pass_on()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(text: &str) -> String {
        let mut out = Vec::new();
        let mut laid = Laid::new(&mut out);
        // In pieces that do not end where lines do.
        text.as_bytes().chunks(7).for_each(|piece| laid.write_all(piece).unwrap());
        laid.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn recorded(piece: &Piece<'_>) -> String {
        format!("{BEGIN}{}{END}", serde_json::to_string(piece).unwrap())
    }

    #[test]
    fn what_is_recorded_is_laid_out_when_it_is_printed() {
        let cut = Cut { text: "x".repeat(1000).into(), taken: 2, least: 8, depth: 1, keep: Keep::Begin };
        let text = format!(
            "a\n{}\n  \u{1b}[31mred\u{1b}[0m {}é",
            recorded(&Piece::Choice(vec![(0, "narrow".into()), (1 << 20, "wide".into())])),
            recorded(&Piece::Cut(cut)),
        );
        let shown = laid(&text);
        assert!(shown.starts_with("a\nnarrow\n  red   xxx"), "{shown}");
        // Nothing is cut where there is no screen.
        assert!(shown.ends_with(&format!(" {}é", "x".repeat(1000))), "{shown}");
    }

    #[test]
    fn pieces_lie_in_pieces() {
        let table = {
            let mut table = Table::new("where").column("bytes");
            table.row(["12".to_owned()], "train.py:8");
            table
        };
        let inner = recorded(&Piece::Table(Cow::Borrowed(&table)));
        let outer = recorded(&Piece::Choice(vec![(0, inner)]));
        assert_eq!(laid(&outer), "  bytes  where\n     12  train.py:8\n");
    }

    #[test]
    fn what_is_not_a_piece_changes_nothing() {
        assert_eq!(laid("a\u{1}b\n\u{1}{}\u{2}c\u{1b}[3"), "a\u{1}b\nc");
    }
}
