//! The side bar: a bar per rank on a common scale, outliers marked, and what the colors say.

use std::collections::HashMap;

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_analysis::{Counter, LEAST_RANKS, median, stands_out};
use vramscope_engine::color::ColorBy;
use vramscope_engine::{AskTile, LineId, Tile};
use vramscope_format::{bytes, elide_place, fit, fit_middle, plural, share};

use crate::app::App;
use crate::color;
use crate::requests::Slot;
use crate::theme;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    ui.set_min_width(ui.available_width());
    let palette = app.palette();
    let title = match app.files.devices.len() {
        0 | 1 => "DEVICE",
        _ if app.files.are_ranks() => "RANKS",
        _ => "FILES",
    };
    heading(app, ui, title);
    let summaries = || app.files.devices.iter().filter_map(|device| device.summary.as_ref());
    let peaks: Vec<i64> = summaries().map(|summary| summary.peak(Counter::Requested).bytes).collect();
    // Files that are not ranks of a run need not be alike.
    let median = (app.files.are_ranks() && peaks.len() >= LEAST_RANKS).then(|| median(peaks));
    let most = summaries()
        .map(|summary| summary.peak(Counter::Reserved).bytes.max(summary.peak(Counter::Requested).bytes))
        .max()
        .unwrap_or(1)
        .max(app.capacity().map_or(1, |capacity| capacity as i64))
        .max(1);
    let room = (ui.available_height() * 0.55).max(120.0);
    ScrollArea::vertical().id_salt("ranks").max_height(room).auto_shrink([false, true]).show(ui, |ui| {
        for at in 0..app.files.devices.len() {
            row(app, ui, at, most, median);
        }
        for reading in &app.files.reading {
            let share = reading.share();
            let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
            let done =
                Rect::from_min_size(pos2(rect.left(), rect.bottom() - 3.0), vec2(rect.width() * share, 2.0));
            ui.painter().rect_filled(done, 1.0, palette.accent);
            let amount = ui.painter().layout_no_wrap(reading.progress(), theme::tick(), palette.dim);
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
        if !app.files.reading.is_empty() && ui.small_button("Cancel").clicked() {
            app.requests.host.cancel();
        }
        for (name, message) in &app.files.failed {
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

fn row(app: &mut App, ui: &mut Ui, at: usize, most: i64, median: Option<i64>) {
    let palette = app.palette();
    let Some(summary) = app.files.devices[at].summary.clone() else { return };
    // What the process was for has a line of its own.
    let below = if summary.role.is_empty() { 0.0 } else { 15.0 };
    let high = 40.0 + below;
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), high), Sense::click());
    let current = at == app.files.current;
    let painter = ui.painter_at(rect.expand(4.0));
    if current || response.hovered() || app.files.beside == Some(at) {
        painter.rect_filled(rect.expand2(vec2(4.0, 0.0)), 3.0, palette.raised);
    }
    if current {
        let edge = Rect::from_min_size(rect.min - vec2(4.0, 0.0), vec2(2.0, rect.height()));
        painter.rect_filled(edge, 1.0, palette.accent);
    }
    let (peak, held) = (summary.peak(Counter::Requested).bytes, summary.peak(Counter::Reserved).bytes);
    let off = median.is_some_and(|median| stands_out(peak, median));
    let role = fit(&summary.role, (rect.width() / 6.2) as usize);
    painter.text(rect.min + vec2(4.0, 22.0), Align2::LEFT_TOP, role, theme::small(), palette.dim);
    let amount = if off { format!("▲ {}", bytes(peak)) } else { bytes(peak) };
    let color = if off { palette.select } else { palette.dim };
    let amount_at = pos2(rect.right() - 2.0, rect.top() + 5.0);
    let amount = painter.text(amount_at, Align2::RIGHT_TOP, amount, theme::mono(), color);
    let name = name_in(&painter, &app.files.devices[at].name, amount.left() - rect.left() - 12.0);
    painter.text(rect.min + vec2(4.0, 4.0), Align2::LEFT_TOP, name, theme::body(), palette.text);
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
        if summary.has.reserved { bytes(held) } else { "not in this file".into() },
        match summary.ooms.len() {
            0 => summary.verdict.clone(),
            failed => format!("{}\n{}", summary.verdict, plural(failed, "failed allocation")),
        }
    ));
    if response.clicked() {
        if ui.input(|input| input.modifiers.command) && at != app.files.current {
            app.show_beside(if app.files.beside == Some(at) { None } else { Some(at) });
        } else {
            app.focus(at);
        }
    }
    response.context_menu(|ui| {
        if ui.button("Show").clicked() {
            app.focus(at);
        }
        if at != app.files.current && ui.button("Show beside").clicked() {
            app.show_beside(Some(at));
        }
        if at != app.files.current && ui.button("Compare with it").clicked() {
            app.compare_with(at);
        }
    });
}

