//! The real window without a screen, driven through a gesture: what a frame costs, and how soon it is sharp.
//!
//! Every frame lays out and tessellates all that a window would draw; only the graphics card is not there. The
//! engine answers on its own threads, as it does for a window.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use egui::{Event, Key, Modifiers, MouseWheelUnit, PointerButton, Pos2, RawInput, Rect, pos2, vec2};
use vramscope_viewer::{App, Options};

use crate::{peak_memory, process_time, thread_time};

/// A frame of a screen that shows sixty in a second.
const FRAME: Duration = Duration::from_micros(16_667);

struct Driver {
    ctx: egui::Context,
    app: App,
    began: Instant,
    frames: Vec<Duration>,
}

impl Driver {
    /// One frame with some input: what the thread of the window spends on it counts.
    fn frame(&mut self, events: Vec<Event>) {
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(1400.0, 900.0))),
            time: Some(self.began.elapsed().as_secs_f64()),
            events,
            ..RawInput::default()
        };
        let before = thread_time();
        let app = &mut self.app;
        let mut output = self.ctx.run_ui(input, |ui| app.ui(ui));
        let shapes = std::mem::take(&mut output.shapes);
        let meshes = self.ctx.tessellate(shapes, output.pixels_per_point);
        self.frames.push(thread_time() - before);
        std::hint::black_box(meshes);
        output.drop_without_applying_deltas();
    }

    /// A frame, and the rest of its time.
    fn timed_frame(&mut self, events: Vec<Event>) {
        let began = Instant::now();
        self.frame(events);
        std::thread::sleep(FRAME.saturating_sub(began.elapsed()));
    }

    /// Frames until the timeline is sharp; how long that took.
    fn until_sharp(&mut self, events: Vec<Event>) -> Duration {
        let began = Instant::now();
        self.frame(events);
        while !self.app.is_sharp() {
            std::thread::sleep(Duration::from_millis(1));
            self.frame(Vec::new());
        }
        began.elapsed()
    }

    /// A point of the timeline by shares of its width and height, from its lower left corner.
    fn at(&self, x: f32, y: f32) -> Pos2 {
        let plot = self.app.timeline_rect();
        pos2(plot.left() + plot.width() * x, plot.bottom() - plot.height() * y)
    }

    fn click(&mut self, x: f32, y: f32) {
        let place = self.at(x, y);
        self.timed_frame(vec![Event::PointerMoved(place), button(place, true)]);
        self.timed_frame(vec![button(place, false)]);
    }

    /// Zooms, pans, hovers, selects and goes through the views.
    fn gesture(&mut self) {
        for n in 0..54 {
            self.timed_frame(vec![wheel(if n < 27 { 2.0 } else { -2.0 })]);
        }
        self.timed_frame(vec![button(self.at(0.4, 0.5), true)]);
        for n in 0..60 {
            self.timed_frame(vec![Event::PointerMoved(self.at(0.4 + 0.2 * (n as f32 / 10.0).sin(), 0.5))]);
        }
        self.timed_frame(vec![button(self.at(0.4, 0.5), false)]);
        for n in 0..90 {
            let place = self.at(0.1 + 0.8 * n as f32 / 90.0, 0.05 + 0.3 * (n % 7) as f32 / 7.0);
            self.timed_frame(vec![Event::PointerMoved(place)]);
        }
        for n in 0..10 {
            self.click(0.1 + 0.08 * n as f32, 0.1);
            for _ in 0..6 {
                self.timed_frame(Vec::new());
            }
        }
        for tab in [Key::Num1, Key::Num2, Key::Num3, Key::Num4, Key::Num5, Key::Num6, Key::T, Key::T] {
            self.timed_frame(vec![key(tab)]);
            for _ in 0..15 {
                self.timed_frame(Vec::new());
            }
        }
    }
}

/// What a run of gestures cost.
struct Measured {
    zooming: Vec<Duration>,
    gesture: Vec<Duration>,
    steps: Vec<Duration>,
    worked: Vec<Duration>,
}

