//! What is shown as a short text, for a link: never data, only where to look.

use vramscope_engine::{Axis, Bytes, Response};

use crate::app::App;
use crate::color::ColorBy;
use crate::desk::Slot;
use crate::view::View;
use crate::views::Tab;

/// The word that a plain enum is written as.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).map_or_else(|_| String::new(), |text| text.trim_matches('"').to_lowercase())
}

/// The value whose word it is.
fn value<T: serde::Serialize + Copy>(all: &[T], text: &str) -> Option<T> {
    all.iter().copied().find(|value| word(value) == text)
}

impl Tab {
    const ALL: [Self; 9] = [
        Self::Segments,
        Self::State,
        Self::Flame,
        Self::Tree,
        Self::Lifetimes,
        Self::Tables,
        Self::Insights,
        Self::Compare,
        Self::Settings,
    ];
}

impl App {
    /// Whether nothing has been shown yet and a device can be.
    pub fn is_new(&self) -> bool {
        !self.followed && self.device().is_some()
    }

    /// The device, the ranges, the moment, the selection and the view; `None` before there is any.
    pub fn link(&self) -> Option<String> {
        self.device()?;
        let View { axis, x, y } = self.view;
        let mut link = format!(
            "device={}&axis={}&x={:.2},{:.2}&y={:.0},{:.0}&at={}&tab={}&bytes={}&color={}",
            self.current,
            word(&axis),
            x.0,
            x.1,
            y.0,
            y.1,
            self.cursor,
            word(&self.settings.tab),
            word(&self.settings.bytes),
            word(&self.settings.color),
        );
        if let Some(alloc) = self.selected {
            link += &format!("&alloc={alloc}");
        }
        Some(link)
    }

    /// Shows what a link says. What it does not say, or what there is not, stays as it is.
    pub fn follow(&mut self, link: &str) {
        let get = |key: &str| {
            link.split('&').find_map(|part| part.split_once('=').filter(|(k, _)| *k == key)).map(|(_, v)| v)
        };
        let pair = |key: &str| {
            let (from, to) = get(key)?.split_once(',')?;
            let pair: (f64, f64) = (from.parse().ok()?, to.parse().ok()?);
            (pair.0.is_finite() && pair.1.is_finite() && pair.0 < pair.1).then_some(pair)
        };
        if let Some(device) = get("device").and_then(|text| text.parse().ok())
            && device != self.current
        {
            self.focus(device);
        }
        let Some((_, summary)) = self.device() else { return };
        self.followed = true;
        if let Some(bytes) = get("bytes").and_then(|text| value(&Bytes::ALL, text)) {
            self.settings.bytes = bytes;
        }
        if let Some(tab) = get("tab").and_then(|text| value(&Tab::ALL, text)) {
            self.settings.tab = tab;
        }
        if let Some(color) = get("color").and_then(|text| value(&ColorBy::ALL, text)) {
            self.settings.color = color;
            self.colors_version += 1;
        }
        let axis = get("axis").and_then(|text| value(&[Axis::Events, Axis::Time], text));
        if let (Some(axis), Some(x), Some(y)) = (axis, pair("x"), pair("y"))
            && (axis == Axis::Events || summary.time.is_some())
        {
            self.settings.axis = axis;
            self.set_view(View { axis, x, y });
        }
        if let Some(at) = get("at").and_then(|text| text.parse().ok()) {
            self.set_cursor(at);
        }
        self.selected = get("alloc").and_then(|text| text.parse().ok()).or(self.selected);
    }

    /// The stack of the selected allocation, innermost line first.
    pub fn selected_stack(&self) -> Vec<String> {
        let Some(answer) = self.desk.look(Slot::Details).filter(|answer| answer.fresh) else {
            return Vec::new();
        };
        match &*answer.response {
            Response::Details(details) if Some(details.alloc) == self.selected => details
                .frames
                .iter()
                .map(|frame| format!("{}:{} {}", frame.file, frame.line, frame.name))
                .collect(),
            _ => Vec::new(),
        }
    }
}
