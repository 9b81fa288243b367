//! The window: what is open, what is shown, what is selected; every view follows.

use std::sync::Arc;

use egui::Ui;
use serde::{Deserialize, Serialize};
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::query::NOTHING_RECORDED;
use vramscope_analysis::{Counter, Moment};
use vramscope_engine::color::{ColorBy, Coloring, Scheme};
use vramscope_engine::{AskConvert, AskHere, AskMoment, AskSummary, By, Group, News, Source, Summary, Which};
use vramscope_snapshot::StackId;

use crate::camera::Camera;
use crate::devices::{Device, Files, FleetFiles};
use crate::history::History;
use crate::isolate::Isolated;
use crate::notes::Note;
use crate::remember::Memory;
use crate::requests::{Host, Requests, Slot};
use crate::save::Saves;
use crate::select::Selection;
use crate::theme::{self, Palette};
use crate::view::{Limits, View};
use crate::views::{self, Tab};

/// Seconds that a message stays.
const MESSAGE: f64 = 5.0;

/// What is kept from one time to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// Dark or light; without a choice, as the system prefers.
    pub(crate) dark: Option<bool>,
    /// The colors of lines and of kinds of memory.
    pub(crate) scheme: Scheme,
    /// Whether views glide; without a choice, as the system prefers.
    pub(crate) motion: Option<bool>,
    pub(crate) axis: Axis,
    #[serde(rename = "bytes")]
    pub(crate) counter: Counter,
    /// What colors mean, if that was chosen; else see [`App::color`].
    pub(crate) color: Option<ColorBy>,
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
    /// The query as it is typed.
    pub(crate) sql: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dark: None,
            scheme: Scheme::Standard,
            motion: None,
            axis: Axis::Events,
            counter: Counter::Requested,
            color: None,
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
            sql: String::new(),
        }
    }
}

/// The viewer.
pub struct App {
    pub(crate) requests: Requests,
    pub(crate) settings: Settings,
    pub(crate) memory: Memory,
    pub(crate) files: Files,
    pub(crate) camera: Camera,
    pub(crate) history: History,
    /// What is alone on the chart.
    pub(crate) isolated: Option<Isolated>,
    pub(crate) selection: Selection,
    /// Notes at moments of the recording that is shown.
    pub(crate) notes: Vec<Note>,
    pub(crate) saves: Saves,
    /// What views keep between frames.
    pub(crate) parts: views::Parts,
    /// The capacity that the window was opened with.
    given_capacity: Option<u64>,
    /// What the status bar says, and until when.
    pub(crate) message: Option<(String, f64)>,
    /// Seconds since the window opened, at this frame.
    pub(crate) now: f64,
    /// The view glides, or is about to.
    pub(crate) moving: bool,
    /// Counts up when colors change.
    pub(crate) colors_version: u64,
    /// A link was gone to, or need not be.
    pub(crate) followed: bool,
    /// The system prefers a light theme.
    system_is_light: bool,
    /// What is shown is not what was asked for last, because the line to the engine was cut; until answers come.
    pub(crate) is_stale: bool,
    /// What the title of the window says.
    title: String,
}

impl App {
    /// A viewer in a host, before its first frame.
    pub fn new(ctx: &egui::Context, host: Box<dyn Host>, capacity: Option<u64>) -> Self {
        theme::install(ctx);
        let memory = Memory::new(host.stored());
        let settings = memory.settings();
        theme::paint(ctx, settings.scheme);
        let mut app = Self {
            requests: Requests::new(host),
            memory,
            settings,
            files: Files::default(),
            camera: Camera::default(),
            history: History::default(),
            isolated: None,
            selection: Selection::default(),
            notes: Vec::new(),
            saves: Saves::default(),
            parts: views::Parts::default(),
            given_capacity: capacity,
            message: None,
            now: 0.0,
            moving: false,
            colors_version: 1,
            followed: false,
            system_is_light: ctx.system_theme() == Some(egui::Theme::Light),
            is_stale: false,
            title: String::new(),
        };
        app.set_theme(ctx);
        app
    }

    /// Whether the theme is dark: as it was chosen, else as the system says.
    pub(crate) fn is_dark(&self) -> bool {
        self.settings.dark.unwrap_or(!self.system_is_light)
    }

    /// Draws in the theme that is chosen now.
    pub(crate) fn set_theme(&mut self, ctx: &egui::Context) {
        ctx.set_theme(if self.is_dark() { egui::Theme::Dark } else { egui::Theme::Light });
        self.colors_version += 1;
    }