impl Measured {
    /// Zooms to a thousandth, notch by notch, each awaited; then the gesture as a hand makes it, at sixty frames a second.
    fn of(driver: &mut Driver) -> Self {
        driver.frame(vec![Event::PointerMoved(driver.at(0.4, 0.1))]);
        driver.frames.clear();
        let (mut steps, mut worked) = (Vec::new(), Vec::new());
        for _ in 0..54 {
            let before = process_time();
            steps.push(driver.until_sharp(vec![wheel(1.0)]));
            worked.push(process_time() - before);
        }
        let zooming = std::mem::take(&mut driver.frames);
        driver.until_sharp(vec![key(Key::F)]);
        for _ in 0..20 {
            driver.timed_frame(Vec::new());
        }
        driver.frames.clear();
        driver.gesture();
        Self { zooming, gesture: std::mem::take(&mut driver.frames), steps, worked }
    }

    fn show(self) {
        show("frame while zooming, CPU of the window", self.zooming);
        show("frame of the gesture, CPU of the window", self.gesture);
        show("sharp after a zoom step, wall", self.steps);
        show("sharp after a zoom step, CPU of all threads", self.worked);
    }
}

fn wheel(notches: f32) -> Event {
    Event::MouseWheel {
        unit: MouseWheelUnit::Line,
        delta: vec2(0.0, notches),
        modifiers: Modifiers::NONE,
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
    }
}

fn button(pos: Pos2, pressed: bool) -> Event {
    Event::PointerButton { pos, button: PointerButton::Primary, pressed, modifiers: Modifiers::NONE }
}

fn key(key: Key) -> Event {
    Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers: Modifiers::NONE }
}

fn show(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{name:44}{:>8.2}{:>8.2}{:>8.2} ms   ({} times)", at(0.5), at(0.95), at(1.0), times.len());
}

pub(crate) fn run(file: &Path) -> anyhow::Result<()> {
    let bytes = file.metadata().with_context(|| file.display().to_string())?.len();
    let ctx = egui::Context::default();
    let empty = peak_memory();
    let options = Options { paths: vec![file.to_owned()], ..Options::default() };
    let app = vramscope_viewer::app(&ctx, options);
    let mut driver = Driver { ctx, app, began: Instant::now(), frames: Vec::new() };

    while !driver.app.has_device() {
        driver.timed_frame(Vec::new());
    }
    let opened = driver.began.elapsed();
    let before = process_time();
    let first = driver.until_sharp(Vec::new());
    let first_worked = process_time() - before;
    let waiting = std::mem::take(&mut driver.frames);
    let all = Measured::of(&mut driver);

    // The line of some allocation alone, restacked, and the same again.
    driver.click(0.6, 0.1);
    for _ in 0..12 {
        driver.timed_frame(Vec::new());
    }
    let before = process_time();
    let restacked = driver.until_sharp(vec![key(Key::I)]);
    let restacking = process_time() - before;
    let alone = Measured::of(&mut driver);

    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (events, allocations) = driver.app.extent();
    println!("{}: {:.1} MiB, {events} events, {allocations} allocations", file.display(), mib(bytes));
    println!("{:44}{:>8}{:>8}{:>8}", "", "p50", "p95", "most");
    show("frame while reading, CPU of the window", waiting);
    all.show();
    println!("with the line of one allocation alone:");
    alone.show();
    let [restacked, restacking] = [restacked, restacking].map(|time| time.as_secs_f64() * 1e3);
    println!("{:44}{restacked:>8.0} ms, CPU {restacking:.0} ms", "sharp after it was chosen");
    println!("{:44}{:>8.0} ms", "opened", opened.as_secs_f64() * 1e3);
    let [first, first_worked] = [first, first_worked].map(|time| time.as_secs_f64() * 1e3);
    println!("{:44}{first:>8.0} ms, CPU {first_worked:.0} ms", "first sharp picture after opening");
    let peak = peak_memory().saturating_sub(empty);
    println!("{:44}{:>8.1} MiB, {:.2} x the file", "peak memory", mib(peak), peak as f64 / bytes as f64);
    Ok(())
}
