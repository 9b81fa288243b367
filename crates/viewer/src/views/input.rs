//! The mouse on a picture: wheel, drags, boxes, the ruler.

use egui::{CursorIcon, Key, PointerButton, Rect, Ui};

use crate::app::App;
use crate::select::Ruler;
use crate::view::View;
use crate::views::timeline::Drag;

/// One notch of the wheel.
const NOTCH: f64 = 0.88;

/// Wheel, drags, clicks.
pub(crate) fn timeline(app: &mut App, ui: &mut Ui, plot: Rect, response: &egui::Response) {
    if let Some(touch) =
        ui.input(egui::InputState::multi_touch).filter(|touch| plot.contains(touch.center_pos))
    {
        // Two fingers: what lies between them stays there.
        let pinched = app.camera.view.zoomed(
            plot,
            touch.center_pos,
            (1.0 / f64::from(touch.zoom_delta.max(0.01)), 1.0),
        );
        app.set_view(pinched.moved(f64::from(-touch.translation_delta.x / plot.width()), 0.0));
        app.parts.timeline.drag = Drag::None;
        return;
    }
    let (modifiers, measuring) = ui.input(|input| (input.modifiers, input.key_down(Key::R)));
    if response.drag_started_by(PointerButton::Primary)
        && let Some(at) = ui.input(|input| input.pointer.press_origin())
    {
        app.parts.timeline.drag = if measuring {
            let from = app.camera.view.point(plot, at);
            app.selection.ruler = Some(Ruler { from, to: from, axis: app.camera.view.axis });
            Drag::Measure
        } else if modifiers.command {
            Drag::Box(at)
        } else if modifiers.shift {
            Drag::Range(app.camera.view.point(plot, at).0)
        } else {
            Drag::Pan
        };
    }
    let pointer = ui.input(|input| input.pointer.latest_pos());
    match app.parts.timeline.drag {
        Drag::Pan if response.dragged() => {
            let moved = response.drag_delta();
            // Bytes that follow what is shown do not follow the pointer.
            let up = if app.camera.locked { f64::from(moved.y / plot.height()) } else { 0.0 };
            app.set_view(app.camera.view.moved(f64::from(-moved.x / plot.width()), up));
            ui.ctx().set_cursor_icon(CursorIcon::Grabbing);
        }
        Drag::Measure if response.dragged() => {
            if let (Some(ruler), Some(at)) = (&mut app.selection.ruler, pointer) {
                ruler.to = app.camera.view.point(plot, plot.clamp(at));
            }
        }
        Drag::Range(from) if response.dragged() => {
            if let Some(at) = pointer {
                let to = app.camera.view.point(plot, plot.clamp(at)).0;
                app.mark_range(from, to);
            }
        }
        _ => {}
    }
    if response.drag_stopped() {
        if let (Drag::Box(from), Some(to)) = (app.parts.timeline.drag, pointer) {
            let (a, b) = (app.camera.view.point(plot, from), app.camera.view.point(plot, plot.clamp(to)));
            let size = (to - from).abs();
            if size.x > 5.0 {
                let mut view = View { x: (a.0.min(b.0), a.0.max(b.0)), ..app.camera.view };
                if size.y > 8.0 {
                    app.camera.locked = true;
                    view.y = (a.1.min(b.1), a.1.max(b.1));
                }
                app.glide(view);
            }
        }
        app.parts.timeline.drag = Drag::None;
    }
    if response.contains_pointer() {
        wheel(app, ui, plot);
    }
    if response.double_clicked() {
        app.fit();
    }
}

/// The wheel zooms the x axis at the pointer, and bytes follow; with Shift it zooms bytes, with Ctrl or Alt both.
/// Sideways it pans.
pub(crate) fn wheel(app: &mut App, ui: &Ui, plot: Rect) {
    let Some(at) = ui.input(|input| input.pointer.hover_pos()) else { return };
    let (moves, pinch) = ui.input(|input| {
        let wheel = |event: &egui::Event| match event {
            egui::Event::MouseWheel { unit, delta, modifiers, .. } => {
                let notches = match unit {
                    egui::MouseWheelUnit::Point => *delta / 50.0,
                    egui::MouseWheelUnit::Line => *delta,
                    egui::MouseWheelUnit::Page => *delta * 4.0,
                };
                Some((notches, *modifiers))
            }
            _ => None,
        };
        let zoom =
            |event: &egui::Event| if let egui::Event::Zoom(by) = event { Some(f64::from(*by)) } else { None };
        (
            input.events.iter().filter_map(wheel).collect::<Vec<_>>(),
            input.events.iter().filter_map(zoom).product::<f64>(),
        )
    });
    let mut view = app.camera.view;
    for (notches, modifiers) in moves {
        // Some systems turn the wheel sideways while Shift is down.
        let turn = if modifiers.shift && notches.y == 0.0 { notches.x } else { notches.y };
        let factor = NOTCH.powf(f64::from(turn));
        let factors = match (modifiers.shift, modifiers.alt || modifiers.command) {
            (true, _) => (1.0, factor),
            (_, true) => (factor, factor),
            _ => (factor, 1.0),
        };
        app.camera.locked |= factors.1 != 1.0;
        view = view.zoomed(plot, at, factors);
        if !modifiers.shift {
            view = view.moved(-f64::from(notches.x) * 0.04, 0.0);
        }
    }
    if pinch != 1.0 {
        view = view.zoomed(plot, at, (1.0 / pinch, 1.0));
    }
    if view != app.camera.view {
        app.set_view(view);
    }
}
