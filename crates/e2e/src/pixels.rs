//! Whether the pixels of the timeline have the colors that the engine gives.

use std::collections::HashSet;

use anyhow::{Context, ensure};
use serde_json::Value;
use vramscope_analysis::{Counter, Device};
use vramscope_engine::{AskSummary, AskTile, Axis, OpenFile, Session, Stretch, Which, paint};
use vramscope_snapshot::Reader;

/// A picture of the page.
struct Screen {
    width: usize,
    height: usize,
    samples: usize,
    pixels: Vec<u8>,
}

impl Screen {
    fn read(png: &[u8]) -> anyhow::Result<Self> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(png)).read_info()?;
        let mut pixels = vec![0; decoder.output_buffer_size().context("too large a picture")?];
        let info = decoder.next_frame(&mut pixels)?;
        let (width, height) = (info.width as usize, info.height as usize);
        Ok(Self { width, height, samples: info.color_type.samples(), pixels })
    }

    fn at(&self, x: usize, y: usize) -> Option<[u8; 3]> {
        self.pixels.get((y * self.width + x) * self.samples..)?.first_chunk().copied()
    }
}

/// Points that a bar of the side bar is high, and its color.
const BAR: (usize, [u8; 3]) = (6, [72, 166, 224]);

/// Whether the side bar has that many bars, one below the other.
pub fn bars(screenshot: &[u8], shown: &Value, wanted: usize) -> anyhow::Result<()> {
    let screen = Screen::read(screenshot)?;
    let is_bar = |x: usize, y: usize| screen.at(x, y).is_some_and(|color| is_near(color, BAR.1));
    let bars = |x: usize| {
        let column: Vec<bool> = (0..screen.height).map(|y| is_bar(x, y)).collect();
        column.chunk_by(|a, b| a == b).filter(|run| run.len() == BAR.0 && run.first() == Some(&true)).count()
    };
    let most = (0..shown["plot"][0].as_f64().unwrap_or_default() as usize).map(bars).max();
    ensure!(most == Some(wanted), "{most:?} bars instead of {wanted}");
    Ok(())
}

/// The same color but for dithering.
fn is_near(a: [u8; 3], b: [u8; 3]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= 3)
}

/// Different colors below the timeline.
pub fn colors_below(screenshot: &[u8], shown: &Value) -> anyhow::Result<usize> {
    let screen = Screen::read(screenshot)?;
    let [left, top, width, height]: [f64; 4] = serde_json::from_value(shown["plot"].clone())?;
    let rows = (top + height) as usize + 40..screen.height.saturating_sub(40);
    let columns = || left as usize..(left + width) as usize;
    let colors: HashSet<_> =
        rows.flat_map(|y| columns().map(move |x| (x, y))).filter_map(|(x, y)| screen.at(x, y)).collect();
    Ok(colors.len())
}

/// Lines, labels and marks lie over the picture; the rest must be the same.
const LEAST_SAME: f64 = 0.85;

/// Compares a screenshot with what the engine on this side says of the file that is shown, which is the one with
/// the same peak: whichever was read first is shown first.
pub fn compare(screenshot: &[u8], shown: &Value, files: &[Vec<u8>]) -> anyhow::Result<()> {
    let screen = Screen::read(screenshot)?;
    let mut session = Session::default();
    let mut found = None;
    for file in files {
        let mut reader = Reader::new();
        reader.feed(file)?;
        let snapshot = std::sync::Arc::new(reader.finish()?);
        let devices = Device::all(&snapshot);
        for of in session.add(OpenFile::new("file", "", file.len() as u64, snapshot, devices)) {
            if let Some(summary) = session.ask(AskSummary { of })
                && shown["peak"] == summary.peak(Counter::Requested).bytes
            {
                found = Some((of, summary));
            }
        }
    }
    let (of, summary) = found.context("no file has the peak that is shown")?;
    let pair = |key: &str| -> anyhow::Result<(f64, f64)> { Ok(serde_json::from_value(shown[key].clone())?) };
    let [left, top, width, height]: [f64; 4] = serde_json::from_value(shown["plot"].clone())?;
    let stretch = Stretch { axis: Axis::Events, x: pair("x")?, width: width.round() as u32 };
    let (counter, y, height) = (Counter::Requested, pair("y")?, height.round() as u32);
    let only = Which::default();
    let tile = AskTile { of, counter, stretch, y, height, pools: true, categories: true, only };
    let tile = session.ask(tile).context("no picture")?;
    let (wide, high) = (tile.shown.len(), tile.height as usize);
    let wanted = paint::upright(&tile, summary.last(), vramscope_engine::color::Ground::DARK);

    // Pixels of the ground, and of allocations: how many there are, and how many are as they should be.
    let mut counts = [[0_u32; 2]; 2];
    for x in (3..wide.saturating_sub(3)).step_by(7) {
        for y in (3..high.saturating_sub(3)).step_by(5) {
            let color = wanted[y * wide + x];
            let Some(got) = screen.at(left.round() as usize + x, top.round() as usize + y) else { continue };
            let spread = color.iter().max().zip(color.iter().min()).map_or(0, |(most, least)| most - least);
            let count = &mut counts[usize::from(spread > 40)];
            count[0] += 1;
            count[1] += u32::from(is_near(got, color));
        }
    }
    for (what, [all, same]) in ["ground", "allocations"].iter().zip(counts) {
        let share = f64::from(same) / f64::from(all.max(1));
        eprintln!("pixels: {:.1} % of {all} of the {what} have the engine's color", share * 100.0);
        ensure!(all > 300, "there is nothing to compare");
        ensure!(
            share >= LEAST_SAME,
            "only {:.1} % of the pixels of the {what} are the engine's",
            share * 100.0
        );
    }
    Ok(())
}
