//! What is kept from one time to the next: how the window is set, and what was looked at in each recording.

use egui::Context;
use serde::{Deserialize, Serialize};
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{AllocIdx, Counter, Moment};
use vramscope_engine::Summary;
use vramscope_engine::color::ColorBy;

use crate::app::{App, Settings};
use crate::notes::Note;
use crate::view::{Limits, View};

/// Recordings whose place is kept, the latest first.
const MOST: usize = 60;
/// What is looked at is kept once it has been still for this many seconds.
const STILL: f64 = 0.5;

/// What was looked at in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Which recording; see [`key`].
    key: String,
    view: View,
    #[serde(rename = "bytes")]
    counter: Counter,
    color: Option<ColorBy>,
    cursor: Moment,
    selected: Option<AllocIdx>,
    #[serde(default)]
    notes: Vec<Note>,
}

/// All that is kept.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    #[serde(flatten)]
    settings: Settings,
    places: Vec<Place>,
}

/// What was kept the last time, and whether there is something newer.
#[derive(Default)]
pub(crate) struct Memory {
    settings: Settings,
    places: Vec<Place>,
    /// What is looked at now, and since when.
    place: Option<(Place, f64)>,
}

impl Memory {
    /// What a host had kept.
    pub(crate) fn new(text: Option<String>) -> Self {
        let kept: Kept = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { settings: kept.settings, places: kept.places, place: None }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }
}

/// The same for the same recording wherever it lies: its name, its length and what is in it.
pub(crate) fn key(summary: &Summary) -> String {
    let name = summary.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let Summary { file_bytes, events, allocations, device, .. } = summary;
    format!("{name} {file_bytes} {events} {allocations} {device}")
}

impl App {
    /// Takes the notes of the recording that is shown.
    pub(crate) fn recall_notes(&mut self) {
        let Some((_, summary)) = self.device() else { return };
        let key = key(&summary);
        let place = self.memory.places.iter().find(|place| place.key == key);
        self.notes = place.map(|place| place.notes.clone()).unwrap_or_default();
    }

    /// Goes to where this recording was left.
    pub(crate) fn recall(&mut self) {
        let Some((_, summary)) = self.device() else { return };
        let key = key(&summary);
        let Some(place) = self.memory.places.iter().find(|place| place.key == key).cloned() else { return };
        let limits = Limits::new(&summary, place.view.axis, self.capacity());
        let is_range = |(from, to): (f64, f64)| from.is_finite() && to.is_finite() && from < to;
        if (place.view.axis == Axis::Events || summary.time.is_some())
            && is_range(place.view.x)
            && is_range(place.view.y)
        {
            self.settings.axis = place.view.axis;
            self.camera.view = place.view.clamped(&limits);
        }
        self.settings.counter = place.counter;
        self.settings.color = place.color;
        self.colors_version += 1;
        self.selection.cursor = place.cursor.min(summary.last());
        self.selection.alloc = place.selected.filter(|alloc| alloc.0 < summary.allocations);
    }

    /// Keeps what has changed, once it is still.
    pub(crate) fn remember(&mut self, ctx: &Context) {
        let place = self.device().map(|(_, summary)| Place {
            key: key(&summary),
            view: self.camera.view,
            counter: self.settings.counter,
            color: self.settings.color,
            cursor: self.selection.cursor,
            selected: self.selection.alloc,
            notes: self.notes.clone(),
        });
        if place.as_ref() != self.memory.place.as_ref().map(|(place, _)| place) {
            self.memory.place = place.map(|place| (place, self.now));
        }
        let still = self.memory.place.as_ref().filter(|(place, _)| !self.memory.places.contains(place));
        let place = match still {
            Some((_, since)) if self.now - since < STILL => {
                ctx.request_repaint_after_secs(STILL as f32);
                None
            }
            still => still.map(|(place, _)| place.clone()),
        };
        if place.is_none() && self.settings == self.memory.settings {
            return;
        }
        self.memory.settings = self.settings.clone();
        if let Some(place) = place {
            self.memory.places.retain(|known| known.key != place.key);
            self.memory.places.insert(0, place);
            self.memory.places.truncate(MOST);
        }
        let kept = Kept { settings: self.settings.clone(), places: self.memory.places.clone() };
        if let Ok(text) = serde_json::to_string(&kept) {
            self.requests.host.store(text);
        }
    }
}
