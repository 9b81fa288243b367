//! The memory timeline of a device as a picture with its axis, for both themes, and what memory is for.

use base64::prelude::{BASE64_STANDARD, Engine};
use vramscope_analysis::{Counter, Device, Status};
use vramscope_engine::color::{Ground, of_category};
use vramscope_engine::{AskSummary, Axis, Session, Source, paint};
use vramscope_format::ticks::{byte_ticks, event_ticks};
use vramscope_format::{bytes, html, plural};

use super::trials;
use crate::summary::{Figure, Piece, bar, css};

/// Pixels of the picture.
const PICTURE: (u32, u32) = (1400, 420);
/// Ticks along the bytes, and along the events.
const TICKS: usize = 6;
const EVENT_TICKS: usize = 8;

/// What a page without script shows of a device.
pub(super) fn figure(name: &str, session: &Session, of: Source, replayed: &Device) -> Option<Figure> {
    let summary = session.ask(AskSummary { of })?;
    let timeline = timeline(name, session, of)?;
    let (purposes, trials) = (categories(replayed), trials::table(session, of));
    Some(Figure { device: summary.device.clone(), timeline, purposes, trials })
}

fn timeline(name: &str, session: &Session, of: Source) -> Option<String> {
    let summary = session.ask(AskSummary { of })?;
    let picture = |ground| Some(BASE64_STANDARD.encode(paint::poster(session, of, PICTURE, ground)?));
    let (dark, light) = (picture(Ground::DARK)?, picture(Ground::LIGHT)?);
    let [(_, width), (_, height)] = summary.whole(Axis::Events, Counter::Requested);
    let mut marks = String::new();
    for tick in byte_ticks((0.0, height), TICKS) {
        let up = 100.0 * tick.at / height;
        marks += &format!(
            "<u style=\"bottom:{up:.2}%\"></u><i style=\"bottom:{up:.2}%\">{}</i>",
            html(&tick.text)
        );
    }
    for tick in event_ticks((0.0, width), EVENT_TICKS) {
        let along = 100.0 * tick.at / width;
        marks += &format!("<b style=\"left:{along:.2}%\">{}</b>", html(&tick.text));
    }
    for oom in summary.ooms.iter().take(MOST_OOMS) {
        let along = 100.0 * f64::from(oom.at.0) / width;
        marks += &format!("<s style=\"left:{along:.2}%\" title=\"out of memory\"></s>");
    }
    let peak = summary.peak(Counter::Requested);
    let at = peak.at.event().map_or_else(
        || "the start".to_owned(),
        |event| format!("event {}", vramscope_format::count(event.0)),
    );
    let failed = match summary.ooms.len() {
        0 => String::new(),
        _ => " · dashed: out of memory".to_owned(),
    };
    let caption = format!(
        "{} · {} bytes over {} (by number), peak {} at {at} · colored by category{failed}",
        summary.device,
        summary.name_of(Counter::Requested),
        plural(summary.events, "event"),
        bytes(peak.bytes),
    );
    Some(format!(
        "<figure><div class=\"plot\"><picture>\
         <source media=\"print, (prefers-color-scheme: light)\" srcset=\"data:image/png;base64,{light}\">\
         <img alt=\"Memory timeline of {}\" src=\"data:image/png;base64,{dark}\"></picture>{marks}</div>\
         <figcaption>{}</figcaption></figure>\n",
        html(name),
        html(&caption)
    ))
}

/// Failed allocations that are marked; a loop that catches them can make thousands.
const MOST_OOMS: usize = 64;

/// What memory at the peak is for.
fn categories(replay: &Device) -> String {
    let at = match replay.verdict().status {
        Status::StateOnly => replay.end(),
        _ => replay.peak(Counter::Requested).at,
    };
    let categories = replay.categories();
    let totals = categories.totals(&replay.state(at), |_, _| true);
    let pieces: Vec<Piece> = categories
        .names()
        .iter()
        .zip(&totals)
        .enumerate()
        .filter(|(_, (_, total))| total.requested > 0)
        .map(|(number, (name, total))| Piece {
            name: format!("{name}, {}", total.how()),
            bytes: total.requested,
            color: css(of_category(number as u32)),
        })
        .collect();
    match pieces.is_empty() {
        true => String::new(),
        false => format!("<h4>What memory at the peak is for</h4>\n{}", bar(&pieces)),
    }
}
