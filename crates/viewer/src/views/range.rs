//! A marked range of the axis, and the ruler.

use egui::{Align2, CursorIcon, Id, Painter, Rect, Sense, Stroke, Ui, pos2};
use vramscope_analysis::pictures::Axis;
use vramscope_format::{bytes, change, count, duration, plural, since};

use crate::app::App;
use crate::select::Range;
use crate::theme::Palette;
use crate::view::event_at;
use crate::views::marks::tag;

impl App {
    /// Marks a range of the axis, from either end.
    pub(crate) fn mark_range(&mut self, from: f64, to: f64) {
        let x = (from.min(to).max(0.0), from.max(to));
        let axis = self.camera.view.axis;
        self.selection.range = (x.1 > x.0).then_some(Range { axis, x });
    }

    /// The range that is marked on the axis that is shown.
    pub(crate) fn marked(&self) -> Option<Range> {
        self.selection.range.filter(|range| range.axis == self.camera.view.axis)
    }
}

/// The numbers below a picture: a drag marks a range, a click removes it.
pub(crate) fn axis(app: &mut App, ui: &Ui, plot: Rect, rect: Rect) {
    let strip = Rect::from_x_y_ranges(plot.x_range(), plot.bottom()..=rect.bottom());
    let response = ui
        .interact(strip, Id::unique("axis"), Sense::click_and_drag())
        .on_hover_text_at_pointer("Drag to mark a range");
    if response.hovered() || response.dragged() {
        ui.ctx().set_cursor_icon(CursorIcon::ResizeHorizontal);
    }
    let (from, to) = ui.input(|input| (input.pointer.press_origin(), input.pointer.latest_pos()));
    if response.dragged()
        && let (Some(from), Some(to)) = (from, to)
    {
        let x = |at: egui::Pos2| app.camera.view.point(plot, plot.clamp(at)).0;
        app.mark_range(x(from), x(to));
    }
    if response.clicked() {
        app.selection.range = None;
    }
}

/// How long a stretch of an axis is, in words.
pub(crate) fn length(axis: Axis, x: (f64, f64)) -> String {
    match axis {
        Axis::Events => plural((x.1 - x.0).abs() as u64, "event"),
        Axis::Time => duration((x.1 - x.0).abs() as i64),
    }
}

/// The marked range over the picture, with how far memory rose in it.
pub(crate) fn band(app: &App, painter: &Painter, plot: Rect) {
    let Some(range) = app.marked() else { return };
    let (palette, view) = (app.palette(), &app.camera.view);
    let (left, right) = (view.screen_x(plot, range.x.0), view.screen_x(plot, range.x.1));
    let band = Rect::from_x_y_ranges(left..=right, plot.y_range());
    painter.rect_filled(band, 0.0, palette.accent.gamma_multiply(0.10));
    for x in [left, right] {
        painter.vline(x.round() + 0.5, plot.y_range(), Stroke::new(1.0, palette.accent));
    }
    let mut text = length(range.axis, range.x);
    if let Some(span) = app.marked_change() {
        text = format!("{}, {text}", change(span.net));
    }
    let at = pos2(band.center().x.clamp(plot.left() + 90.0, plot.right() - 90.0), plot.bottom() - 6.0);
    tag(painter, at, Align2::CENTER_BOTTOM, &text, palette.text, &palette);
}

/// Both ends of what is measured, and the difference.
pub(crate) fn ruler(app: &App, painter: &Painter, plot: Rect, palette: &Palette) {
    let Some(ruler) = app.selection.ruler.filter(|ruler| ruler.axis == app.camera.view.axis) else { return };
    let (a, b) = (
        app.camera.view.screen(plot, ruler.from.0, ruler.from.1),
        app.camera.view.screen(plot, ruler.to.0, ruler.to.1),
    );
    let rect = Rect::from_two_pos(a, b);
    let stroke = Stroke::new(1.0, palette.select);
    painter.rect_filled(rect, 0.0, palette.select.gamma_multiply(0.08));
    for corner in [a, b] {
        painter.vline(corner.x, plot.y_range(), Stroke::new(1.0, palette.select.gamma_multiply(0.6)));
        painter.hline(plot.x_range(), corner.y, Stroke::new(1.0, palette.select.gamma_multiply(0.6)));
    }
    painter.line_segment([a, b], stroke);
    let x = |x: f64| match ruler.axis {
        Axis::Events => format!("event {}", count(event_at(x))),
        Axis::Time => since(x as i64, 3),
    };
    let across = length(ruler.axis, (ruler.from.0, ruler.to.0));
    for (corner, point) in [(a, ruler.from), (b, ruler.to)] {
        let text = format!("{} · {}", bytes(point.1 as i64), x(point.0));
        let left = corner.x > plot.center().x;
        let align = if left { Align2::RIGHT_BOTTOM } else { Align2::LEFT_BOTTOM };
        let at = pos2(corner.x + if left { -6.0 } else { 6.0 }, corner.y - 4.0);
        tag(painter, at, align, &text, palette.text, palette);
    }
    let delta = format!("Δ {} · {across}", bytes((ruler.to.1 - ruler.from.1).abs() as i64));
    tag(painter, rect.center(), Align2::CENTER_CENTER, &delta, palette.select, palette);
}