    /// The device that is shown.
    pub(crate) fn device(&self) -> Option<(Source, Arc<Summary>)> {
        let device = self.files.devices.get(self.files.current)?;
        Some((device.source, Arc::clone(device.summary.as_ref()?)))
    }

    pub(crate) fn palette(&self) -> Palette {
        Palette::new(self.is_dark(), self.settings.scheme)
    }

    /// What colors depend on now, with the stacks that match the search.
    pub(crate) fn coloring<'a>(&self, found: Option<&'a [StackId]>, last: Moment) -> Coloring<'a> {
        let (by, scheme, ground) = (self.color(), self.settings.scheme, self.palette().behind());
        Coloring { by, scheme, ground, last, found, focus: None }
    }

    /// What colors mean: what was chosen, else the category, or the stack where most categories are not known.
    pub(crate) fn color(&self) -> ColorBy {
        let known = self.files.devices.get(self.files.current).and_then(|device| device.categorized);
        let default = if known == Some(false) { ColorBy::Stack } else { ColorBy::Category };
        self.settings.color.unwrap_or(default)
    }

    /// Whether pictures need categories, and have them without waiting: what is looked at must not wait for conclusions.
    pub(crate) fn has_categories(&self) -> bool {
        let known =
            self.files.devices.get(self.files.current).is_some_and(|device| device.categorized.is_some());
        known && self.color() == ColorBy::Category
    }

    /// Colors by something else.
    pub(crate) fn color_by(&mut self, by: ColorBy) {
        self.settings.color = Some(by);
        self.colors_version += 1;
    }

    /// One frame.
    pub fn ui(&mut self, ui: &mut Ui) {
        self.now = ui.input(|input| input.time);
        self.files.touched |= ui.input(|input| input.pointer.any_pressed() || !input.keys_down.is_empty());
        let is_light = ui.ctx().system_theme() == Some(egui::Theme::Light);
        if is_light != self.system_is_light {
            self.system_is_light = is_light;
            self.set_theme(ui.ctx());
        }
        self.receive(ui.ctx());
        self.is_stale = (self.is_stale || self.requests.host.is_lost()) && self.requests.is_waiting();
        let held = ui.input(|input| input.pointer.any_down());
        self.moving = self.camera.advance(self.now) | self.follow_bytes(held);
        if self.moving {
            ui.ctx().request_repaint();
        }
        self.save_picture();
        self.selection.hovered = None;
        self.selection.hover_at = None;
        crate::commands::keys(self, ui.ctx());
        views::show(self, ui);
        self.note_shown(held);
        self.save_rows(ui.ctx());
        self.remember(ui.ctx());
        self.name_window();
    }

    /// Says in the title of the window which file is shown.
    fn name_window(&mut self) {
        let title = match self.device() {
            Some((_, summary)) => format!("{} · vramscope", file_name(&summary.file)),
            None => "vramscope".to_owned(),
        };
        if title != self.title {
            self.requests.host.set_title(&title);
            self.title = title;
        }
    }

    fn receive(&mut self, ctx: &egui::Context) {
        self.requests.receive();
        for news in self.requests.host.news() {
            match news {
                News::Reading { name, done, total } => self.files.read(name, done, total),
                News::Opened { name, sources } => {
                    self.files.reading.retain(|reading| reading.name != name);
                    if sources.is_empty() {
                        self.files
                            .failed
                            .push((name, format!("There is nothing to show: {NOTHING_RECORDED}.")));
                    } else {
                        self.add_devices(&name, sources);
                    }
                }
                News::Failed { name, message } => {
                    self.files.reading.retain(|reading| reading.name != name);
                    self.files.failed.push((name, quotes(&message)));
                }
                News::Many { names } => {
                    self.files.fleet = Some(FleetFiles { names, ..FleetFiles::default() });
                }
                News::Fleet(view) => {
                    if let Some(fleet) = &mut self.files.fleet {
                        fleet.view = view.into();
                        fleet.version += 1;
                    }
                }
                News::Idle => self.files.reading.clear(),
            }
        }
        for at in 0..self.files.devices.len() {
            let Device { source, summary, .. } = &mut self.files.devices[at];
            if summary.is_none()
                && let Some(answer) = self.requests.want(Slot::Summary(*source), AskSummary { of: *source })
            {
                *summary = Some(quoted(answer.value));
                self.files.name_devices();
                ctx.request_repaint();
            }
        }
        if let Some(device) = self.files.wanted.as_ref().and_then(|path| self.files.device_of(path)) {
            self.files.wanted = None;
            self.files.touched = true;
            self.focus(device);
        }
        let first_is_known = self.files.devices.first().is_some_and(|device| device.summary.is_some());
        self.learn_categories();
        if !self.files.started && self.device().is_some() {
            self.files.started = true;
            self.focus(self.files.current);
        } else if first_is_known && self.files.current != 0 && !self.files.touched && !self.followed {
            // Files are read side by side; until somebody chooses, the first that was named is shown.
            self.focus(0);
        }
        if let Some(axis) = self.camera.converting
            && let Some(answer) =
                self.requests.look::<AskConvert>(Slot::Convert).filter(|answer| answer.fresh)
        {
            self.settings.axis = axis;
            let view = View { axis, x: *answer.value, ..self.camera.view };
            self.camera.start(self.within_limits(view), self.now);
            self.requests.forget(Slot::Convert);
        }
    }

    /// Finds out whether most of the peak of the device that is shown has a category.
    fn learn_categories(&mut self) {
        let Some((of, summary)) = self.device() else { return };
        if self.files.devices[self.files.current].categorized.is_some() {
            return;
        }
        let counter = Counter::Requested;
        let ask =
            AskHere { of, at: summary.peak(counter).at, counter, by: By::Category, only: Which::default() };
        let Some(answer) = self.requests.want(Slot::Categorized(of), ask) else { return };
        let unknown = Group::Category(DEFAULT_CATEGORIES.len() as u8 - 1);
        let rows = answer.value.rows.iter().filter(|row| row.group.as_ref() == Some(&unknown));
        let unknown: u64 = rows.map(|row| row.sum.bytes).sum();
        self.files.devices[self.files.current].categorized = Some(unknown <= answer.value.all.bytes / 2);
        self.colors_version += 1;
    }

    /// Shows a device.
    pub(crate) fn focus(&mut self, device: usize) {
        let Some(summary) = self.files.devices.get(device).and_then(|device| device.summary.clone()) else {
            return;
        };
        if device != self.files.current {
            self.isolated = None;
            self.selection.range = None;
        }
        let same_length = self.device().is_some_and(|(_, now)| now.events == summary.events);
        self.files.current = device;
        if self.settings.axis == Axis::Time && summary.time.is_none() {
            self.settings.axis = Axis::Events;
        }
        let fresh = !same_length || self.camera.view.x.1 == 0.0;
        if fresh {
            self.camera.view = View::whole(&summary, self.settings.axis, self.settings.counter);
        }
        self.selection.alloc = None;
        self.selection.cursor = summary.peak(self.settings.counter).at;
        self.recall_notes();
        if fresh {
            self.recall();
        }
        self.camera.start(self.camera.view, self.now);
    }

    /// Bytes of the device: as typed, as the window was opened with, or as the file tells.
    pub(crate) fn capacity(&self) -> Option<u64> {
        let typed = vramscope_analysis::capacity(self.settings.capacity.trim()).ok();
        typed.or(self.given_capacity).or_else(|| self.device()?.1.capacity)
    }

    /// The view within its limits: up to the peak, the capacity, or the peak of the rank beside.
    fn within_limits(&self, view: View) -> View {
        let Some((_, summary)) = self.device() else { return view };
        let beside = self.files.beside().and_then(|other| u64::try_from(other.highest()).ok());
        view.clamped(&Limits::new(&summary, self.settings.axis, self.capacity().max(beside)))
    }

    /// Shows another device with the same stretch, as far as it has one.
    pub(crate) fn swap_to(&mut self, device: usize) {
        let (view, before) = (self.camera.view, self.files.current);
        self.focus(device);
        self.set_view(view);
        self.files.beside = Some(before);
    }

    /// Opens a view below, unless it is in sight already.
    pub(crate) fn open_tab(&mut self, tab: Tab) {
        self.settings.lower_open = true;
        if self.settings.side != Some(tab) {
            self.settings.tab = tab;
        }
    }

    /// Moves to a view at once, as the pointer does.
    pub(crate) fn set_view(&mut self, view: View) {
        self.camera.set(self.within_limits(view), self.now);
    }

    /// Moves to a view with a short glide, or at once where little motion is preferred.
    pub(crate) fn glide(&mut self, goal: View) {
        let goal = self.within_limits(goal);
        if self.glides() { self.camera.glide(goal, self.now) } else { self.camera.jump(goal) }
    }

    /// Whether the view glides: as it was chosen, else as the system says.
    pub(crate) fn glides(&self) -> bool {
        self.settings.motion.unwrap_or_else(|| !self.requests.host.reduced_motion())
    }

    /// The whole run, with bytes that follow.
    pub(crate) fn fit(&mut self) {
        self.camera.locked = false;
        if let Some((_, summary)) = self.device() {
            let whole = |of: &Summary| View::whole(of, self.settings.axis, self.settings.counter);
            let mut view = whole(&summary);
            if let Some(other) = self.files.beside() {
                view.y.1 = view.y.1.max(whole(other).y.1);
            }
            self.glide(view);
        }
    }

    /// Shows a second device below, or none, with room for both.
    pub(crate) fn show_beside(&mut self, device: Option<usize>) {
        self.files.beside = device.filter(|&device| device != self.files.current);
        self.fit();
    }

    /// A stretch of the axis with some room beside it.
    pub(crate) fn show_stretch(&mut self, from: f64, to: f64) {
        let room = ((to - from) * 0.15).max(4.0);
        self.glide(View { x: (from - room, to + room), ..self.camera.view });
    }

    /// Switches between events and time, with the same stretch shown.
    pub(crate) fn toggle_axis(&mut self) {
        let Some((of, summary)) = self.device() else { return };
        if summary.time.is_none() {
            self.say("This recording has no clock: the axis counts events".into());
            return;
        }
        self.camera.convert_to(if self.settings.axis == Axis::Events { Axis::Time } else { Axis::Events });
        self.requests.forget(Slot::Convert);
        self.requests.want(Slot::Convert, AskConvert { of, from: self.settings.axis, x: self.camera.view.x });
    }

    /// Sets the moment that every view shows.
    pub(crate) fn set_cursor(&mut self, at: Moment) {
        if let Some((_, summary)) = self.device() {
            self.selection.cursor = at.min(summary.last());
        }
    }

    /// Moves the cursor by events.
    pub(crate) fn step(&mut self, by: i32) {
        self.jump(Moment(self.selection.cursor.0.saturating_add_signed(by)), None);
    }

    /// Shows a moment, scrolling there if it is out of sight.
    pub(crate) fn jump(&mut self, at: Moment, time: Option<i64>) {
        self.set_cursor(at);
        let x = match (self.settings.axis, time) {
            (Axis::Events, _) => f64::from(at.0) + 0.5,
            (Axis::Time, Some(time)) => time as f64,
            (Axis::Time, None) => return,
        };
        let view = self.camera.view;
        if x < view.x.0 || x > view.x.1 {
            let wide = view.x.1 - view.x.0;
            self.glide(View { x: (x - wide / 2.0, x + wide / 2.0), ..view });
        }
    }

    /// Where the cursor lies on the axis, if that is known here.
    pub(crate) fn cursor_x(&self) -> Option<f64> {
        let at = self.selection.cursor;
        match self.settings.axis {
            Axis::Events => Some(f64::from(at.0) + 0.5),
            Axis::Time => {
                let origin = self.device()?.1.time?.0;
                let info = self.requests.look::<AskMoment>(Slot::Cursor)?.value;
                (info.at == at).then_some(info.time.map_or(0, |time| time.saturating_sub(origin)) as f64)
            }
        }
    }

    /// Says something in the status bar for a while.
    pub(crate) fn say(&mut self, text: String) {
        self.message = Some((text, self.now + MESSAGE));
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Names in a text between quotes that a proportional font shows as such: it draws backticks as accents.
fn quotes(text: &str) -> String {
    text.replace('`', "'")
}

/// A summary whose sentences are to be read in a proportional font.
fn quoted(mut summary: Arc<Summary>) -> Arc<Summary> {
    let lists = summary.notes.iter().chain(&summary.warnings).chain(&summary.damage);
    if lists.chain([&summary.verdict]).all(|text| !text.contains('`')) {
        return summary;
    }
    let own = Arc::make_mut(&mut summary);
    let lists = own.notes.iter_mut().chain(&mut own.warnings).chain(&mut own.damage);
    lists.chain([&mut own.verdict]).for_each(|text| *text = quotes(text));
    summary
}
