//! The allocator's state at the cursor as a map that fills its pane: every segment to scale, its blocks, what rounding
//! wastes, the holes. Where an allocation failed, the request is drawn beside the largest hole.

use egui::{Align2, Painter, Pos2, Rect, RichText, ScrollArea, Sense, Stroke, Ui, pos2, vec2};
use vramscope_engine::color::Coloring;
use vramscope_engine::{AskState, MapBlock, MapRange, MemoryMap, OomInfo};
use vramscope_format::{bytes, elide_place, fit, plural, share, size, stream};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::{self, blend};
use crate::views::lower::not_in_file;
use crate::views::map::{Layout, Piece};
use crate::views::{events, tooltip};

/// What the map keeps between frames.
pub(crate) struct State {
    /// How much larger than the pane it is.
    zoom: f64,
    /// Where segments lie, with what that was made from.
    layout: Option<((u64, u32, u32, u64), Layout)>,
}

impl Default for State {
    fn default() -> Self {
        Self { zoom: 1.0, layout: None }
    }
}

/// Free memory between two blocks, or between a block and an end of its segment.
#[derive(Clone, Copy)]
struct Hole {
    range: usize,
    from: u64,
    to: u64,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    if !summary.has.addresses {
        return not_in_file(app, ui, body, "Addresses", "Record a snapshot to see the map of memory.");
    }
    let palette = app.palette();
    let ask = AskState { of, at: app.selection.cursor, categories: app.has_categories() };
    let answer = app.requests.want(Slot::State, ask);
    ui.horizontal(|ui| {
        events::stepper(app, ui);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            let zoom = &mut app.parts.state.zoom;
            if ui.button("+").on_hover_text("Larger (Ctrl and the wheel)").clicked() {
                *zoom = (*zoom * 2.0).min(4096.0);
            }
            if ui.button("−").on_hover_text("Smaller").clicked() {
                *zoom = (*zoom / 2.0).max(1.0);
            }
            if *zoom > 1.0 && ui.button("fit").clicked() {
                *zoom = 1.0;
            }
            if let Some(map) = answer.as_ref().map(|answer| &answer.value) {
                let text = format!(
                    "{}, {} reserved, {} active, largest hole {}",
                    plural(map.ranges.len(), "segment"),
                    bytes(map.counters.reserved),
                    bytes(map.counters.active),
                    size(map.largest_hole)
                );
                ui.add(egui::Label::new(RichText::new(text).color(palette.dim)).truncate());
            }
        });
    });
    let Some(answer) = answer else { return };
    let map = &*answer.value;
    let failed = summary.ooms.iter().find(|oom| oom.at == map.at).copied();
    let hole = failed.and_then(|_| largest_hole(map));
    if let Some(failed) = failed {
        request(app, ui, map, failed, hole);
    }
    segments(app, ui, map, answer.version, hole);
}

/// The largest free stretch of memory that is held.
fn largest_hole(map: &MemoryMap) -> Option<Hole> {
    let mut largest: Option<Hole> = None;
    for (at, range) in map.ranges.iter().enumerate() {
        let mut from = range.addr;
        let end = range.addr.saturating_add(range.size);
        let blocks = range.blocks.iter().map(|block| (block.addr, block.addr.saturating_add(block.size)));
        for (start, next) in blocks.chain([(end, end)]) {
            let hole = Hole { range: at, from, to: start };
            if start > from && largest.is_none_or(|known| start - from > known.to - known.from) {
                largest = Some(hole);
            }
            from = next.max(from);
        }
    }
    largest
}

