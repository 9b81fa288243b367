//! The lower half: a row of tabs, and the chosen view under it.

use egui::{Align2, CursorIcon, Id, Rect, Sense, Ui, UiBuilder, pos2, vec2};

use crate::app::App;
use crate::theme;
use crate::views::{Tab, compare, flame, insights, lifetimes, segments, settings, state, tables, tree};

const TABS: [(Tab, &str); 9] = [
    (Tab::Segments, "Segments"),
    (Tab::State, "State"),
    (Tab::Flame, "Flame"),
    (Tab::Tree, "Tree"),
    (Tab::Lifetimes, "Lifetimes"),
    (Tab::Tables, "Tables"),
    (Tab::Insights, "Insights"),
    (Tab::Compare, "Compare"),
    (Tab::Settings, "Settings"),
];

/// Height of the row of tabs.
const ROW: f32 = 30.0;

pub(crate) fn show(app: &mut App, ui: &mut Ui, rect: Rect, whole: Rect) {
    let row = Rect::from_min_size(rect.min, vec2(rect.width(), ROW));
    handle(app, ui, row, whole);
    tabs(app, ui, row);
    let body = Rect::from_min_max(pos2(rect.left(), row.bottom() + 4.0), rect.max);
    let mut ui = ui.new_child(UiBuilder::new().id_salt(("lower", app.settings.tab)).max_rect(body));
    ui.set_clip_rect(body.expand(2.0).intersect(ui.clip_rect()));
    match app.settings.tab {
        Tab::Segments => segments::show(app, &mut ui, body),
        Tab::State => state::show(app, &mut ui, body),
        Tab::Flame => flame::show(app, &mut ui, body),
        Tab::Tree => tree::show(app, &mut ui),
        Tab::Lifetimes => lifetimes::show(app, &mut ui, body),
        Tab::Tables => tables::show(app, &mut ui),
        Tab::Insights => insights::show(app, &mut ui),
        Tab::Compare => compare::show(app, &mut ui, body),
        Tab::Settings => settings::show(app, &mut ui),
    }
}

/// The line above the tabs moves the border between the halves.
fn handle(app: &mut App, ui: &Ui, row: Rect, whole: Rect) {
    let palette = app.palette();
    let line = Rect::from_x_y_ranges(row.x_range(), row.top() - 4.0..=row.top() + 3.0);
    let response = ui.interact(line, Id::unique("border"), Sense::drag());
    if response.hovered() || response.dragged() {
        ui.ctx().set_cursor_icon(CursorIcon::ResizeVertical);
    }
    if response.dragged() {
        app.settings.lower = (app.settings.lower - response.drag_delta().y / whole.height()).clamp(0.12, 0.8);
    }
    let stroke = if response.dragged() { egui::Stroke::new(1.0, palette.accent) } else { palette.hairline() };
    ui.painter().hline(row.x_range(), row.top() + 0.5, stroke);
}

fn tabs(app: &mut App, ui: &mut Ui, row: Rect) {
    let palette = app.palette();
    let mut left = row.left();
    let insights = insights::count(app);
    for (tab, name) in TABS {
        let on = app.settings.tab == tab;
        let name =
            if tab == Tab::Insights && insights > 0 { format!("{name} {insights}") } else { name.to_owned() };
        let font = if on { theme::strong() } else { theme::body() };
        let galley = ui.painter().layout_no_wrap(name.clone(), font, palette.text);
        let rect = Rect::from_min_size(pos2(left, row.top() + 1.0), vec2(galley.size().x + 20.0, ROW - 2.0));
        left = rect.right();
        let response = ui.interact(rect, Id::unique(("tab", tab)), Sense::click());
        response.widget_info(|| egui::WidgetInfo::selected(egui::Role::Tab, true, on, &name));
        let color = if on || response.hovered() { palette.text } else { palette.dim };
        ui.painter().text(
            rect.center(),
            Align2::CENTER_CENTER,
            &name,
            if on { theme::strong() } else { theme::body() },
            color,
        );
        if on {
            let mark = Rect::from_min_size(
                pos2(rect.left() + 8.0, rect.bottom() - 1.0),
                vec2(rect.width() - 16.0, 2.0),
            );
            ui.painter().rect_filled(mark, 1.0, palette.accent);
        }
        if response.clicked() {
            app.settings.tab = tab;
        }
    }
}

/// A small switch in a row above a view.
pub(crate) fn choice<T: PartialEq + Copy>(ui: &mut Ui, current: &mut T, all: &[(T, &str)]) -> bool {
    let before = *current;
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.x = 1.0;
        for (value, name) in all {
            if ui.selectable_label(*current == *value, *name).clicked() {
                *current = *value;
            }
        }
    });
    *current != before
}

/// Dim words in the middle of an empty view.
pub(crate) fn nothing(app: &App, ui: &Ui, rect: Rect, text: &str) {
    ui.painter().text(rect.center(), Align2::CENTER_CENTER, text, theme::body(), app.palette().dim);
}
