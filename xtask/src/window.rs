//! A real window on a virtual screen: it opens, draws a recording, saves a picture of itself and closes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

use crate::process::{binary, need, root, run};

/// A screen that needs no hardware, and what a window loads when it opens.
pub(crate) const DEBIAN_PACKAGES: [&str; 8] = [
    "xvfb",
    "libgl1",
    "libgl1-mesa-dri",
    "libegl1",
    "libx11-xcb1",
    "libxcursor1",
    "libxi6",
    "libxkbcommon-x11-0",
];

/// A window with less than this is blank, or shows only its frame.
const LEAST_COLORS: usize = 200;

/// Opens the window on a recording and looks at the picture that it saves.
pub(crate) fn check() -> anyhow::Result<()> {
    need(&DEBIAN_PACKAGES).context("a window without a screen needs Xvfb and Mesa")?;
    draw(&Screen::start()?.display)
}

/// A virtual screen that ends with its owner.
pub(crate) struct Screen {
    server: Child,
    /// What `DISPLAY` is to be.
    pub(crate) display: String,
}

impl Screen {
    /// Starts the screen.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1400x900x24"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("Xvfb")?;
        let mut number = String::new();
        let output = server.stdout.take().context("Xvfb says no display")?;
        BufReader::new(output).read_line(&mut number)?;
        Ok(Self { server, display: format!(":{}", number.trim()) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn draw(display: &str) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let picture = folder.path().join("window.png");
    let recordings = root().join("testdata/recordings");
    run(Command::new("timeout")
        .arg("120")
        .arg(binary())
        .args(["view", "--no-cache", "--screenshot"])
        .arg(&picture)
        .args([recordings.join("oom.pickle.xz"), recordings.join("expandable.pickle.xz")])
        .env("DISPLAY", display)
        .env_remove("WAYLAND_DISPLAY")
        .env("LIBGL_ALWAYS_SOFTWARE", "1"))?;
    let colors = colors(&picture)?;
    ensure!(colors >= LEAST_COLORS, "the window has {colors} colours only: is it blank?");
    eprintln!("the window has {colors} colours");
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
