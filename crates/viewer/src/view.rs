//! Which part of a recording is shown: the ranges of both axes, zooming, panning, ticks.

use egui::{Pos2, Rect, pos2};
use serde::{Deserialize, Serialize};
use vramscope_analysis::Counter;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::Summary;

/// Fewer events, microseconds or bytes are not worth a screen.
const LEAST_EVENTS: f64 = 6.0;
const LEAST_MICROS: f64 = 6.0;
const LEAST_BYTES: f64 = 2048.0;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    pub(crate) axis: Axis,
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

/// How far a view may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub(crate) x: f64,
    pub(crate) y: f64,
    least_x: f64,
}

impl Limits {
    pub(crate) fn new(summary: &Summary, axis: Axis, capacity: Option<u64>) -> Self {
        let most = summary.highest().max(1) as f64;
        let most = most.max(capacity.unwrap_or_default() as f64);
        let least_x = match axis {
            Axis::Events => LEAST_EVENTS,
            Axis::Time => LEAST_MICROS,
        };
        Self { x: summary.length(axis), y: most * 1.08, least_x }
    }
}

impl View {
    /// Everything.
    pub(crate) fn whole(summary: &Summary, axis: Axis, counter: Counter) -> Self {
        let [x, y] = summary.whole(axis, counter);
        Self { axis, x, y }
    }

    /// The same view within its limits.
    #[must_use]
    pub(crate) fn clamped(mut self, limits: &Limits) -> Self {
        self.x = clamp(self.x, limits.x, limits.least_x);
        self.y = clamp(self.y, limits.y.max(self.y.1 - self.y.0), LEAST_BYTES);
        self
    }

    /// Zooms by factors, with the point under the pointer staying where it is.
    #[must_use]
    pub(crate) fn zoomed(mut self, rect: Rect, at: Pos2, factor: (f64, f64)) -> Self {
        let (x, y) = self.point(rect, at);
        self.x = (x + (self.x.0 - x) * factor.0, x + (self.x.1 - x) * factor.0);
        self.y = (y + (self.y.0 - y) * factor.1, y + (self.y.1 - y) * factor.1);
        self
    }

    /// Moves by shares of what is shown.
    #[must_use]
    pub(crate) fn moved(mut self, dx: f64, dy: f64) -> Self {
        let (wide, high) = (self.x.1 - self.x.0, self.y.1 - self.y.0);
        self.x = (self.x.0 + dx * wide, self.x.1 + dx * wide);
        self.y = (self.y.0 + dy * high, self.y.1 + dy * high);
        self
    }

    /// What lies at a point of the screen.
    pub(crate) fn point(&self, rect: Rect, at: Pos2) -> (f64, f64) {
        let share_x = f64::from((at.x - rect.left()) / rect.width().max(1.0));
        let share_y = f64::from((rect.bottom() - at.y) / rect.height().max(1.0));
        (self.x.0 + share_x * (self.x.1 - self.x.0), self.y.0 + share_y * (self.y.1 - self.y.0))
    }

    /// Where something lies on the screen.
    pub(crate) fn screen(&self, rect: Rect, x: f64, y: f64) -> Pos2 {
        pos2(self.screen_x(rect, x), self.screen_y(rect, y))
    }

    pub(crate) fn screen_x(&self, rect: Rect, x: f64) -> f32 {
        rect.left() + ((x - self.x.0) / (self.x.1 - self.x.0)) as f32 * rect.width()
    }

    pub(crate) fn screen_y(&self, rect: Rect, y: f64) -> f32 {
        rect.bottom() - ((y - self.y.0) / (self.y.1 - self.y.0)) as f32 * rect.height()
    }

    /// On the way to another view.
    #[must_use]
    pub(crate) fn towards(&self, goal: &Self, share: f64) -> Self {
        let mix = |a: (f64, f64), b: (f64, f64)| (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share);
        Self { axis: goal.axis, x: mix(self.x, goal.x), y: mix(self.y, goal.y) }
    }
}

fn clamp(range: (f64, f64), most: f64, least: f64) -> (f64, f64) {
    let wide = (range.1 - range.0).clamp(least.min(most), most.max(least));
    let middle = (range.0 + range.1) / 2.0;
    let low = if range.1 - range.0 == wide { range.0 } else { middle - wide / 2.0 };
    let low = low.clamp(0.0, (most - wide).max(0.0));
    (low, low + wide)
}

/// The number of the event that a place on the axis of events follows; 0 before the first.
pub(crate) fn event_at(x: f64) -> u64 {
    (x.max(0.0) as u64).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_on_the_axis_of_events_follows_one() {
        assert_eq!([event_at(4.0), event_at(4.9), event_at(0.5)], [3, 3, 0]);
    }

    #[test]
    fn zooming_keeps_the_point_under_the_pointer() {
        let view = View { axis: Axis::Events, x: (0.0, 1000.0), y: (0.0, 100.0) };
        let rect = Rect::from_min_max(pos2(0.0, 0.0), pos2(100.0, 100.0));
        let at = pos2(25.0, 90.0);
        let zoomed = view.zoomed(rect, at, (0.5, 0.5));
        assert_eq!(view.point(rect, at), zoomed.point(rect, at));
        assert_eq!(zoomed.x, (125.0, 625.0));
    }

    #[test]
    fn a_view_stays_inside() {
        let limits = Limits { x: 100.0, y: 1e9, least_x: 6.0 };
        let view = View { axis: Axis::Events, x: (-50.0, 20.0), y: (-5.0, 1e6) };
        assert_eq!(view.clamped(&limits).x, (0.0, 70.0));
        assert_eq!(
            View { x: (50.0, 51.0), ..view }.clamped(&limits).x,
            (47.5, 53.5),
            "never less than six events"
        );
    }
}
