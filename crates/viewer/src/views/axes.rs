//! Gridlines and the numbers beside them.

use egui::{Align2, Painter, Rect, Stroke, pos2};
use vramscope_analysis::pictures::Axis;
use vramscope_format::ticks::{Tick, byte_ticks, event_ticks, time_ticks};

use crate::theme::{self, Palette};
use crate::view::View;

/// Points between two ticks, at the least.
const APART_X: f32 = 110.0;
const APART_Y: f32 = 52.0;
/// A low chart has them closer: one number alone is no scale.
const LEAST_Y: usize = 3;

/// Lines of bytes, with numbers in the gutter.
pub(crate) fn bytes(painter: &Painter, view: &View, rect: Rect, palette: &Palette) {
    let most = (rect.height() / APART_Y) as usize;
    for tick in byte_ticks(view.y, most.max(LEAST_Y)) {
        let y = view.screen_y(rect, tick.at).round() + 0.5;
        if y < rect.top() + 4.0 {
            continue;
        }
        painter.hline(rect.x_range(), y, Stroke::new(1.0, palette.line.gamma_multiply(0.8)));
        painter.text(pos2(rect.left() - 8.0, y), Align2::RIGHT_CENTER, tick.text, theme::tick(), palette.dim);
    }
}

/// Lines of events or time.
pub(crate) fn lines(painter: &Painter, view: &View, rect: Rect, palette: &Palette) {
    for (x, _) in places(view, rect) {
        painter.vline(x, rect.y_range(), Stroke::new(1.0, palette.line.gamma_multiply(0.5)));
    }
}

/// Numbers of events or time below a picture.
pub(crate) fn numbers(painter: &Painter, view: &View, rect: Rect, palette: &Palette) {
    let mut left = rect.left() - 2.0;
    for (x, text) in places(view, rect) {
        painter.vline(x, rect.bottom()..=rect.bottom() + 4.0, Stroke::new(1.0, palette.line));
        let galley = painter.layout_no_wrap(text, theme::tick(), palette.dim);
        // Below its line, but for the last, which may have no room to its right.
        let at = (x - galley.size().x / 2.0).min(painter.clip_rect().right() - 1.0 - galley.size().x);
        left = left.min(at);
        painter.galley(pos2(at, rect.bottom() + 5.0), galley, palette.dim);
    }
    let what = if view.axis == Axis::Events { "events" } else { "time" };
    painter.text(pos2(left - 6.0, rect.bottom() + 5.0), Align2::RIGHT_TOP, what, theme::small(), palette.dim);
}

fn places(view: &View, rect: Rect) -> Vec<(f32, String)> {
    let most = ((rect.width() / APART_X) as usize).max(1);
    let ticks = match view.axis {
        Axis::Events => event_ticks(view.x, most),
        Axis::Time => time_ticks(view.x, most),
    };
    let place = |tick: Tick| (view.screen_x(rect, tick.at).round() + 0.5, tick.text);
    ticks.into_iter().map(place).filter(|(x, _)| *x >= rect.left() && *x <= rect.right()).collect()
}
