//! Every view, and how they lie in the window.

mod alone;
mod annotations;
mod axes;
pub(crate) mod breakdown;
mod compare;
mod curves;
pub(crate) mod detail;
mod events;
pub(crate) mod flags;
mod flame;
mod fleet;
mod here;
mod input;
pub(crate) mod insights;
mod labels;
mod legend;
mod lifetimes;
mod long;
pub(crate) mod lower;
mod map;
mod marks;
mod minimap;
mod outline;
mod overlay;
mod range;
mod ranks;
pub(crate) mod search;
mod segments;
mod settings;
mod sql;
mod start;
mod state;
mod status;
pub(crate) mod tables;
pub(crate) mod timeline;
mod tooltip;
mod top;
mod tree;
mod whatif;

use egui::{CentralPanel, Frame, Margin, Panel, Rect, Ui};
use serde::{Deserialize, Serialize};
use vramscope_analysis::{AllocIdx, Moment};

use crate::app::App;

/// The gutter for numbers left of every picture, so that they share their x axis.
pub(crate) const GUTTER: f32 = 72.0;

/// Narrower windows have no room for the panels beside the pictures.
const WITH_SIDEBAR: f32 = 480.0;
const WITH_DETAILS: f32 = 620.0;

/// How strong what is shown is drawn while it is not what was asked for.
const STALE: f32 = 0.4;

/// The chart is at least this high, with its numbers.
const LEAST_CHART: f32 = 70.0;

/// Height of the whole run in a strip.
const MINIMAP: f32 = 46.0;

/// The views of the lower half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Tab {
    Segments,
    State,
    #[default]
    Flame,
    Tree,
    Lifetimes,
    Tables,
    Insights,
    Compare,
    Settings,
    WhatIf,
    Events,
    Breakdown,
    Sql,
}

/// What views keep between frames.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) timeline: timeline::Timeline,
    pub(crate) annotations: annotations::Lanes,
    pub(crate) grip: minimap::Grip,
    pub(crate) search: search::Search,
    pub(crate) search_version: u64,
    pub(crate) legend: legend::Legend,
    pub(crate) events: events::Events,
    pub(crate) breakdown: breakdown::Breakdown,
    pub(crate) state: state::State,
    pub(crate) start: start::Start,
    pub(crate) tables: tables::Tables,
    pub(crate) compare: compare::Compare,
    pub(crate) flame: flame::Flame,
    pub(crate) tree: tree::CallTree,
    pub(crate) lifetimes: lifetimes::Lifetimes,
    pub(crate) segments: segments::Segments,
    pub(crate) whatif: whatif::WhatIf,
    pub(crate) sql: sql::Query,
    pub(crate) help: bool,
    /// The note that is being written.
    pub(crate) note: Option<String>,
    /// What is typed into the palette of commands, while it is open.
    pub(crate) palette: Option<String>,
    /// An allocation to move to when its life is known, and whether to show all of it.
    pub(crate) reveal: Option<(AllocIdx, bool)>,
    /// The moment under the pointer in the frame before.
    pub(crate) last_hover: Option<Moment>,
    /// The finding that was chosen, by its title.
    pub(crate) insight: Option<String>,
    /// It is not in sight yet.
    pub(crate) scroll_to_insight: bool,
    pub(crate) across: insights::AcrossRanks,
    pub(crate) fleet: fleet::Painted,
    pub(crate) rank_curves: curves::RankCurves,
    /// Where the views are, between the panels.
    pub(crate) centre: Option<Rect>,
    /// Devices whose warning was read.
    pub(crate) dismissed: std::collections::HashSet<vramscope_engine::Source>,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    if app.is_stale {
        ui.multiply_opacity(STALE);
    }
    let palette = app.palette();
    let bar = |margin: Margin| Frame::new().fill(palette.panel).inner_margin(margin);
    Panel::top("top").exact_size(38.0).frame(bar(Margin::symmetric(12, 6))).show(ui, |ui| top::show(app, ui));
    if app.device().is_none() {
        CentralPanel::default().frame(Frame::new().fill(palette.ground)).show(ui, |ui| start::show(app, ui));
        start::browser(app, ui);
        overlay::show(app, ui);
        return;
    }
    damage(app, ui);
    Panel::bottom("status")
        .exact_size(26.0)
        .frame(bar(Margin::symmetric(12, 4)))
        .show(ui, |ui| status::show(app, ui));
    // Panels leave half of a small window to the pictures, and all of a smaller one.
    let wide = ui.available_width();
    if app.settings.sidebar && wide >= WITH_SIDEBAR {
        Panel::left("ranks")
            .default_size(244.0)
            .size_range(120.0..=(wide * 0.22).clamp(150.0, 420.0))
            .resizable(true)
            .frame(bar(Margin::same(12)))
            .show(ui, |ui| ranks::show(app, ui));
    }
    if app.settings.details && wide >= WITH_DETAILS {
        Panel::right("details")
            .default_size(320.0)
            .size_range(180.0..=(wide * 0.28).clamp(200.0, 640.0))
            .resizable(true)
            .frame(bar(Margin::same(12)))
            .show(ui, |ui| detail::show(app, ui));
    }
    CentralPanel::default().frame(Frame::new().fill(palette.ground)).show(ui, |ui| centre(app, ui));
    app.parts.last_hover = app.selection.hover_at;
    app.reveal();
    start::browser(app, ui);
    overlay::show(app, ui);
}

