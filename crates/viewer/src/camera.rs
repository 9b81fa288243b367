//! The view as it moves: at once with the pointer, gliding to a goal, back and forward again.

use vramscope_analysis::pictures::Axis;

use crate::view::View;

/// Animation length, in seconds.
const EASE: f64 = 0.12;
/// A view that was still for this many seconds can be gone back to.
const SETTLE: f64 = 0.35;
/// Views that can be gone back to.
const MOST_VIEWS: usize = 100;

/// What is shown, and where it moves.
#[derive(Default)]
pub(crate) struct Camera {
    pub(crate) view: View,
    /// From where to where it glides, and since when.
    ease: Option<(View, View, f64)>,
    past: Vec<View>,
    future: Vec<View>,
    /// The view that came last, and since when.
    settled: (View, f64),
    /// The axis that the same stretch is being looked up on.
    pub(crate) converting: Option<Axis>,
}

impl Camera {
    /// Shows a view without anything to go back to.
    pub(crate) fn start(&mut self, view: View, now: f64) {
        *self = Self { view, settled: (view, now), ..Self::default() };
    }

    /// Moves at once.
    pub(crate) fn set(&mut self, view: View) {
        self.ease = None;
        self.view = view;
    }

    /// Moves with a short glide.
    pub(crate) fn glide(&mut self, goal: View, now: f64) {
        self.ease = Some((self.view, goal, now));
    }

    /// Waits for the same stretch on another axis.
    pub(crate) fn convert_to(&mut self, axis: Axis) {
        self.converting = Some(axis);
        self.ease = None;
    }

    /// Goes on with a glide and keeps what lasted a while. Says whether it still moves.
    pub(crate) fn advance(&mut self, now: f64) -> bool {
        let moves = self.ease.is_some();
        if let Some((from, goal, since)) = self.ease {
            let share = ((now - since) / EASE).clamp(0.0, 1.0);
            self.view = from.towards(&goal, 1.0 - (1.0 - share).powi(3));
            if share >= 1.0 {
                self.set(goal);
            }
        }
        if self.settled.0 != self.view {
            let lasted = now - self.settled.1 > SETTLE && self.ease.is_none();
            if lasted && self.settled.0.x.1 > 0.0 && self.settled.0.axis == self.view.axis {
                self.past.push(self.settled.0);
                self.future.clear();
                if self.past.len() > MOST_VIEWS {
                    self.past.remove(0);
                }
            }
            self.settled = (self.view, now);
        }
        moves
    }

    /// Back to the view before, or forward again.
    pub(crate) fn go(&mut self, back: bool, now: f64) {
        let (from, to) =
            if back { (&mut self.past, &mut self.future) } else { (&mut self.future, &mut self.past) };
        if let Some(view) = from.pop() {
            to.push(self.view);
            self.ease = Some((self.view, view, now));
            self.settled = (view, now);
        }
    }
}