/// The request that failed and the largest hole on one scale, with what is on both sides of the hole.
fn request(app: &App, ui: &mut Ui, map: &MemoryMap, failed: OomInfo, hole: Option<Hole>) {
    let palette = app.palette();
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 46.0), Sense::hover());
    let painter = ui.painter_at(rect);
    let free = hole.map_or(0, |hole| hole.to - hole.from);
    let most = failed.requested.max(free).max(1) as f64;
    let room = (rect.width() * 0.5).max(120.0);
    let wide = |bytes: u64| (room * (bytes as f64 / most) as f32).max(2.0);
    let bar = |y: f32, bytes: u64| Rect::from_min_size(pos2(rect.left(), y), vec2(wide(bytes), 16.0));
    let asked = bar(rect.top() + 4.0, failed.requested);
    hatch(&painter, asked, palette.danger.gamma_multiply(0.35));
    painter.rect_stroke(asked, 1.0, Stroke::new(1.0, palette.danger), egui::StrokeKind::Inside);
    let held = bar(rect.top() + 25.0, free);
    painter.rect_filled(held, 1.0, palette.hole);
    painter.rect_stroke(held, 1.0, Stroke::new(1.0, palette.dim), egui::StrokeKind::Inside);
    let short = failed.requested.saturating_sub(free);
    let beside = hole.map_or_else(String::new, |hole| {
        let range = map.ranges.get(hole.range);
        let place = |addr: Option<&MapBlock>| addr.map_or("", |block| map.line(block.owner.line)).to_owned();
        let blocks = range.map_or(&[][..], |range| &range.blocks);
        let before = blocks.iter().rfind(|block| block.addr < hole.from);
        let after = blocks.iter().find(|block| block.addr >= hole.to);
        let names: Vec<String> =
            [place(before), place(after)].into_iter().filter(|n| !n.is_empty()).collect();
        if names.is_empty() { String::new() } else { format!("; beside it: {}", names.join(" and ")) }
    });
    let device =
        format!("requested {}, {} free on the device", size(failed.requested), size(failed.device_free));
    let largest = match short {
        0 => format!("largest hole {}, in a pool or stream that the request cannot use{beside}", size(free)),
        short => format!("largest hole {}, {} short{beside}", size(free), size(short)),
    };
    for (bar, text, color) in [(asked, device, palette.danger), (held, largest, palette.text)] {
        let left = bar.right() + 10.0;
        let columns = theme::columns(&painter, &theme::tick(), rect.right() - left);
        let text = elide_place(&text, columns);
        painter.text(pos2(left, bar.center().y), Align2::LEFT_CENTER, text, theme::tick(), color);
    }
}

/// Diagonal lines over a rectangle.
fn hatch(painter: &Painter, rect: Rect, color: egui::Color32) {
    let painter = painter.with_clip_rect(rect.intersect(painter.clip_rect()));
    let mut x = rect.left() - rect.height();
    while x < rect.right() {
        let line = [pos2(x, rect.bottom()), pos2(x + rect.height(), rect.top())];
        painter.line_segment(line, Stroke::new(1.5, color));
        x += 7.0;
    }
}

