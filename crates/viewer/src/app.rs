//! The window: what is open, what is shown, what is selected; every view follows.

use std::sync::{Arc, Mutex};

use egui::Ui;
use serde::{Deserialize, Serialize};
use vramscope_engine::{Axis, Bytes, News, Request, Response, Source, Summary};

use crate::color::{ColorBy, Coloring};
use crate::desk::{Desk, Host, Slot};
use crate::devices::Device;
use crate::remember::Memory;
use crate::theme::{self, Palette};
use crate::view::{Limits, View};
use crate::views::{self, Tab};

/// Fits and jumps take so many seconds.
const EASE: f64 = 0.12;
/// A view that has been still for so many seconds can be gone back to.
const SETTLE: f64 = 0.35;
/// Views that can be gone back to.
const MOST_VIEWS: usize = 100;

/// A file on its way.
pub(crate) struct Reading {
    pub(crate) name: String,
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// What is kept from one time to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    pub(crate) dark: bool,
    pub(crate) axis: Axis,
    pub(crate) bytes: Bytes,
    pub(crate) color: ColorBy,
    pub(crate) tab: Tab,
    pub(crate) details: bool,
    pub(crate) sidebar: bool,
    /// The share of the height that the lower views take, and whether they are shown.
    pub(crate) lower: f32,
    pub(crate) lower_open: bool,
    /// The view in the second pane, and the share of the width that is left to the first.
    pub(crate) side: Option<Tab>,
    pub(crate) split: f32,
    /// The capacity of the device as it was typed: a size or a name.
    pub(crate) capacity: String,
    pub(crate) pools: bool,
    pub(crate) own_frames: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dark: true,
            axis: Axis::Events,
            bytes: Bytes::Requested,
            color: ColorBy::Stack,
            tab: Tab::Flame,
            details: true,
            sidebar: true,
            lower: 0.36,
            lower_open: true,
            side: None,
            split: 0.5,
            capacity: String::new(),
            pools: true,
            own_frames: true,
        }
    }
}

/// A range measured with the ruler, in units of the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ruler {
    pub(crate) from: (f64, f64),
    pub(crate) to: (f64, f64),
    pub(crate) axis: Axis,
}

/// The viewer.
pub struct App {
    pub(crate) desk: Desk,
    pub(crate) settings: Settings,
    pub(crate) memory: Memory,
    pub(crate) devices: Vec<Device>,
    pub(crate) reading: Vec<Reading>,
    pub(crate) failed: Vec<(String, String)>,
    pub(crate) current: usize,
    pub(crate) beside: Option<usize>,
    pub(crate) view: View,
    ease: Option<(View, View, f64)>,
    past: Vec<View>,
    future: Vec<View>,
    settled: (View, f64),
    converting: Option<Axis>,
    /// The capacity that the window was opened with.
    given_capacity: Option<u64>,
    pub(crate) selected: Option<u32>,
    pub(crate) hovered: Option<u32>,
    /// The moment under the pointer.
    pub(crate) hover_at: Option<u32>,
    /// The moment that every view shows.
    pub(crate) cursor: u32,
    pub(crate) ruler: Option<Ruler>,
    pub(crate) message: Option<(String, f64)>,
    pub(crate) now: f64,
    pub(crate) colors_version: u64,
    pub(crate) parts: views::Parts,
    /// A table on its way to a file.
    pub(crate) saving: Option<crate::save::Saving>,
    /// A picture of the window on its way to a file.
    pub(crate) picture: Arc<Mutex<Option<Arc<egui::ColorImage>>>>,
    started: bool,
    /// A link was gone to, or need not be.
    pub(crate) followed: bool,
}

impl App {
    /// A viewer in a host, before its first frame.
    pub fn new(ctx: &egui::Context, host: Box<dyn Host>, capacity: Option<u64>) -> Self {
        theme::install(ctx);
        let memory = Memory::new(host.stored());
        let settings = memory.settings();
        ctx.set_theme(if settings.dark { egui::Theme::Dark } else { egui::Theme::Light });
        Self {
            desk: Desk::new(host),
            memory,
            settings,
            devices: Vec::new(),
            reading: Vec::new(),
            failed: Vec::new(),
            current: 0,
            beside: None,
            view: View::default(),
            ease: None,
            past: Vec::new(),
            future: Vec::new(),
            settled: (View::default(), 0.0),
            converting: None,
            given_capacity: capacity,
            selected: None,
            hovered: None,
            hover_at: None,
            cursor: 0,
            ruler: None,
            message: None,
            now: 0.0,
            colors_version: 1,
            parts: views::Parts::default(),
            saving: None,
            picture: Arc::default(),
            started: false,
            followed: false,
        }
    }

    /// The device that is shown.
    pub(crate) fn device(&self) -> Option<(Source, Arc<Summary>)> {
        let device = self.devices.get(self.current)?;
        Some((device.source, Arc::clone(device.summary.as_ref()?)))
    }

