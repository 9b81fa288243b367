//! The segment timeline: addresses over time, a row per stretch of addresses that was ever held.

use egui::{Align2, Id, Rect, Sense, Ui, pos2};
use vramscope_engine::{Request, Stretch, Summary};
use vramscope_format::bytes;

use crate::app::App;
use crate::desk::Slot;
use crate::picture::Painted;
use crate::theme;
use crate::view::View;
use crate::views::hands::wheel;
use crate::views::lower::{not_in_file, nothing};
use crate::views::timeline::{Shown, snapped};
use crate::views::{GUTTER, tooltip};

/// A row is so high at the least and at the most.
const LEAST: f32 = 14.0;
const MOST: f32 = 120.0;
/// The row of the selection is so many times as high.
const GROWN: f32 = 4.0;

/// What the segment timeline keeps.
#[derive(Default)]
pub(crate) struct Segments {
    painted: Painted,
    scroll: f32,
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
    if !summary.told.addresses {
        return not_in_file(app, ui, body, "Addresses", "Segments and holes are told by a snapshot.");
    }
    if summary.lanes.is_empty() || plot.height() < 10.0 {
        nothing(app, ui, body, "No memory was taken from the driver in this recording.");
        return;
    }
    let response = ui.interact(plot, Id::unique("segments"), Sense::click_and_drag());
    let rows = layout(&summary, app.parts.selected_addr, plot.height());
    let deep = rows.last().map_or(0.0, |(_, top, high)| top + high);
    hands(app, ui, plot, &response, deep);
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
    let stretch =
        Stretch { axis: app.view.axis, x: app.view.x, width: (plot.width() * scale).round() as u32 };
    let bytes_of = app.settings.bytes;
    let categories = app.settings.color == crate::color::ColorBy::Category;
    let request = Request::Lanes { of, bytes: bytes_of, stretch, lanes, height, categories };
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
        painter.text(at, Align2::RIGHT_CENTER, bytes(lane.size as i64), theme::tick(), palette.dim);
    }
    let search = super::search::found(app);
    let (view, colors) = (app.view, app.colors_version);
    let Some(shown) = app.desk.want(Slot::Lanes, request.clone()).and_then(|answer| {
        let same = matches!((&answer.request, &request), (Request::Lanes { of: a, lanes: x, .. }, Request::Lanes { of: b, lanes: y, .. }) if a == b && x == y);
        Shown::new(answer).filter(|_| same)
    }) else {
        return;
    };
    let coloring = app.coloring(search.as_deref(), summary.events);
    app.parts.segments.painted.update(ui.ctx(), "lanes", shown.tile(), shown.version, colors, &coloring);
    let tile = shown.tile();
    let rect = Rect::from_x_y_ranges(
        view.screen_x(plot, tile.stretch.x.0)..=view.screen_x(plot, tile.stretch.x.1),
        plot.y_range(),
    );
    app.parts.segments.painted.draw(&inside, rect);
    if let Some(x) = app.x_of(app.cursor) {
        let x = view.screen_x(plot, x).round() + 0.5;
        inside.vline(x, plot.y_range(), egui::Stroke::new(1.0, palette.accent));
    }
    hover(app, ui, &inside, &shown, &View { y: tile.y, ..view }, plot, &response);
}

fn hands(app: &mut App, ui: &mut Ui, plot: Rect, response: &egui::Response, deep: f32) {
    let most = (deep - plot.height()).max(0.0);
    if response.dragged() {
        let moved = response.drag_delta();
        app.set_view(app.view.moved(f64::from(-moved.x / plot.width()), 0.0));
        app.parts.segments.scroll -= moved.y;
    }
    if response.contains_pointer() {
        // The wheel scrolls where there is more to see, and zooms with Alt or where there is not.
        let (alt, turned) =
            ui.input(|input| (input.modifiers.alt || input.modifiers.command, input.smooth_scroll_delta().y));
        if alt || most == 0.0 {
            let y = app.view.y;
            wheel(app, ui, plot);
            app.set_view(View { y, ..app.view });
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
    let tile = shown.tile();
    // The selection, wherever it lies.
    if let Some(alloc) = app.selected {
        let own: Vec<bool> =
            [false, false].into_iter().chain(tile.owners.iter().map(|owner| owner.alloc == alloc)).collect();
        let mut edges: Option<Rect> = None;
        for (x, column) in tile.cells.chunks(tile.height.max(1) as usize).enumerate() {
            let is_own = |cell: &u32| own.get(*cell as usize).copied().unwrap_or_default();
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
    app.hover_at = tile.shown.get(column).copied().filter(|&moment| moment != u32::MAX);
    painter.vline(
        at.x.round() + 0.5,
        plot.y_range(),
        egui::Stroke::new(1.0, palette.text.gamma_multiply(0.18)),
    );
    let owner = tile.owner(column, row).copied();
    if let Some(owner) = &owner {
        app.hovered = Some(owner.alloc);
        tooltip::show(app, ui, at, owner, tile.line(owner.line));
    }
    if response.clicked() {
        app.selected = owner.map(|owner| owner.alloc);
        if let Some(moment) = app.hover_at {
            app.set_cursor(moment);
        }
    }
}
