//! The row that says what is alone on the chart, and leads back to everything.

use egui::{Id, Rect, Sense, Stroke, Ui, pos2};
use vramscope_format::{bytes, elide_place, plural};

use crate::app::App;
use crate::theme;
use crate::views::GUTTER;

/// Height of the row.
const HEIGHT: f32 = 26.0;

/// Height of the row: none while everything is shown.
pub(crate) fn height(app: &App) -> f32 {
    if app.isolated.is_some() { HEIGHT } else { 0.0 }
}

pub(crate) fn show(app: &mut App, ui: &Ui, rect: Rect) {
    let Some(isolated) = &app.isolated else { return };
    let palette = app.palette();
    let chip = Rect::from_min_max(pos2(rect.left() + GUTTER, rect.top()), rect.max);
    let response = ui
        .interact(chip, Id::unique("isolated"), Sense::click())
        .on_hover_text("Show all memory again (Esc)");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, "Show all memory"));
    let painter = ui.painter_at(chip);
    let fill = if response.hovered() { palette.line } else { palette.raised };
    painter.rect_filled(chip, 4.0, fill);
    painter.rect_stroke(chip, 4.0, Stroke::new(1.0, palette.select), egui::StrokeKind::Inside);
    let layout = |text: String, font, color| painter.layout_no_wrap(text, font, color);
    let back = layout("show all  ×".to_owned(), theme::label(), palette.accent);
    let numbers = app.isolated_levels().map_or_else(
        || "working…".to_owned(),
        |levels| format!("peak {}, {}", bytes(levels.peak.bytes), plural(levels.sum.count, "allocation")),
    );
    let numbers = layout(numbers, theme::tick(), palette.dim);
    let room = chip.width() - back.size().x - 40.0;
    let columns = theme::columns(&painter, &theme::mono(), room - numbers.size().x - 14.0);
    let is_wide = columns > 16;
    let columns = if is_wide { columns } else { theme::columns(&painter, &theme::mono(), room) };
    let name = format!("only {}", elide_place(&isolated.name, columns.saturating_sub(5)));
    let name = layout(name, theme::mono(), palette.text);
    let put = |x: f32, galley: std::sync::Arc<egui::Galley>| {
        let (at, wide) = (pos2(x, chip.center().y - galley.size().y / 2.0), galley.size().x);
        painter.galley(at, galley, palette.text);
        x + wide
    };
    put(chip.right() - 10.0 - back.size().x, back);
    let end = put(chip.left() + 10.0, name);
    if is_wide {
        put(end + 14.0, numbers);
    }
    if response.clicked() {
        app.show_all();
    }
}