    /// Whether a device has been shown.
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    pub(crate) fn palette(&self) -> Palette {
        Palette::new(self.settings.dark)
    }

    /// What colors depend on now, with the stacks that fit the search.
    pub(crate) fn coloring<'a>(&self, found: Option<&'a [u32]>, events: u32) -> Coloring<'a> {
        Coloring { by: self.settings.color, ground: self.palette().behind(), events, found }
    }

    /// One frame.
    pub fn ui(&mut self, ui: &mut Ui) {
        self.now = ui.input(|input| input.time);
        self.receive(ui.ctx());
        self.move_view(ui.ctx());
        self.save_picture();
        self.hovered = None;
        self.hover_at = None;
        crate::commands::keys(self, ui.ctx());
        views::show(self, ui);
        self.save_rows(ui.ctx());
        self.remember(ui.ctx());
    }

    fn receive(&mut self, ctx: &egui::Context) {
        self.desk.receive();
        for news in self.desk.host.news() {
            match news {
                News::Reading { name, done, total } => {
                    match self.reading.iter_mut().find(|reading| reading.name == name) {
                        Some(reading) => (reading.done, reading.total) = (done, total),
                        None => self.reading.push(Reading { name, done, total }),
                    }
                }
                News::Opened { name, sources } => {
                    self.reading.retain(|reading| reading.name != name);
                    self.add_devices(&name, sources);
                }
                News::Failed { name, message } => {
                    self.reading.retain(|reading| reading.name != name);
                    self.failed.push((name, message));
                }
                News::Idle => self.reading.clear(),
            }
        }
        for at in 0..self.devices.len() {
            let Device { source, summary, .. } = &mut self.devices[at];
            if summary.is_none()
                && let Some(answer) = self.desk.want(Slot::Summary(*source), Request::Summary(*source))
            {
                if let Response::Summary(found) = &*answer.response {
                    *summary = Some(Arc::new((**found).clone()));
                    self.name_devices();
                }
                ctx.request_repaint();
            }
        }
        if !self.started && self.device().is_some() {
            self.started = true;
            self.focus(self.current);
        }
        if let Some(axis) = self.converting
            && let Some(answer) = self.desk.look(Slot::Convert).filter(|answer| answer.fresh)
            && let Response::Converted(x) = *answer.response
        {
            self.converting = None;
            self.settings.axis = axis;
            self.view = View { axis, x, ..self.view };
            self.clamp();
            self.past.clear();
            self.future.clear();
            self.settled = (self.view, self.now);
            self.desk.forget(Slot::Convert);
        }
    }

    /// Shows a device.
    pub(crate) fn focus(&mut self, device: usize) {
        let Some(summary) = self.devices.get(device).and_then(|device| device.summary.clone()) else {
            return;
        };
        let same_length = self.device().is_some_and(|(_, now)| now.events == summary.events);
        self.current = device;
        if self.settings.axis == Axis::Time && summary.time.is_none() {
            self.settings.axis = Axis::Events;
        }
        let fresh = !same_length || self.view.x.1 == 0.0;
        if fresh {
            self.view = View::whole(&summary, self.settings.axis, self.settings.bytes);
        }
        self.ease = None;
        self.selected = None;
        self.cursor = summary.peaks[self.settings.bytes as usize].1;
        if fresh {
            self.recall();
        }
        self.past.clear();
        self.future.clear();
        self.settled = (self.view, self.now);
    }

    /// Bytes of the device: as typed, as the window was opened with, or as the file tells.
    pub(crate) fn capacity(&self) -> Option<u64> {
        let typed = vramscope_analysis::capacity(self.settings.capacity.trim()).ok();
        let told = || self.devices.get(self.current)?.summary.as_ref()?.capacity;
        typed.or(self.given_capacity).or_else(told)
    }

    /// What the view may rise to beyond the peak: the capacity, or what the rank beside holds.
    fn most_bytes(&self) -> Option<u64> {
        let other = self.beside.and_then(|at| self.devices.get(at)?.summary.as_ref());
        let held = other.and_then(|other| other.peaks.iter().map(|(bytes, _)| *bytes).max());
        self.capacity().max(held.and_then(|bytes| u64::try_from(bytes).ok()))
    }

    /// Shows another device with the same stretch, as far as it has one.
    pub(crate) fn swap_to(&mut self, device: usize) {
        let (view, before) = (self.view, self.current);
        self.focus(device);
        self.set_view(view);
        self.beside = Some(before);
    }

    /// Opens a view below, unless it is in sight already.
    pub(crate) fn open_tab(&mut self, tab: Tab) {
        self.settings.lower_open = true;
        if self.settings.side != Some(tab) {
            self.settings.tab = tab;
        }
    }

    fn clamp(&mut self) {
        if let Some((_, summary)) = self.device() {
            let most = self.most_bytes();
            self.view = self.view.clamped(&Limits::new(&summary, self.settings.axis, most));
        }
    }

    /// Moves to a view at once, as the pointer does.
    pub(crate) fn set_view(&mut self, view: View) {
        self.ease = None;
        self.view = view;
        self.clamp();
    }

    /// Moves to a view with a short glide.
    pub(crate) fn glide(&mut self, goal: View) {
        let Some((_, summary)) = self.device() else { return };
        let goal = goal.clamped(&Limits::new(&summary, self.settings.axis, self.most_bytes()));
        self.ease = Some((self.view, goal, self.now));
    }

    /// The whole run.
    pub(crate) fn fit(&mut self) {
        if let Some((_, summary)) = self.device() {
            let mut view = View::whole(&summary, self.settings.axis, self.settings.bytes);
            let other = self.beside.and_then(|at| self.devices.get(at)?.summary.as_ref());
            if let Some(other) = other {
                view.y.1 = view.y.1.max(View::whole(other, self.settings.axis, self.settings.bytes).y.1);
            }
            self.glide(view);
        }
    }

    /// Shows a second device below, or none, with room for both.
    pub(crate) fn show_beside(&mut self, device: Option<usize>) {
        self.beside = device.filter(|&device| device != self.current);
        self.fit();
    }

    /// A stretch of the axis with some room beside it.
    pub(crate) fn show_stretch(&mut self, from: f64, to: f64) {
        let room = ((to - from) * 0.15).max(4.0);
        self.glide(View { x: (from - room, to + room), ..self.view });
    }

    fn move_view(&mut self, ctx: &egui::Context) {
        if let Some((from, goal, since)) = self.ease {
            let share = ((self.now - since) / EASE).clamp(0.0, 1.0);
            let eased = 1.0 - (1.0 - share).powi(3);
            self.view = from.towards(&goal, eased);
            if share >= 1.0 {
                self.ease = None;
                self.view = goal;
            }
            ctx.request_repaint();
        }
        if self.settled.0 == self.view {
            return;
        }
        // What lasted a while can be gone back to.
        let lasted = self.now - self.settled.1 > SETTLE && self.ease.is_none();
        if lasted && self.settled.0.x.1 > 0.0 && self.settled.0.axis == self.view.axis {
            self.past.push(self.settled.0);
            self.future.clear();
            if self.past.len() > MOST_VIEWS {
                self.past.remove(0);
            }
        }
        self.settled = (self.view, self.now);
    }

    /// Back to the view before, or forward again.
    pub(crate) fn go(&mut self, back: bool) {
        let (from, to) =
            if back { (&mut self.past, &mut self.future) } else { (&mut self.future, &mut self.past) };
        if let Some(view) = from.pop() {
            to.push(self.view);
            self.ease = Some((self.view, view, self.now));
            self.settled = (view, self.now);
        }
    }

    /// Switches between events and time, with the same stretch shown.
    pub(crate) fn toggle_axis(&mut self) {
        let Some((of, summary)) = self.device() else { return };
        if summary.time.is_none() {
            self.say("This recording has no clock: the axis counts events".into());
            return;
        }
        let axis = if self.settings.axis == Axis::Events { Axis::Time } else { Axis::Events };
        self.converting = Some(axis);
        self.ease = None;
        self.desk.forget(Slot::Convert);
        self.desk.want(Slot::Convert, Request::Convert { of, from: self.settings.axis, x: self.view.x });
    }

    /// Sets the moment that every view shows.
    pub(crate) fn set_cursor(&mut self, at: u32) {
        if let Some((_, summary)) = self.device() {
            self.cursor = at.min(summary.events);
        }
    }

    /// Shows a moment, scrolling there if it is out of sight.
    pub(crate) fn jump(&mut self, at: u32, time: Option<i64>) {
        self.set_cursor(at);
        let x = match (self.settings.axis, time) {
            (Axis::Events, _) => f64::from(at) + 0.5,
            (Axis::Time, Some(time)) => time as f64,
            (Axis::Time, None) => return,
        };
        if x < self.view.x.0 || x > self.view.x.1 {
            let wide = self.view.x.1 - self.view.x.0;
            self.glide(View { x: (x - wide / 2.0, x + wide / 2.0), ..self.view });
        }
    }

    /// Where a moment lies on the axis, if that is known here.
    pub(crate) fn x_of(&self, at: u32) -> Option<f64> {
        match self.settings.axis {
            Axis::Events => Some(f64::from(at) + 0.5),
            Axis::Time => {
                let (_, summary) = self.device()?;
                let answer = self.desk.look(Slot::Cursor)?;
                let Response::Moment(info) = &*answer.response else { return None };
                let origin = summary.time?.0;
                (info.at == at).then_some(info.time.map_or(0, |time| time - origin) as f64)
            }
        }
    }

    /// Says something in the status bar for a while.
    pub(crate) fn say(&mut self, text: String) {
        self.message = Some((text, self.now + 5.0));
    }
}
