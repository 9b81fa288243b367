//! What is shown as a short text, for a link: never data, only where to look.

use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{AllocIdx, Counter, Moment};
use vramscope_engine::color::ColorBy;
use vramscope_engine::{LineId, Summary};

use crate::app::App;
use crate::devices::Device;
use crate::remember;
use crate::requests::Slot;
use crate::view::View;
use crate::views::Tab;

/// A number that tells recordings apart: by name, length and what is in them, without saying any of it.
fn mark(summary: &Summary) -> u32 {
    LineId::of(&remember::key(summary)).0
}

/// The word that a plain enum is written as.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).map_or_else(|_| String::new(), |text| text.trim_matches('"').to_lowercase())
}

/// The value whose word it is.
fn value<T: serde::Serialize + Copy>(all: &[T], text: &str) -> Option<T> {
    all.iter().copied().find(|value| word(value) == text)
}

impl Tab {
    const ALL: [Self; 12] = [
        Self::Segments,
        Self::State,
        Self::Flame,
        Self::Tree,
        Self::Lifetimes,
        Self::Tables,
        Self::Insights,
        Self::Compare,
        Self::Settings,
        Self::WhatIf,
        Self::Events,
        Self::Breakdown,
    ];
}

impl App {
    /// Whether nothing has been shown yet and a device can be.
    pub fn is_new(&self) -> bool {
        !self.followed && self.device().is_some()
    }

    /// The device, the ranges, the moment, the selection and the view; `None` before there is any.
    pub fn link(&self) -> Option<String> {
        let (_, summary) = self.device()?;
        let View { axis, x, y } = self.camera.view;
        let mut link = format!(
            "device={}&of={:08x}&axis={}&x={:.2},{:.2}&y={:.0},{:.0}&at={}&tab={}&bytes={}&color={}",
            self.files.current,
            mark(&summary),
            word(&axis),
            x.0,
            x.1,
            y.0,
            y.1,
            self.selection.cursor.0,
            word(&self.settings.tab),
            word(&self.settings.counter),
            word(&self.color()),
        );
        if let Some(AllocIdx(alloc)) = self.selection.alloc {
            link += &format!("&alloc={alloc}");
        }
        link += &self.notes_link();
        Some(link)
    }

    /// Shows what a link names. Anything it leaves out, or that does not exist, stays as it is.
    pub fn follow(&mut self, link: &str) {
        let get = |key: &str| {
            link.split('&').find_map(|part| part.split_once('=').filter(|(k, _)| *k == key)).map(|(_, v)| v)
        };
        let pair = |key: &str| {
            let (from, to) = get(key)?.split_once(',')?;
            let pair: (f64, f64) = (from.parse().ok()?, to.parse().ok()?);
            (pair.0.is_finite() && pair.1.is_finite() && pair.0 < pair.1).then_some(pair)
        };
        // The recording that the link was made of, wherever it is in the list; an older link has its place only.
        let wanted = get("of").and_then(|text| u32::from_str_radix(text, 16).ok());
        let is_it = |device: &Device| device.summary.as_ref().map(|summary| mark(summary)) == wanted;
        let place = get("device").and_then(|text| text.parse().ok());
        let by_place = place.filter(|&place| self.files.devices.get(place).is_some_and(is_it));
        let found = match wanted {
            Some(_) => by_place.or_else(|| self.files.devices.iter().position(is_it)),
            None => place,
        };
        if let Some(device) = found.filter(|&device| device != self.files.current) {
            self.focus(device);
        }
        let Some((_, summary)) = self.device() else { return };
        self.followed = true;
        // Numbers of another recording mean nothing in this one.
        let is_foreign = wanted.is_some() && found.is_none();
        if is_foreign {
            self.say("This link was made of another recording: only the view is taken from it".into());
        }
        if let Some(counter) = get("bytes").and_then(|text| value(&Counter::ALL, text)) {
            self.settings.counter = counter;
        }
        if let Some(tab) = get("tab").and_then(|text| value(&Tab::ALL, text)) {
            self.settings.tab = tab;
        }
        if let Some(color) = get("color").and_then(|text| value(&ColorBy::ALL, text)) {
            self.color_by(color);
        }
        if is_foreign {
            return;
        }
        self.follow_notes(link.split('&').filter_map(|part| part.strip_prefix("note=")));
        let axis = get("axis").and_then(|text| value(&[Axis::Events, Axis::Time], text));
        if let (Some(axis), Some(x), Some(y)) = (axis, pair("x"), pair("y"))
            && (axis == Axis::Events || summary.time.is_some())
        {
            self.settings.axis = axis;
            self.set_view(View { axis, x, y });
        }
        if let Some(at) = get("at").and_then(|text| text.parse().ok()) {
            self.set_cursor(Moment(at));
        }
        self.selection.alloc =
            get("alloc").and_then(|text| text.parse().ok()).map(AllocIdx).or(self.selection.alloc);
    }

    /// The stack of the selected allocation, innermost line first.
    pub fn selected_stack(&self) -> Vec<String> {
        let is_fresh = self.requests.is_fresh(Slot::Details);
        let frames = self.selected_details().filter(|_| is_fresh).map(|details| details.frames.clone());
        frames.unwrap_or_default().iter().map(|frame| frame.at.full()).collect()
    }
}
