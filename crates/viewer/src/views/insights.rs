//! What is worth knowing, the most serious first, each with what shows it and what to do.

use egui::{RichText, ScrollArea, Ui};
use vramscope_engine::{Insight, Request, Response};
use vramscope_format::bytes;

use crate::app::App;
use crate::desk::Slot;
use crate::theme;

/// What the comparison of ranks says, and of how many.
#[derive(Default)]
pub(crate) struct AcrossRanks {
    compared: usize,
    found: Vec<Insight>,
}

/// How many there are.
pub(crate) fn count(app: &mut App) -> usize {
    across(app);
    found(app).len() + app.parts.across.found.len()
}

/// Those of the device that is shown, and those across ranks.
pub(crate) fn all(app: &mut App) -> Vec<Insight> {
    across(app);
    app.parts.across.found.clone().into_iter().chain(found(app)).collect()
}

/// Compares the ranks once all that are open have been asked.
fn across(app: &mut App) {
    // The first device of a file is the one that its rank works on.
    let ranks: Vec<_> = app.devices.iter().map(|device| device.source).filter(|of| of.device == 0).collect();
    if ranks.len() < 3 || !app.reading.is_empty() || app.parts.across.compared == ranks.len() {
        return;
    }
    let answers: Vec<_> = ranks.iter().map(|&of| app.desk.want(Slot::Rank(of), Request::Rank(of))).collect();
    let digest = |answer: &crate::desk::Answer| match &*answer.response {
        Response::Rank(digest) => Some((**digest).clone()),
        _ => None,
    };
    if answers.iter().all(Option::is_some) {
        let digests: Vec<_> = answers.iter().flatten().filter_map(digest).collect();
        app.parts.across =
            AcrossRanks { compared: ranks.len(), found: vramscope_engine::rank_insights(&digests) };
    }
}

fn found(app: &mut App) -> Vec<Insight> {
    let Some((of, _)) = app.device() else { return Vec::new() };
    let answer = app.desk.want(Slot::Insights(of), Request::Insights(of));
    match answer.as_ref().map(|answer| &*answer.response) {
        Some(Response::Insights(found)) => found.clone(),
        _ => Vec::new(),
    }
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let found = found(app);
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        let across = app.parts.across.found.clone();
        if !across.is_empty() {
            super::ranks::heading(app, ui, "ACROSS RANKS");
            list(app, ui, &across);
            super::ranks::heading(app, ui, "THIS RANK");
        }
        if found.is_empty() {
            ui.add_space(12.0);
            ui.label(RichText::new("Nothing stands out in this recording.").color(palette.dim));
        }
        list(app, ui, &found);
    });
}

fn list(app: &mut App, ui: &mut Ui, found: &[Insight]) {
    for insight in found {
        ui.add_space(6.0);
        ui.scope(|ui| one(app, ui, insight));
        ui.add_space(6.0);
        ui.separator();
    }
}

fn one(app: &mut App, ui: &mut Ui, insight: &Insight) {
    let palette = app.palette();
    let (mark, color) = match insight.severity {
        0 => ("●", palette.dim),
        1 => ("▲", palette.select),
        _ => ("■", palette.danger),
    };
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(mark).color(color));
        ui.add(egui::Label::new(RichText::new(&insight.title).font(theme::strong())).wrap().selectable(true));
    });
    ui.horizontal(|ui| {
        ui.label(RichText::new(&insight.kind).font(theme::small()).color(palette.dim));
        if insight.bytes != 0 {
            ui.label(RichText::new(bytes(insight.bytes)).font(theme::mono()).color(palette.dim));
        }
        if let Some((from, to)) = insight.when
            && ui.link("show").clicked()
        {
            app.set_cursor(to);
            if app.settings.axis == vramscope_engine::Axis::Events && to > from {
                app.show_stretch(f64::from(from), f64::from(to));
            } else {
                app.jump(to, None);
            }
        }
        if let Some(alloc) = insight.alloc
            && ui.link("select").clicked()
        {
            app.select_and_show(alloc);
        }
    });
    if !insight.advice.is_empty() {
        ui.add(egui::Label::new(RichText::new(&insight.advice)).wrap().selectable(true));
    }
    ui.add_space(2.0);
    ui.spacing_mut().interact_size.y = 16.0;
    for (name, value) in &insight.evidence {
        ui.horizontal(|ui| {
            let (rect, _) = ui.allocate_exact_size(egui::vec2(230.0, 16.0), egui::Sense::hover());
            ui.painter_at(rect).text(
                rect.left_center(),
                egui::Align2::LEFT_CENTER,
                name,
                theme::body(),
                palette.dim,
            );
            ui.add(egui::Label::new(RichText::new(value).font(theme::mono())).truncate().selectable(true));
        });
    }
}
