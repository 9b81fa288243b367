//! The bar at the top: what is open, what the axes show, the search.

use egui::{Align, Button, ComboBox, Layout, Response, RichText, Role, Ui, WidgetInfo};
use vramscope_analysis::Counter;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::Summary;
use vramscope_engine::color::ColorBy;
use vramscope_format::fit_middle;

use crate::app::App;
use crate::commands::Command;
use crate::theme;
use crate::views::search;

/// A narrower bar leaves words out.
const TIGHT: f32 = 980.0;
/// Narrower ones have no room for all that has a key or a command too.
const WITH_MENUS: f32 = 600.0;
/// The share of the bar that the name of a file may have.
const NAME: f32 = 0.28;
/// What the search, the verdict and the help need at least.
const RIGHT: f32 = 180.0;
const WITH_AXIS: f32 = 420.0;
const WITH_NAME: f32 = 380.0;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    // A narrow window has no room for words that the menus say as well.
    let wide = ui.available_width();
    let tight = wide < TIGHT;
    ui.horizontal_centered(|ui| {
        if tight {
            ui.spacing_mut().item_spacing.x = 4.0;
        }
        if wide >= WITH_NAME || app.device().is_none() {
            // A report has no files to open; it has a summary to go back to.
            let (name, what, command) = match app.requests.host.has_summary() {
                true => ("◂ Summary", "What the report says", Command::Summary),
                false => ("vramscope", "Open files (Ctrl+O)", Command::Open),
            };
            let name = RichText::new(name).font(theme::strong()).color(palette.text);
            if ui.add(Button::new(name).frame(false)).on_hover_text(what).clicked() {
                command.run(app, ui.ctx());
            }
        }
        let Some((_, summary)) = app.device() else { return };
        let arrow = ui.label(RichText::new("▸").color(palette.dim));
        chooser(app, ui, &arrow, if tight { 96.0 } else { 180.0 });
        if app.requests.host.takes_files() && !tight {
            let close = Button::new(RichText::new("×").color(palette.dim)).frame(false);
            let close = ui.add(close).on_hover_text("Close the file (Shift+X)");
            close.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Close the file"));
            if close.clicked() {
                app.close(app.files.current);
                return;
            }
        }
        ui.add_space(if tight { 0.0 } else { 8.0 });
        if wide >= WITH_AXIS {
            axis(app, ui);
        }
        if wide >= WITH_MENUS {
            ui.add_space(if tight { 0.0 } else { 4.0 });
            menus(app, ui, &summary, tight);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui.button("?").on_hover_text("Keys").clicked() {
                Command::Help.run(app, ui.ctx());
            }
            if !tight && ui.button("Ctrl+K").on_hover_text("All commands").clicked() {
                Command::Palette.run(app, ui.ctx());
            }
            let (dot, color) = if summary.exact { ("●", palette.fine) } else { ("▲", palette.select) };
            let verdict = if tight { dot.to_owned() } else { format!("{dot} {}", summary.status) };
            let verdict = RichText::new(verdict).color(color).font(theme::body());
            let notes: Vec<_> = std::iter::once(&summary.verdict).chain(&summary.notes).cloned().collect();
            let notes = notes.join("\n");
            if ui.add(Button::new(verdict).frame(false)).on_hover_text(notes).clicked() {
                app.open_tab(super::Tab::Settings);
            }
            search::field(app, ui);
        });
    });
}

/// What is counted, and what colors mean.
fn menus(app: &mut App, ui: &mut Ui, summary: &Summary, tight: bool) {
    let palette = app.palette();
    let name = summary.name_of(app.settings.counter);
    if !has_room(ui, name) {
        return;
    }
    let label = word(ui, if tight { "" } else { "bytes" }, &palette);
    let before = app.settings.counter;
    let combo = ComboBox::from_id_salt("bytes")
        .width(if tight { 72.0 } else { 96.0 })
        .selected_text(name)
        .show_ui(ui, |ui| {
            let all = [Counter::Requested, Counter::Allocated, Counter::Active];
            for counter in all.into_iter().filter(|counter| summary.tells(*counter)) {
                ui.selectable_value(&mut app.settings.counter, counter, counter.name());
            }
        });
    combo.response.labelled_by(label.id);
    if app.settings.counter != before {
        app.fit();
    }
    let mut color = app.color();
    if !has_room(ui, color.name()) {
        return;
    }
    let label = word(ui, if tight { "" } else { "color by" }, &palette);
    let combo = ComboBox::from_id_salt("color")
        .width(if tight { 64.0 } else { 84.0 })
        .selected_text(color.name())
        .show_ui(ui, |ui| {
            for by in ColorBy::ALL {
                ui.selectable_value(&mut color, by, by.name());
            }
        });
    combo.response.labelled_by(label.id);
    if color != app.color() {
        app.color_by(color);
    }
}

/// Whether a menu fits that shows a name; commands choose the same.
fn has_room(ui: &Ui, name: &str) -> bool {
    let name = ui.painter().layout_no_wrap(name.to_owned(), theme::body(), egui::Color32::PLACEHOLDER);
    ui.available_width() >= name.size().x + 44.0 + RIGHT
}

fn word(ui: &mut Ui, text: &str, palette: &theme::Palette) -> Response {
    ui.label(RichText::new(text).font(theme::small()).color(palette.dim))
}

/// Which device of which file.
fn chooser(app: &mut App, ui: &mut Ui, label: &Response, width: f32) {
    let name = |at: usize| {
        let summary = app.files.devices.get(at)?.summary.as_ref()?;
        let file = summary.file.rsplit(['/', '\\']).next().unwrap_or(&summary.file);
        Some(format!("{file} · {}", app.name_of(at)))
    };
    let mut chosen = app.files.current;
    let Some(shown) = name(chosen) else { return };
    // The rank is at the end, and what tells files apart at the beginning.
    let columns = theme::columns(ui.painter(), &theme::body(), ui.available_width() * NAME);
    let shown = fit_middle(&shown, columns / 2, columns);
    let combo =
        ComboBox::from_id_salt("device").width(width).truncate().selected_text(shown).show_ui(ui, |ui| {
            for (at, name) in (0..app.files.devices.len()).filter_map(|at| Some((at, name(at)?))) {
                ui.selectable_value(&mut chosen, at, name);
            }
        });
    combo.response.labelled_by(label.id);
    if chosen != app.files.current {
        app.focus(chosen);
    }
}

/// The two sides of the axis switch.
fn axis(app: &mut App, ui: &mut Ui) {
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.x = 1.0;
        for (axis, name) in [(Axis::Events, "events"), (Axis::Time, "time")] {
            let on = app.settings.axis == axis;
            if ui.selectable_label(on, name).on_hover_text("Switch the axis (t)").clicked() && !on {
                app.toggle_axis();
            }
        }
    });
}
