//! Whether the pixels of the timeline have the colours that the engine gives.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use vramscope_analysis::Replay;
use vramscope_engine::{Axis, Bytes, OpenFile, Request, Response, Session, Stretch};
use vramscope_snapshot::Reader;

/// Lines, labels and marks lie over the picture; the rest must be the same.
const LEAST_SAME: f64 = 0.85;

/// Compares a screenshot with what the engine on this side says of the file that is shown, which is the one with
/// the same peak: whichever was read first is shown first.
pub(crate) fn compare(screenshot: &[u8], shown: &Value, files: &[Vec<u8>]) -> anyhow::Result<()> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(screenshot)).read_info()?;
    let mut pixels = vec![0; decoder.output_buffer_size().context("too large a picture")?];
    let info = decoder.next_frame(&mut pixels)?;
    let samples = info.color_type.samples();
    let at = |x: usize, y: usize| {
        let from = (y * info.width as usize + x) * samples;
        pixels.get(from..from + 3).map(|rgb| [rgb[0], rgb[1], rgb[2]])
    };

    let mut session = Session::default();
    let mut found = None;
    for file in files {
        let mut reader = Reader::new();
        reader.feed(file)?;
        let snapshot = reader.finish()?;
        let replays = Replay::all(&snapshot);
        for of in session.add(OpenFile::new("file", "", file.len() as u64, snapshot, replays)) {
            if let Some(Response::Summary(summary)) = session.answer(&Request::Summary(of), &|| true)
                && shown["peak"] == summary.peaks[0].0
            {
                found = Some((of, summary));
            }
        }
    }
    let (of, summary) = found.context("no file has the peak that is shown")?;
    let pair = |key: &str| -> anyhow::Result<(f64, f64)> { Ok(serde_json::from_value(shown[key].clone())?) };
    let [left, top, width, height]: [f64; 4] = serde_json::from_value(shown["plot"].clone())?;
    let stretch = Stretch { axis: Axis::Events, x: pair("x")?, width: width.round() as u32 };
    let (bytes, y, height) = (Bytes::Requested, pair("y")?, height.round() as u32);
    let request = Request::Tile { of, bytes, stretch, y, height, pools: true, categories: false };
    let Some(Response::Tile(tile)) = session.answer(&request, &|| true) else { bail!("no picture") };
    let wanted = vramscope_viewer::paint(&tile, summary.events);

    let (mut same, mut all, mut coloured) = (0, 0, 0);
    for x in (3..wanted.size[0].saturating_sub(3)).step_by(7) {
        for y in (3..wanted.size[1].saturating_sub(3)).step_by(5) {
            let color = wanted.pixels[y * wanted.size[0] + x];
            let color = [color.r(), color.g(), color.b()];
            let Some(got) = at(left.round() as usize + x, top.round() as usize + y) else { continue };
            // Edges between pixels may lie half a pixel beside; their neighbours then have the colour.
            all += 1;
            same += usize::from(got.iter().zip(color).all(|(a, b)| a.abs_diff(b) <= 3));
            coloured += usize::from(color.iter().max() != color.iter().min());
        }
    }
    let share = same as f64 / f64::from(all.max(1));
    eprintln!("pixels: {:.1} % of {all} have the engine's colour, {coloured} are coloured", share * 100.0);
    ensure!(coloured > all as usize / 10, "there is nothing to compare");
    ensure!(share >= LEAST_SAME, "only {:.1} % of the pixels are the engine's", share * 100.0);
    Ok(())
}
