//! `cargo xtask bench web`: the page on real files, in a Chromium without a screen.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use vramscope_e2e::{Browser, Chromium, Files, is_open, number, point, site};

use crate::measure::Stage;
use crate::read::in_own_process;

/// What a file costs.
struct Row {
    /// From the address to the start screen.
    start: Duration,
    /// From the drop to the first picture, and to the sharp one.
    picture: Duration,
    sharp: Duration,
    /// Parsing alone, reading with waiting for the browser's chunks, and reading with replay and indices, in the
    /// worker.
    parse: f64,
    read: f64,
    open: f64,
    /// The longest tasks of the page while opening, while looking around, and while going through the views with a
    /// selection and its line alone: processor and clock, in ms.
    opening: (f64, f64),
    moving: (f64, f64),
    using: (f64, f64),
    frames: f64,
    heap: f64,
    wasm: f64,
    browser: f64,
}

/// Shift, as Chromium numbers modifiers.
const SHIFT: u32 = 8;

/// Browsers started for each file.
const RUNS: usize = 3;

/// One block per file: what a person waits for, beside opening it natively in the same minute. Speeds are the best
/// of three on both sides; the rest is what came second.
pub(crate) fn run(files: &[PathBuf]) -> anyhow::Result<()> {
    for file in files {
        let file = file.canonicalize().with_context(|| file.display().to_string())?;
        let mb = file.metadata()?.len() as f64 / 1e6;
        let read = in_own_process(Stage::Read, &file, 3)?.seconds;
        let open = in_own_process(Stage::Open, &file, 3)?.seconds;
        let rows = (0..RUNS).map(|_| measure(&file)).collect::<anyhow::Result<Vec<Row>>>()?;
        let sorted = |of: &dyn Fn(&Row) -> f64| {
            let mut all: Vec<f64> = rows.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let best = |of: &dyn Fn(&Row) -> f64| sorted(of)[0];
        let middle = |of: &dyn Fn(&Row) -> f64| sorted(of)[RUNS / 2];
        println!("{}: {mb:.1} MB", file.file_name().unwrap_or_default().to_string_lossy());
        let waits = |what: &str, of: &dyn Fn(&Row) -> f64| println!("  {what:<35} {:>9.2} s", middle(of));
        waits("the page starts", &|row| row.start.as_secs_f64());
        waits("from the drop to a picture", &|row| row.picture.as_secs_f64());
        waits("from the drop to the sharp picture", &|row| row.sharp.as_secs_f64());
        // The best of several, as natively.
        let speed = |what: &str, here: &dyn Fn(&Row) -> f64, native: f64| {
            println!(
                "  {what:<35} {:>9.0} MB/s, natively {:.0} MB/s: {:.2} x",
                mb / best(here),
                mb / native,
                native / best(here)
            );
        };
        speed("parsing in a worker", &|row| row.parse, read);
        speed("parsing and waiting for chunks", &|row| row.read, read);
        speed("reading, replay, indices", &|row| row.open, open);
        let task = |what: &str, of: &dyn Fn(&Row) -> (f64, f64)| {
            println!(
                "  longest task while {what:<17}{:>9.0} ms CPU, {:.0} ms wall",
                middle(&|row| of(row).0),
                middle(&|row| of(row).1)
            );
        };
        task("opening", &|row| row.opening);
        task("looking around", &|row| row.moving);
        task("using it", &|row| row.using);
        println!("  frames while looking around         {:>9.0} /s", middle(&|row| row.frames));
        println!(
            "  JS heap {:.1} MB and WASM {:.1} MB: {:.2} x the file; all processes of the browser {:.0} MB",
            middle(&|row| row.heap),
            middle(&|row| row.wasm),
            middle(&|row| row.heap + row.wasm) / mb,
            middle(&|row| row.browser)
        );
    }
    Ok(())
}

fn measure(file: &Path) -> anyhow::Result<Row> {
    let site = Files::serve(site()?)?;
    let mut chromium = Chromium::start()?;
    chromium.resize(1400, 900)?;
    let began = Instant::now();
    chromium.open(&site.url)?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
    let start = began.elapsed();
    // A person has to find the file; meanwhile the page makes its code fast.
    std::thread::sleep(Duration::from_secs(2));
    chromium.watch()?;
    let began = chromium.drop_files(&[file])?;
    chromium.wait("a picture", |shown| number(shown, "/plot/2") > 0.0 && shown["painted"] == true)?;
    let picture = began.elapsed();
    let is_sharp =
        |shown: &Value| shown["devices"] != 0 && is_open(shown, shown["devices"].as_u64().unwrap_or(1));
    let shown = chromium.wait("a sharp picture", is_sharp)?;
    let sharp = began.elapsed();
    let opening = chromium.longest_task()?;

    chromium.watch()?;
    // Zoom in, go from side to side and zoom out again, as a person looks around.
    chromium
        .value("globalThis.frames = 0; (function count() { frames += 1; requestAnimationFrame(count) })()")?;
    let began = Instant::now();
    for step in 0..30 {
        let (x, y) = point(&shown, 0.2 + 0.01 * f64::from(step), 0.5);
        chromium.wheel(x, y, -60.0)?;
    }
    let (from, to) = (point(&shown, 0.7, 0.5), point(&shown, 0.3, 0.6));
    for _ in 0..3 {
        chromium.drag(from, to)?;
        chromium.drag(to, from)?;
    }
    for _ in 0..30 {
        let (x, y) = point(&shown, 0.5, 0.5);
        chromium.wheel(x, y, 60.0)?;
    }
    chromium.wait("rest", |shown| shown["at_rest"] == true)?;
    let frames =
        chromium.value("globalThis.frames")?.as_f64().unwrap_or_default() / began.elapsed().as_secs_f64();
    let moving = chromium.longest_task()?;

    let (heap, mut wasm) = (chromium.heap()? / 1e6, number(&chromium.shown()?, "/memory") / 1e6);
    let took = |name: &str| format!("performance.getEntriesByName('{name}').at(-1)?.duration ?? 0");
    let (mut parse, mut read, mut open) = (0.0_f64, 0.0_f64, 0.0_f64);
    for worker in chromium.workers() {
        let mut value = |expression: &str| -> anyhow::Result<f64> {
            Ok(chromium.value_in(&worker, expression)?.as_f64().unwrap_or_default())
        };
        parse = parse.max(value(&took("parse"))? / 1e3);
        read = read.max(value(&took("read"))? / 1e3);
        open = open.max(value(&took("open"))? / 1e3);
        wasm += value("memory?.buffer.byteLength ?? 0")? / 1e6;
    }
    let browser = chromium.memory() / 1e6;

    chromium.watch()?;
    let (x, y) = point(&shown, 0.6, 0.9);
    chromium.click(x, y)?;
    // The selection's line alone, every view, time, and everything again.
    for key in ["i", "1", "2", "3", "4", "5", "6", "7", "8", "9", "e", "b", "0", "t", "t"] {
        chromium.key(key)?;
        chromium.wait(key, |shown| shown["at_rest"] == true)?;
    }
    chromium.key_with("I", SHIFT)?;
    chromium.wait("all memory", |shown| shown["at_rest"] == true)?;
    let using = chromium.longest_task()?;
    Ok(Row { start, picture, sharp, parse, read, open, opening, moving, using, frames, heap, wasm, browser })
}
