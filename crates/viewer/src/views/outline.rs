//! The edge of one allocation in the timeline: thin and light under the pointer, warm for the selection.

use egui::{Color32, Painter, Pos2, Rect, Stroke, pos2};
use vramscope_analysis::AllocIdx;
use vramscope_engine::{AskOutline, Source, Stretch, Tile};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::Palette;
use crate::view::View;
use crate::views::timeline::{Shown, Timeline};

/// The hovered allocation's edge, column by column.
pub(crate) fn hovered(
    parts: &mut Timeline,
    painter: &Painter,
    shown: &Shown,
    view: &View,
    plot: Rect,
    alloc: AllocIdx,
    palette: &Palette,
) {
    let tile = &shown.tile;
    let stale =
        parts.outline.as_ref().is_none_or(|(version, known, _)| (*version, *known) != (shown.version, alloc));
    if stale {
        // Each column as x and the two rows, in pixels of the tile.
        let owners: Vec<bool> = std::iter::repeat_n(false, Tile::FIRST_OWNER as usize)
            .chain(tile.owners.iter().map(|owner| owner.alloc == alloc))
            .collect();
        let life = tile.owners.iter().find(|owner| owner.alloc == alloc);
        let mut edges = Vec::new();
        for (x, column) in tile.cells.chunks(tile.height.max(1) as usize).enumerate() {
            // Columns that it does not live in need not be searched.
            let at = tile.shown.get(x).copied().flatten();
            if at
                .zip(life)
                .is_some_and(|(at, life)| at < life.opened || life.closed.is_some_and(|closed| at >= closed))
            {
                continue;
            }
            let is_own = |cell: &u32| owners.get(*cell as usize).copied().unwrap_or_default();
            if let Some(first) = column.iter().position(is_own) {
                // It is one band of the pile.
                let more = column.iter().skip(first + 1).take_while(|cell| is_own(cell)).count();
                let last = first + more;
                edges.push([pos2(x as f32, first as f32), pos2(x as f32 + 1.0, last as f32 + 1.0)]);
            }
        }
        parts.outline = Some((shown.version, alloc, edges));
    }
    let rect = shown.rect(view, plot);
    let (wide, high) =
        (rect.width() / tile.stretch.width.max(1) as f32, rect.height() / tile.height.max(1) as f32);
    let place = |at: Pos2| pos2(rect.left() + at.x * wide, rect.bottom() - at.y * high);
    if let Some((_, _, edges)) = &parts.outline {
        let spans = edges.iter().map(|[low, high]| [place(*low), place(*high)]);
        band(painter, spans, Stroke::new(1.0, if palette.dark { Color32::WHITE } else { Color32::BLACK }));
    }
}

/// A band drawn as its edges: lower left and upper right corner of each column.
fn band(painter: &Painter, columns: impl Iterator<Item = [Pos2; 2]>, stroke: Stroke) {
    let (mut lower, mut upper): (Vec<Pos2>, Vec<Pos2>) = (Vec::new(), Vec::new());
    let finish = |lower: &mut Vec<Pos2>, upper: &mut Vec<Pos2>| {
        let mut loop_ = std::mem::take(lower);
        loop_.extend(std::mem::take(upper).into_iter().rev());
        if loop_.len() > 2 {
            painter.add(egui::Shape::closed_line(loop_, stroke));
        }
    };
    for [low, high] in columns {
        if lower.last().is_some_and(|last| low.x - last.x > 1.5) {
            finish(&mut lower, &mut upper);
        }
        for (line, y) in [(&mut lower, low.y), (&mut upper, high.y)] {
            // Level stretches are one line.
            let level = line.len() > 1 && line.last().is_some_and(|last| last.y == y);
            match line.last_mut() {
                Some(last) if level => last.x = high.x,
                _ => line.extend([pos2(low.x, y), pos2(high.x, y)]),
            }
        }
    }
    finish(&mut lower, &mut upper);
}

/// The selected allocation, however thin it is.
pub(crate) fn selected(app: &mut App, painter: &Painter, of: Source, plot: Rect, palette: &Palette) {
    let Some(alloc) = app.selection.alloc else { return };
    let stretch = Stretch {
        axis: app.camera.view.axis,
        x: app.camera.view.x,
        width: (plot.width() / 2.0).round() as u32,
    };
    let (counter, pools) = (app.settings.counter, app.settings.pools);
    let request = AskOutline { of, counter, stretch, alloc, pools, only: app.only() };
    let Some(answer) = app.requests.want(Slot::Selected, request) else { return };
    let (columns, stretch) = (&answer.value, answer.request.stretch);
    if answer.request.alloc != alloc || stretch.axis != app.camera.view.axis {
        return;
    }
    let wide = (stretch.x.1 - stretch.x.0) / f64::from(stretch.width.max(1));
    let place = |(column, edges): (usize, &Option<(u64, u64)>)| {
        let (low, high) = (*edges)?;
        let x = stretch.x.0 + column as f64 * wide;
        Some([
            app.camera.view.screen(plot, x, low as f64),
            app.camera.view.screen(plot, x + wide, high as f64),
        ])
    };
    let bands: Vec<_> = columns.iter().enumerate().filter_map(place).collect();
    for [low, high] in &bands {
        painter.rect_filled(Rect::from_two_pos(*low, *high), 0.0, palette.select.gamma_multiply(0.25));
    }
    band(painter, bands.into_iter(), Stroke::new(1.5, palette.select));
}
