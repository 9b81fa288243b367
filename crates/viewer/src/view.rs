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

/// A tick: where, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) text: String,
}

/// Ticks of bytes, round in the unit that is shown: that of the upper end, or a smaller one for small steps.
pub(crate) fn byte_ticks(range: (f64, f64), most: usize) -> Vec<Tick> {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let least = (range.1 - range.0) / most.max(1) as f64;
    let top = (0..5).rev().find(|&unit| range.1 >= 1024_f64.powi(unit)).unwrap_or(0);
    // A step of less than a hundredth is better told in the next smaller unit.
    let unit = (0..=top).rev().find(|&unit| least >= 0.005 * 1024_f64.powi(unit)).unwrap_or(0);
    let size = 1024_f64.powi(unit);
    let mut step = 0.01;
    while step * size < least {
        step = next_round(step);
    }
    if unit == 0 {
        step = step.max(1.0);
    }
    let decimals = (0..3).find(|&n| is_whole(step * 10_f64.powi(n))).unwrap_or(2) as usize;
    let text = |at: f64| format!("{:.decimals$} {}", at / size, UNITS[unit as usize]);
    ticks(range, step * size)
        .map(|at| Tick { at, text: if at == 0.0 { "0".into() } else { text(at) } })
        .collect()
}

/// 1, 2, 5, 10, 20, …
fn next_round(step: f64) -> f64 {
    let leading = (step / 10_f64.powf(step.log10().floor() + 1e-9)).round();
    if leading == 2.0 { step * 2.5 } else { step * 2.0 }
}

fn is_whole(x: f64) -> bool {
    (x - x.round()).abs() < 1e-6
}

/// The number of the event that a place on the axis of events follows; 0 before the first.
pub(crate) fn event_at(x: f64) -> u64 {
    (x.max(0.0) as u64).saturating_sub(1)
}

/// Ticks of event numbers, where each takes effect: the moment *m* lies from *m* to *m* + 1 and follows event *m* - 1.
pub(crate) fn event_ticks(range: (f64, f64), most: usize) -> Vec<Tick> {
    let step = round_step((range.1 - range.0) / most.max(1) as f64, 10.0, &[1.0, 2.0, 5.0]).max(1.0);
    let events = (range.0.max(1.0) - 1.0, range.1 - 1.0);
    ticks(events, step)
        .map(|event| Tick { at: event + 1.0, text: vramscope_format::count(event as u64) })
        .collect()
}

/// Ticks of time since the first event.
pub(crate) fn time_ticks(range: (f64, f64), most: usize) -> Vec<Tick> {
    let step = round_step((range.1 - range.0) / most.max(1) as f64, 10.0, &[1.0, 2.0, 5.0]).max(1.0);
    ticks(range, step).map(|at| Tick { at, text: micros(at, step) }).collect()
}

/// Microseconds in the unit of a step, with as many digits as it needs.
fn micros(micros: f64, step: f64) -> String {
    let (unit, name) = match micros.abs().max(step) {
        x if x >= 1e6 => (1e6, "s"),
        x if x >= 1e3 => (1e3, "ms"),
        _ => (1.0, "µs"),
    };
    let decimals = (0..6).find(|&n| is_whole(step / unit * 10_f64.powi(n))).unwrap_or(3) as usize;
    format!("{:.decimals$} {name}", micros / unit)
}

/// The least round step that is not below `least`.
fn round_step(least: f64, base: f64, steps: &[f64]) -> f64 {
    let least = least.max(f64::MIN_POSITIVE);
    let mut unit = base.powf(least.log(base).floor().max(0.0));
    loop {
        if let Some(step) = steps.iter().map(|step| step * unit).find(|&step| step >= least) {
            return step;
        }
        unit *= base;
    }
}

fn ticks(range: (f64, f64), step: f64) -> impl Iterator<Item = f64> {
    let first = (range.0 / step).ceil();
    let count = ((range.1 / step).floor() - first + 1.0).clamp(0.0, 100.0) as usize;
    (0..count).map(move |n| (first + n as f64) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_in_the_unit_that_is_shown() {
        let texts = |ticks: Vec<Tick>| ticks.into_iter().map(|tick| tick.text).collect::<Vec<_>>();
        let gib = f64::from(1 << 30);
        assert_eq!(texts(byte_ticks((0.0, 4.1 * gib), 6)), ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]);
        assert_eq!(
            texts(byte_ticks((0.0, 1.21 * gib), 7)),
            ["0", "0.2 GiB", "0.4 GiB", "0.6 GiB", "0.8 GiB", "1.0 GiB", "1.2 GiB"]
        );
        assert_eq!(texts(byte_ticks((0.0, 700.0 * 1024.0), 5)), ["0", "200 KiB", "400 KiB", "600 KiB"]);
        assert_eq!(texts(time_ticks((0.0, 0.9e6), 5)), ["0 ms", "200 ms", "400 ms", "600 ms", "800 ms"]);
        assert_eq!(texts(event_ticks((9.5, 31_000.0), 4)), ["10 000", "20 000", "30 000"]);
        // Event 3 makes the moment 4.
        assert_eq!(event_ticks((2.0, 5.0), 3)[2], Tick { at: 4.0, text: "3".into() });
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
