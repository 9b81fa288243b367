//! Lines and words over the memory timeline: what is held, the capacity, failed allocations, the peak.

use egui::{Align2, Color32, Painter, Pos2, Rect, Stroke, Vec2, pos2, vec2};
use vramscope_analysis::Moment;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::{Curve, Summary};
use vramscope_format::{bytes, fit, size};

use crate::app::App;
use crate::theme::{self, Palette};
use crate::views::timeline::steps;

/// Failed allocations that are closer than this have one name.
const OOM_ROOM: f32 = 220.0;
/// Letters of a note that are shown; the rest is in its field.
const NOTE_LETTERS: usize = 40;

/// Where words lie over the picture.
pub(crate) struct Placed {
    pub(crate) words: Vec<Rect>,
    /// Where failed allocations are named, and the moments after them.
    pub(crate) failures: Vec<(Rect, Moment)>,
}

/// Draws them, and says where.
pub(crate) fn draw(
    painter: &Painter,
    app: &App,
    summary: &Summary,
    (curve, simulated): (Option<&Curve>, Option<(String, Vec<Pos2>)>),
    plot: Rect,
    palette: &Palette,
) -> Placed {
    let placed = Placed { words: Vec::new(), failures: Vec::new() };
    let mut tags = Tags { painter, plot, palette, placed };
    failures(&mut tags, app, summary);
    notes(&mut tags, app);
    if app.isolated.is_some() {
        // The rest would be numbers of other memory.
        isolated_peak(&mut tags, app);
        return tags.placed;
    }
    if let Some(curve) = curve.filter(|_| summary.has.reserved) {
        held_line(&mut tags, app, curve);
    }
    if let Some((name, points)) = simulated {
        simulated_line(&mut tags, &name, &points);
    }
    capacity_line(&mut tags, app);
    peak(&mut tags, app, summary);
    tags.placed
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
    placed: Placed,
}

impl Tags<'_> {
    fn size(&self, text: &str) -> Vec2 {
        self.painter.layout_no_wrap(text.to_owned(), theme::tick(), Color32::PLACEHOLDER).size()
    }

    /// Writes at a place, or right below what is there already.
    fn put(&mut self, at: Pos2, align: Align2, text: &str, color: Color32) {
        let mut rect = align.anchor_size(at, self.size(text)).expand2(vec2(4.0, 1.0));
        while let Some(taken) = self.placed.words.iter().find(|taken| taken.intersects(rect)) {
            rect = rect.translate(vec2(0.0, taken.bottom() + 2.0 - rect.top()));
        }
        self.placed.words.push(rect);
        tag(self.painter, rect.shrink2(vec2(4.0, 1.0)).min, Align2::LEFT_TOP, text, color, self.palette);
    }

    /// Writes beside a line, on the side that has more room if the right one has too little, and as much as fits there.
    fn put_beside(&mut self, (x, y): (f32, f32), text: &str, color: Color32) {
        let (wide, plot) = (self.size(text).x + 13.0, self.plot);
        let (left, right) = (x - plot.left(), plot.right() - x);
        let (at, align, room) = match right < wide && left > right {
            true => (x - 9.0, Align2::RIGHT_TOP, left),
            false => (x + 9.0, Align2::LEFT_TOP, right),
        };
        let text = fit(text, theme::columns(self.painter, &theme::tick(), room - 13.0));
        self.put(pos2(at, y), align, &text, color);
    }
}

/// What is held from the driver.
fn held_line(tags: &mut Tags<'_>, app: &App, curve: &Curve) {
    let plot = tags.plot;
    let points = steps(&app.camera.view, plot, curve, |counters| counters.reserved);
    let color = tags.palette.text.gamma_multiply(0.85);
    let last = points.last().copied();
    tags.painter.line(points, Stroke::new(1.0, color));
    let Some(end) = curve.most.iter().flatten().next_back() else { return };
    let text = format!("reserved {}", bytes(end.reserved));
    let right = plot.right() - 6.0;
    // The number is that of the place beside it: the end of the line.
    let Some(last) = last else { return };
    if last.y < plot.top() {
        tags.put(pos2(right, plot.top() + 4.0), Align2::RIGHT_TOP, &format!("{text} ↑"), color);
    } else {
        let above = last.y - 4.0 > plot.top() + 16.0;
        let (y, align) =
            if above { (last.y - 4.0, Align2::RIGHT_BOTTOM) } else { (last.y + 4.0, Align2::RIGHT_TOP) };
        tags.put(pos2(right, y), align, &text, color);
    }
}

/// What other settings would have held, up to where their simulation ended.
fn simulated_line(tags: &mut Tags<'_>, name: &str, points: &[Pos2]) {
    let (plot, color) = (tags.plot, tags.palette.select);
    tags.painter.extend(egui::Shape::dashed_line(points, Stroke::new(1.5, color), 5.0, 3.0));
    let Some(first) = points.iter().find(|point| plot.x_range().contains(point.x)) else { return };
    let y = first.y.clamp(plot.top(), plot.bottom() - 20.0) + 4.0;
    let left = first.x.max(plot.left()) + 6.0;
    let columns = theme::columns(tags.painter, &theme::tick(), plot.right() - left);
    let text = fit(&format!("simulated: {name}"), columns);
    tags.put(pos2(left, y), Align2::LEFT_TOP, &text, color);
}

