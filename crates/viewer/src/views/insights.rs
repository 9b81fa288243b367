//! What looks wrong, the most serious first, each with its evidence and what to do.

use std::sync::Arc;

use egui::{RichText, ScrollArea, Ui};
use vramscope_analysis::LEAST_RANKS;
use vramscope_engine::{AskInsights, AskRank, Insight, Insights, OddRank, Source};
use vramscope_format::size;

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::flags;

/// What the comparison of ranks says, and of how many; and all findings together.
#[derive(Default)]
pub(crate) struct AcrossRanks {
    compared: usize,
    found: Vec<Insight>,
    /// Ranks that are unlike the others, the largest difference first.
    odd: Vec<(Source, OddRank)>,
    /// All findings, with what they were put together from: the answer, and how many ranks.
    all: ((u64, usize), Arc<Vec<Insight>>),
}

impl AcrossRanks {
    /// Why a rank stands out, if it does.
    pub(crate) fn reason(&self, of: Source) -> Option<String> {
        self.odd.iter().find(|(known, _)| *known == of).map(|(_, odd)| odd.reason())
    }
}

/// How many there are.
pub(crate) fn count(app: &mut App) -> usize {
    all(app).len()
}

/// Those across ranks, and those of the device that is shown.
pub(crate) fn all(app: &mut App) -> Arc<Vec<Insight>> {
    across(app);
    let Some((of, _)) = app.device() else { return Arc::default() };
    let answer = app.requests.want(Slot::Insights(of), AskInsights { of });
    let across = &mut app.parts.across;
    let key = (answer.as_ref().map_or(0, |answer| answer.version), across.compared);
    if across.all.0 != key {
        let own = answer.iter().flat_map(|answer| &answer.value.found);
        across.all = (key, Arc::new(across.found.iter().chain(own).cloned().collect()));
    }
    Arc::clone(&across.all.1)
}

/// Compares the ranks once all files are read; of many, as far as they are.
fn across(app: &mut App) {
    if let Some(fleet) = &app.files.fleet {
        if app.parts.across.compared != fleet.view.known {
            let (compared, found) = (fleet.view.known, fleet.view.insights.clone());
            app.parts.across = AcrossRanks { compared, found, ..AcrossRanks::default() };
        }
        return;
    }
    // The same devices as everywhere: all, but pinned host memory only where there is nothing else.
    let summaries: Option<Vec<_>> =
        app.files.devices.iter().map(|device| Some((device.source, device.summary.clone()?))).collect();
    let Some(summaries) = summaries.filter(|_| app.files.reading.is_empty() && app.files.are_ranks()) else {
        return;
    };
    let ranks: Vec<_> =
        summaries.into_iter().filter(|(_, summary)| summary.by_default).map(|(source, _)| source).collect();
    if ranks.len() < LEAST_RANKS || app.parts.across.compared == ranks.len() {
        return;
    }
    let answers: Vec<_> =
        ranks.iter().map(|&of| Some(app.requests.want(Slot::Rank(of), AskRank { of })?.value)).collect();
    if let Some(digests) = answers.into_iter().collect::<Option<Vec<_>>>() {
        let digests: Vec<_> = digests.iter().map(|digest| (**digest).clone()).collect();
        app.parts.across = AcrossRanks {
            compared: ranks.len(),
            found: vramscope_engine::rank_insights(&digests),
            odd: vramscope_engine::odd_ranks(&digests)
                .into_iter()
                .filter_map(|odd| Some((*ranks.get(odd.file)?, odd)))
                .collect(),
            ..AcrossRanks::default()
        };
    }
}

fn found(app: &mut App) -> Insights {
    let Some((of, _)) = app.device() else { return Insights::default() };
    let answer = app.requests.want(Slot::Insights(of), AskInsights { of });
    answer.map_or_else(Insights::default, |answer| (*answer.value).clone())
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let Insights { found, silence } = found(app);
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        let across = app.parts.across.found.clone();
        if !across.is_empty() {
            super::ranks::heading(app, ui, "ACROSS RANKS");
            list(app, ui, &across);
            super::ranks::heading(app, ui, "THIS RANK");
        }
        if found.is_empty() {
            ui.add_space(12.0);
            ui.add(egui::Label::new(RichText::new(silence).color(palette.dim)).wrap().selectable(true));
        }
        list(app, ui, &found);
    });
}

fn list(app: &mut App, ui: &mut Ui, found: &[Insight]) {
    for insight in found {
        ui.scope(|ui| one(app, ui, insight));
        ui.add_space(6.0);
    }
}

/// A finding as a card: a click anywhere shows what it is about.
fn one(app: &mut App, ui: &mut Ui, insight: &Insight) {
    let palette = app.palette();
    let (mark, color) = flags::mark(app, insight.severity);
    let chosen = app.parts.insight.as_deref() == Some(&insight.title);
    let edge = if chosen { palette.select } else { palette.line };
    let frame = egui::Frame::new()
        .fill(if chosen { palette.raised } else { palette.panel })
        .stroke(egui::Stroke::new(1.0, edge))
        .corner_radius(4)
        .inner_margin(egui::Margin::symmetric(12, 8));
    let card = frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(mark).color(color));
            let title = RichText::new(&insight.title).font(theme::strong());
            ui.add(egui::Label::new(title).wrap().selectable(false));
        });
        ui.horizontal_wrapped(|ui| {
            let kind = format!("{}, {}", insight.kind, insight.known_by.name());
            ui.label(RichText::new(kind).font(theme::small()).color(palette.dim));
            if insight.bytes != 0 {
                ui.label(RichText::new(size(insight.bytes)).font(theme::mono()).color(palette.dim));
            }
            if insight.when.is_some() {
                let name = if insight.group.is_some() { "Show it alone" } else { "Show" };
                if ui.link(name).clicked() {
                    app.show_insight(insight);
                }
            }
            if let Some(alloc) = insight.alloc
                && ui.link("Select its largest allocation").clicked()
            {
                app.select_and_show(alloc);
            }
        });
        if !insight.advice.is_empty() {
            ui.add(egui::Label::new(RichText::new(&insight.advice)).wrap().selectable(true));
        }
        ui.add_space(2.0);
        ui.spacing_mut().interact_size.y = 16.0;
        evidence(app, ui, insight);
    });
    let response = card.response.interact(egui::Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Article, true, &insight.title));
    if response.clicked() && insight.when.is_some() {
        app.show_insight(insight);
    }
    if chosen && app.parts.scroll_to_insight {
        app.parts.scroll_to_insight = false;
        response.scroll_to_me(Some(egui::Align::TOP));
    }
}

/// The facts, in two columns.
fn evidence(app: &App, ui: &mut Ui, insight: &Insight) {
    let (palette, wide) = (app.palette(), (ui.available_width() * 0.4).min(230.0));
    for (name, value) in &insight.evidence {
        ui.horizontal(|ui| {
            let (rect, _) = ui.allocate_exact_size(egui::vec2(wide, 16.0), egui::Sense::hover());
            let name = egui::WidgetText::from(RichText::new(name).color(palette.dim));
            let name = name.into_galley(ui, Some(egui::TextWrapMode::Truncate), wide - 6.0, theme::body());
            let at = egui::Align2::LEFT_CENTER.anchor_size(rect.left_center(), name.size()).min;
            ui.painter().galley(at, name, palette.dim);
            ui.add(egui::Label::new(RichText::new(value).font(theme::mono())).truncate().selectable(true));
        });
    }
}
