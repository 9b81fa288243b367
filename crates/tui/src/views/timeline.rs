//! Memory over the trace: what is shown, and where the cursor is.

use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::query::Pattern;
use vramscope_analysis::{Counter, Counters, Extremes, Moment, is_internal_phase};

use vramscope_engine::Stretch;

use crate::branches::Towards;
use crate::document::{MarkKind, Subject};
use crate::keys::Action;
use crate::live::Glance;
use crate::means::Sums;

/// What runs along the axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Moments, in trace order.
    #[default]
    Events,
    /// Microseconds.
    Time,
}

/// One column of the chart: the moments that it stands for, and the true extremes among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    pub(crate) min: Counters,
    pub(crate) max: Counters,
    /// The mean over its moments, once it is known.
    pub(crate) mean: Option<Sums>,
    /// Requested bytes of each category at the moment of the column at which they are highest together.
    pub(crate) parts: [u64; DEFAULT_CATEGORIES.len()],
}

impl Column {
    /// What two that follow each other stand for together.
    fn joined(self, other: Self) -> Self {
        let moments = |column: &Self| f64::from(column.to.0.saturating_sub(column.from.0)) + 1.0;
        let (a, b) = (moments(&self), moments(&other));
        let mean = self.mean.zip(other.mean);
        let higher = if other.max.requested > self.max.requested { other.parts } else { self.parts };
        Self {
            from: self.from,
            to: other.to,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            mean: mean.map(|(first, second)| {
                std::array::from_fn(|counter| (first[counter] * a + second[counter] * b) / (a + b))
            }),
            parts: higher,
        }
    }
}

/// Requested bytes of each category at a moment.
pub(crate) fn parts_at(subject: Subject<'_>, at: Moment) -> [u64; DEFAULT_CATEGORIES.len()] {
    let analysis = subject.analysis();
    std::array::from_fn(|category| {
        analysis.and_then(|analysis| analysis.levels.get(category)).map_or(0, |levels| levels.at(at))
    })
}

/// The farthest that times are from 1970, and from each other: 36 000 years.
const FARTHEST: i64 = 1 << 60;

/// Fewest steps of the axis on the screen.
const LEAST_WIDTH: i64 = 4;

#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) counter: Counter,
    pub(crate) axis: Axis,
    /// First and last step of the axis on the screen: moments, or microseconds.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Where the cursor is, on the axis.
    cursor: i64,
    /// The moment under the cursor. It is chosen when the cursor moves, and stays when the screen changes: a column
    /// of another width stands for other moments.
    at: Moment,
    /// The phases that a search found.
    pub(crate) phases: Option<FoundPhases>,
    /// The heaviest lines under the cursor, once they are known.
    pub(crate) glance: Option<Glance>,
    /// Bytes at the bottom of the chart.
    pub(crate) floor: i64,
    /// Whether the chart is scaled to what is shown.
    pub(crate) fit_y: bool,
    columns: Vec<Column>,
    /// The halves of the columns, where the axis has steps for them: what is drawn.
    halves: Vec<Column>,
    /// The whole axis, where a part of it is shown: the most of each column.
    whole: Vec<i64>,
    /// What the columns were worked out for.
    made_for: Option<(usize, Axis, i64, i64, usize)>,
}

impl Timeline {
    /// The whole trace, with the cursor where memory ran out, or else at the peak.
    pub(crate) fn new(subject: Subject<'_>) -> Self {
        let replay = subject.replay();
        let mut timeline = Self::showing(0, i64::from(replay.end().0));
        let oom = replay.ooms().last().map(|oom| Moment::after(oom.event));
        timeline.go_to(subject, oom.unwrap_or(replay.peak(Counter::Requested).at));
        timeline
    }

    /// A stretch of events, with the cursor where it begins.
    fn showing(from: i64, to: i64) -> Self {
        Self {
            counter: Counter::Requested,
            axis: Axis::Events,
            from,
            to,
            cursor: from,
            at: Moment::START,
            phases: None,
            glance: None,
            floor: 0,
            fit_y: false,
            columns: Vec::new(),
            halves: Vec::new(),
            whole: Vec::new(),
            made_for: None,
        }
    }

