//! The side bar: a bar per rank on a common scale, outliers marked, and what the colors say.

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_analysis::{median, stands_out};
use vramscope_engine::{Bytes, Response};
use vramscope_format::bytes;
use vramscope_format::{fit, fit_middle};

use crate::app::App;
use crate::color::{self, ColorBy};
use crate::desk::Slot;
use crate::theme;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    ui.set_min_width(ui.available_width());
    let palette = app.palette();
    heading(app, ui, if app.devices.len() > 1 { "RANKS" } else { "DEVICE" });
    let peaks: Vec<i64> = app.devices.iter().filter_map(|d| Some(d.summary.as_ref()?.peaks[0].0)).collect();
    let median = median(peaks);
    let most = app
        .devices
        .iter()
        .filter_map(|device| device.summary.as_ref())
        .map(|summary| summary.peaks[Bytes::Reserved as usize].0.max(summary.peaks[0].0))
        .max()
        .unwrap_or(1)
        .max(app.capacity().map_or(1, |capacity| capacity as i64))
        .max(1);
    let room = (ui.available_height() * 0.55).max(120.0);
    ScrollArea::vertical().id_salt("ranks").max_height(room).auto_shrink([false, true]).show(ui, |ui| {
        for at in 0..app.devices.len() {
            row(app, ui, at, most, median);
        }
        for reading in &app.reading {
            let share = reading.done as f32 / reading.total.max(1) as f32;
            let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
            let done =
                Rect::from_min_size(pos2(rect.left(), rect.bottom() - 3.0), vec2(rect.width() * share, 2.0));
            ui.painter().rect_filled(done, 1.0, palette.accent);
            let amount = format!("{} of {}", bytes(reading.done as i64), bytes(reading.total as i64));
            let amount = ui.painter().layout_no_wrap(amount, theme::tick(), palette.dim);
            let right = rect.right() - amount.size().x - 2.0;
            let middle = rect.center().y - amount.size().y / 2.0;
            ui.painter().galley(pos2(right, middle), amount, palette.dim);
            let name = reading.name.rsplit(['/', '\\']).next().unwrap_or(&reading.name);
            ui.painter_at(rect.with_max_x(right - 6.0)).text(
                rect.left_center(),
                Align2::LEFT_CENTER,
                name,
                theme::small(),
                palette.dim,
            );
        }
        if !app.reading.is_empty() && ui.small_button("Cancel").clicked() {
            app.desk.host.cancel();
        }
        for (name, message) in &app.failed {
            ui.label(RichText::new(name).font(theme::mono()).color(palette.danger)).on_hover_text(message);
        }
    });
    ui.add_space(12.0);
    legend(app, ui);
}

pub(crate) fn heading(app: &App, ui: &mut Ui, text: &str) {
    ui.label(RichText::new(text).font(theme::small()).color(app.palette().dim));
    ui.add_space(2.0);
}

fn row(app: &mut App, ui: &mut Ui, at: usize, most: i64, median: i64) {
    let palette = app.palette();
    let Some(summary) = app.devices[at].summary.clone() else { return };
    // What the process was for has a line of its own.
    let below = if summary.role.is_empty() { 0.0 } else { 15.0 };
    let high = 40.0 + below;
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), high), Sense::click());
    let current = at == app.current;
    let painter = ui.painter_at(rect.expand(4.0));
    if current || response.hovered() || app.beside == Some(at) {
        painter.rect_filled(rect.expand2(vec2(4.0, 0.0)), 3.0, palette.raised);
    }
    if current {
        let edge = Rect::from_min_size(rect.min - vec2(4.0, 0.0), vec2(2.0, rect.height()));
        painter.rect_filled(edge, 1.0, palette.accent);
    }
    let (peak, held) = (summary.peaks[0].0, summary.peaks[Bytes::Reserved as usize].0);
    let off = app.devices.len() > 2 && stands_out(peak, median);
    let name = app.devices[at].name.clone();
    painter.text(rect.min + vec2(4.0, 4.0), Align2::LEFT_TOP, name, theme::body(), palette.text);
    let role = fit(&summary.role, (rect.width() / 6.2) as usize);
    painter.text(rect.min + vec2(4.0, 22.0), Align2::LEFT_TOP, role, theme::small(), palette.dim);
    let amount = if off { format!("▲ {}", bytes(peak)) } else { bytes(peak) };
    let color = if off { palette.select } else { palette.dim };
    painter.text(pos2(rect.right() - 2.0, rect.top() + 5.0), Align2::RIGHT_TOP, amount, theme::mono(), color);
    // Baseline, peak, held, capacity, all on one scale.
    let bar = Rect::from_min_size(
        rect.min + vec2(4.0, 26.0 + below),
        vec2(rect.width() - if summary.ooms.is_empty() { 8.0 } else { 20.0 }, 6.0),
    );
    let upto = |bytes: i64| bar.left() + bar.width() * (bytes.max(0) as f32 / most as f32).min(1.0);
    painter.rect_filled(bar, 2.0, palette.line);
    let part = |from: f32, to: f32| Rect::from_min_max(pos2(from, bar.top()), pos2(to, bar.bottom()));
    painter.rect_filled(part(bar.left(), upto(held)), 2.0, palette.accent.gamma_multiply(0.28));
    painter.rect_filled(part(bar.left(), upto(peak)), 2.0, palette.accent.gamma_multiply(0.85));
    painter.rect_filled(
        part(bar.left(), upto(summary.start.requested)),
        2.0,
        color::oklch(0.55, 0.05, 240.0),
    );
    if let Some(capacity) = app.capacity() {
        painter.vline(
            upto(capacity as i64),
            bar.expand(2.0).y_range(),
            egui::Stroke::new(1.5, palette.danger),
        );
    }
    if !summary.ooms.is_empty() {
        painter.circle_filled(pos2(rect.right() - 6.0, bar.center().y), 3.0, palette.danger);
    }
    let response = response.on_hover_text(format!(
        "{}\nbaseline {}\npeak {}\nreserved: {}\n{}",
        summary.file,
        bytes(summary.start.requested),
        bytes(peak),
        if summary.told.reserved { bytes(held) } else { "not in this file".into() },
        match summary.ooms.len() {
            0 => summary.verdict.clone(),
            failed => format!("{}\n{failed} failed allocations", summary.verdict),
        }
    ));
    if response.clicked() {
        if ui.input(|input| input.modifiers.command) && at != app.current {
            app.show_beside(if app.beside == Some(at) { None } else { Some(at) });
        } else {
            app.focus(at);
        }
    }
    response.context_menu(|ui| {
        if ui.button("Show").clicked() {
            app.focus(at);
        }
        if at != app.current && ui.button("Show beside").clicked() {
            app.show_beside(Some(at));
        }
        if at != app.current && ui.button("Compare with it").clicked() {
            app.compare_with(at);
        }
    });
}

