//! The whole run in a strip; the brush is what is shown below.

use egui::{CursorIcon, Id, Rect, Sense, Shape, Stroke, Ui, pos2};
use vramscope_analysis::pictures::Axis;
use vramscope_engine::{AskCurve, Stretch};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::blend;
use crate::view::{Limits, View};
use crate::views::GUTTER;
use crate::views::timeline::steps;

/// How near to an edge of the brush a press takes hold of it.
const GRIP: f32 = 6.0;

/// What is being moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Grip {
    #[default]
    None,
    Left,
    Right,
    Whole,
    /// A new brush from here.
    New(f64),
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, rect: Rect) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    let strip = Rect::from_min_max(pos2(rect.left() + GUTTER, rect.top()), rect.max);
    let limits = Limits::new(&summary, app.camera.view.axis, None);
    let top = summary.highest().max(1) as f64;
    let whole = View { axis: app.camera.view.axis, x: (0.0, limits.x), y: (0.0, top * 1.05) };
    let width = (strip.width() * ui.pixels_per_point()).round() as u32;
    let stretch = Stretch { axis: whole.axis, x: whole.x, width };
    let painter = ui.painter_at(strip);
    painter.rect_filled(strip, 2.0, blend(palette.ground, palette.panel, 0.6));
    let answer = app.requests.want(Slot::Minimap, AskCurve { of, stretch });
    if let Some(answer) = answer {
        let (curve, counter) = (&answer.value, app.settings.counter);
        let line = steps(&whole, strip, curve, |counters| counters[counter]);
        // The area as columns: a polygon of many corners would not be convex.
        let mut mesh = egui::Mesh::default();
        let fill = palette.accent.gamma_multiply(if palette.dark { 0.42 } else { 0.35 });
        for pair in line.chunks_exact(2) {
            let (left, right) = (pair[0], pair[1]);
            mesh.add_colored_rect(Rect::from_min_max(left, pos2(right.x, strip.bottom())), fill);
        }
        painter.add(Shape::mesh(mesh));
        let held = steps(&whole, strip, curve, |counters| counters.reserved);
        painter.line(held, Stroke::new(1.0, palette.dim.gamma_multiply(0.8)));
    }
    for oom in &summary.ooms {
        let x = if app.camera.view.axis == Axis::Time { oom.time as f64 } else { f64::from(oom.at.0) };
        let x = whole.screen_x(strip, x).round() + 0.5;
        painter.vline(x, strip.y_range(), Stroke::new(1.5, palette.danger));
    }
    let brush = Rect::from_x_y_ranges(
        whole.screen_x(strip, app.camera.view.x.0)..=whole.screen_x(strip, app.camera.view.x.1),
        strip.y_range(),
    );
    let veil = palette.ground.gamma_multiply(0.62);
    for side in [strip.left()..=brush.left(), brush.right()..=strip.right()] {
        painter.rect_filled(Rect::from_x_y_ranges(side, strip.y_range()), 0.0, veil);
    }
    painter.rect_stroke(
        brush,
        2.0,
        Stroke::new(1.0, palette.accent.gamma_multiply(0.9)),
        egui::StrokeKind::Inside,
    );
    if let Some(x) = app.cursor_x() {
        let x = whole.screen_x(strip, x).round() + 0.5;
        painter.vline(x, strip.y_range(), Stroke::new(1.0, palette.accent));
    }
    drag(app, ui, strip, brush, &whole);
}

fn drag(app: &mut App, ui: &mut Ui, strip: Rect, brush: Rect, whole: &View) {
    let response = ui.interact(strip, Id::unique("minimap"), Sense::click_and_drag());
    let share = |x: f64| vramscope_format::percent((x / whole.x.1.max(1.0)).clamp(0.0, 1.0));
    let x = app.camera.view.x;
    let words = || format!("The whole run; shown is {} to {} of it", share(x.0), share(x.1));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, words()));
    let Some(at) = response.interact_pointer_pos().or(response.hover_pos()) else { return };
    let near = |x: f32| (at.x - x).abs() < GRIP;
    let under = match at.x {
        _ if near(brush.left()) => Grip::Left,
        _ if near(brush.right()) => Grip::Right,
        x if brush.x_range().contains(x) && brush.width() < strip.width() - 2.0 => Grip::Whole,
        _ => Grip::New(whole.point(strip, at).0),
    };
    if response.drag_started() {
        app.parts.grip = under;
    }
    let (x, _) = whole.point(strip, at);
    if response.dragged() {
        let mut view = app.camera.view;
        match app.parts.grip {
            Grip::Left => view.x.0 = x.min(view.x.1 - 1.0),
            Grip::Right => view.x.1 = x.max(view.x.0 + 1.0),
            Grip::Whole => {
                let moved = f64::from(response.drag_delta().x / strip.width()) * (whole.x.1 - whole.x.0);
                view.x = (view.x.0 + moved, view.x.1 + moved);
            }
            Grip::New(from) => view.x = (from.min(x), from.max(x)),
            Grip::None => {}
        }
        app.set_view(view);
    } else if response.clicked() {
        let wide = app.camera.view.x.1 - app.camera.view.x.0;
        app.glide(View { x: (x - wide / 2.0, x + wide / 2.0), ..app.camera.view });
    }
    if response.double_clicked() {
        app.fit();
    }
    ui.ctx().set_cursor_icon(match under {
        Grip::Left | Grip::Right => CursorIcon::ResizeHorizontal,
        Grip::Whole => CursorIcon::Grab,
        Grip::New(_) | Grip::None => CursorIcon::Crosshair,
    });
}
