//! The line at the bottom: what is under the pointer, and what hands can do.

use egui::{Align, Layout, RichText, Ui};
use vramscope_engine::{Bytes, MomentInfo, Request, Response, Summary};
use vramscope_format::{bytes, count};

use crate::app::App;
use crate::desk::Slot;
use crate::theme;
use crate::view::duration;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    app.desk.want(Slot::Cursor, Request::Moment { of, at: app.cursor, whole: true });
    // The pointer's moment of the frame before: this bar is laid out before the pictures.
    let at = app.parts.last_hover.unwrap_or(app.cursor);
    let slot = if app.parts.last_hover.is_some() { Slot::Hover } else { Slot::Cursor };
    let answer = app.desk.want(slot, Request::Moment { of, at, whole: slot == Slot::Cursor });
    ui.horizontal_centered(|ui| {
        ui.spacing_mut().item_spacing.x = 14.0;
        if let Some(answer) = answer
            && let Response::Moment(info) = &*answer.response
        {
            numbers(app, ui, info, &summary);
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
    let mut place = match info.at {
        0 => "start".to_owned(),
        at => format!("event {}", count(at - 1)),
    };
    if let (Some(time), Some(origin)) = (info.time, summary.time.map(|(origin, _)| origin)) {
        place += &format!("  {}  +{}", vramscope_format::clock(time), duration(time.saturating_sub(origin)));
    }
    let part = |ui: &mut Ui, text: String, color| {
        ui.label(RichText::new(text).font(theme::mono()).color(color));
    };
    part(ui, place, palette.text);
    let n = &info.numbers;
    let name = summary.name_of(Bytes::Requested);
    part(ui, format!("{name} {}", bytes(n.requested)), palette.text);
    if summary.told.reserved {
        part(ui, format!("reserved {}", bytes(n.reserved)), palette.dim);
        part(ui, format!("gap {}", bytes(n.reserved - n.requested)), palette.dim);
    } else {
        part(ui, "reserved: not in this file".into(), palette.dim);
    }
    part(ui, info.event.clone(), palette.dim);
}
