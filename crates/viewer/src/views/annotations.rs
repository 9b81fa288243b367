//! Phases of the program as nested spans, one lane per depth.

use egui::{Align2, Id, Rect, Sense, Ui, pos2, vec2};
use vramscope_analysis::pictures::Axis;
use vramscope_engine::{LineId, SpanInfo, Summary};
use vramscope_format::{duration, fit, plural};

use crate::app::App;
use crate::theme;
use crate::views::{GUTTER, tooltip};

const LANE: f32 = 18.0;
/// About the width of a letter of a label.
const LETTER: f32 = 6.4;
/// Deeper ones share the last lane.
const MOST_LANES: usize = 4;

/// A span as it lies on the axis.
#[derive(Clone, Copy)]
struct Mark {
    from: f64,
    to: f64,
    row: u32,
}

/// Spans by lane, made once per device and axis.
#[derive(Default)]
pub(crate) struct Lanes {
    of: Option<(usize, usize, Axis)>,
    lanes: Vec<Vec<Mark>>,
}

fn refresh(app: &mut App, summary: &Summary) {
    let axis = app.camera.view.axis;
    let of = Some((app.files.current, summary.spans.len(), axis));
    if app.parts.annotations.of == of {
        return;
    }
    let spans = summary.spans.iter().enumerate();
    let marks = spans.map(|(row, span)| {
        let (from, to) = ends(span, axis);
        (span.depth as usize, Mark { from, to, row: row as u32 })
    });
    app.parts.annotations = Lanes { of, lanes: in_lanes(marks) };
}

/// Marks in the lanes of their depths. One that another one there overlaps, as those of threads do, goes to the next lane that
/// is free; the last takes what no other has room for.
fn in_lanes(marks: impl Iterator<Item = (usize, Mark)>) -> Vec<Vec<Mark>> {
    let mut lanes: Vec<Vec<Mark>> = Vec::new();
    // Where the marks of each lane end so far.
    let mut ends = [f64::MIN; MOST_LANES];
    for (depth, mark) in marks {
        let free = (depth..MOST_LANES).find(|&lane| ends[lane] <= mark.from);
        let lane = free.unwrap_or(MOST_LANES - 1);
        ends[lane] = ends[lane].max(mark.to);
        if lanes.len() <= lane {
            lanes.resize(lane + 1, Vec::new());
        }
        lanes[lane].push(mark);
    }
    lanes
}

/// Height of all lanes.
pub(crate) fn height(app: &mut App) -> f32 {
    let Some((_, summary)) = app.device() else { return 0.0 };
    refresh(app, &summary);
    app.parts.annotations.lanes.len() as f32 * LANE
}

fn ends(span: &SpanInfo, axis: Axis) -> (f64, f64) {
    match axis {
        Axis::Events => (f64::from(span.from.0), f64::from(span.to.0)),
        Axis::Time => (span.time.0 as f64, span.time.1 as f64),
    }
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, rect: Rect) {
    let Some((_, summary)) = app.device() else { return };
    let palette = app.palette();
    let strip = Rect::from_min_max(pos2(rect.left() + GUTTER, rect.top()), rect.max);
    let painter = ui.painter_at(strip);
    let (view, axis) = (app.camera.view, app.camera.view.axis);
    let response = ui.interact(strip, Id::unique("annotations"), Sense::click());
    response.widget_info(|| {
        let names: std::collections::BTreeSet<&str> =
            summary.spans.iter().map(|span| span.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().take(12).collect();
        egui::WidgetInfo::labeled(egui::Role::Image, true, format!("Phases: {}", names.join(", ")))
    });
    let pointer = response.hover_pos();
    let mut under = None;
    let mut thin = egui::Mesh::default();
    for (depth, lane) in app.parts.annotations.lanes.iter().enumerate() {
        let top = strip.top() + depth as f32 * LANE;
        // Where the names written so far end: in the last lane, marks may lie on each other.
        let mut named = strip.left();
        // The last one that begins left of the picture may reach into it.
        let mut at = lane.partition_point(|mark| mark.from < view.x.0).saturating_sub(1);
        while let Some(&Mark { from, to, row }) = lane.get(at) {
            let span = &summary.spans[row as usize];
            if from > view.x.1 {
                break;
            }
            at += 1;
            let (left, right) = (view.screen_x(strip, from), view.screen_x(strip, to));
            if right < strip.left() {
                continue;
            }
            if right - left < 1.5 {
                // As many as share a pixel are one mark.
                let pixel = view.point(strip, pos2(left + 1.5, top)).0;
                at += ahead(&lane[at..], pixel);
                let mark = Rect::from_min_size(pos2(left, top + 1.0), vec2(1.0, LANE - 2.0));
                thin.add_colored_rect(mark, palette.of_line(LineId::of(&span.name), 1).gamma_multiply(0.7));
                under = under.or(pointer.filter(|at| mark.expand(1.0).contains(*at)).map(|_| row));
                continue;
            }
            let left = left.max(strip.left() - 4.0);
            let bar = Rect::from_min_max(
                pos2(left, top + 1.0),
                pos2((right - 1.0).max(left + 1.0).min(strip.right() + 4.0), top + LANE - 1.0),
            );
            let hue = palette.of_line(LineId::of(&span.name), 1);
            let lit = pointer.is_some_and(|at| bar.contains(at));
            if lit {
                under = Some(row);
            }
            painter.rect_filled(bar, 2.0, hue.gamma_multiply(if lit { 0.55 } else { 0.30 }));
            painter.rect_filled(
                Rect::from_min_size(bar.min, vec2(2.0, bar.height())),
                0.0,
                hue.gamma_multiply(0.9),
            );
            let at = pos2((bar.left().max(strip.left()) + 7.0).max(named + LETTER), bar.center().y);
            let columns = ((bar.right().min(strip.right()) - at.x - 3.0) / LETTER) as usize;
            // Two letters and a dot say nothing.
            if columns >= span.name.chars().count().min(4) {
                let text = fit(&span.name, columns);
                named = painter.text(at, Align2::LEFT_CENTER, text, theme::label(), palette.text).right();
            }
        }
    }
    painter.add(egui::Shape::mesh(thin));
    if let (Some(row), Some(at)) = (under, pointer) {
        let span = &summary.spans[row as usize];
        let (from, to) = ends(span, axis);
        let length = match axis {
            Axis::Events => plural(span.to.0.saturating_sub(span.from.0), "event"),
            Axis::Time => duration(span.time.1 - span.time.0),
        };
        tooltip::card(app, ui, at, &[(span.name.clone(), true), (length, false)]);
        if response.clicked() {
            app.set_cursor(span.to);
            app.show_stretch(from, to);
        }
    }
}

/// How many marks begin before a place: they are few, so the steps grow from the first.
fn ahead(marks: &[Mark], x: f64) -> usize {
    let mut step = 1;
    while marks.get(step).is_some_and(|mark| mark.from < x) {
        step *= 2;
    }
    marks[..step.min(marks.len())].partition_point(|mark| mark.from < x)
}