fn segments(app: &mut App, ui: &mut Ui, map: &MemoryMap, version: u64, largest: Option<Hole>) {
    let room = ui.available_rect_before_wrap().shrink2(vec2(1.0, 0.0));
    let width = (room.width() - 10.0).max(60.0);
    let (zoom, height) = (app.parts.state.zoom, (room.height() - 6.0).max(40.0));
    let key = (version, width as u32, height as u32, zoom as u64);
    if app.parts.state.layout.as_ref().is_none_or(|(known, _)| *known != key) {
        // By pool and stream, the largest first: what shares memory lies together.
        let mut order: Vec<usize> = (0..map.ranges.len()).collect();
        order.sort_by_key(|&at| {
            let range = &map.ranges[at];
            (range.private, &range.pool, range.stream, std::cmp::Reverse(range.size), range.addr)
        });
        app.parts.state.layout = Some((key, Layout::new(&map.ranges, &order, width, height, zoom)));
    }
    let Some((_, layout)) = app.parts.state.layout.take() else { return };
    let wheel = ui.input(|input| if input.modifiers.command { input.smooth_scroll_delta().y } else { 0.0 });
    if wheel != 0.0 && ui.rect_contains_pointer(room) {
        app.parts.state.zoom = (zoom * f64::from(wheel / 120.0).exp2()).clamp(1.0, 4096.0);
    }
    ScrollArea::vertical().id_salt("map").auto_shrink([false, false]).show_viewport(ui, |ui, seen| {
        let (area, response) = ui.allocate_exact_size(vec2(width, layout.height), Sense::click());
        response.widget_info(|| {
            let segments = plural(map.ranges.len(), "segment");
            let words = format!("Map of memory, {}: {segments}", map.at.words());
            egui::WidgetInfo::labeled(egui::Role::Image, true, words)
        });
        let Some((_, summary)) = app.device() else { return };
        let coloring = app.coloring(None, summary.last());
        let first = layout.pieces.partition_point(|piece| piece.rect.bottom() < seen.top());
        let painter = ui.painter().clone();
        let pointer = response.hover_pos();
        for piece in &layout.pieces[first..] {
            if piece.rect.top() > seen.bottom() {
                break;
            }
            let Some(range) = map.ranges.get(piece.range) else { continue };
            let drawn = Piece { rect: piece.rect.translate(area.min.to_vec2()), ..*piece };
            let hole = largest.filter(|hole| hole.range == piece.range);
            draw(app, &painter, range, &drawn, hole, &coloring);
            if let Some(at) = pointer.filter(|at| drawn.rect.contains(*at)) {
                hover(app, ui, map, range, &drawn, at, response.clicked());
            }
        }
    });
    app.parts.state.layout.get_or_insert((key, layout));
}

/// Where bytes of a segment lie in a piece of it.
fn x_in(piece: &Piece, offset: f64) -> f32 {
    let share = (offset - piece.bytes.0) / (piece.bytes.1 - piece.bytes.0).max(1.0);
    piece.rect.left() + piece.rect.width() * share as f32
}

fn draw(
    app: &App,
    painter: &Painter,
    range: &MapRange,
    piece: &Piece,
    largest: Option<Hole>,
    coloring: &Coloring<'_>,
) {
    let palette = app.palette();
    painter.rect_filled(piece.rect, 1.0, palette.hole);
    let offset = |addr: u64| addr.saturating_sub(range.addr) as f64;
    let first =
        range.blocks.partition_point(|block| offset(block.addr.saturating_add(block.size)) <= piece.bytes.0);
    let mut last = f32::MIN;
    for block in &range.blocks[first..] {
        if offset(block.addr) >= piece.bytes.1 {
            break;
        }
        let (left, right) =
            (x_in(piece, offset(block.addr)), x_in(piece, offset(block.addr.saturating_add(block.size))));
        let (left, right) = (left.max(piece.rect.left()), right.min(piece.rect.right()));
        // Blocks that end in a pixel that is painted add nothing.
        if right <= last + 0.5 {
            continue;
        }
        last = right;
        let rect = Rect::from_x_y_ranges(left..=right.max(left + 0.5), piece.rect.y_range());
        draw_block(app, painter, block, rect, coloring);
    }
    let edge = if range.private { palette.accent } else { palette.line };
    painter.rect_stroke(piece.rect, 1.0, Stroke::new(1.0, edge), egui::StrokeKind::Outside);
    if let Some(hole) = largest {
        let (left, right) = (x_in(piece, offset(hole.from)), x_in(piece, offset(hole.to)));
        let rect = Rect::from_x_y_ranges(left..=right, piece.rect.y_range()).intersect(piece.rect);
        if rect.width() > 0.0 {
            hatch(painter, rect, palette.danger.gamma_multiply(0.30));
            painter.rect_stroke(rect, 0.0, Stroke::new(1.5, palette.danger), egui::StrokeKind::Inside);
        }
    }
    if piece.bytes.0 == 0.0 && piece.rect.width() > 130.0 {
        let used: u64 = range.blocks.iter().fold(0, |sum, block| sum.saturating_add(block.size));
        let free = share(range.size.saturating_sub(used), range.size);
        let kind = if range.expandable { " expandable" } else { "" };
        let columns = theme::columns(painter, &theme::tick(), piece.rect.width() - 10.0);
        let text = fit(&format!("{}{kind}, {free} free", size(range.size)), columns);
        let at = piece.rect.left_top() + vec2(5.0, 2.0);
        super::marks::tag(painter, at, Align2::LEFT_TOP, &text, palette.dim, &palette);
    }
}

