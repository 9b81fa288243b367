//! The small card near the pointer.

use egui::{Id, LayerId, Order, Pos2, Rect, Ui, pos2, vec2};
use vramscope_engine::Owner;
use vramscope_format::{elide_place, size};

use crate::app::App;
use crate::theme;

/// Size, line and life of an allocation, beside the pointer and never over it.
pub(crate) fn show(app: &App, ui: &Ui, at: Pos2, owner: &Owner, line: &str) {
    let state = if owner.awaiting { "awaiting free" } else { "" };
    let lines = [
        (size(owner.requested), true),
        (line.to_owned(), true),
        (owner.life(), false),
        (state.into(), false),
    ];
    card(app, ui, at, &lines);
}

/// A card of a few lines, the important ones bright.
pub(crate) fn card(app: &App, ui: &Ui, at: Pos2, lines: &[(String, bool)]) {
    let palette = app.palette();
    let painter = ui.ctx().layer_painter(LayerId::new(Order::Tooltip, Id::unique("card")));
    let galleys: Vec<_> = lines
        .iter()
        .filter(|(text, _)| !text.is_empty())
        .enumerate()
        .map(|(n, (text, bright))| {
            let font = if n == 0 { theme::strong() } else { theme::mono() };
            let color = if *bright { palette.text } else { palette.dim };
            painter.layout_no_wrap(elide_place(text, 64), font, color)
        })
        .collect();
    let width = galleys.iter().map(|galley| galley.size().x).fold(0.0, f32::max);
    let height: f32 = galleys.iter().map(|galley| galley.size().y + 2.0).sum();
    let size = vec2(width + 20.0, height + 12.0);
    // Inside the views: the panels beside them are being read.
    let screen = app.parts.centre.filter(|centre| centre.contains(at));
    let screen = screen.unwrap_or_else(|| ui.ctx().content_rect().shrink(4.0));
    // To the lower right, or wherever there is room.
    let x = if at.x + 18.0 + size.x < screen.right() { at.x + 18.0 } else { at.x - 18.0 - size.x };
    let y = if at.y + 18.0 + size.y < screen.bottom() { at.y + 18.0 } else { at.y - 18.0 - size.y };
    let rect = Rect::from_min_size(pos2(x, y), size);
    painter.rect(rect, 4.0, palette.panel, palette.hairline(), egui::StrokeKind::Inside);
    let mut y = rect.top() + 6.0;
    for galley in galleys {
        let high = galley.size().y + 2.0;
        painter.galley(pos2(rect.left() + 10.0, y), galley, palette.text);
        y += high;
    }
}
