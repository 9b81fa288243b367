//! The window driven by hand: every view is opened, looked at and touched, on real recordings.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod golden;
mod kept;
mod pictures;
mod profiles;
mod screenshots;
mod spoken;
mod sql;
mod stories;
mod texts;
mod views;
mod whatif;

use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use egui::{Pos2, Rect, pos2};
use egui_kittest::Harness;
use vramscope_analysis::Device;
use vramscope_engine::{Figures, Fleet, News, OpenFile, Request, Response, Session};
use vramscope_snapshot::Reader;

use crate::{App, Host, Slot};
use vramscope_soft::Soft;

/// A host that answers at once, so that a test never waits.
#[derive(Default)]
struct Direct {
    session: Session,
    answers: Vec<(Slot, Request, Response)>,
    news: Vec<News>,
    /// What it has done, for a test to look at.
    done: Arc<Mutex<Done>>,
}

/// What a host has done.
#[derive(Clone, Default)]
struct Done {
    opened: Vec<String>,
    saved: Vec<(String, String)>,
    stored: Option<String>,
    title: String,
    /// How often a folder was read.
    listed: u32,
    /// The line is cut: what is asked waits.
    is_lost: bool,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A recording in the tree, unpacked.
fn bytes_of(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(root().join(format!("testdata/recordings/{name}.pickle.xz"))).unwrap();
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(file, false).read_to_end(&mut bytes).unwrap();
    bytes
}

impl Direct {
    fn add(&mut self, name: &str, rank: &str, bytes: &[u8]) {
        let mut reader = Reader::new();
        reader.feed(bytes).unwrap();
        let snapshot = Arc::new(reader.finish().unwrap());
        let devices = Device::all(&snapshot);
        let file = OpenFile::new(format!("{name}.pickle"), rank, bytes.len() as u64, snapshot, devices);
        // Ranks are found as the files of one run.
        let path = if rank.is_empty() { name.to_owned() } else { rank.replace(' ', "") };
        self.add_file(&path, file);
    }

    fn add_file(&mut self, name: &str, file: OpenFile) {
        let sources = self.session.add(file);
        self.news.push(News::Opened { name: name.to_owned(), sources });
    }

    /// A host on all that lies at a path in `testdata`, as `vramscope view` opens it.
    fn on(path: &str) -> Self {
        let mut host = Self::default();
        let (inputs, errors) = vramscope_files::find(&[root().join("testdata").join(path)]);
        assert!(errors.is_empty());
        for input in &inputs {
            let name = input.path.display().to_string();
            host.add_file(&name, crate::threads::ready(vramscope_files::open(input, None, &()).unwrap()));
        }
        host
    }
}

impl Host for Direct {
    fn ask(&mut self, slot: Slot, request: Request) {
        let response = self.session.answer(&request, &|| true).unwrap();
        self.answers.push((slot, request, response));
    }

    fn answers(&mut self) -> Vec<(Slot, Request, Response)> {
        if self.is_lost() { Vec::new() } else { std::mem::take(&mut self.answers) }
    }

    fn close(&mut self, file: u32) {
        self.session.close(file);
    }

    fn is_lost(&self) -> bool {
        self.done.lock().unwrap().is_lost
    }

    fn set_title(&mut self, title: &str) {
        self.done.lock().unwrap().title = title.to_owned();
    }

    fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    fn open(&mut self, paths: Vec<String>) {
        self.done.lock().unwrap().opened.extend(paths.clone());
        self.news.push(News::Failed { name: paths.join(" "), message: "not here".into() });
    }

    fn open_one(&mut self, path: String) {
        self.done.lock().unwrap().opened.push(path.clone());
        let mut reader = Reader::new();
        reader.feed(&bytes_of("oom")).unwrap();
        let snapshot = Arc::new(reader.finish().unwrap());
        let devices = Device::all(&snapshot);
        self.add_file(&path, OpenFile::new(path.clone(), "rank 1000", 0, snapshot, devices));
    }

    fn open_demo(&mut self) {
        self.add("demo", "", &bytes_of("oom"));
    }

    fn recent(&self) -> Vec<String> {
        vec!["/runs/llama/rank0_memory_snapshot.pickle".into()]
    }

    fn list(&self, _: &str) -> Option<(String, Vec<(String, bool)>)> {
        self.done.lock().unwrap().listed += 1;
        Some(("/runs".into(), vec![("llama".into(), true), ("oom.pickle".into(), false)]))
    }

