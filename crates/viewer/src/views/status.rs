//! The line at the bottom: what is under the pointer, and what the mouse does.

use egui::{Align, Layout, RichText, Ui};
use vramscope_analysis::Counter;
use vramscope_engine::{AskMoment, MomentInfo, Summary};
use vramscope_format::{bytes, clock, since};

use crate::app::App;
use crate::requests::Slot;
use crate::theme;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    app.requests.want(Slot::Cursor, AskMoment { of, at: app.selection.cursor, whole: true });
    // The pointer's moment of the frame before: this bar is laid out before the pictures.
    let at = app.parts.last_hover.unwrap_or(app.selection.cursor);
    let slot = if app.parts.last_hover.is_some() { Slot::Hover } else { Slot::Cursor };
    let answer = app.requests.want(slot, AskMoment { of, at, whole: slot == Slot::Cursor });
    let message = app.message.clone().filter(|(_, until)| *until > app.now).map(|(text, _)| text);
    let parts = answer.map_or_else(Vec::new, |answer| numbers(app, &answer.value, &summary));
    ui.horizontal_centered(|ui| {
        ui.spacing_mut().item_spacing.x = GAP;
        let wide = |ui: &Ui, text: &str, font| {
            ui.painter().layout_no_wrap(text.to_owned(), font, palette.text).size().x + GAP
        };
        // A message is read now; the numbers stand in the room that it leaves, the first ones first.
        let mut room = ui.available_width();
        if let Some(message) = &message {
            room -= wide(ui, message, theme::small()).min(room * 0.6);
        }
        for (text, color) in parts {
            room -= wide(ui, &text, theme::mono());
            if room < 0.0 {
                break;
            }
            ui.label(RichText::new(text).font(theme::mono()).color(color));
        }
        let hint = HINTS.into_iter().find(|hint| wide(ui, hint, theme::small()) < room);
        let said = message.map(|text| (text, palette.accent));
        let Some((text, color)) = said.or(hint.map(|hint| (hint.to_owned(), palette.dim))) else { return };
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add(egui::Label::new(RichText::new(text).font(theme::small()).color(color)).truncate());
        });
    });
}

/// Between two parts of the bar.
const GAP: f32 = 14.0;

/// What the mouse does, as far as there is room for it.
const HINTS: [&str; 3] = [
    "drag pan · wheel zoom · Shift+drag range · R+drag measure · ? keys",
    "drag pan · wheel zoom · ? keys",
    "? keys",
];

/// What is known of the moment, the most important first.
fn numbers(app: &App, info: &MomentInfo, summary: &Summary) -> Vec<(String, egui::Color32)> {
    let palette = app.palette();
    let mut place = info.at.words();
    if let (Some(time), Some(origin)) = (info.time, summary.time.map(|(origin, _)| origin)) {
        place += &format!("  {}  {}", clock(time), since(time.saturating_sub(origin), 3));
    }
    let n = &info.counters;
    let name = summary.name_of(Counter::Requested);
    let mut parts = vec![(place, palette.text), (format!("{name} {}", bytes(n.requested)), palette.text)];
    if summary.has.reserved {
        parts.push((format!("reserved {}", bytes(n.reserved)), palette.dim));
        parts.push((format!("gap {}", bytes(n.reserved - n.requested)), palette.dim));
    } else {
        parts.push(("reserved: not in this file".into(), palette.dim));
    }
    parts.push((info.event.clone(), palette.dim));
    parts
}
