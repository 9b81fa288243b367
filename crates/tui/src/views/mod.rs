//! The views: each file has what one view remembers, what keys do in it, and how it is drawn.

pub(crate) mod allocations;
mod bars;
pub(crate) mod chart;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod flame;
pub(crate) mod heat;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod insights;
pub(crate) mod pools;
pub(crate) mod ranks;
pub(crate) mod segments;
pub(crate) mod timeline;
pub(crate) mod tree;
pub(crate) mod whatif;

pub(crate) use chart::{Shape, layout as timeline_layout};

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use vramscope_analysis::query::Pattern;
use vramscope_analysis::{Line, Place, is_of_program};
use vramscope_format::{fit, frame_text, printable, share, width};
use vramscope_snapshot::{Frame, FrameId, Snapshot};

use crate::document::Subject;
use crate::theme::{Role, Theme};

/// A frame with its whole path.
pub(crate) fn frame_long(snapshot: &Snapshot, frame: Frame) -> String {
    printable(&frame_text(snapshot.text(frame.file), frame.line, snapshot.text(frame.name)))
}

/// A share for a column of numbers.
pub(crate) fn share_cell(part: u64, whole: u64) -> String {
    format!("{:>5}", share(part, whole))
}

/// What frames of a tree are called.
#[derive(Clone, Copy)]
pub(crate) enum Names<'a> {
    Snapshot(&'a Snapshot),
    /// Lines of a diff, and what is said where there is no stack or no frame.
    Lines(&'a [Line], [&'static str; 2]),
}

impl Names<'_> {
    /// A place in a few words.
    pub(crate) fn short(self, place: Place) -> String {
        match (place, self) {
            (Place::Frame(frame), Self::Snapshot(snapshot)) => {
                printable(&Line::new(snapshot, snapshot.stacks.frame(frame)).short())
            }
            (Place::Frame(frame), Self::Lines(lines, _)) => {
                lines.get(frame.index()).map(|line| printable(&line.short())).unwrap_or_default()
            }
            (other, Self::Snapshot(snapshot)) => other.words_in(snapshot).unwrap_or_default().to_owned(),
            (Place::NoStack, Self::Lines(_, [no_stack, _])) => no_stack.to_owned(),
            (Place::NoFrame, Self::Lines(_, [_, no_frame])) => no_frame.to_owned(),
            (Place::Root, Self::Lines(..)) => "all".to_owned(),
        }
    }

    /// A place as file, line and function; words take the place of the function where there is none.
    pub(crate) fn line(self, place: Place) -> Line {
        match (place, self) {
            (Place::Frame(frame), Self::Snapshot(snapshot)) => {
                Line::new(snapshot, snapshot.stacks.frame(frame))
            }
            (Place::Frame(frame), Self::Lines(lines, _)) => {
                lines.get(frame.index()).cloned().unwrap_or_default()
            }
            (other, _) => Line { name: self.short(other), ..Line::default() },
        }
    }

    /// Whether a place is a line of the program itself, and not of a package.
    pub(crate) fn is_of_program(self, place: Place) -> bool {
        match (place, self) {
            (Place::Frame(frame), Self::Snapshot(snapshot)) => {
                let frame = snapshot.stacks.frame(frame);
                is_of_program(snapshot.text(frame.name), snapshot.text(frame.file))
            }
            (Place::Frame(frame), Self::Lines(lines, _)) => {
                lines.get(frame.index()).is_some_and(|line| is_of_program(&line.name, &line.file))
            }
            _ => false,
        }
    }

    /// A place with its whole path.
    pub(crate) fn long(self, place: Place) -> String {
        match (place, self) {
            (Place::Frame(frame), Self::Snapshot(snapshot)) => {
                frame_long(snapshot, snapshot.stacks.frame(frame))
            }
            (Place::Frame(frame), Self::Lines(lines, _)) => lines
                .get(frame.index())
                .map(|line| printable(&frame_text(&line.file, line.line, &line.name)))
                .unwrap_or_default(),
            (other, _) => self.short(other),
        }
    }

    /// For each frame whether it matches.
    pub(crate) fn matching(self, pattern: &Pattern) -> Vec<bool> {
        match self {
            Self::Snapshot(snapshot) => {
                let frames = (0..snapshot.stacks.frame_count()).map(FrameId::from_index);
                frames.map(|id| matches_frame(pattern, snapshot, snapshot.stacks.frame(id))).collect()
            }
            Self::Lines(lines, _) => {
                let is_match = |line: &Line| pattern.matches_frame(&line.file, line.line, &line.name);
                lines.iter().map(is_match).collect()
            }
        }
    }
}

/// Whether a frame matches a search.
pub(crate) fn matches_frame(pattern: &Pattern, snapshot: &Snapshot, frame: Frame) -> bool {
    pattern.matches_frame(snapshot.text(frame.file), frame.line, snapshot.text(frame.name))
}

/// Writes a text at a place; where it is wider than what there is, it ends in an ellipsis. Returns the column after it.
pub(crate) fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    // An area may reach below a screen that is too small for it.
    let area = area.intersection(buffer.area);
    if y >= area.bottom() || x >= area.right() || y < area.y || x < area.x {
        return x;
    }
    let room = usize::from(area.right() - x);
    let is_cut = width(text.trim_end()) > room;
    let shown: Cow<'_, str> = if is_cut { fit(text, room).into() } else { text.into() };
    #[cfg(test)]
    crate::tests::written(buffer, (x, y), &shown, text);
    buffer.set_stringn(x, y, shown, room, style).0
}

/// Marks a row as selected. A bar in it stays as it is: reversed, it would be as long as what is not there.
pub(crate) fn select(buffer: &mut Buffer, line: Rect, theme: &Theme) {
    buffer.set_style(line, theme.style(Role::Selected));
    let line = line.intersection(buffer.area);
    for (x, y) in line.positions().map(|position| (position.x, position.y)) {
        if let Some(cell) = buffer.cell_mut((x, y))
            && cell.symbol().starts_with(|c| ('▀'..='▟').contains(&c))
        {
            cell.modifier.remove(Modifier::REVERSED);
        }
    }
}

/// Writes a text that ends at the right edge, if there is room right of a column.
pub(crate) fn put_right(buffer: &mut Buffer, area: Rect, after: u16, y: u16, text: &str, style: Style) {
    let columns = u16::try_from(width(text)).unwrap_or(u16::MAX);
    if let Some(x) = area.right().checked_sub(columns).filter(|&x| x > after) {
        put(buffer, area, x, y, text, style);
    }
}

/// Shown instead of a map of memory where the file has none.
pub(crate) fn put_no_map(buffer: &mut Buffer, area: Rect, subject: Subject<'_>, theme: &Theme) {
    let format = printable(&subject.snapshot().format);
    let lines = [
        format!("This file ({format}) has blocks and totals, but no segments, holes or pools."),
        "A snapshot has them. To record one:".into(),
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