/// What the colors say; by stack, the lines that take most of the picture.
fn legend(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let Some((_, summary)) = app.device() else { return };
    heading(app, ui, &format!("COLOR BY {}", app.settings.color.name().to_uppercase()));
    if app.settings.color == ColorBy::Stack && !summary.has.stacks {
        let text = "Python frames: not in this file. Operators, where it has them:";
        ui.add(egui::Label::new(RichText::new(text).font(theme::small()).color(palette.dim)).wrap());
    }
    if app.settings.color != ColorBy::Stack {
        let coloring = app.coloring(None, summary.last());
        for (color, name) in coloring.legend(&summary) {
            chip(ui, color::rgb(color), &name, "", &palette, false);
        }
    }
    let Some(answer) = app.requests.look::<AskTile>(Slot::Timeline) else { return };
    if app.parts.legend.version != answer.version {
        app.parts.legend = Legend::new(&answer.value, answer.version);
    }
    let Legend { lines, awaiting, idle, .. } = app.parts.legend.clone();
    let hatchings = [(awaiting, "awaiting free"), (idle, super::timeline::IDLE)];
    for (_, name) in hatchings.into_iter().filter(|(is_there, _)| *is_there) {
        hatching(ui, name, &palette);
    }
    if app.settings.color != ColorBy::Stack {
        return;
    }
    let all: u64 = lines.iter().map(|(_, area)| area).sum();
    ScrollArea::vertical().id_salt("legend").auto_shrink([false, true]).show(ui, |ui| {
        for (line, area) in lines.into_iter().take(MOST_LINES) {
            let name = answer.value.line(line);
            if chip(ui, color::of_line(line, 1), name, &share(area, all), &palette, true) {
                app.parts.search.text = name.split(' ').next().unwrap_or(name).to_owned();
            }
        }
    });
}

/// Lines that are worth listing.
const MOST_LINES: usize = 40;

/// What is in a picture.
#[derive(Clone, Default)]
pub(crate) struct Legend {
    /// Which picture.
    version: u64,
    /// Pixels of each line, most first.
    lines: Vec<(LineId, u64)>,
    /// Whether there are hatched pixels, of which kinds.
    awaiting: bool,
    idle: bool,
}

impl Legend {
    fn new(tile: &Tile, version: u64) -> Self {
        let mut areas: HashMap<LineId, u64> = HashMap::new();
        let (mut awaiting, mut idle) = (false, false);
        for run in tile.cells.chunk_by(|a, b| a == b) {
            let Some(&cell) = run.first() else { continue };
            idle |= cell >= Tile::FIRST_IDLE;
            if let Some(owner) = tile.owner_of(cell) {
                *areas.entry(owner.line).or_default() += run.len() as u64;
                awaiting |= owner.awaiting;
            }
        }
        let mut lines: Vec<_> = areas.into_iter().collect();
        lines.sort_by_key(|&(line, area)| (std::cmp::Reverse(area), line));
        Self { version, lines, awaiting, idle }
    }
}

/// What hatching in the picture means.
fn hatching(ui: &mut Ui, name: &str, palette: &theme::Palette) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 19.0), Sense::hover());
    let swatch = Rect::from_center_size(rect.left_center() + vec2(8.0, 0.0), vec2(9.0, 9.0));
    let painter = ui.painter_at(swatch);
    painter.rect_filled(swatch, 2.0, palette.hole);
    for n in -1..3 {
        let x = swatch.left() + n as f32 * 4.0;
        let line = [pos2(x, swatch.bottom()), pos2(x + 9.0, swatch.top())];
        painter.line_segment(line, egui::Stroke::new(1.0, palette.dim));
    }
    let at = rect.left_center() + vec2(18.0, 0.0);
    ui.painter_at(rect).text(at, Align2::LEFT_CENTER, name, theme::tick(), palette.text);
}

/// A name in a width, cut in the middle: files of a run often differ at the end.
fn name_in(painter: &egui::Painter, name: &str, width: f32) -> String {
    let fits = |columns: usize| {
        let text = fit_middle(name, 0, columns);
        let wide = painter.layout_no_wrap(text.clone(), theme::body(), egui::Color32::PLACEHOLDER).size().x;
        (wide <= width).then_some(text)
    };
    (4..=name.chars().count()).rev().find_map(fits).unwrap_or_default()
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
    let shown = elide_place(name, theme::columns(&painter, &theme::tick(), right - 6.0 - at.x));
    room.text(at, Align2::LEFT_CENTER, shown, theme::tick(), palette.text);
    response.on_hover_text(name).clicked()
}
