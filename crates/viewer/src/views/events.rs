//! The events one by one, in step with the cursor.

use egui::{Align2, Rect, RichText, Sense, Ui, pos2, vec2};
use vramscope_analysis::Moment;
use vramscope_engine::{AskEvents, EventRow};
use vramscope_format::{count, elide_place, fit, plural, since, size, words};
use vramscope_snapshot::EventIdx;

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::long::Long;
use crate::views::tree::ROW;

/// What the list keeps.
#[derive(Default)]
pub(crate) struct Events {
    /// The moment that was scrolled to.
    shown: Option<Moment>,
}

/// Where the cursor is, and buttons that step through events.
pub(crate) fn stepper(app: &mut App, ui: &mut Ui) {
    if ui.button("◂").on_hover_text("One event back (,)").clicked() {
        app.step(-1);
    }
    if ui.button("▸").on_hover_text("One event forward (.)").clicked() {
        app.step(1);
    }
    ui.label(RichText::new(app.selection.cursor.words()).font(theme::mono()));
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    ui.horizontal_wrapped(|ui| {
        stepper(app, ui);
        ui.label(RichText::new(format!("of {}", plural(summary.events, "event"))).color(palette.dim));
    });
    ui.spacing_mut().item_spacing.y = 0.0;
    let cursor = app.selection.cursor;
    let moved = app.parts.events.shown != Some(cursor);
    app.parts.events.shown = Some(cursor);
    let to = moved.then(|| cursor.event().map_or(0, EventIdx::index));
    let list = Long { name: "events", total: summary.events as usize, height: ui.available_height(), to };
    list.show(ui, |ui, rows| {
        let (first, count) = (rows.start as u32, rows.len() as u32);
        let answer = app.requests.want(Slot::Events, AskEvents { of, first, count });
        for at in rows {
            let row = answer.as_ref().and_then(|answer| {
                let page = &answer.value;
                page.rows.get(at.checked_sub(page.first as usize)?).cloned()
            });
            line(app, ui, row.as_ref());
        }
    });
}

fn line(app: &mut App, ui: &mut Ui, row: Option<&EventRow>) {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let Some(row) = row else { return };
    let about =
        || format!("event {}, {} {}, {}", count(row.event), words(&row.action), size(row.size), row.place);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Row, true, about()));
    let painter = ui.painter_at(rect);
    let here = app.selection.cursor.event().is_some_and(|event| event.0 == row.event);
    let selected = row.alloc.is_some() && row.alloc == app.selection.alloc;
    if here {
        painter.rect_filled(rect, 2.0, palette.accent.gamma_multiply(0.22));
    } else if response.hovered() {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    if selected {
        painter.rect_filled(Rect::from_min_size(rect.min, vec2(2.0, rect.height())), 0.0, palette.select);
    }
    let y = rect.center().y;
    let mut right = rect.left();
    let mut put = |wide: f32, align: Align2, text: &str, color| {
        let at = if align == Align2::RIGHT_CENTER { right + wide } else { right + 12.0 };
        painter.text(pos2(at, y), align, text, theme::tick(), color);
        right += wide;
    };
    put(72.0, Align2::RIGHT_CENTER, &count(row.event), palette.dim);
    let wide = rect.width() > 560.0;
    if wide {
        let time = row.time.map_or_else(String::new, |time| since(time, 3));
        put(92.0, Align2::RIGHT_CENTER, &time, palette.dim);
    }
    let color = match row.action.as_str() {
        _ if row.failed => palette.danger,
        "alloc" => palette.text,
        "segment_alloc" | "segment_free" | "segment_map" | "segment_unmap" => palette.accent,
        _ => palette.dim,
    };
    // Up to "free requested" it is whole, and where there is room up to "workspace snapshot".
    let (wide, letters) = if wide { (144.0, 18) } else { (112.0, 14) };
    put(wide, Align2::LEFT_CENTER, &fit(&words(&row.action), letters), color);
    put(76.0, Align2::RIGHT_CENTER, &size(row.size), palette.text);
    if rect.width() > 700.0 {
        let address = match row.failed {
            true => format!("{} free", size(row.addr)),
            false => format!("{:#x}", row.addr),
        };
        put(124.0, Align2::RIGHT_CENTER, &address, palette.dim);
    }
    let left = right + 14.0;
    if !row.place.is_empty() {
        let chip = Rect::from_center_size(pos2(left + 4.0, y), vec2(7.0, 7.0));
        painter.rect_filled(chip, 2.0, palette.of_line(row.line, 1));
        let columns = theme::columns(&painter, &theme::tick(), rect.right() - left - 18.0);
        let place = elide_place(&row.place, columns);
        painter.text(pos2(left + 14.0, y), Align2::LEFT_CENTER, place, theme::tick(), palette.text);
    }
    if response.clicked() {
        app.parts.events.shown = Some(Moment(row.event + 1));
        app.selection.alloc = row.alloc;
        app.set_cursor(Moment(row.event + 1));
    }
}
