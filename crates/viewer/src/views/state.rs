//! The allocator's state at the cursor: every segment to scale, its blocks, what rounding wastes, the holes.

use egui::{Align2, Painter, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_engine::color::Coloring;
use vramscope_engine::{AskState, MapBlock, MapRange, MemoryMap};
use vramscope_format::{bytes, plural, share, size, stream};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::{self, blend};
use crate::views::lower::not_in_file;
use crate::views::tooltip;

const ROW: f32 = 22.0;
const NAME: f32 = 190.0;

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    if !summary.has.addresses {
        return not_in_file(app, ui, body, "Addresses", "Record a snapshot to see the map of memory.");
    }
    let palette = app.palette();
    let answer = app.requests.want(Slot::State, AskState { of, at: app.selection.cursor });
    ui.horizontal(|ui| {
        if ui.button("◂").on_hover_text("One event back (,)").clicked() {
            app.step(-1);
        }
        if ui.button("▸").on_hover_text("One event forward (.)").clicked() {
            app.step(1);
        }
        ui.label(RichText::new(app.selection.cursor.words()).font(theme::mono()));
        if let Some(map) = answer.as_ref().map(|answer| &answer.value) {
            let text = format!(
                "{}, {} reserved, {} active, largest hole {}",
                plural(map.ranges.len(), "segment"),
                bytes(map.counters.reserved),
                bytes(map.counters.active),
                size(map.largest_hole)
            );
            ui.label(RichText::new(text).color(palette.dim));
        }
    });
    let Some(answer) = answer else { return };
    let map = &*answer.value;
    segments(app, ui, map, body.width());
}

fn segments(app: &mut App, ui: &mut Ui, map: &MemoryMap, width: f32) {
    // Largest first; those of a size by address.
    let mut order: Vec<usize> = (0..map.ranges.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(map.ranges[at].size), map.ranges[at].addr));
    let largest = map.ranges.iter().map(|range| range.size).max().unwrap_or(1).max(1);
    ui.spacing_mut().item_spacing.y = 0.0;
    ScrollArea::vertical().auto_shrink([false, false]).show_rows(ui, ROW, order.len(), |ui, rows| {
        for at in rows {
            if let Some(range) = order.get(at).and_then(|&at| map.ranges.get(at)) {
                segment(app, ui, range, largest, width - NAME - 16.0);
            }
        }
    });
}

fn segment(app: &mut App, ui: &mut Ui, range: &MapRange, largest: u64, room: f32) {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let painter = ui.painter_at(rect);
    let used: u64 = range.blocks.iter().fold(0, |sum, block| sum.saturating_add(block.size));
    let name = format!("{} {}", size(range.size), if range.expandable { "expandable" } else { "" });
    painter.text(rect.left_center(), Align2::LEFT_CENTER, name, theme::tick(), palette.text);
    let free = format!("{} free", share(range.size.saturating_sub(used), range.size));
    painter.text(
        pos2(rect.left() + NAME - 10.0, rect.center().y),
        Align2::RIGHT_CENTER,
        free,
        theme::tick(),
        palette.dim,
    );
    // To scale with the largest; small ones stay wide enough to be hit.
    let wide = (room * (range.size as f64 / largest as f64) as f32).max(6.0);
    let bar = Rect::from_min_size(pos2(rect.left() + NAME, rect.top() + 2.0), vec2(wide, ROW - 4.0));
    let edge = if range.private { palette.accent } else { palette.line };
    painter.rect_filled(bar, 1.0, palette.hole);
    let x = |addr: u64| {
        bar.left() + ((addr.saturating_sub(range.addr)) as f64 / range.size.max(1) as f64) as f32 * wide
    };
    let Some((_, summary)) = app.device() else { return };
    let coloring = app.coloring(None, summary.last());
    let mut last = f32::MIN;
    for block in &range.blocks {
        let (left, right) = (x(block.addr), x(block.addr.saturating_add(block.size)));
        // Blocks that end in a pixel that is painted add nothing.
        if right <= last + 0.5 {
            continue;
        }
        last = right;
        draw_block(
            app,
            &painter,
            block,
            Rect::from_x_y_ranges(left..=right.max(left + 0.5), bar.y_range()),
            &coloring,
        );
    }
    painter.rect_stroke(bar, 1.0, egui::Stroke::new(1.0, edge), egui::StrokeKind::Outside);
    let Some(at) = response.hover_pos().filter(|at| bar.contains(*at)) else { return };
    let addr = range.addr + (f64::from((at.x - bar.left()) / wide) * range.size as f64) as u64;
    let after = range.blocks.partition_point(|block| block.addr <= addr);
    let block = after
        .checked_sub(1)
        .and_then(|at| range.blocks.get(at))
        .filter(|b| addr < b.addr.saturating_add(b.size));
    match block {
        Some(block) => {
            app.selection.hovered = Some(block.owner.alloc);
            let waste = block.size.saturating_sub(block.owner.requested);
            let lines = [
                (size(block.owner.requested), true),
                (format!("{:#x}", block.addr), true),
                (format!("block of {}, {} more than requested", size(block.size), size(waste)), false),
                (if block.owner.awaiting { "awaiting free".into() } else { String::new() }, false),
            ];
            tooltip::card(app, ui, at, &lines);
            if response.clicked() {
                app.selection.alloc = Some(block.owner.alloc);
            }
        }
        None => {
            let before = after
                .checked_sub(1)
                .and_then(|at| range.blocks.get(at))
                .map_or(range.addr, |b| b.addr + b.size);
            let next = range.blocks.get(after).map_or(range.addr + range.size, |block| block.addr);
            let lines = [
                (format!("hole of {}", size(next.saturating_sub(before))), true),
                (format!("pool {}, stream {}", range.pool, stream(range.stream)), false),
            ];
            tooltip::card(app, ui, at, &lines);
        }
    }
}

/// A block: requested bytes in its color, what rounding adds darker, stripes while it awaits its free.
fn draw_block(app: &App, painter: &Painter, block: &MapBlock, rect: Rect, coloring: &Coloring<'_>) {
    let palette = app.palette();
    let color = crate::color::rgb(coloring.of(&block.owner));
    painter.rect_filled(
        rect,
        0.0,
        if block.owner.awaiting { blend(color, palette.ground, 0.5) } else { color },
    );
    let share = block.owner.requested as f64 / block.size.max(1) as f64;
    let asked = rect.left() + rect.width() * share as f32;
    if rect.right() - asked > 0.7 {
        let waste = Rect::from_x_y_ranges(asked..=rect.right(), rect.y_range());
        painter.rect_filled(waste, 0.0, blend(color, palette.danger, 0.55));
    }
    if rect.width() > 3.0 {
        painter.vline(
            rect.right(),
            rect.y_range(),
            egui::Stroke::new(1.0, palette.ground.gamma_multiply(0.7)),
        );
    }
    if app.selection.alloc == Some(block.owner.alloc) {
        painter.rect_stroke(rect, 0.0, egui::Stroke::new(1.5, palette.select), egui::StrokeKind::Inside);
    }
}
