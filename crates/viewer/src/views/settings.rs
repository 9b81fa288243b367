//! The allocator's settings, and how complete the recording is.

use egui::{RichText, ScrollArea, Ui, vec2};
use vramscope_engine::Summary;
use vramscope_engine::color::Scheme;
use vramscope_format::{count, size};

use crate::app::App;
use crate::theme;
use crate::views::lower::choice;
use crate::views::ranks::heading;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((_, summary)) = app.device() else { return };
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        let wide = ui.available_width();
        if wide < LEAST {
            // One below the other.
            for content in PARTS {
                content(app, ui, &summary);
                ui.add_space(12.0);
            }
            return;
        }
        let room = wide - 48.0;
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = 24.0;
            for (share, content) in [0.26, 0.32, 0.42].into_iter().zip(PARTS) {
                // One that needs more than its share takes it from those after it.
                let width = (room * share).min(ui.available_width());
                part(ui, width, |ui| content(app, ui, &summary));
            }
        });
    });
}

/// Narrower views have no room for columns.
const LEAST: f32 = 640.0;

/// What there is, from left to right.
const PARTS: [fn(&mut App, &mut Ui, &Summary); 3] = [verdict, file, allocator];

fn allocator(app: &mut App, ui: &mut Ui, summary: &Summary) {
    let dim = app.palette().dim;
    heading(app, ui, "ALLOCATOR SETTINGS");
    if summary.settings.is_empty() {
        let text =
            if summary.has.addresses { "PyTorch before 2.3 writes none" } else { "a profile has none" };
        ui.label(RichText::new(format!("Not in this file: {text}.")).color(dim));
    }
    let rows = summary.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    table(ui, "settings", rows, dim);
}

/// A column of a width.
fn part(ui: &mut Ui, width: f32, content: impl FnOnce(&mut Ui)) {
    let layout = egui::Layout::top_down(egui::Align::Min);
    ui.allocate_ui_with_layout(vec2(width, ui.available_height()), layout, |ui| {
        ui.set_width(width);
        content(ui);
    });
}

fn verdict(app: &mut App, ui: &mut Ui, summary: &Summary) {
    let palette = app.palette();
    heading(app, ui, "VERDICT");
    let color = if summary.exact { palette.fine } else { palette.select };
    ui.label(RichText::new(&summary.status).font(theme::big()).color(color));
    ui.add(egui::Label::new(&summary.verdict).wrap().selectable(true));
    ui.add_space(2.0);
    for note in summary.damage.iter().chain(&summary.notes).chain(&summary.warnings) {
        ui.add(egui::Label::new(note).wrap().selectable(true));
        ui.add_space(2.0);
    }
    ui.add_space(8.0);
    look(app, ui);
}

/// How the window looks and moves.
fn look(app: &mut App, ui: &mut Ui) {
    let dim = app.palette().dim;
    heading(app, ui, "THIS WINDOW");
    egui::Grid::new("look").num_columns(2).spacing(vec2(16.0, 4.0)).show(ui, |ui| {
        let name = |ui: &mut Ui, name: &str| ui.label(RichText::new(name).color(dim));
        name(ui, "theme");
        let mut dark = app.is_dark();
        if ui.horizontal(|ui| choice(ui, &mut dark, &[(true, "dark"), (false, "light")])).inner {
            app.toggle_theme(ui.ctx());
        }
        ui.end_row();
        name(ui, "colors");
        let mut scheme = app.settings.scheme;
        if ui
            .horizontal(|ui| {
                choice(ui, &mut scheme, &[(Scheme::Standard, "usual"), (Scheme::Safe, "color-blind safe")])
            })
            .inner
        {
            app.set_scheme(ui.ctx(), scheme);
        }
        ui.end_row();
        name(ui, "motion");
        let mut glides = app.glides();
        if ui.horizontal(|ui| choice(ui, &mut glides, &[(true, "glide"), (false, "reduced")])).inner {
            app.settings.motion = Some(glides);
        }
        ui.end_row();
    });
}

fn file(app: &mut App, ui: &mut Ui, summary: &Summary) {
    let dim = app.palette().dim;
    heading(app, ui, "FILE");
    let known = |is_there: bool, text: String| if is_there { text } else { "not in this file".to_owned() };
    let rows = [
        ("path", summary.file.clone()),
        ("device", summary.device.clone()),
        ("size", size(summary.file_bytes)),
        ("format", summary.format.clone()),
        ("events", count(summary.events)),
        ("allocations", count(summary.allocations)),
        ("segments ever", known(summary.has.addresses, count(summary.lanes.len() as u64))),
        ("annotations", count(summary.spans.len() as u64)),
        ("failed allocations", count(summary.ooms.len() as u64)),
    ];
    capacity(app, ui);
    let rows = rows.iter().map(|(name, value)| (*name, value.as_str()));
    let recorded = summary.recorded.iter().map(|(name, words)| (name.as_str(), words.as_str()));
    table(ui, "file", rows.chain(recorded), dim);
}

/// The line of the timeline that memory cannot rise above.
fn capacity(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    ui.horizontal(|ui| {
        let label = ui.label(RichText::new("capacity").color(palette.dim));
        let edit = egui::TextEdit::singleline(&mut app.settings.capacity)
            .hint_text("80GiB, or H100")
            .desired_width(110.0);
        ui.add(edit).labelled_by(label.id);
        let typed = app.settings.capacity.trim();
        match (vramscope_analysis::capacity(typed), app.capacity()) {
            (Err(_), _) if !typed.is_empty() => {
                ui.label(RichText::new("a size like 80GiB, or a name like H100").color(palette.select))
            }
            (_, Some(capacity)) => ui.label(RichText::new(size(capacity)).font(theme::mono())),
            (_, None) => ui.label(RichText::new("not in this file").color(palette.dim)),
        };
    });
}

/// Values are wrapped into columns of this width at least.
const LEAST_VALUE: f32 = 110.0;

/// Names with their values: beside them, or below where there is no room for them beside.
fn table<'a>(ui: &mut Ui, id: &str, rows: impl Iterator<Item = (&'a str, &'a str)>, dim: egui::Color32) {
    let rows: Vec<_> = rows.collect();
    let widest = |font: &egui::FontId, texts: &mut dyn Iterator<Item = &str>| {
        let wide = |text: &str| ui.painter().layout_no_wrap(text.to_owned(), font.clone(), dim).size().x;
        texts.map(wide).fold(0.0, f32::max)
    };
    let names = widest(&theme::body(), &mut rows.iter().map(|row| row.0));
    let values = widest(&theme::mono(), &mut rows.iter().map(|row| row.1));
    let name_of = |ui: &mut Ui, name: &str| ui.label(RichText::new(name).color(dim));
    let value_of = |ui: &mut Ui, value: &str| {
        ui.add(egui::Label::new(RichText::new(value).font(theme::mono())).wrap().selectable(true))
    };
    if ui.available_width() - names - 16.0 < values.min(LEAST_VALUE) {
        for (name, value) in rows {
            name_of(ui, name);
            ui.horizontal(|ui| {
                ui.add_space(12.0);
                value_of(ui, value);
            });
        }
        return;
    }
    // A grid keeps the widths of its columns: in another width it is another grid.
    let id = (id, ui.available_width() as u32);
    egui::Grid::new(id).num_columns(2).spacing(vec2(16.0, 4.0)).show(ui, |ui| {
        for (name, value) in rows {
            name_of(ui, name);
            value_of(ui, value);
            ui.end_row();
        }
    });
}
