//! The viewer as a page: Web Workers or a server answer, the page around it brings files.
//!
//! `web/page.js` and `web/worker.js` carry bytes between here and there, and know nothing of what they mean.
//! The same module runs in the page, where [`start`] shows the window, and in each worker, where
//! [`worker::Worker`] holds a session.
#![allow(unreachable_pub, reason = "JavaScript reaches it")]

mod host;
mod warm;
mod worker;

use std::cell::RefCell;

use serde::Serialize;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::{AskTile, News, WireError, decode};
use wasm_bindgen::prelude::*;

use crate::{App, Slot};

#[wasm_bindgen(js_namespace = vramscope)]
extern "C" {
    fn ask(lane: u32, ticket: u32, request: &[u8]);
    fn abort(ticket: u32);
    fn pick(folder: bool);
    fn open_demo(name: &str, bytes: &[u8]);
    fn cancel();
    fn close(lane: u32, file: u32, name: &str);
    fn has_summary() -> bool;
    fn show_summary();
    fn set_title(title: &str);
    /// Lets the keyboard focus go on to what follows the canvas.
    fn leave();
    fn save(name: &str, bytes: &[u8]);
    fn store(text: &str);
    fn stored() -> Option<String>;
    fn takes_files() -> bool;
    fn reduced_motion() -> bool;
    fn link() -> String;
    fn address(link: &str) -> String;
    fn set_link(text: &str);
    fn describe(text: &str);
    /// Says something over the window.
    fn say(text: &str);
}

/// What has come since the last frame.
#[derive(Default)]
struct Inbox {
    answers: Vec<(u32, Vec<u8>)>,
    news: Vec<News>,
    /// Files that workers have opened: the name, the worker, and how many devices there are, unless it was cancelled.
    opened: Vec<(String, u32, Option<u32>)>,
    /// A link to go to.
    link: Option<String>,
    /// A file to show, by the name that the page has for it.
    wanted: Option<String>,
    /// The line to the server is cut.
    is_lost: bool,
    /// A widget of the window has the keyboard focus.
    is_focused: bool,
    ctx: Option<egui::Context>,
    shown: String,
}

thread_local! {
    static INBOX: RefCell<Inbox> = RefCell::default();
}

fn deliver(put: impl FnOnce(&mut Inbox)) {
    INBOX.with_borrow_mut(|inbox| {
        put(inbox);
        if let Some(ctx) = &inbox.ctx {
            ctx.request_repaint();
        }
    });
}

/// An answer; empty if it is lost.
#[wasm_bindgen]
pub fn answer(ticket: u32, bytes: Vec<u8>) {
    deliver(|inbox| inbox.answers.push((ticket, bytes)));
}

/// How far a file is read.
#[wasm_bindgen]
pub fn reading(name: String, done: f64, total: f64) {
    INBOX.with_borrow_mut(|inbox| {
        inbox.news.push(News::Reading { name, done: done as u64, total: total as u64 });
        if let Some(ctx) = &inbox.ctx {
            // One frame and not two, as egui has it without a delay: where there is no graphics processor, frames
            // take from reading.
            ctx.request_repaint_after(std::time::Duration::from_millis(1));
        }
    });
}

/// A worker has opened a file; without devices it is one that was cancelled.
#[wasm_bindgen]
pub fn opened(name: String, worker: u32, devices: Option<u32>) {
    deliver(|inbox| inbox.opened.push((name, worker, devices)));
}

/// A file could not be opened.
#[wasm_bindgen]
pub fn failed(name: String, message: String) {
    deliver(|inbox| inbox.news.push(News::Failed { name, message }));
}

/// Nothing more is being read.
#[wasm_bindgen]
pub fn idle() {
    deliver(|inbox| inbox.news.push(News::Idle));
}

/// Shows a file that is open.
#[wasm_bindgen]
pub fn show(name: String) {
    deliver(|inbox| inbox.wanted = Some(name));
}

/// Says whether the line to the server is cut.
#[wasm_bindgen]
pub fn set_lost(is_lost: bool) {
    deliver(|inbox| inbox.is_lost = is_lost);
}

