//! What changed between two moments, of one file or of two, as a call tree.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::{CallTree, DiffTree, Direction, Line, Moment, no_frame};
use vramscope_format::{bytes, change, fit_end, width};
use vramscope_snapshot::StackId;

use super::tree::{Columns, Look, draw_rows};
use super::{Names, put, row_of};
use crate::branches::Branches;
use crate::document::Subject;
use crate::live::{ActiveFilter, Live};
use crate::outline::Outline;
use crate::theme::{Role, Theme};

/// One side of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) at: Moment,
}

impl Side<'_> {
    fn tree(&self, direction: Direction, hide_internal: bool) -> CallTree {
        let live = Live::new(self.subject, self.at, &ActiveFilter::default());
        let keep = |frame| self.subject.doc.shows(frame, hide_internal);
        CallTree::new(self.subject.snapshot(), &live.weights, direction, keep)
    }

    fn name(&self, is_one_file: bool) -> String {
        let moment = self.subject.moment_name(self.at);
        if is_one_file { moment } else { format!("{} {moment}", self.subject.doc.title()) }
    }

    fn key(&self) -> (std::path::PathBuf, usize, Moment) {
        (self.subject.doc.opened.path.clone(), self.subject.device, self.at)
    }
}

type Key = ((std::path::PathBuf, usize, Moment), (std::path::PathBuf, usize, Moment), bool, bool);

#[derive(Default)]
pub(crate) struct Diff {
    pub(crate) tree: Branches,
    pub(crate) lines: Vec<Line>,
    /// What is said where there is no stack, and where there is no frame.
    missing: [&'static str; 2],
    pub(crate) hide_internal: bool,
    pub(crate) inverted: bool,
    names: [String; 2],
    /// The same where there is little room.
    short_names: [String; 2],
    totals: [i64; 2],
    made_for: Option<Key>,
}

impl Diff {
    pub(crate) fn new() -> Self {
        Self { hide_internal: true, ..Self::default() }
    }

    pub(crate) fn refresh(&mut self, before: Side<'_>, after: Side<'_>, height: usize) {
        let key = (before.key(), after.key(), self.hide_internal, self.inverted);
        if self.made_for.as_ref() != Some(&key) {
            let direction = if self.inverted { Direction::Inverted } else { Direction::TopDown };
            let (a, b) =
                (before.tree(direction, self.hide_internal), after.tree(direction, self.hide_internal));
            let diff = DiffTree::new((before.subject.snapshot(), &a), (after.subject.snapshot(), &b));
            self.tree.replace(Outline::of_diff(&diff));
            self.lines = diff.lines;
            let snapshot = after.subject.snapshot();
            self.missing = [StackId::ABSENT, StackId::EMPTY].map(|stack| no_frame(snapshot, stack));
            let is_one_file = std::ptr::eq(before.subject.doc, after.subject.doc);
            self.names = [before, after].map(|side| side.name(is_one_file));
            let moments = [before, after].map(|side| side.subject.moment_name(side.at));
            self.short_names = match (is_one_file, moments) {
                (true, moments) => moments,
                (false, [a, b]) => [format!("A {a}"), format!("B {b}")],
            };
            self.totals = [before, after].map(|side| side.subject.replay().counters(side.at).requested);
            self.made_for = Some(key);
        }
        self.tree.list.scroll(self.tree.rows.len(), height);
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names::Lines(&self.lines, self.missing)
    }

    pub(crate) fn title(&self) -> String {
        let [before, after] = &self.names;
        let difference = self.totals[1].saturating_sub(self.totals[0]);
        format!(
            "{}: {} {}, {} {}",
            change(difference),
            before,
            bytes(self.totals[0]),
            after,
            bytes(self.totals[1])
        )
    }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, diff: &Diff, theme: &Theme) {
    let first = row_of(area, 0);
    let difference = diff.totals[1].saturating_sub(diff.totals[0]);
    let role = match difference {
        0 => Role::Dim,
        1.. => Role::Danger,
        _ => Role::Fine,
    };
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let mut x = put(buffer, first, first.x, first.y, &change(difference), theme.style(role));
    x = put(buffer, first, x, first.y, " requested  ", text);
    let [from, to] = diff.totals.map(bytes);
    let words = |[before, after]: &[String; 2]| format!("{before} ({from}) → {after} ({to})");
    let room = usize::from(first.right().saturating_sub(x));
    let names = Some(words(&diff.names)).filter(|words| width(words) <= room);
    let names = names.unwrap_or_else(|| words(&diff.short_names));
    x = put(buffer, first, x, first.y, &fit_end(&names, room), dim);
    if let Some((at, of)) = diff.tree.standing() {
        put(buffer, first, x + 2, first.y, &format!("match {at} of {of}"), theme.style(Role::Match));
    }
    let list = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let look = Look { columns: Columns::Diff, inverted: diff.inverted };
    draw_rows(buffer, list, &diff.tree, diff.names(), look, "nothing was live at either moment", theme);
}