    fn save(&mut self, name: &str, bytes: &[u8]) -> Result<String, String> {
        self.done.lock().unwrap().saved.push((name.to_owned(), String::from_utf8_lossy(bytes).into_owned()));
        Ok(name.to_owned())
    }

    fn store(&mut self, state: String) {
        self.done.lock().unwrap().stored = Some(state);
    }

    fn stored(&self) -> Option<String> {
        self.done.lock().unwrap().stored.clone()
    }
}

/// A host with 4 096 ranks, of which rank 1000 has twice the peak of the others and only rank 0 is open.
fn thousands() -> Direct {
    let mut host = Direct::default();
    let bytes = bytes_of("expandable");
    host.add("expandable", "rank 0", &bytes);
    let mut reader = Reader::new();
    reader.feed(&bytes).unwrap();
    let snapshot = Arc::new(reader.finish().unwrap());
    let devices: Vec<_> = Device::all(&snapshot).into_iter().map(Arc::new).collect();
    let path = |rank: usize| format!("rank{rank}");
    let mut fleet = Fleet::new((0..4096).map(|rank| vramscope_naming::name(&path(rank))));
    let known = Figures::new(&snapshot, &devices, &vramscope_naming::name("rank0")).unwrap();
    for rank in 0..4096 {
        let mut figures = known.clone();
        figures.digest.rank = Some(rank as u64);
        if rank == 1000 {
            figures.digest.peak *= 2;
            figures.curve.iter_mut().for_each(|bytes| *bytes *= 2);
        }
        fleet.set(rank, figures);
    }
    fleet.compare(true);
    host.news.push(News::Many { names: (0..4096).map(path).collect() });
    host.news.push(News::Fleet(fleet.view(0, (128, 96)).into()));
    host
}

/// The window on some recordings, at rest.
fn window(names: &[(&str, &str)]) -> Harness<'static, App> {
    let mut host = Direct::default();
    for (name, rank) in names {
        host.add(name, rank, &bytes_of(name));
    }
    open(host)
}

fn open(host: Direct) -> Harness<'static, App> {
    let ctx = egui::Context::default();
    let app = App::new(&ctx, Box::new(host), None);
    let mut harness = Harness::builder()
        .with_size([1400.0, 900.0])
        .with_max_steps(400)
        .with_render_cursor(false)
        .renderer(Soft::default())
        .with_context_setup(crate::theme::install)
        .build_ui_state(
            |ui, app: &mut App| {
                // All of the screen, as a window gives it, without the margin of the harness.
                let all = ui.ctx().content_rect();
                let mut whole = ui.new_child(egui::UiBuilder::new().max_rect(all));
                whole.set_clip_rect(all);
                app.ui(&mut whole);
            },
            app,
        );
    settle(&mut harness);
    harness
}

/// Lets everything that was asked be answered and every glide come to its end.
fn settle(harness: &mut Harness<'static, App>) {
    harness.run_steps(12);
}

/// Where the memory timeline is drawn.
fn plot(harness: &Harness<'static, App>) -> Rect {
    harness.state().parts.timeline.plot
}

/// A point of the timeline by shares of its width and height, from its lower left corner.
fn point(harness: &Harness<'static, App>, x: f32, y: f32) -> Pos2 {
    let plot = plot(harness);
    pos2(plot.left() + plot.width() * x, plot.bottom() - plot.height() * y)
}

fn click(harness: &mut Harness<'static, App>, at: Pos2) {
    harness.hover_at(at);
    harness.step();
    harness.drag_at(at);
    harness.step();
    harness.drop_at(at);
    harness.hover_at(at);
    settle(harness);
}

/// Presses at one point and lets go at another.
fn drag(harness: &mut Harness<'static, App>, from: Pos2, to: Pos2) {
    harness.hover_at(from);
    harness.step();
    harness.drag_at(from);
    harness.step();
    harness.hover_at(from + egui::vec2(30.0, -30.0));
    harness.step();
    harness.hover_at(to);
    harness.step();
    harness.drop_at(to);
}

fn key(harness: &mut Harness<'static, App>, key: egui::Key) {
    harness.key_press(key);
    settle(harness);
}

/// Whether some text is painted: views draw much of theirs without a widget.
fn drawn(harness: &Harness<'static, App>, text: &str) -> bool {
    harness.output().shapes.iter().any(|clipped| has_text(&clipped.shape, text))
}

fn has_text(shape: &egui::Shape, text: &str) -> bool {
    match shape {
        egui::Shape::Text(shape) => shape.galley.text().contains(text),
        egui::Shape::Vec(shapes) => shapes.iter().any(|shape| has_text(shape, text)),
        _ => false,
    }
}
