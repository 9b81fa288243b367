//! Real browsers, a real window and other people's tools, for the tests of the whole program.
//!
//! `cargo xtask setup` installs what they need; the program and the page are those that `cargo xtask ci` has built.

mod chromium;
mod driver;
mod files;
mod firefox;
pub mod pixels;
mod screen;

use std::fs;
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use vramscope_testkit::{Dialect, Options, Program, write};

pub use chromium::Chromium;
pub use driver::Browser;
pub use files::Files;
pub use firefox::Firefox;
pub use screen::Screen;

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/")).to_owned()
}

/// The page that was built.
pub fn site() -> anyhow::Result<PathBuf> {
    let folder = root().join("dist/web");
    ensure!(folder.join("index.html").exists(), "there is no page: `cargo xtask web` builds it");
    Ok(folder)
}

/// The program that was built with this test; the page is inside.
pub fn vramscope() -> anyhow::Result<Command> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("a test lies in target/*/deps")?;
    let program = folder.join(format!("vramscope{}", std::env::consts::EXE_SUFFIX));
    ensure!(program.exists(), "there is no {}: `cargo build` builds it", program.display());
    let mut command = Command::new(program);
    command.env_remove("VRAMSCOPE_WEB");
    Ok(command)
}

/// A recording of `testdata`, unpacked.
pub fn recording(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = root().join(format!("testdata/recordings/{name}.pickle.xz"));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(fs::File::open(path)?, false).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a snapshot of ordinary shape.
pub fn generate(path: &Path, events: u64) -> anyhow::Result<()> {
    let out = BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    write::write(&Program::new(Options { events, ..Options::default() }), Dialect::Protocol(4), out)?;
    Ok(())
}

/// A number in what a page shows.
pub fn number(shown: &Value, path: &str) -> f64 {
    shown.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// A point of the timeline, in shares of its width and height.
pub fn point(shown: &Value, x: f64, y: f64) -> (f64, f64) {
    let plot = |part: usize| number(shown, &format!("/plot/{part}"));
    (plot(0) + plot(2) * x, plot(1) + plot(3) * y)
}

/// Whether the page shows this many devices, and nothing is on its way.
pub fn is_open(shown: &Value, devices: u64) -> bool {
    shown["devices"] == devices && shown["at_rest"] == true && shown["reading"] == json!([])
}

/// Waits for a program that was asked to end, and ends it if it does not.
fn end(child: &mut Child) {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}
