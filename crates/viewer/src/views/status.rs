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
    ui.horizontal_centered(|ui| {
        ui.spacing_mut().item_spacing.x = 14.0;
        if let Some(answer) = answer {
            numbers(app, ui, &answer.value, &summary);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let message = app.message.clone().filter(|(_, until)| *until > app.now).map(|(text, _)| text);
            let (text, color) = match message {
                Some(text) => (text, palette.accent),
                None => (
                    "drag pan · wheel zoom · Ctrl+drag box · R+drag measure · ? keys".to_owned(),
                    palette.dim,
                ),
            };
            ui.label(RichText::new(text).font(theme::small()).color(color));
        });
    });
}

fn numbers(app: &App, ui: &mut Ui, info: &MomentInfo, summary: &Summary) {
    let palette = app.palette();
    let mut place = info.at.words();
    if let (Some(time), Some(origin)) = (info.time, summary.time.map(|(origin, _)| origin)) {
        place += &format!("  {}  {}", clock(time), since(time.saturating_sub(origin), 3));
    }
    let part = |ui: &mut Ui, text: String, color| {
        ui.label(RichText::new(text).font(theme::mono()).color(color));
    };
    part(ui, place, palette.text);
    let n = &info.counters;
    let name = summary.name_of(Counter::Requested);
    part(ui, format!("{name} {}", bytes(n.requested)), palette.text);
    if summary.has.reserved {
        part(ui, format!("reserved {}", bytes(n.reserved)), palette.dim);
        part(ui, format!("gap {}", bytes(n.reserved - n.requested)), palette.dim);
    } else {
        part(ui, "reserved: not in this file".into(), palette.dim);
    }
    part(ui, info.event.clone(), palette.dim);
}
