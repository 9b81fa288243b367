//! A real window on a virtual screen: it opens, draws a recording, saves a picture of itself and closes.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, ensure};
use vramscope_e2e::{Screen, root, vramscope};

/// A window with less than this is blank, or shows only its frame.
const LEAST_COLORS: usize = 200;

#[test]
fn the_window_draws_recordings() -> anyhow::Result<()> {
    let screen = Screen::start()?;
    let folder = tempfile::tempdir()?;
    let picture = folder.path().join("window.png");
    let recordings = root().join("testdata/recordings");
    let status = vramscope()?
        .args(["view", "--no-cache", "--screenshot"])
        .arg(&picture)
        .args([recordings.join("oom.pickle.xz"), recordings.join("expandable.pickle.xz")])
        .env("DISPLAY", &screen.display)
        .env_remove("WAYLAND_DISPLAY")
        .env("LIBGL_ALWAYS_SOFTWARE", "1")
        .status()?;
    ensure!(status.success(), "the window ends with {status}");
    let colors = colors(&picture)?;
    ensure!(colors >= LEAST_COLORS, "the window has {colors} colors only: is it blank?");
    Ok(())
}

fn colors(picture: &Path) -> anyhow::Result<usize> {
    let file = BufReader::new(File::open(picture).context("the window saved no picture")?);
    let mut reader = png::Decoder::new(file).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().context("a picture without a size")?];
    let frame = reader.next_frame(&mut pixels)?;
    ensure!(frame.width >= 640 && frame.height >= 420, "the window is {} x {}", frame.width, frame.height);
    Ok(pixels.chunks_exact(frame.color_type.samples()).collect::<HashSet<_>>().len())
}
