//! Findings as flags above the picture: where on the axis they are, and a click that shows what they are about.

use egui::{Align2, Id, Rect, Sense, Ui, pos2, vec2};
use vramscope_analysis::Severity;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::Insight;
use vramscope_format::{fit, size};

use crate::app::App;
use crate::theme;
use crate::views::{GUTTER, Tab, insights, tooltip};

/// Height of the row.
const HEIGHT: f32 = 22.0;
/// The least room of a flag.
const LEAST: f32 = 16.0;
/// Room of a flag with its words.
const WORDS: f32 = 230.0;

/// Height of the row: none without a finding that has a place.
pub(crate) fn height(app: &mut App) -> f32 {
    if insights::all(app).iter().any(|insight| insight.when.is_some()) { HEIGHT } else { 0.0 }
}

impl App {
    /// Shows what a finding is about: its allocations alone, from when to when it lasts, and its card below.
    pub(crate) fn show_insight(&mut self, insight: &Insight) {
        self.parts.insight = Some(insight.title.clone());
        self.parts.scroll_to_insight = true;
        let failed = insight.kind == "out of memory";
        if self.settings.tab != Tab::Insights {
            self.open_tab(if failed { Tab::State } else { Tab::Insights });
        }
        self.isolated = None;
        if let Some(group) = insight.group.clone().filter(|_| !failed) {
            self.isolate(group, &insight.about);
        }
        let Some((from, to)) = insight.when else { return };
        self.selection.alloc = None;
        self.set_cursor(to);
        let (from, to, time) = (f64::from(from.0), f64::from(to.0), insight.time);
        let x = if self.settings.axis == Axis::Time { (time.0 as f64, time.1 as f64) } else { (from, to) };
        self.camera.locked = false;
        if failed || x.1 <= x.0 {
            self.fit();
        } else {
            self.show_stretch(x.0, x.1);
        }
    }
}

pub(crate) fn show(app: &mut App, ui: &Ui, rect: Rect) {
    let strip = Rect::from_min_max(pos2(rect.left() + GUTTER, rect.top()), rect.max);
    let found = insights::all(app);
    let view = app.camera.view;
    let place = |insight: &Insight| {
        let (_, to) = insight.when?;
        let x = if view.axis == Axis::Time { insight.time.1 as f64 } else { f64::from(to.0) };
        Some(view.screen_x(strip, x))
    };
    // From left to right; of those at one place the worst has the words.
    let mut placed: Vec<(f32, &Insight)> =
        found.iter().filter_map(|insight| Some((place(insight)?, insight))).collect();
    placed.retain(|(x, _)| (strip.left() - 1.0..=strip.right() + 1.0).contains(x));
    placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.severity.cmp(&a.1.severity)));
    // From the right: words go where the flag is, or as far to its left as they must.
    let painter = ui.painter_at(strip);
    let mut right = strip.right();
    for (n, &(x, insight)) in placed.iter().enumerate().rev() {
        let text = painter.layout_no_wrap(words(insight), theme::tick(), egui::Color32::PLACEHOLDER);
        let wide = (text.size().x + LEAST + 10.0).min(WORDS);
        // Each keeps room for the marks before it.
        let first = strip.left() + n as f32 * LEAST;
        let left = x.min(right - wide).max(first);
        let wide = wide.min(right - left).max(LEAST);
        let flag = Rect::from_min_size(pos2(left, strip.top()), vec2(wide, strip.height() - 3.0));
        right = left - 2.0;
        let (_, color) = mark(app, insight.severity);
        painter.vline(x.round() - 0.5, strip.bottom() - 4.0..=strip.bottom(), egui::Stroke::new(2.0, color));
        one(app, ui, (n, insight), flag);
    }
}

/// What a flag says.
fn words(insight: &Insight) -> String {
    match insight.bytes {
        0 => insight.kind.clone(),
        bytes => format!("{} {}", insight.kind, size(bytes)),
    }
}

/// The sign and the color of how bad a finding is.
pub(crate) fn mark(app: &App, severity: Severity) -> (&'static str, egui::Color32) {
    let palette = app.palette();
    match severity {
        Severity::Low => ("●", palette.dim),
        Severity::Medium => ("▲", palette.select),
        Severity::High => ("■", palette.danger),
    }
}

fn one(app: &mut App, ui: &Ui, (n, insight): (usize, &Insight), rect: Rect) {
    let palette = app.palette();
    let (mark, color) = mark(app, insight.severity);
    let response = ui.interact(rect.shrink2(vec2(1.0, 1.0)), Id::unique(("flag", n)), Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &insight.title));
    let painter = ui.painter_at(rect);
    if response.hovered() {
        painter.rect_filled(rect, 3.0, palette.raised);
    }
    let columns = theme::columns(&painter, &theme::tick(), rect.width() - LEAST - 4.0);
    let words = if columns < 4 { String::new() } else { fit(&words(insight), columns) };
    let y = rect.center().y;
    painter.text(pos2(rect.left() + 3.0, y), Align2::LEFT_CENTER, mark, theme::tick(), color);
    let bright = if response.hovered() { palette.text } else { palette.dim };
    painter.text(pos2(rect.left() + LEAST, y), Align2::LEFT_CENTER, words, theme::tick(), bright);
    if let Some(at) = response.hover_pos() {
        let action = if insight.group.is_some() { "Click to show it alone" } else { "Click to go there" };
        let mut lines = vec![(insight.title.clone(), true)];
        lines.extend(
            vramscope_format::wrap(&insight.advice, 64).into_iter().take(3).map(|line| (line, false)),
        );
        lines.push((action.to_owned(), true));
        tooltip::card(app, ui, at, &lines);
    }
    if response.clicked() {
        app.show_insight(insight);
    }
}