fn hover(app: &mut App, ui: &Ui, map: &MemoryMap, range: &MapRange, piece: &Piece, at: Pos2, clicked: bool) {
    let share = f64::from((at.x - piece.rect.left()) / piece.rect.width().max(1.0));
    let addr = range.addr + (piece.bytes.0 + share * (piece.bytes.1 - piece.bytes.0)) as u64;
    let after = range.blocks.partition_point(|block| block.addr <= addr);
    let before = after.checked_sub(1).and_then(|at| range.blocks.get(at));
    let pool =
        format!("pool {}, stream {}, segment of {}", range.pool, stream(range.stream), size(range.size));
    match before.filter(|block| addr < block.addr.saturating_add(block.size)) {
        Some(block) => {
            app.selection.hovered = Some(block.owner.alloc);
            let waste = block.size.saturating_sub(block.owner.requested);
            let lines = [
                (size(block.owner.requested), true),
                (map.line(block.owner.line).to_owned(), true),
                (block.owner.life(), false),
                (
                    format!(
                        "{:#x}, block of {}, {} more than requested",
                        block.addr,
                        size(block.size),
                        size(waste)
                    ),
                    false,
                ),
                (pool, false),
                (if block.owner.awaiting { "awaiting free".into() } else { String::new() }, false),
            ];
            tooltip::card(app, ui, at, &lines);
            if clicked {
                app.selection.alloc = Some(block.owner.alloc);
            }
        }
        None => {
            let from = before.map_or(range.addr, |block| block.addr.saturating_add(block.size));
            let end = range.addr.saturating_add(range.size);
            let next = range.blocks.get(after);
            let to = next.map_or(end, |block| block.addr);
            let beside = |name: &str, block: Option<&MapBlock>| {
                let words =
                    block.map(|block| format!("{name} {}  {}", size(block.size), map.line(block.owner.line)));
                (words.unwrap_or_default(), false)
            };
            let lines = [
                (format!("hole of {}", size(to.saturating_sub(from))), true),
                (pool, false),
                beside("before it", before),
                beside("after it", next),
            ];
            tooltip::card(app, ui, at, &lines);
        }
    }
}

/// A block: requested bytes in its color, what rounding adds darker, stripes while it awaits its free.
fn draw_block(app: &App, painter: &Painter, block: &MapBlock, rect: Rect, coloring: &Coloring<'_>) {
    let palette = app.palette();
    let color = crate::color::rgb(coloring.of(&block.owner));
    let fill = if block.owner.awaiting { blend(color, palette.ground, 0.5) } else { color };
    painter.rect_filled(rect, 0.0, fill);
    let share = block.owner.requested as f64 / block.size.max(1) as f64;
    let asked = rect.left() + rect.width() * share as f32;
    if rect.right() - asked > 0.7 {
        let waste = Rect::from_x_y_ranges(asked..=rect.right(), rect.y_range());
        painter.rect_filled(waste, 0.0, blend(color, palette.danger, 0.55));
    }
    if rect.width() > 3.0 {
        painter.vline(rect.right(), rect.y_range(), Stroke::new(1.0, palette.ground.gamma_multiply(0.7)));
    }
    if app.selection.alloc == Some(block.owner.alloc) {
        painter.rect_stroke(rect, 0.0, Stroke::new(1.5, palette.select), egui::StrokeKind::Inside);
    }
}
