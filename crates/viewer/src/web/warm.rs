//! Making code fast before a file comes.
//!
//! A browser compiles what is called for the first time while somebody waits for it, and makes it fast only after it
//! has run for a while. So a worker opens the recording that is built in and draws the window on it, unseen. What is
//! compiled there is compiled for the page, too: both run the same module.

use std::io::Read;

use egui::{Event, Modifiers, MouseWheelUnit, RawInput, Rect, pos2, vec2};
use vramscope_engine::{DEMO, News, OpenFile, Request, Response, Session};
use vramscope_snapshot::{ReadError, Reader, Snapshot};
use wasm_bindgen::prelude::*;

use crate::{App, Host, Slot};

/// The recording that is built in, and a window on it that nobody sees.
#[wasm_bindgen]
pub struct Warm {
    bytes: Vec<u8>,
    ctx: egui::Context,
    app: Option<App>,
    frames: u32,
}

#[wasm_bindgen]
impl Warm {
    /// The recording, unpacked.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        let mut bytes = Vec::new();
        // What is built in can be unpacked; if not, there is just nothing to warm with.
        let _ = lzma_rust2::XzReader::new(DEMO, false).read_to_end(&mut bytes);
        Self { bytes, ctx: egui::Context::default(), app: None, frames: 0 }
    }

    /// Opens it once more, and draws a frame of the window.
    pub fn run(&mut self) {
        let Ok(snapshot) = self.read() else { return };
        let snapshot = std::sync::Arc::new(snapshot);
        let devices = vramscope_analysis::Device::all(&snapshot);
        let mut session = Session::default();
        let sources = session.add(OpenFile::new("demo", "", 0, snapshot, devices));
        let app = self.app.get_or_insert_with(|| {
            let news = vec![News::Opened { name: "demo".into(), sources }];
            App::new(&self.ctx, Box::new(Demo { session, answers: Vec::new(), news }), None)
        });
        let (middle, zoom) = (pos2(700.0, 250.0), if self.frames % 40 < 20 { 1.0 } else { -1.0 });
        let wheel = Event::MouseWheel {
            unit: MouseWheelUnit::Line,
            delta: vec2(0.0, zoom),
            modifiers: Modifiers::NONE,
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
        };
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, vec2(1400.0, 900.0))),
            time: Some(f64::from(self.frames) / 60.0),
            events: vec![Event::PointerMoved(middle), wheel],
            ..RawInput::default()
        };
        self.frames += 1;
        let mut output = self.ctx.run_ui(input, |ui| app.ui(ui));
        let shapes = std::mem::take(&mut output.shapes);
        self.ctx.tessellate(shapes, output.pixels_per_point);
        output.drop_without_applying_deltas();
    }

    fn read(&self) -> Result<Snapshot, ReadError> {
        let mut reader = Reader::new().expect_len(self.bytes.len() as u64);
        reader.feed(&self.bytes)?;
        reader.finish()
    }
}

/// A host that answers at once.
struct Demo {
    session: Session,
    answers: Vec<(Slot, Request, Response)>,
    news: Vec<News>,
}

impl Host for Demo {
    fn ask(&mut self, slot: Slot, request: Request) {
        let response = self.session.answer(&request, &|| true).unwrap_or(Response::Nothing);
        // Over the wire, as answers come to a page.
        let response = vramscope_engine::decode(&vramscope_engine::encode(&response)).unwrap_or(response);
        self.answers.push((slot, request, response));
    }

    fn answers(&mut self) -> Vec<(Slot, Request, Response)> {
        std::mem::take(&mut self.answers)
    }

    fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }
}