    /// The ends of the axis.
    pub(crate) fn bounds(&self, subject: Subject<'_>) -> (i64, i64) {
        match self.axis {
            Axis::Events => (0, i64::from(subject.replay().end().0)),
            Axis::Time => {
                let (first, last) = subject.index().times.range().unwrap_or((0, 0));
                // A file may say anything; beyond these, steps of the axis could not be counted.
                let first = first.clamp(-FARTHEST, FARTHEST);
                (first, last.clamp(first, first + FARTHEST))
            }
        }
    }

    fn width(&self) -> i64 {
        (self.to - self.from).max(0) + 1
    }

    /// Works out the columns, unless they are the same as before.
    pub(crate) fn refresh(&mut self, subject: Subject<'_>, columns: usize) {
        let key = (subject.device, self.axis, self.from, self.to, columns);
        if self.made_for == Some(key) {
            return;
        }
        let has_halves = self.width() >= columns as i64 * 2;
        let stretches = self.stretches(subject, if has_halves { columns * 2 } else { columns });
        let extremes = subject.replay().extremes_of(Counter::Requested, stretches.iter().copied());
        let means = subject.analysis().map(|analysis| &analysis.means);
        let means = means.map(|means| means.of_each(subject.replay(), &stretches));
        let mut means = means.unwrap_or_default().into_iter();
        let column = |(&(from, to), Extremes { min, max, highest, .. }): (&(Moment, Moment), Extremes)| {
            Column { from, to, min, max, mean: means.next(), parts: parts_at(subject, highest) }
        };
        let made: Vec<Column> = stretches.iter().zip(extremes).map(column).collect();
        (self.columns, self.halves) = match has_halves {
            true => (made.chunks_exact(2).map(|pair| pair[0].joined(pair[1])).collect(), made),
            false => (made, Vec::new()),
        };
        self.made_for = Some(key);
        self.whole = Vec::new();
        if self.is_zoomed(subject) {
            let (first, last) = self.bounds(subject);
            let whole = Self { axis: self.axis, ..Self::showing(first, last) };
            let extremes = subject.replay().extremes_of(self.counter, whole.stretches(subject, columns));
            self.whole = extremes.map(|extremes| extremes.max[self.counter]).collect();
        }
    }

    /// The moments that each column stands for. A column begins with the moment that the one before it ended with.
    fn stretches(&self, subject: Subject<'_>, columns: usize) -> Vec<(Moment, Moment)> {
        let mut before: Option<(i64, Moment)> = None;
        let stretch = |number: usize| {
            let steps = self.steps(number, columns);
            let known = before.filter(|(last, _)| *last + 1 == steps.0).map(|(_, at)| at);
            let (from, to) = self.moments_after(subject, steps, known);
            before = Some((steps.1, to));
            (from, to)
        };
        (0..columns).map(stretch).collect()
    }

    /// What is shown, as the engine takes it.
    pub(crate) fn stretch(&self, subject: Subject<'_>, columns: usize) -> Stretch {
        let (first, _) = self.bounds(subject);
        let axis = match self.axis {
            Axis::Events => vramscope_engine::Axis::Events,
            Axis::Time => vramscope_engine::Axis::Time,
        };
        let x = ((self.from - first) as f64, (self.to - first + 1) as f64);
        Stretch { axis, x, width: columns as u32 }
    }

    /// The columns have to be worked out again.
    pub(crate) fn forget_columns(&mut self) {
        self.made_for = None;
    }

    /// Whether only a part of the axis is shown.
    pub(crate) fn is_zoomed(&self, subject: Subject<'_>) -> bool {
        (self.from, self.to) != self.bounds(subject)
    }

