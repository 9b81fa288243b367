//! The views: each file has what one view remembers, what keys do in it, and how it is drawn.

pub(crate) mod allocations;
pub(crate) mod chart;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod flame;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod insights;
pub(crate) mod pools;
pub(crate) mod ranks;
pub(crate) mod segments;
pub(crate) mod timeline;
pub(crate) mod tree;

pub(crate) use chart::{Shape, layout as timeline_layout};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use vramscope_analysis::{Line, Place};
use vramscope_snapshot::{FrameId, Has, Snapshot};

use crate::document::Subject;
use crate::theme::{Role, Theme};
use crate::words;

/// What frames of a tree are called.
#[derive(Clone, Copy)]
pub(crate) enum Names<'a> {
    Snapshot(&'a Snapshot),
    Lines(&'a [Line]),
}

impl Names<'_> {
    /// A place in a few words.
    pub(crate) fn short(self, place: Place) -> String {
        match (place, self) {
            (Place::Frame(frame), Self::Snapshot(snapshot)) => {
                words::frame(snapshot, snapshot.stacks.frame(frame))
            }
            (Place::Frame(frame), Self::Lines(lines)) => {
                lines.get(frame.index()).map(words::line).unwrap_or_default()
            }
            (other, Self::Snapshot(snapshot)) => other.words_in(snapshot).unwrap_or_default().to_owned(),
            (other, Self::Lines(_)) => other.words(Has::default()).unwrap_or_default().to_owned(),
        }
    }

    /// A place with its whole path.
    pub(crate) fn long(self, place: Place) -> String {
        match (place, self) {
            (Place::Frame(frame), Self::Snapshot(snapshot)) => {
                let frame = snapshot.stacks.frame(frame);
                words::long(snapshot.text(frame.file), frame.line, snapshot.text(frame.name))
            }
            (Place::Frame(frame), Self::Lines(lines)) => lines
                .get(frame.index())
                .map(|line| words::long(&line.file, line.line, &line.name))
                .unwrap_or_default(),
            (other, _) => self.short(other),
        }
    }

    /// For each frame whether it matches.
    pub(crate) fn matching(self, regex: &regex_lite::Regex) -> Vec<bool> {
        let len = match self {
            Self::Snapshot(snapshot) => snapshot.stacks.frame_count(),
            Self::Lines(lines) => lines.len(),
        };
        let is_match = |row: usize| match self {
            Self::Snapshot(snapshot) => {
                let frame = snapshot.stacks.frame(FrameId::from_index(row));
                crate::filter::is_match(
                    regex,
                    snapshot.text(frame.file),
                    frame.line,
                    snapshot.text(frame.name),
                )
            }
            Self::Lines(lines) => lines
                .get(row)
                .is_some_and(|line| crate::filter::is_match(regex, &line.file, line.line, &line.name)),
        };
        (0..len).map(is_match).collect()
    }
}

/// Writes a text at a place, cut to the width that there is. Returns the column after it.
pub(crate) fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    // An area may reach below a screen that is too small for it.
    let area = area.intersection(buffer.area);
    if y >= area.bottom() || x >= area.right() || y < area.y || x < area.x {
        return x;
    }
    buffer.set_stringn(x, y, text, (area.right() - x).into(), style).0
}

/// Writes a text that ends at the right edge, if there is room right of a column.
pub(crate) fn put_right(buffer: &mut Buffer, area: Rect, after: u16, y: u16, text: &str, style: Style) {
    use unicode_width::UnicodeWidthStr;
    let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
    if let Some(x) = area.right().checked_sub(width).filter(|&x| x > after) {
        put(buffer, area, x, y, text, style);
    }
}

/// Says in place of a map of memory that the file has none.
pub(crate) fn put_no_map(buffer: &mut Buffer, area: Rect, subject: Subject<'_>, theme: &Theme) {
    let format = words::printable(&subject.snapshot().format);
    let lines = [
        format!("Segments, holes and pools are not in this file ({format}): it lists blocks and totals."),
        "A snapshot has them:".into(),
        "    torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")".into(),
    ];
    for (row, line) in lines.iter().enumerate() {
        let at = row_of(area, row as u16);
        put(buffer, at, at.x, at.y, line, theme.style(if row == 0 { Role::Text } else { Role::Dim }));
    }
}

/// A row of an area; empty below it.
pub(crate) fn row_of(area: Rect, row: u16) -> Rect {
    if row >= area.height {
        return Rect::new(area.x, area.bottom(), area.width, 0);
    }
    Rect::new(area.x, area.y + row, area.width, 1)
}
