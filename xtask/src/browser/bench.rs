//! `cargo xtask bench web`: the page on real files, in a Chromium without a screen.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::json;

use super::{Chromium, Files, is_open, number};
use crate::measure::{Measurement, Stage};
use crate::{bench, web};

/// Takes down tasks that keep the page from drawing.
const WATCH: &str = "globalThis.longest = 0; new PerformanceObserver((list) => { for (const task of list.getEntries()) \
    globalThis.longest = Math.max(globalThis.longest, task.duration); }).observe({ entryTypes: ['longtask'] }); 0";

/// One line per file: from the drop to the sharp picture, beside opening it natively in the same minute.
pub(crate) fn run(files: &[PathBuf]) -> anyhow::Result<()> {
    ensure!(web::folder().join("index.html").exists(), "build the page first: cargo xtask web");
    println!(
        "{:<28} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "file", "bytes", "start ms", "open ms", "native ms", "task ms", "heap MB", "all MB"
    );
    for file in files {
        let file = file.canonicalize().with_context(|| file.display().to_string())?;
        let bytes = file.metadata()?.len();
        let Measurement { seconds: native, .. } = bench::in_own_process(Stage::Open, &file, 3)?;
        let site = Files::serve(web::folder())?;
        let mut chromium = Chromium::start()?;
        let began = Instant::now();
        chromium.open(&site.url)?;
        chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
        let start = began.elapsed();
        chromium.value(WATCH)?;
        let began = Instant::now();
        chromium.drop_files(&[&file])?;
        let shown = chromium.wait("a picture", |shown| {
            shown["devices"] != 0 && is_open(shown, shown["devices"].as_u64().unwrap_or(1))
        })?;
        let open = began.elapsed();
        // Zoom in and out and from side to side, as a person looks around.
        chromium.value("globalThis.longest = 0")?;
        let plot = |part: usize| number(&shown, &format!("/plot/{part}"));
        for step in 0..60 {
            let x = plot(0) + plot(2) * (0.2 + 0.01 * f64::from(step));
            chromium.wheel(x, plot(1) + plot(3) * 0.5, if step < 30 { -60.0 } else { 60.0 })?;
        }
        chromium.wait("rest", |shown| shown["at_rest"] == true)?;
        let longest = chromium.value("globalThis.longest")?.as_f64().unwrap_or_default();
        let heap = chromium.call("Runtime.getHeapUsage", json!({}))?;
        let heap = heap["totalSize"].as_f64().unwrap_or_default() / 1e6;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!(
            "{name:<28} {bytes:>10} {:>9.0} {:>9.0} {:>9.0} {longest:>9.0} {heap:>9.1} {:>9.0}",
            start.as_secs_f64() * 1e3,
            open.as_secs_f64() * 1e3,
            native * 1e3,
            chromium.memory() / 1e6,
        );
    }
    Ok(())
}
