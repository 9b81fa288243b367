//! The view as it moves: at once with the pointer, or gliding to a goal.

use vramscope_analysis::pictures::Axis;

use crate::view::View;

/// Animation length, in seconds.
const EASE: f64 = 0.12;

/// What is shown, and where it moves.
#[derive(Default)]
pub(crate) struct Camera {
    pub(crate) view: View,
    /// From where to where it glides, and since when.
    ease: Option<(View, View, f64)>,
    /// The bytes were chosen by hand, and do not follow what is shown.
    pub(crate) locked: bool,
    /// When the pointer or a key moved it last.
    moved: f64,
    /// The axis that the same stretch is being looked up on.
    pub(crate) converting: Option<Axis>,
}

impl Camera {
    /// Shows a view at once, with nothing else under way.
    pub(crate) fn start(&mut self, view: View, now: f64) {
        *self = Self { view, locked: self.locked, moved: now, ..Self::default() };
    }

    /// Moves at once.
    pub(crate) fn set(&mut self, view: View, now: f64) {
        self.ease = None;
        self.moved = now;
        self.view = view;
    }

    /// Moves with a short glide.
    pub(crate) fn glide(&mut self, goal: View, now: f64) {
        self.ease = Some((self.view, goal, now));
    }

    /// Moves without a glide, for eyes that motion disturbs.
    pub(crate) fn jump(&mut self, goal: View) {
        (self.view, self.ease) = (goal, None);
    }

    /// What is shown when a glide has come to its end.
    pub(crate) fn goal(&self) -> View {
        self.ease.map_or(self.view, |(_, goal, _)| goal)
    }

    /// Seconds since the pointer or a key moved it; none while it glides.
    pub(crate) fn rested(&self, now: f64) -> f64 {
        if self.ease.is_some() { 0.0 } else { now - self.moved }
    }

    /// Waits for the same stretch on another axis.
    pub(crate) fn convert_to(&mut self, axis: Axis) {
        self.converting = Some(axis);
        self.ease = None;
    }

    /// Goes on with a glide. Says whether it still moves.
    pub(crate) fn advance(&mut self, now: f64) -> bool {
        let Some((from, goal, since)) = self.ease else { return false };
        let share = ((now - since) / EASE).clamp(0.0, 1.0);
        self.view = from.towards(&goal, 1.0 - (1.0 - share).powi(3));
        if share >= 1.0 {
            (self.view, self.ease) = (goal, None);
        }
        true
    }
}
