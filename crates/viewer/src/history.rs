//! What was shown before: every change of the view can be undone, and done again.
//!
//! Moving the view with the pointer is one change, however long it takes: it counts when the pointer has let go and
//! the view has rested. Anything else counts at once, together with the movement that it starts.

use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{AllocIdx, Counter, Moment};
use vramscope_engine::color::ColorBy;

use crate::app::App;
use crate::isolate::Isolated;
use crate::select::Range;
use crate::view::View;
use crate::views::Tab;

/// A view that rested for this many seconds can be gone back to.
const REST: f64 = 0.35;
/// Changes that can be undone.
const MOST: usize = 200;

/// All that going back restores.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    device: usize,
    axis: Axis,
    x: (f64, f64),
    /// Bytes, if they were chosen by hand.
    y: Option<(f64, f64)>,
    isolated: Option<Isolated>,
    counter: Counter,
    color: Option<ColorBy>,
    tab: Tab,
    alloc: Option<AllocIdx>,
    range: Option<Range>,
}

impl Shown {
    /// Everything but the ranges of the axes.
    fn same_but_moved(&self, other: &Self) -> bool {
        let Self { axis, x, y, .. } = other.clone();
        Self { axis, x, y, ..self.clone() } == *other
    }
}

/// What was shown, with the cursor.
type Step = (Shown, Moment);

/// The changes so far.
#[derive(Default)]
pub(crate) struct History {
    past: Vec<Step>,
    future: Vec<Step>,
    /// What counts as shown now.
    current: Option<Step>,
    /// What the frame before showed, and since when.
    seen: Option<(Step, f64)>,
    /// When something other than the view changed last.
    changed: f64,
}

impl History {
    fn count(&mut self, step: Step) {
        if let Some(before) = self.current.replace(step) {
            self.past.push(before);
            self.future.clear();
            if self.past.len() > MOST {
                self.past.remove(0);
            }
        }
    }

    /// Counts what has rested since the frame before.
    fn settle(&mut self, now: f64) {
        let Some((seen, since)) = self.seen.clone() else { return };
        if self.current.as_ref().is_some_and(|(current, _)| *current == seen.0) || now - since < REST {
            return;
        }
        match since - self.changed < REST {
            // The movement that a change started belongs to it.
            true => self.current = Some(seen),
            false => self.count(seen),
        }
    }

    /// Takes note of what a frame shows. `held` says that the pointer is moving it.
    fn note(&mut self, step: Step, now: f64, held: bool) {
        let Some((current, _)) = &self.current else {
            (self.current, self.seen) = (Some(step.clone()), Some((step, now)));
            return;
        };
        if !current.same_but_moved(&step.0) {
            self.changed = now;
            self.seen = Some((step.clone(), now));
            self.count(step);
            return;
        }
        if !held {
            self.settle(now);
        }
        match &mut self.seen {
            Some((seen, _)) if seen.0 == step.0 => seen.1 = step.1,
            _ => self.seen = Some((step.clone(), now)),
        }
        if let Some((current, cursor)) = &mut self.current
            && *current == step.0
        {
            *cursor = step.1;
        }
    }

    fn go(&mut self, back: bool) -> Option<Step> {
        // What has not rested yet counts as well.
        self.settle(f64::INFINITY);
        let (from, to) =
            if back { (&mut self.past, &mut self.future) } else { (&mut self.future, &mut self.past) };
        let step = from.pop()?;
        to.extend(self.current.replace(step.clone()));
        self.seen = None;
        Some(step)
    }
}

impl App {
    fn shown(&self) -> Step {
        let View { axis, x, y } = self.camera.goal();
        let shown = Shown {
            device: self.files.current,
            axis,
            x,
            y: self.camera.locked.then_some(y),
            isolated: self.isolated.clone(),
            counter: self.settings.counter,
            color: self.settings.color,
            tab: self.settings.tab,
            alloc: self.selection.alloc,
            range: self.selection.range,
        };
        (shown, self.selection.cursor)
    }

    /// Takes note of what this frame shows.
    pub(crate) fn note_shown(&mut self, held: bool) {
        if self.device().is_some() && self.camera.converting.is_none() {
            let step = self.shown();
            self.history.note(step, self.now, held);
        }
    }

    /// Undoes the last change, or does it again.
    pub(crate) fn go(&mut self, back: bool) {
        let Some((shown, cursor)) = self.history.go(back) else {
            self.say(if back { "Nothing to undo" } else { "Nothing to do again" }.into());
            return;
        };
        if shown.device != self.files.current {
            let history = std::mem::take(&mut self.history);
            self.focus(shown.device);
            self.history = history;
        }
        self.settings.counter = shown.counter;
        if self.settings.color != shown.color {
            self.settings.color = shown.color;
            self.colors_version += 1;
        }
        self.settings.tab = shown.tab;
        self.isolated = shown.isolated;
        self.selection.alloc = shown.alloc;
        self.selection.range = shown.range;
        self.selection.cursor = cursor;
        self.parts.reveal = None;
        self.camera.locked = shown.y.is_some();
        let goal = View { axis: shown.axis, x: shown.x, y: shown.y.unwrap_or(self.camera.view.y) };
        if shown.axis == self.camera.view.axis {
            self.glide(goal);
        } else {
            self.settings.axis = shown.axis;
            self.set_view(goal);
        }
    }
}