    /// The whole axis in columns, where a part of it is shown: the most of each, and which of them are shown.
    pub(crate) fn whole(&self, subject: Subject<'_>) -> (&[i64], std::ops::Range<usize>) {
        let (first, last) = self.bounds(subject);
        let (all, columns) = ((last - first + 1).max(1) as f64, self.whole.len() as f64);
        let column = |step: i64| ((step - first) as f64 / all * columns) as usize;
        let from = column(self.from).min(self.whole.len().saturating_sub(1));
        (&self.whole, from..(column(self.to) + 1).clamp(from + 1, self.whole.len().max(from + 1)))
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The left and the right half of a column; twice the same where it has only one step.
    pub(crate) fn halves(&self, number: usize) -> Option<[&Column; 2]> {
        match self.halves.get(number * 2..number * 2 + 2) {
            Some([left, right]) => Some([left, right]),
            _ => self.columns.get(number).map(|column| [column, column]),
        }
    }

    /// The steps of the axis that a column stands for, both ends included.
    fn steps(&self, number: usize, columns: usize) -> (i64, i64) {
        let (width, columns) = (i128::from(self.width()), columns.max(1) as i128);
        let start = |number: usize| (number as i128 * width / columns) as i64;
        let first = self.from.saturating_add(start(number));
        (first, first.max(self.from.saturating_add(start(number + 1)) - 1))
    }

    /// The moments between two steps of the axis; on the time axis also what was before the first.
    fn moments(&self, subject: Subject<'_>, steps: (i64, i64)) -> (Moment, Moment) {
        self.moments_after(subject, steps, None)
    }

    /// The same where the last moment of the step before is known: along time, looking one up is most of the work.
    fn moments_after(
        &self,
        subject: Subject<'_>,
        (from, to): (i64, i64),
        known: Option<Moment>,
    ) -> (Moment, Moment) {
        let end = subject.replay().end();
        match self.axis {
            Axis::Events => {
                let moment = |step: i64| Moment(u32::try_from(step.max(0)).unwrap_or(u32::MAX)).min(end);
                (moment(from), moment(to))
            }
            Axis::Time => {
                let (times, events) = (&subject.index().times, subject.events());
                let first = known.unwrap_or_else(|| times.at(events, from.saturating_sub(1)));
                // Nothing comes after the last time, wherever the last events without a time are.
                let last = if to >= self.bounds(subject).1 { end } else { times.at(events, to) };
                (first, last.max(first))
            }
        }
    }

    /// The column in which a step of the axis is, if it is on the screen.
    pub(crate) fn column_of(&self, step: i64, columns: usize) -> Option<usize> {
        if step < self.from || step > self.to || columns == 0 {
            return None;
        }
        let (offset, width) = (i128::from(step - self.from), i128::from(self.width()));
        let columns = columns as i128;
        // The last column that begins at or before the step; if a step has several, the first of these.
        let column = if width >= columns {
            ((offset + 1) * columns - 1) / width
        } else {
            (offset * columns + width - 1) / width
        };
        Some(column.clamp(0, columns - 1) as usize)
    }

    /// The column in which a moment is, or the nearest one on the screen.
    pub(crate) fn clipped_column(&self, subject: Subject<'_>, at: Moment, columns: usize) -> Option<usize> {
        self.column_of(self.step_of(subject, at).clamp(self.from, self.to), columns)
    }

    /// Where a moment is on the axis.
    pub(crate) fn step_of(&self, subject: Subject<'_>, at: Moment) -> i64 {
        match self.axis {
            Axis::Events => i64::from(at.0),
            Axis::Time => {
                let (first, last) = self.bounds(subject);
                let time =
                    if at == subject.replay().end() { last } else { subject.time(at).unwrap_or(first) };
                time.clamp(first, last)
            }
        }
    }

    /// The column of the cursor.
    pub(crate) fn cursor_column(&self, columns: usize) -> Option<usize> {
        self.column_of(self.cursor, columns)
    }

    /// The moment under the cursor.
    pub(crate) fn at(&self) -> Moment {
        self.at
    }

    /// Puts the cursor at a moment and shows it.
    pub(crate) fn go_to(&mut self, subject: Subject<'_>, at: Moment) {
        self.at = at.min(subject.replay().end());
        self.cursor = self.step_of(subject, self.at);
        self.keep_cursor_shown(subject);
    }

    /// Puts the cursor on a column that is shown, at the moment at which the column is highest.
    fn choose(&mut self, subject: Subject<'_>, column: usize, columns: usize) {
        let steps = self.steps(column, columns);
        let (from, to) = self.moments(subject, steps);
        self.at = subject.replay().highest(self.counter, from, to);
        // Along time, what is highest may be what was there before the column.
        self.cursor = self.step_of(subject, self.at).clamp(steps.0, steps.1);
    }

    /// Moves the view so that the cursor is in it, and the view inside the axis.
    fn keep_cursor_shown(&mut self, subject: Subject<'_>) {
        let width = self.width();
        let (first, last) = self.bounds(subject);
        self.cursor = self.cursor.clamp(first, last);
        if self.cursor < self.from || self.cursor > self.to {
            // Far jumps put the cursor in the middle; steps over the edge go on by a quarter.
            let is_near = self.cursor >= self.from - width / 4 && self.cursor <= self.to + width / 4;
            self.from = match (is_near, self.cursor < self.from) {
                (false, _) => self.cursor - width / 2,
                (true, true) => self.cursor - width / 4,
                (true, false) => self.cursor - width * 3 / 4,
            };
        }
        self.set_view(subject, self.from, width);
    }

    fn set_view(&mut self, subject: Subject<'_>, from: i64, width: i64) {
        let (first, last) = self.bounds(subject);
        let width = width.clamp(LEAST_WIDTH.min(last - first + 1), last - first + 1);
        self.from = from.clamp(first, (last + 1 - width).max(first));
        self.to = self.from + width - 1;
    }

    /// Shows a stretch of another pane's axis, with its cursor; for panes that move together. Both count from
    /// their own beginning.
    pub(crate) fn follow(&mut self, subject: Subject<'_>, other: &Self, others: Subject<'_>) {
        if other.axis == Axis::Time && subject.index().times.range().is_none() {
            return;
        }
        if self.axis != other.axis {
            self.set_axis(subject, other.axis);
        }
        self.counter = other.counter;
        let offset = self.bounds(subject).0 - other.bounds(others).0;
        let last = self.bounds(subject).1;
        self.cursor = (other.cursor + offset).min(last);
        self.at = match self.axis {
            Axis::Events => other.at.min(subject.replay().end()),
            Axis::Time => self.moments(subject, (self.cursor, self.cursor)).1,
        };
        self.set_view(subject, other.from + offset, other.width());
        (self.floor, self.fit_y) = (other.floor, other.fit_y);
        self.keep_cursor_shown(subject);
    }

    fn set_axis(&mut self, subject: Subject<'_>, axis: Axis) {
        let at = self.at;
        let (from, to) = self.moments(subject, (self.from, self.to));
        let was_whole = (self.from, self.to) == self.bounds(subject);
        self.axis = axis;
        let (from, to) = match was_whole {
            true => self.bounds(subject),
            false => (self.step_of(subject, from), self.step_of(subject, to)),
        };
        self.set_view(subject, from, to - from + 1);
        self.go_to(subject, at);
    }

    /// The bytes at the top of the chart.
    pub(crate) fn top(&self, subject: Subject<'_>) -> i64 {
        let highest = |counters: Counters| counters[self.counter].max(counters.reserved);
        let top = if self.fit_y {
            self.columns.iter().map(|column| highest(column.max)).max().unwrap_or(0)
        } else {
            let peak = |counter| subject.replay().peak(counter).bytes;
            peak(self.counter).max(peak(Counter::Reserved))
        };
        // The capacity is shown where it is near; far above, it would press the chart flat.
        match subject.index().capacity.map(|capacity| capacity.bytes) {
            Some(capacity) if capacity > top && capacity / 4 < top / 3 && !self.fit_y => capacity,
            _ => top.max(1),
        }
    }

    /// Does what a key asks. Says what there is to say.
    pub(crate) fn act(&mut self, subject: Subject<'_>, action: Action, columns: usize) -> Option<String> {
        let page = columns.max(1) as i64;
        match action {
            Action::Left => self.step(subject, -1, columns),
            Action::Right => self.step(subject, 1, columns),
            Action::JumpLeft => self.step(subject, -15, columns),
            Action::JumpRight => self.step(subject, 15, columns),
            Action::Previous => self.step(subject, -(page / 4).max(1), columns),
            Action::Next => self.step(subject, (page / 4).max(1), columns),
            Action::PageUp => self.step(subject, -page, columns),
            Action::PageDown => self.step(subject, page, columns),
            Action::First => self.go_to(subject, Moment::START),
            Action::Last | Action::End => self.go_to(subject, subject.replay().end()),
            Action::PanLeft => self.pan(subject, -(self.width() / 4).max(1)),
            Action::PanRight => self.pan(subject, (self.width() / 4).max(1)),
            Action::ZoomIn | Action::ZoomOut => {
                // The view may have been moved away from the cursor.
                self.keep_cursor_shown(subject);
                self.zoom(subject, self.cursor, if action == Action::ZoomIn { 0.5 } else { 2.0 });
            }
            Action::Fit => {
                let (first, last) = self.bounds(subject);
                (self.from, self.to) = (first, last);
            }
            Action::Up | Action::Down => {
                let step = ((self.top(subject) - self.floor) / 10).max(1);
                let by = if action == Action::Up { step } else { -step };
                self.floor = self.floor.saturating_add(by).clamp(0, self.top(subject) / 100 * 99);
            }
            Action::ResetY => (self.floor, self.fit_y) = (0, false),
            Action::FitY => {
                self.fit_y = !self.fit_y;
                self.floor = 0;
                if self.fit_y {
                    let lowest =
                        self.columns.iter().map(|column| column.min[self.counter]).min().unwrap_or(0);
                    self.floor = lowest.max(0) / 10 * 9;
                }
            }
            Action::Counter => {
                let at = Counter::ALL.iter().position(|&counter| counter == self.counter).unwrap_or(0);
                let others = Counter::ALL.iter().cycle().skip(at + 1).take(Counter::ALL.len());
                let next = others.copied().find(|&counter| subject.has_counter(counter));
                self.counter = next.unwrap_or(self.counter);
            }
            Action::Axis => {
                if self.axis == Axis::Events && subject.index().times.range().is_none_or(|(a, b)| a == b) {
                    return Some("the events of this recording have no times".into());
                }
                let other = if self.axis == Axis::Events { Axis::Time } else { Axis::Events };
                self.set_axis(subject, other);
            }
            Action::Peak => self.go_to(subject, subject.replay().peak(self.counter).at),
            Action::NextOom | Action::PreviousOom => {
                match next_oom(subject, self.at, action == Action::NextOom) {
                    Some(found) => self.go_to(subject, found),
                    None => return Some(NO_OOM.into()),
                }
            }
            Action::NextMark | Action::PreviousMark => {
                match next_mark(subject, self.at, action == Action::NextMark) {
                    Some(mark) => self.go_to(subject, mark),
                    None => return Some("no more marks".into()),
                }
            }
            _ => {}
        }
        None
    }

    /// Moves the cursor by columns. Over the edge of the screen it takes the view with it.
    fn step(&mut self, subject: Subject<'_>, by: i64, columns: usize) {
        let (width, columns) = (self.width(), columns.max(1));
        let (first, last) = self.bounds(subject);
        let target = if width <= columns as i64 {
            self.cursor.saturating_add(by)
        } else {
            // The view may have been moved away from the cursor: then its column is left of the screen, or right of it.
            let column = match self.column_of(self.cursor, columns) {
                Some(column) => column as i128,
                None => (i128::from(self.cursor - self.from) * columns as i128).div_euclid(i128::from(width)),
            };
            let start = ((column + i128::from(by)) * i128::from(width)).div_euclid(columns as i128);
            self.from.saturating_add(i64::try_from(start).unwrap_or(0))
        };
        // The last column ends with the last event; a step further is the moment after it.
        if target >= last {
            return self.go_to(subject, subject.replay().end());
        }
        if target <= first && by < 0 {
            return self.go_to(subject, Moment::START);
        }
        self.cursor = target;
        self.keep_cursor_shown(subject);
        if let Some(column) = self.column_of(self.cursor, columns) {
            self.choose(subject, column, columns);
        }
    }

    fn pan(&mut self, subject: Subject<'_>, by: i64) {
        self.set_view(subject, self.from.saturating_add(by), self.width());
    }

    /// Shows what lies around a share of the whole axis.
    pub(crate) fn center(&mut self, subject: Subject<'_>, share: f64) {
        let (first, last) = self.bounds(subject);
        let middle = first.saturating_add((last.saturating_sub(first) as f64 * share) as i64);
        self.set_view(subject, middle.saturating_sub(self.width() / 2), self.width());
    }

    /// Makes the view wider or narrower by a factor, with a step of the axis where it is on the screen.
    pub(crate) fn zoom(&mut self, subject: Subject<'_>, around: i64, factor: f64) {
        let around = around.clamp(self.from, self.to);
        let before = self.width();
        let (first, last) = self.bounds(subject);
        let width = (before as f64 * factor).round().max(LEAST_WIDTH as f64) as i64;
        let width = width.min(last - first + 1);
        // Rounded down, the step is never beyond the last column.
        let offset = i128::from(around - self.from) * i128::from(width) / i128::from(before);
        self.set_view(subject, around - i64::try_from(offset).unwrap_or(0), width);
    }

    /// Puts the cursor on a column, as a click does.
    pub(crate) fn point(&mut self, subject: Subject<'_>, column: usize, columns: usize) {
        self.choose(subject, column, columns);
    }

    /// Whether the cursor is in a column; zoomed in far, a step of the axis has several.
    pub(crate) fn is_at(&self, column: usize, columns: usize) -> bool {
        let (first, last) = self.steps(column, columns);
        (first..=last).contains(&self.cursor)
    }

    /// Zooms at a column, as the wheel does.
    pub(crate) fn zoom_at(&mut self, subject: Subject<'_>, column: usize, columns: usize, factor: f64) {
        let around = self.steps(column, columns).0;
        self.zoom(subject, around, factor);
    }

    /// What is marked in a column: the most severe one.
    pub(crate) fn mark_in(subject: Subject<'_>, column: &Column) -> Option<MarkKind> {
        let marks = &subject.index().marks;
        // A mark is a moment after an event, so the first moment of a column belongs to the column before.
        let start = marks.partition_point(|mark| mark.at < column.from);
        let end = marks.partition_point(|mark| mark.at <= column.to);
        let inside = marks.get(start..end).unwrap_or_default();
        // Columns may hold thousands of marks; the most severe are looked up by themselves.
        let ooms = subject.replay().ooms();
        let oom = ooms.get(ooms.partition_point(|oom| Moment::after(oom.event) < column.from));
        let has_oom = oom.is_some_and(|oom| Moment::after(oom.event) <= column.to);
        if has_oom { Some(MarkKind::Oom) } else { inside.first().map(|mark| mark.kind) }
    }
}

/// What is said where a jump to a failed allocation finds none.
pub(crate) const NO_OOM: &str = "memory never ran out in this recording";

/// The phases whose name matches a search, in order of beginning.
#[derive(Debug)]
pub(crate) struct FoundPhases {
    begins: Vec<Moment>,
}

impl FoundPhases {
    /// Phases that PyTorch marks by itself count only where no other matches, as in moments that are typed.
    pub(crate) fn new(subject: Subject<'_>, pattern: &Pattern) -> Self {
        let snapshot = subject.snapshot();
        let spans = subject.index().spans.iter();
        let found: Vec<_> = spans
            .filter(|span| pattern.is_match(vramscope_format::phase(snapshot.text(span.name))))
            .map(|span| (span.from, is_internal_phase(snapshot.text(span.name))))
            .collect();
        let all_internal = found.iter().all(|(_, is_internal)| *is_internal);
        let kept = found.into_iter().filter(|(_, is_internal)| all_internal || !is_internal);
        let mut begins: Vec<Moment> = kept.map(|(from, _)| from).collect();
        begins.sort_unstable();
        Self { begins }
    }

