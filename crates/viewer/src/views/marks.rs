//! Lines and words over the memory timeline: what is held, the capacity, failed allocations, the peak.

use egui::{Align2, Color32, Painter, Pos2, Rect, Stroke, pos2, vec2};
use vramscope_engine::{Axis, Curve, Summary};
use vramscope_format::bytes as byte_text;

use crate::app::App;
use crate::theme::{self, Palette};
use crate::views::timeline::steps;

/// Room that the words beside a failed allocation take.
const OOM_ROOM: f32 = 200.0;

pub(crate) fn draw(
    painter: &Painter,
    app: &App,
    summary: &Summary,
    curve: Option<&Curve>,
    plot: Rect,
    palette: &Palette,
) {
    let mut tags = Tags { painter, plot, palette, placed: Vec::new() };
    failures(&mut tags, app, summary);
    if let Some(curve) = curve.filter(|_| summary.told.reserved) {
        held_line(&mut tags, app, curve);
    }
    capacity_line(&mut tags, app);
    peak(&mut tags, app, summary);
}

/// Small text on a piece of the ground, so that it can be read over a picture.
pub(crate) fn tag(
    painter: &Painter,
    at: Pos2,
    align: Align2,
    text: &str,
    color: Color32,
    palette: &Palette,
) -> Rect {
    let galley = painter.layout_no_wrap(text.to_owned(), theme::tick(), color);
    let rect = align.anchor_size(at, galley.size());
    painter.rect_filled(rect.expand2(vec2(4.0, 1.0)), 2.0, palette.ground.gamma_multiply(0.82));
    painter.galley(rect.min, galley, color);
    rect
}

/// Words over the picture that never lie on each other.
struct Tags<'a> {
    painter: &'a Painter,
    plot: Rect,
    palette: &'a Palette,
    placed: Vec<Rect>,
}

impl Tags<'_> {
    /// Writes at a place, or right below what is there already.
    fn put(&mut self, at: Pos2, align: Align2, text: &str, color: Color32) {
        let size = self.painter.layout_no_wrap(text.to_owned(), theme::tick(), color).size();
        let mut rect = align.anchor_size(at, size).expand2(vec2(4.0, 1.0));
        while let Some(taken) = self.placed.iter().find(|taken| taken.intersects(rect)) {
            rect = rect.translate(vec2(0.0, taken.bottom() + 2.0 - rect.top()));
        }
        self.placed.push(rect);
        tag(self.painter, rect.shrink2(vec2(4.0, 1.0)).min, Align2::LEFT_TOP, text, color, self.palette);
    }

    /// Whether there is room for something so wide beside a line, and on which side.
    fn beside(&self, x: f32, wide: f32) -> (f32, Align2) {
        if x > self.plot.right() - wide { (x - 9.0, Align2::RIGHT_TOP) } else { (x + 9.0, Align2::LEFT_TOP) }
    }
}

/// What is held from the driver.
fn held_line(tags: &mut Tags<'_>, app: &App, curve: &Curve) {
    let plot = tags.plot;
    let points = steps(&app.view, plot, curve, |numbers| numbers.reserved);
    let top = points.iter().map(|point| point.y).fold(f32::INFINITY, f32::min);
    let color = tags.palette.text.gamma_multiply(0.85);
    let last = points.last().copied();
    tags.painter.line(points, Stroke::new(1.0, color));
    let most = curve.most.iter().flatten().map(|numbers| numbers.reserved).max().unwrap_or_default();
    let text = format!("reserved {}", byte_text(most));
    let right = plot.right() - 6.0;
    if top < plot.top() {
        tags.put(pos2(right, plot.top() + 4.0), Align2::RIGHT_TOP, &format!("{text} ↑"), color);
    } else if let Some(last) = last {
        let above = last.y - 4.0 > plot.top() + 16.0;
        let (y, align) =
            if above { (last.y - 4.0, Align2::RIGHT_BOTTOM) } else { (last.y + 4.0, Align2::RIGHT_TOP) };
        tags.put(pos2(right, y), align, &text, color);
    }
}

/// What the device has.
fn capacity_line(tags: &mut Tags<'_>, app: &App) {
    let Some(capacity) = app.capacity() else { return };
    let (plot, color) = (tags.plot, tags.palette.danger);
    let y = app.view.screen_y(plot, capacity as f64).round() + 0.5;
    let text = format!("capacity {}", byte_text(capacity as i64));
    if y >= plot.top() {
        let ends = [pos2(plot.left(), y), pos2(plot.right(), y)];
        tags.painter.extend(egui::Shape::dashed_line(&ends, Stroke::new(1.0, color), 6.0, 4.0));
        tags.put(pos2(plot.left() + 6.0, y + 3.0), Align2::LEFT_TOP, &text, color);
    } else {
        let at = pos2(plot.left() + 6.0, plot.top() + 4.0);
        tags.put(at, Align2::LEFT_TOP, &format!("{text} ↑"), color);
    }
}

/// Failed allocations: a line, and in the room above the picture what was asked.
fn failures(tags: &mut Tags<'_>, app: &App, summary: &Summary) {
    let (plot, color) = (tags.plot, tags.palette.danger);
    let mut last = f32::MIN;
    for oom in &summary.ooms {
        let x = if app.view.axis == Axis::Time { oom.time as f64 } else { f64::from(oom.at) };
        let x = app.view.screen_x(plot, x).round() - 0.5;
        if !(plot.left()..=plot.right()).contains(&x) {
            continue;
        }
        tags.painter.vline(x, plot.y_range(), Stroke::new(1.0, color.gamma_multiply(0.8)));
        triangle(tags.painter, pos2(x, plot.top()), color);
        // Of many in a row the first says it.
        if x - last > OOM_ROOM {
            last = x;
            let text = format!("out of memory: {} asked", byte_text(oom.requested as i64));
            let (at, align) = tags.beside(x, OOM_ROOM);
            tags.put(pos2(at, plot.top() + 2.0), align, &text, color);
        }
    }
}

fn peak(tags: &mut Tags<'_>, app: &App, summary: &Summary) {
    let (plot, color) = (tags.plot, tags.palette.text);
    let counter = app.settings.bytes as usize;
    let (peak, at) = summary.peaks[counter];
    let x =
        if app.view.axis == Axis::Time { summary.peak_times[counter] as f64 } else { f64::from(at) + 0.5 };
    let flag = app.view.screen(plot, x, peak as f64);
    if plot.expand(2.0).contains(flag) {
        tags.painter.circle(flag, 3.0, tags.palette.ground, Stroke::new(1.5, color));
        let (x, align) = tags.beside(flag.x, 120.0);
        let y = (flag.y - 15.0).max(plot.top() + 2.0);
        tags.put(pos2(x, y), align, &format!("peak {}", byte_text(peak)), color);
    }
}

fn triangle(painter: &Painter, tip: Pos2, color: Color32) {
    let points = vec![pos2(tip.x - 5.0, tip.y), pos2(tip.x + 5.0, tip.y), pos2(tip.x, tip.y + 8.0)];
    painter.add(egui::Shape::convex_polygon(points, color, Stroke::NONE));
}
