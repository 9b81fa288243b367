//! The segment timeline: addresses over time, a row per stretch of addresses that was ever held.

use egui::{Align2, Id, Rect, Sense, Ui, pos2};
use vramscope_analysis::AllocIdx;
use vramscope_engine::{AskLanes, Stretch, Summary};
use vramscope_format::size;

use crate::app::App;
use crate::picture::Painted;
use crate::requests::Slot;
use crate::theme;
use crate::view::View;
use crate::views::input::wheel;
use crate::views::lower::{not_in_file, nothing};
use crate::views::timeline::{Shown, snapped};
use crate::views::{GUTTER, tooltip};

/// The least and the greatest height of a row.
const LEAST: f32 = 14.0;
const MOST: f32 = 120.0;
/// How many times as high the row of the selection is.
const GROWN: f32 = 4.0;

/// What the segment timeline keeps.
#[derive(Default)]
pub(crate) struct Segments {
    painted: Painted,
    scroll: f32,
    /// The selection that was scrolled to.
    shown: Option<AllocIdx>,
}

#[cfg(test)]
impl Segments {
    /// How far it is scrolled, in points.
    pub(crate) fn scroll(&self) -> f32 {
        self.scroll
    }
}

/// Where each lane lies: its number, top and height in points, largest first.
fn layout(summary: &Summary, grown: Option<u64>, room: f32) -> Vec<(u32, f32, f32)> {
    let mut order: Vec<u32> = (0..summary.lanes.len() as u32).collect();
    order.sort_by_key(|&lane| {
        let lane = &summary.lanes[lane as usize];
        (std::cmp::Reverse(lane.size), lane.addr)
    });
    let is_grown = |lane: u32| {
        let lane = &summary.lanes[lane as usize];
        grown.is_some_and(|addr| lane.addr <= addr && addr < lane.addr.saturating_add(lane.size))
    };
    // Height by the root of the size: a segment of 2 MiB can still be seen beside one of 10 GiB.
    let weight = |lane: u32| {
        (summary.lanes[lane as usize].size as f32).sqrt() * if is_grown(lane) { GROWN } else { 1.0 }
    };
    let all: f32 = order.iter().map(|&lane| weight(lane)).sum::<f32>().max(1.0);
    let mut top = 0.0;
    let mut rows = Vec::new();
    for lane in order {
        let grown = is_grown(lane);
        let high = (room * weight(lane) / all).clamp(
            if grown { LEAST * GROWN } else { LEAST },
            if grown { room } else { MOST.max(room / 2.0) },
        );
        rows.push((lane, top, high.round()));
        top += high.round() + 3.0;
    }
    rows
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    let plot =
        snapped(Rect::from_min_max(pos2(body.left() + GUTTER, body.top()), body.max), ui.pixels_per_point());
    if !summary.has.addresses {
        return not_in_file(app, ui, body, "Addresses", "Record a snapshot to see segments and holes.");
    }
    if summary.lanes.is_empty() || plot.height() < 10.0 {
        nothing(app, ui, body, "No segment was allocated in this recording.");
        return;
    }
    let response = ui.interact(plot, Id::unique("segments"), Sense::click_and_drag());
    let words =
        || format!("Addresses over time: {}", vramscope_format::plural(summary.lanes.len(), "segment"));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, words()));
    let rows = layout(&summary, app.selected_details().map(|details| details.addr), plot.height());
    let deep = rows.last().map_or(0.0, |(_, top, high)| top + high);
    to_selection(app, &summary, &rows, plot.height());
    scroll_and_zoom(app, ui, plot, &response, deep);
    let scroll = app.parts.segments.scroll;
    let scale = ui.pixels_per_point();
    let height = (plot.height() * scale).round() as u32;
    // Rows that can be seen, in pixels from the lower edge.
    let mut lanes = Vec::new();
    for &(lane, top, high) in &rows {
        let (from, to) = (top - scroll, top - scroll + high);
        if from >= 0.0 && to <= plot.height() {
            lanes.push((lane, height - (to * scale).round() as u32, (high * scale).round() as u32));
        }
    }
    let stretch = Stretch {
        axis: app.camera.view.axis,
        x: app.camera.view.x,
        width: (plot.width() * scale).round() as u32,
    };
    let (counter, categories) = (app.settings.counter, app.has_categories());
    let request = AskLanes { of, counter, stretch, lanes: lanes.clone(), height, categories };
    let painter = ui.painter_at(body);
    let inside = painter.with_clip_rect(plot);
    for &(lane, top, high) in &rows {
        let y = plot.top() + top - scroll;
        if y > plot.bottom() || y + high < plot.top() {
            continue;
        }
        let row = Rect::from_min_max(pos2(plot.left(), y), pos2(plot.right(), y + high));
        inside.rect_filled(row, 0.0, theme::blend(palette.ground, palette.panel, 0.5));
        let lane = &summary.lanes[lane as usize];
        let at = pos2(plot.left() - 8.0, row.center().y);
        painter.text(at, Align2::RIGHT_CENTER, size(lane.size), theme::tick(), palette.dim);
    }
    let search = super::search::found(app);
    let (view, colors) = (app.camera.view, app.colors_version);
    let answer = app.requests.want(Slot::Lanes, request);
    let same = answer.filter(|answer| answer.request.of == of && answer.request.lanes == lanes);
    let Some(shown) = same.map(Shown::new) else { return };
    let coloring = app.coloring(search.as_ref().map(|found| found.stacks.as_slice()), summary.last());
    app.parts.segments.painted.update(ui.ctx(), "lanes", &shown.tile, shown.version, colors, &coloring);
    let tile = &shown.tile;
    let rect = Rect::from_x_y_ranges(
        view.screen_x(plot, tile.stretch.x.0)..=view.screen_x(plot, tile.stretch.x.1),
        plot.y_range(),
    );
    app.parts.segments.painted.draw(&inside, rect);
    if let Some(x) = app.cursor_x() {
        let x = view.screen_x(plot, x).round() + 0.5;
        inside.vline(x, plot.y_range(), egui::Stroke::new(1.0, palette.accent));
    }
    hover(app, ui, &inside, &shown, &View { y: tile.y, ..view }, plot, &response);
}