    pub(crate) fn len(&self) -> usize {
        self.begins.len()
    }

    /// The first one at or after a moment, or the next in either direction, around the ends.
    pub(crate) fn find(&self, from: Moment, towards: Towards) -> Option<Moment> {
        let begins = &self.begins;
        match towards {
            Towards::Here => begins.iter().find(|&&at| at >= from).or(begins.first()).copied(),
            Towards::Next => begins.iter().find(|&&at| at > from).or(begins.first()).copied(),
            Towards::Previous => begins.iter().rev().find(|&&at| at < from).or(begins.last()).copied(),
        }
    }

    /// How many have begun at a moment.
    pub(crate) fn begun(&self, at: Moment) -> usize {
        self.begins.partition_point(|&begin| begin <= at)
    }
}

/// The next failed allocation in a direction, going round at the ends.
pub(crate) fn next_oom(subject: Subject<'_>, at: Moment, forwards: bool) -> Option<Moment> {
    let mut moments = subject.replay().ooms().iter().map(|oom| Moment::after(oom.event));
    let ooms = subject.replay().ooms();
    if forwards {
        moments.find(|&moment| moment > at).or_else(|| ooms.first().map(|oom| Moment::after(oom.event)))
    } else {
        moments.rfind(|&moment| moment < at).or_else(|| ooms.last().map(|oom| Moment::after(oom.event)))
    }
}

/// The nearest mark in a direction: a segment, a failed allocation, or the beginning or end of a phase.
fn next_mark(subject: Subject<'_>, at: Moment, forwards: bool) -> Option<Moment> {
    let index = subject.index();
    let marks = &index.marks;
    let borders = index.spans.iter().flat_map(|span| [span.from, span.to]);
    if forwards {
        let mark = marks.get(marks.partition_point(|mark| mark.at <= at)).map(|mark| mark.at);
        borders.filter(|&border| border > at).chain(mark).min()
    } else {
        let before = marks.partition_point(|mark| mark.at < at).checked_sub(1);
        let mark = before.and_then(|row| marks.get(row)).map(|mark| mark.at);
        borders.filter(|&border| border < at).chain(mark).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_cover_every_step_once_or_a_step_has_several() {
        for (from, to, columns) in [(0, 338, 170), (5, 5, 10), (0, 9, 10), (7, 1_000_000, 399), (0, 3, 80)] {
            let timeline = Timeline::showing(from, to);
            let mut expected = from;
            for column in 0..columns {
                let (first, last) = timeline.steps(column, columns);
                assert!(first <= last && last <= to, "column {column} of {columns} in {from}..={to}");
                if timeline.width() >= columns as i64 {
                    assert_eq!(first, expected, "no step is left out");
                    expected = last + 1;
                }
                // A step is found in the first of its columns.
                let found = timeline.column_of(first, columns).unwrap();
                assert!(found <= column && timeline.steps(found, columns).0 == first);
            }
            let (_, last) = timeline.steps(columns - 1, columns);
            assert_eq!(last, to, "the last column ends with the last step");
        }
    }

    #[test]
    fn what_is_not_shown_has_no_column() {
        let timeline = Timeline::showing(10, 20);
        assert_eq!(timeline.column_of(9, 80), None);
        assert_eq!(timeline.column_of(21, 80), None);
        assert_eq!(timeline.column_of(10, 80), Some(0));
    }
}