/// What the colors say; by stack, the lines that take most of the picture.
fn legend(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let Some((_, summary)) = app.device() else { return };
    heading(app, ui, &format!("COLOUR BY {}", app.settings.color.name().to_uppercase()));
    if app.settings.color == ColorBy::Stack && !summary.told.stacks {
        let text = "Python frames: not in this file. Operators, where it has them:";
        ui.add(egui::Label::new(RichText::new(text).font(theme::small()).color(palette.dim)).wrap());
    }
    if app.settings.color != ColorBy::Stack {
        let coloring = app.coloring(None, summary.events);
        for (color, name) in coloring.legend(&summary) {
            chip(ui, color::rgb(color), &name, "", &palette, false);
        }
        return;
    }
    let Some(answer) = app.desk.look(Slot::Timeline) else { return };
    let Response::Tile(tile) = &*answer.response else { return };
    if app.parts.legend.0 != answer.version {
        let mut areas: std::collections::HashMap<u32, u64> = std::collections::HashMap::new();
        for run in tile.cells.chunk_by(|a, b| a == b) {
            let owner =
                run.first().and_then(|cell| cell.checked_sub(2)).and_then(|n| tile.owners.get(n as usize));
            if let Some(owner) = owner {
                *areas.entry(owner.line).or_default() += run.len() as u64;
            }
        }
        let all: u64 = areas.values().sum();
        let mut areas: Vec<_> = areas.into_iter().collect();
        areas.sort_by_key(|&(line, area)| (std::cmp::Reverse(area), line));
        areas.truncate(40);
        app.parts.legend = (
            answer.version,
            areas.into_iter().map(|(line, area)| (line, area as f32 / all.max(1) as f32)).collect(),
        );
    }
    let rows = app.parts.legend.1.clone();
    ScrollArea::vertical().id_salt("legend").auto_shrink([false, true]).show(ui, |ui| {
        for (line, share) in rows {
            let name = tile.line(line);
            let share = if share < 0.005 { "<1 %".to_owned() } else { format!("{:.0} %", share * 100.0) };
            if chip(ui, color::of_line(line, 1), name, &share, &palette, true) {
                app.parts.search.text = name.split(' ').next().unwrap_or(name).to_owned();
            }
        }
    });
}

/// `train.py:88 forward` in so many columns: the function gives way first, then the middle of the file's name.
fn place_in(name: &str, columns: usize) -> String {
    let place = name.split(' ').next().unwrap_or(name);
    match (name.chars().count() <= columns, place.rsplit_once(':')) {
        (false, Some((file, line))) => {
            let file = if place.chars().count() > columns { file.trim_end_matches(".py") } else { file };
            fit_middle(&format!("{file}:{line}"), line.len() + 1, columns)
        }
        (false, None) => fit(name, columns),
        (true, _) => name.to_owned(),
    }
}

fn chip(
    ui: &mut Ui,
    color: egui::Color32,
    name: &str,
    amount: &str,
    palette: &theme::Palette,
    click: bool,
) -> bool {
    let sense = if click { Sense::click() } else { Sense::hover() };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 19.0), sense);
    let painter = ui.painter_at(rect);
    if response.hovered() && click {
        painter.rect_filled(rect, 3.0, palette.raised);
    }
    painter.rect_filled(
        Rect::from_center_size(rect.left_center() + vec2(8.0, 0.0), vec2(9.0, 9.0)),
        2.0,
        color,
    );
    let amount = painter.layout_no_wrap(amount.to_owned(), theme::tick(), palette.dim);
    let right = rect.right() - amount.size().x - 2.0;
    painter.galley(pos2(right, rect.center().y - amount.size().y / 2.0), amount, palette.dim);
    let room = painter.with_clip_rect(Rect::from_min_max(rect.min, pos2(right - 6.0, rect.bottom())));
    let at = rect.left_center() + vec2(18.0, 0.0);
    let letter = painter.layout_no_wrap("0".into(), theme::tick(), palette.text).size().x.max(1.0);
    let shown = place_in(name, ((right - 6.0 - at.x) / letter) as usize);
    room.text(at, Align2::LEFT_CENTER, shown, theme::tick(), palette.text);
    response.on_hover_text(name).clicked()
}
