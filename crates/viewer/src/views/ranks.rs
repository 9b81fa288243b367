//! The side bar: a bar per rank on a common scale, outliers marked, and what the colors say.

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_analysis::{Counter, LEAST_RANKS, median, stands_out};
use vramscope_format::{bytes, change, fit, fit_middle, plural};

use crate::app::App;
use crate::color;
use crate::theme;
use crate::views::{curves, fleet, legend};

/// The height of the curve of a rank.
const CURVE: f32 = 20.0;
/// Room for the button beside it.
const COMPARE: f32 = 54.0;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    ui.set_min_width(ui.available_width());
    let palette = app.palette();
    let title = match app.files.devices.len() {
        _ if app.files.fleet.is_some() => "RANKS",
        0 | 1 => "DEVICE",
        _ if app.files.are_ranks() => "RANKS",
        _ => "FILES",
    };
    heading(app, ui, title);
    if app.files.devices.len() > 1 {
        curves::update(app);
    }
    let summaries = || app.files.devices.iter().filter_map(|device| device.summary.as_ref());
    let peaks: Vec<i64> = summaries().map(|summary| summary.peak(Counter::Requested).bytes).collect();
    // Files that are not ranks of a run need not be alike.
    let is_all = app.files.fleet.is_none();
    let median = (is_all && app.files.are_ranks() && peaks.len() >= LEAST_RANKS).then(|| median(peaks));
    let most = summaries()
        .map(|summary| summary.peak(Counter::Reserved).bytes.max(summary.peak(Counter::Requested).bytes))
        .max()
        .unwrap_or(1)
        .max(app.capacity().map_or(1, |capacity| capacity as i64))
        .max(1);
    let share = if app.files.fleet.is_some() { 0.75 } else { 0.55 };
    let room = (ui.available_height() * share).max(120.0);
    ScrollArea::vertical().id_salt("ranks").max_height(room).auto_shrink([false, true]).show(ui, |ui| {
        if app.files.fleet.is_some() {
            fleet::show(app, ui);
            heading(app, ui, "OPEN");
        }
        for at in 0..app.files.devices.len() {
            // One that was closed in this frame is gone.
            if at < app.files.devices.len() {
                row(app, ui, at, most, median);
            }
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
            let columns = theme::columns(ui.painter(), &theme::tick(), right - 6.0 - rect.left());
            let name = fit(name, columns);
            ui.painter().text(rect.left_center(), Align2::LEFT_CENTER, name, theme::tick(), palette.dim);
        }
        if !app.files.reading.is_empty() && ui.small_button("Cancel").clicked() {
            app.requests.host.cancel();
        }
        for (name, message) in &app.files.failed {
            ui.label(RichText::new(name).font(theme::mono()).color(palette.danger)).on_hover_text(message);
        }
    });
    ui.add_space(12.0);
    legend::show(app, ui);
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
    // A curve where there are others to look at.
    let curve = if app.files.devices.len() > 1 { CURVE + 4.0 } else { 0.0 };
    let high = 40.0 + below + curve;
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
        rect.min + vec2(4.0, 26.0 + below + curve),
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
    let of = app.files.devices[at].source;
    let button = match curve > 0.0 {
        true => {
            let strip = Rect::from_min_size(
                rect.min + vec2(4.0, 24.0 + below),
                vec2(rect.width() - 8.0 - COMPARE, CURVE),
            );
            curves::draw(&app.parts.rank_curves, of, most, &painter, strip, &palette);
            let place =
                Rect::from_min_max(pos2(strip.right() + 4.0, strip.top()), strip.max + vec2(COMPARE, 0.0));
            (at != app.files.current).then(|| compare_button(app, ui, at, place))
        }
        false => None,
    };
    let mut words = format!(
        "{}\nbaseline {}\npeak {}\nreserved: {}\n{}",
        summary.file,
        bytes(summary.start.requested),
        bytes(peak),
        if summary.has.reserved { bytes(held) } else { "not in this file".into() },
        match summary.ooms.len() {
            0 => summary.verdict.clone(),
            failed => format!("{}\n{}", summary.verdict, plural(failed, "failed allocation")),
        }
    );
    if let Some(median) = median.filter(|_| off) {
        let reason = app.parts.across.reason(of).unwrap_or_else(|| {
            format!("peak {} against the median of {}", change(peak.saturating_sub(median)), bytes(median))
        });
        words = format!("▲ {reason}\n\n{words}");
    }
    let label = format!("{}, peak {}", app.files.devices[at].name, bytes(peak));
    response.widget_info(|| egui::WidgetInfo::selected(egui::Role::ListBoxOption, true, current, &label));
    let response = response.on_hover_text(words);
    if button == Some(true) {
        return app.compare_with(at);
    }
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
        if app.requests.host.takes_files() && ui.button("Close").clicked() {
            app.close(at);
        }
    });
}

/// A button that compares a rank with the one that is shown; says whether it was clicked.
fn compare_button(app: &App, ui: &Ui, at: usize, place: Rect) -> bool {
    let palette = app.palette();
    let response = ui.interact(place, egui::Id::unique(("compare", at)), Sense::click());
    let (this, other) = (app.name_of(app.files.current), app.name_of(at));
    let label = format!("Compare {this} with {other}");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &label));
    let color = if response.hovered() { palette.accent } else { palette.dim };
    let at = place.right_center();
    ui.painter().text(at, Align2::RIGHT_CENTER, "compare", theme::small(), color);
    response.on_hover_text(label).clicked()
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