/// What the device has.
fn capacity_line(tags: &mut Tags<'_>, app: &App) {
    let Some(capacity) = app.capacity() else { return };
    let (plot, color) = (tags.plot, tags.palette.danger);
    let y = app.camera.view.screen_y(plot, capacity as f64).round() + 0.5;
    let text = format!("capacity {}", size(capacity));
    if y >= plot.top() {
        let ends = [pos2(plot.left(), y), pos2(plot.right(), y)];
        tags.painter.extend(egui::Shape::dashed_line(&ends, Stroke::new(1.0, color), 6.0, 4.0));
        tags.put(pos2(plot.left() + 6.0, y + 3.0), Align2::LEFT_TOP, &text, color);
    } else {
        let at = pos2(plot.left() + 6.0, plot.top() + 4.0);
        tags.put(at, Align2::LEFT_TOP, &format!("{text} ↑"), color);
    }
}

/// Failed allocations: a line, and above the picture the size of the request.
fn failures(tags: &mut Tags<'_>, app: &App, summary: &Summary) {
    let (plot, color) = (tags.plot, tags.palette.danger);
    let mut last = f32::MIN;
    for oom in &summary.ooms {
        let x = if app.camera.view.axis == Axis::Time { oom.time as f64 } else { f64::from(oom.at.0) };
        let x = app.camera.view.screen_x(plot, x).round() - 0.5;
        if !(plot.left()..=plot.right()).contains(&x) {
            continue;
        }
        tags.painter.vline(x, plot.y_range(), Stroke::new(1.0, color.gamma_multiply(0.8)));
        triangle(tags.painter, pos2(x, plot.top()), color);
        // Of many in a row the first says it.
        if x - last > OOM_ROOM {
            last = x;
            let text = format!("out of memory: {} requested", size(oom.requested));
            tags.put_beside((x, plot.top() + 2.0), &text, color);
            let name = tags.placed.words.last().map(|rect| (*rect, oom.at));
            tags.placed.failures.extend(name);
        }
    }
}

/// Notes: a dotted line, and the words beside it.
fn notes(tags: &mut Tags<'_>, app: &App) {
    let (plot, color) = (tags.plot, tags.palette.accent);
    for note in &app.notes {
        let x = app.camera.view.screen_x(plot, note.x(app.camera.view.axis)).round() - 0.5;
        if (plot.left()..=plot.right()).contains(&x) {
            let line = [pos2(x, plot.top()), pos2(x, plot.bottom())];
            tags.painter.extend(egui::Shape::dotted_line(&line, color, 5.0, 0.8));
            let text = fit(&note.text, NOTE_LETTERS);
            tags.put_beside((x, plot.top() + 20.0), &text, color);
        }
    }
}

fn peak(tags: &mut Tags<'_>, app: &App, summary: &Summary) {
    let (counter, view) = (app.settings.counter, &app.camera.view);
    let peak = summary.peak(counter);
    let x = match view.axis {
        Axis::Time => summary.peak_time(counter) as f64,
        Axis::Events => f64::from(peak.at.0) + 0.5,
    };
    // The picture is higher where pools stand with what they hold and do not use.
    let idle =
        if app.settings.pools && !summary.envelopes.is_empty() { " without idle pool memory" } else { "" };
    flag(tags, app, (x, peak.bytes), &format!("peak {}{idle}", bytes(peak.bytes)));
}

/// Where what is alone on the chart was highest.
fn isolated_peak(tags: &mut Tags<'_>, app: &App) {
    let Some(levels) = app.isolated_levels() else { return };
    let x = match app.camera.view.axis {
        Axis::Time => levels.peak_time as f64,
        Axis::Events => f64::from(levels.peak.at.0) + 0.5,
    };
    flag(tags, app, (x, levels.peak.bytes), &format!("peak {}", bytes(levels.peak.bytes)));
}

/// A ring at a place of the chart, with words beside it.
fn flag(tags: &mut Tags<'_>, app: &App, (x, level): (f64, i64), text: &str) {
    let (plot, color) = (tags.plot, tags.palette.text);
    let flag = app.camera.view.screen(plot, x, level as f64);
    if plot.expand(2.0).contains(flag) {
        tags.painter.circle(flag, 3.0, tags.palette.ground, Stroke::new(1.5, color));
        tags.put_beside((flag.x, (flag.y - 15.0).max(plot.top() + 2.0)), text, color);
    }
}

fn triangle(painter: &Painter, tip: Pos2, color: Color32) {
    let points = vec![pos2(tip.x - 5.0, tip.y), pos2(tip.x + 5.0, tip.y), pos2(tip.x, tip.y + 8.0)];
    painter.add(egui::Shape::convex_polygon(points, color, Stroke::NONE));
}