/// Whether a key means something in the window, and so nothing to the browser: a name as JavaScript has it.
#[wasm_bindgen]
pub fn takes_key(name: &str, ctrl: bool, alt: bool, shift: bool) -> bool {
    let modifiers = egui::Modifiers { alt, ctrl, shift, mac_cmd: false, command: ctrl };
    egui::Key::from_name(name).is_some_and(|key| crate::commands::is_taken(modifiers, key))
}

/// Whether a widget of the window has the keyboard focus.
#[wasm_bindgen]
pub fn is_focused() -> bool {
    INBOX.with_borrow(|inbox| inbox.is_focused)
}

/// News from a server. Gives how many of them the server sends only once, so that the next request skips them; none
/// after the last.
#[wasm_bindgen]
pub fn take_news(bytes: &[u8]) -> Option<u32> {
    let Ok(news) = decode::<Vec<News>>(bytes) else {
        mismatched();
        return None;
    };
    let once = news.iter().filter(|news| !matches!(news, News::Reading { .. })).count() as u32;
    let over = news.contains(&News::Idle);
    deliver(|inbox| inbox.news.extend(news));
    (!over).then_some(once)
}

/// Says that the page and the program that answers it are of different versions.
fn mismatched() {
    say(&WireError::Version.to_string());
}

/// Another link was typed or gone back to.
#[wasm_bindgen]
pub fn follow(link: String) {
    deliver(|inbox| inbox.link = Some(link));
}

/// What is shown, as JSON: for people who cannot see it, and for tests.
#[wasm_bindgen]
pub fn shown() -> String {
    INBOX.with_borrow(|inbox| inbox.shown.clone())
}

/// What paths stand for, as JSON, in the order in which it is shown: where each is, the rows of its files, and
/// whether it is a profile.
#[wasm_bindgen]
#[expect(clippy::needless_pass_by_value, reason = "JavaScript has no slices of strings")]
pub fn inputs(paths: Vec<String>) -> String {
    let listed: Vec<_> = vramscope_naming::listing::list(&paths)
        .into_iter()
        .map(|listed| (listed.path, listed.rows, listed.is_profile))
        .collect();
    serde_json::to_string(&listed).unwrap_or_default()
}

/// Shows the window on a canvas. With a server, its session answers, and files are what it has opened.
#[wasm_bindgen]
pub async fn start(canvas: web_sys::HtmlCanvasElement, server: bool) -> Result<(), JsValue> {
    let create: eframe::AppCreator<'static> = Box::new(move |context| {
        let ctx = &context.egui_ctx;
        deliver(|inbox| inbox.ctx = Some(ctx.clone()));
        let app = App::new(ctx, Box::new(host::PageHost::new(server)), None);
        Ok(Box::new(Page { app, link: link(), still_since: 0.0, described: String::new(), has_left: false }))
    });
    // Nothing here shades from one color to another.
    let options = eframe::WebOptions { dithering: false, ..Default::default() };
    eframe::WebRunner::new().start(canvas, options, create).await
}

/// Seconds without a change before the address of the page follows.
const SETTLED: f64 = 0.3;

struct Page {
    app: App,
    link: String,
    still_since: f64,
    described: String,
    /// The focus went on from the last widget to what follows the canvas.
    has_left: bool,
}

impl eframe::App for Page {
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        // A link may mean any device; it waits until each is known.
        let is_known = self.app.files.devices.iter().all(|device| device.summary.is_some());
        let link = INBOX.with_borrow_mut(|inbox| {
            let is_told = is_known && inbox.opened.is_empty() && inbox.news.is_empty();
            if is_told { inbox.link.take() } else { None }
        });
        if let Some(link) = link {
            self.app.follow(&link);
            self.link = link;
        } else if !self.link.is_empty() && self.app.is_new() {
            self.app.follow(&self.link);
        }
        if let Some(name) = INBOX.with_borrow_mut(|inbox| inbox.wanted.take()) {
            self.app.files.wanted = Some(name);
        }
        self.app.ui(ui);
        self.pass_focus(ui.ctx());
        self.remember(ui.ctx());
        self.tell();
    }
}