/// Scrolls to the row of what was selected elsewhere.
fn to_selection(app: &mut App, summary: &Summary, rows: &[(u32, f32, f32)], room: f32) {
    let Some(details) = app.selected_details() else {
        app.parts.segments.shown = app.parts.segments.shown.filter(|_| app.selection.alloc.is_some());
        return;
    };
    let alloc = Some(details.owner.alloc);
    if app.parts.segments.shown == alloc {
        return;
    }
    app.parts.segments.shown = alloc;
    let row = rows.iter().find(|(lane, ..)| {
        let lane = &summary.lanes[*lane as usize];
        lane.addr <= details.addr && details.addr < lane.addr.saturating_add(lane.size)
    });
    if let Some((_, top, high)) = row {
        let scroll = &mut app.parts.segments.scroll;
        // As little as shows all of it.
        *scroll = scroll.min(*top).max(top + high - room);
    }
}

fn scroll_and_zoom(app: &mut App, ui: &mut Ui, plot: Rect, response: &egui::Response, deep: f32) {
    let most = (deep - plot.height()).max(0.0);
    if response.dragged() {
        let moved = response.drag_delta();
        app.set_view(app.camera.view.moved(f64::from(-moved.x / plot.width()), 0.0));
        app.parts.segments.scroll -= moved.y;
    }
    if response.contains_pointer() {
        // The wheel scrolls where there is more to see, and zooms with Alt or where there is not.
        let (alt, turned) =
            ui.input(|input| (input.modifiers.alt || input.modifiers.command, input.smooth_scroll_delta().y));
        if alt || most == 0.0 {
            let y = app.camera.view.y;
            wheel(app, ui, plot);
            app.set_view(View { y, ..app.camera.view });
        } else {
            app.parts.segments.scroll -= turned;
        }
    }
    app.parts.segments.scroll = app.parts.segments.scroll.clamp(0.0, most);
}

fn hover(
    app: &mut App,
    ui: &Ui,
    painter: &egui::Painter,
    shown: &Shown,
    view: &View,
    plot: Rect,
    response: &egui::Response,
) {
    let palette = app.palette();
    let tile = &shown.tile;
    // The selection, wherever it lies.
    if let Some(alloc) = app.selection.alloc {
        let mut edges: Option<Rect> = None;
        for (x, column) in tile.cells.chunks(tile.height.max(1) as usize).enumerate() {
            let is_own = |cell: &u32| tile.owner_of(*cell).is_some_and(|owner| owner.alloc == alloc);
            if let (Some(low), Some(high)) = (column.iter().position(is_own), column.iter().rposition(is_own))
            {
                let part =
                    Rect::from_min_max(pos2(x as f32, low as f32), pos2(x as f32 + 1.0, high as f32 + 1.0));
                edges = Some(edges.map_or(part, |edges| edges.union(part)));
            }
        }
        if let Some(edges) = edges {
            let scale = plot.width() / tile.stretch.width.max(1) as f32;
            let at = |p: egui::Pos2| pos2(plot.left() + p.x * scale, plot.bottom() - p.y * scale);
            let rect = Rect::from_two_pos(at(edges.min), at(edges.max));
            painter.rect_stroke(
                rect.expand(1.0),
                0.0,
                egui::Stroke::new(1.5, palette.select),
                egui::StrokeKind::Outside,
            );
        }
    }
    let Some(at) = response.hover_pos().filter(|at| plot.contains(*at)) else { return };
    let Some((column, row)) = shown.pixel(view, plot, at) else { return };
    app.selection.hover_at = tile.shown.get(column).copied().flatten();
    painter.vline(
        at.x.round() + 0.5,
        plot.y_range(),
        egui::Stroke::new(1.0, palette.text.gamma_multiply(0.18)),
    );
    let owner = tile.owner(column, row).copied();
    if let Some(owner) = &owner {
        app.selection.hovered = Some(owner.alloc);
        tooltip::show(app, ui, at, owner, tile.line(owner.line));
    }
    if response.clicked() {
        app.selection.alloc = owner.map(|owner| owner.alloc);
        if let Some(moment) = app.selection.hover_at {
            app.set_cursor(moment);
        }
    }
}
