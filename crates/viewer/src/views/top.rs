//! The bar at the top: what is open, what the axes show, the search.

use egui::{Align, Button, ComboBox, Layout, Response, RichText, Ui};
use vramscope_analysis::Counter;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::color::ColorBy;

use crate::app::App;
use crate::commands::Command;
use crate::theme;
use crate::views::search;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    ui.horizontal_centered(|ui| {
        let name = ui.add(
            Button::new(RichText::new("vramscope").font(theme::strong()).color(palette.text)).frame(false),
        );
        if name.on_hover_text("Open files (Ctrl+O)").clicked() {
            app.parts.start.open = !app.parts.start.open;
        }
        let Some((_, summary)) = app.device() else { return };
        let arrow = ui.label(RichText::new("▸").color(palette.dim));
        chooser(app, ui, &arrow);
        ui.add_space(8.0);
        axis(app, ui);
        ui.add_space(4.0);
        let label = word(ui, "bytes", &palette);
        let before = app.settings.counter;
        let combo = ComboBox::from_id_salt("bytes")
            .width(96.0)
            .selected_text(summary.name_of(app.settings.counter))
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
        let label = word(ui, "color by", &palette);
        let before = app.settings.color;
        let combo = ComboBox::from_id_salt("color")
            .width(84.0)
            .selected_text(app.settings.color.name())
            .show_ui(ui, |ui| {
                for by in ColorBy::ALL {
                    ui.selectable_value(&mut app.settings.color, by, by.name());
                }
            });
        combo.response.labelled_by(label.id);
        if app.settings.color != before {
            app.colors_version += 1;
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui.button("?").on_hover_text("Keys").clicked() {
                Command::Help.run(app, ui.ctx());
            }
            if ui.button("Ctrl+K").on_hover_text("All commands").clicked() {
                Command::Palette.run(app, ui.ctx());
            }
            let (dot, color) = if summary.exact { ("●", palette.fine) } else { ("▲", palette.select) };
            let verdict = RichText::new(format!("{dot} {}", summary.status)).color(color).font(theme::body());
            let notes: Vec<_> = std::iter::once(&summary.verdict).chain(&summary.notes).cloned().collect();
            let notes = notes.join("\n");
            if ui.add(Button::new(verdict).frame(false)).on_hover_text(notes).clicked() {
                app.open_tab(super::Tab::Settings);
            }
            search::field(app, ui);
        });
    });
}

fn word(ui: &mut Ui, text: &str, palette: &theme::Palette) -> Response {
    ui.label(RichText::new(text).font(theme::small()).color(palette.dim))
}

/// Which device of which file.
fn chooser(app: &mut App, ui: &mut Ui, label: &Response) {
    let name = |at: usize| {
        let summary = app.files.devices.get(at)?.summary.as_ref()?;
        let file = summary.file.rsplit(['/', '\\']).next().unwrap_or(&summary.file);
        Some(format!("{file} · {}", app.name_of(at)))
    };
    let mut chosen = app.files.current;
    let Some(shown) = name(chosen) else { return };
    let combo = ComboBox::from_id_salt("device").width(180.0).selected_text(shown).show_ui(ui, |ui| {
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