impl Page {
    /// Tab goes through the widgets and then out of the canvas, where egui would begin anew.
    fn pass_focus(&mut self, ctx: &egui::Context) {
        let focused = ctx.memory(egui::Memory::focused);
        let was_focused =
            INBOX.with_borrow_mut(|inbox| std::mem::replace(&mut inbox.is_focused, focused.is_some()));
        let tab = ctx.input(|input| input.modifiers.is_none() && input.key_pressed(egui::Key::Tab));
        if std::mem::take(&mut self.has_left)
            && let Some(first) = focused
        {
            ctx.memory_mut(|memory| memory.surrender_focus(first));
            INBOX.with_borrow_mut(|inbox| inbox.is_focused = false);
        } else if tab && was_focused && focused.is_none() {
            self.has_left = true;
            leave();
        }
    }

    /// Keeps what is shown in the address of the page, once it is still.
    fn remember(&mut self, ctx: &egui::Context) {
        let is_followed = INBOX.with_borrow(|inbox| inbox.link.is_none());
        if !is_followed {
            ctx.request_repaint();
        }
        let Some(now) = self.app.link().filter(|now| is_followed && *now != self.link) else {
            self.still_since = self.app.now;
            return;
        };
        if self.app.now - self.still_since > SETTLED && !ctx.input(|input| input.pointer.any_down()) {
            set_link(&now);
            self.link = now;
        } else {
            ctx.request_repaint_after(std::time::Duration::from_millis(150));
        }
    }

    fn tell(&mut self) {
        let shown = Shown::of(&self.app);
        let text = self.app.words();
        if text != self.described {
            describe(&text);
            self.described = text;
        }
        let json = serde_json::to_string(&shown).unwrap_or_default();
        INBOX.with_borrow_mut(|inbox| inbox.shown = json);
    }
}

/// What is on the screen.
#[derive(Serialize)]
struct Shown {
    devices: usize,
    /// What the devices are called in the side bar.
    names: Vec<String>,
    reading: Vec<(String, u64, u64)>,
    failed: Vec<(String, String)>,
    at_rest: bool,
    /// What is still to come.
    waiting: Vec<String>,
    /// Whether there is any picture of the timeline, sharp or not.
    painted: bool,
    current: usize,
    axis: Axis,
    x: (f64, f64),
    y: (f64, f64),
    /// Left, top, width and height of the timeline in points.
    plot: [f32; 4],
    tab: crate::views::Tab,
    selected: Option<u32>,
    /// The moment of the cursor.
    at: u32,
    stack: Vec<String>,
    peak: Option<i64>,
    /// What the peak is of.
    bytes: &'static str,
    verdict: Option<String>,
    /// Whether what is shown is not what was asked for, because the line is cut.
    stale: bool,
    /// Bytes of memory that the page itself has; workers have their own.
    memory: usize,
}

impl Shown {
    fn of(app: &App) -> Self {
        let summary = app.device().map(|(_, summary)| summary);
        let plot = app.parts.timeline.plot;
        Self {
            devices: app.files.devices.iter().filter(|device| device.summary.is_some()).count(),
            names: app.files.devices.iter().map(|device| device.name.clone()).collect(),
            reading: app
                .files
                .reading
                .iter()
                .map(|file| (file.name.clone(), file.done, file.total))
                .collect(),
            failed: app.files.failed.clone(),
            at_rest: app.is_at_rest(),
            waiting: app.requests.waiting().map(|slot| format!("{slot:?}")).collect(),
            painted: [Slot::Base, Slot::Coarse, Slot::Timeline]
                .iter()
                .any(|slot| app.requests.look::<AskTile>(*slot).is_some()),
            current: app.files.current,
            axis: app.camera.view.axis,
            x: app.camera.view.x,
            y: app.camera.view.y,
            plot: if plot.is_finite() {
                [plot.left(), plot.top(), plot.width(), plot.height()]
            } else {
                [0.0; 4]
            },
            tab: app.settings.tab,
            selected: app.selection.alloc.map(|alloc| alloc.0),
            at: app.selection.cursor.0,
            stack: app.selected_stack(),
            bytes: summary.as_ref().map_or("", |summary| summary.name_of(app.settings.counter)),
            peak: summary.as_ref().map(|summary| summary.peaks[app.settings.counter as usize].bytes),
            verdict: summary.map(|summary| summary.verdict.clone()),
            stale: app.is_stale,
            memory: std::arch::wasm32::memory_size(0) << 16,
        }
    }
}