/// What is wrong with the file that is shown, until it was read.
fn damage(app: &mut App, ui: &mut Ui) {
    let Some((of, summary)) = app.device() else { return };
    let Some(text) = summary.damage.as_ref().filter(|_| !app.parts.dismissed.contains(&of)) else { return };
    let palette = app.palette();
    let fill = crate::theme::blend(palette.panel, palette.select, 0.14);
    let frame = Frame::new().fill(fill).inner_margin(Margin::symmetric(12, 5));
    Panel::top("damage").frame(frame).show(ui, |ui| {
        ui.horizontal(|ui| {
            ui.label(egui::RichText::new("▲").color(palette.select));
            let room = ui.available_width() - 40.0;
            ui.allocate_ui(egui::vec2(room, 18.0), |ui| {
                ui.add(egui::Label::new(text).wrap().selectable(true));
            });
            if ui.button("×").on_hover_text("Hide this").clicked() {
                app.parts.dismissed.insert(of);
            }
        });
    });
}

/// The minimap, the annotations, the timeline, and the chosen view below.
fn centre(app: &mut App, ui: &mut Ui) {
    let all = ui.available_rect_before_wrap();
    ui.advance_cursor_after_rect(all);
    app.parts.centre = Some(all);
    let inner = all.shrink2(egui::vec2(12.0, 8.0));
    let lower = match app.settings.lower_open {
        true if inner.height() >= LEAST_CHART + 110.0 => {
            (inner.height() * app.settings.lower).clamp(90.0, (inner.height() - 160.0).max(90.0))
        }
        _ => lower::ROW,
    };
    let upper = Rect::from_min_max(inner.min, egui::pos2(inner.right(), inner.bottom() - lower));
    let strip = |from: f32, to: f32| Rect::from_x_y_ranges(upper.x_range(), from..=to);
    let mut top = upper.top();
    // What lies above the chart gives way to it.
    let fits = |top: f32, high: f32| high > 0.0 && upper.bottom() - top - high >= LEAST_CHART;
    if fits(top, MINIMAP) {
        minimap::show(app, ui, strip(top, top + MINIMAP));
        top += MINIMAP + 6.0;
    }
    let lanes = annotations::height(app);
    if fits(top, lanes) {
        annotations::show(app, ui, strip(top, top + lanes));
        top += lanes + 4.0;
    }
    let flags = flags::height(app);
    if fits(top, flags) {
        flags::show(app, ui, strip(top, top + flags));
        top += flags + 2.0;
    }
    let alone = alone::height(app);
    if fits(top, alone) {
        alone::show(app, ui, strip(top, top + alone));
        top += alone + 4.0;
    }
    match app.files.beside.filter(|&other| other != app.files.current && other < app.files.devices.len()) {
        Some(other) => {
            // In the order of the side bar, so that a click that goes to the other moves nothing.
            let middle = (top + upper.bottom()) / 2.0;
            let halves = [strip(top, middle), strip(middle + 4.0, upper.bottom())];
            let first = usize::from(other < app.files.current);
            timeline::show(app, ui, halves[first]);
            timeline::beside(app, ui, halves[1 - first], other);
        }
        None => timeline::show(app, ui, strip(top, upper.bottom())),
    }
    let below = Rect::from_min_max(egui::pos2(inner.left(), upper.bottom()), inner.max);
    lower::show(app, ui, below, inner);
}
