//! `cargo xtask browser`: the page, a report and `serve` in real browsers, as a person uses them.

pub(crate) mod bench;
mod chromium;
mod driver;
mod files;
mod firefox;
mod page;
mod pixels;
mod report;
mod serve;

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::process::{need, root};
use crate::{process, web, window};
use chromium::Chromium;
use driver::Browser;
use files::Files;

/// The ranks of the run that is dropped: read side by side, they are ready in any order.
const RANKS: [(u32, &str); 4] = [(0, "oom"), (1, "alloc_retry"), (2, "expandable"), (10, "cudagraph_pools")];

type Check = fn(&Place) -> anyhow::Result<()>;

/// Builds the page, and the program with it, and checks them.
pub(crate) fn check() -> anyhow::Result<()> {
    web::build(false)?;
    process::build()?;
    check_page()
}

/// Checks the page that was built; screenshots go to `target/browser`.
pub(crate) fn check_page() -> anyhow::Result<()> {
    need(&["chromium", "firefox-esr"]).context("the page is tried in Chromium and Firefox")?;
    need(&window::DEBIAN_PACKAGES).context("Firefox has WebGL on a screen only")?;
    let place = Place::new()?;
    let checks: [(&str, Check); 9] = [
        ("page", page::looks_around),
        ("link", page::link),
        ("names", page::names),
        ("profiles", page::profiles),
        ("cancelling", page::cancels),
        ("damaged files", page::damaged),
        ("report", report::check),
        ("serve", serve::check),
        ("Firefox", page::firefox),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        let began = Instant::now();
        let result = check(&place);
        failed += usize::from(result.is_err());
        let said = result.err().map_or_else(|| "ok".into(), |error| format!("FAILED: {error:#}"));
        eprintln!("{name:<16}{:>5.1} s  {said}", began.elapsed().as_secs_f64());
    }
    ensure!(failed == 0, "{failed} checks in the browser failed");
    Ok(())
}

/// Files to open, and where pictures go.
struct Place {
    work: tempfile::TempDir,
    pictures: PathBuf,
    /// A folder of four ranks, and a file that is no snapshot.
    run: PathBuf,
}

impl Place {
    fn new() -> anyhow::Result<Self> {
        let (work, pictures) = (tempfile::tempdir()?, root().join("target/browser"));
        fs::create_dir_all(&pictures)?;
        let run = work.path().join("run");
        fs::create_dir_all(&run)?;
        for (rank, name) in RANKS {
            fs::write(run.join(format!("rank{rank}_memory_snapshot.pickle")), recording(name)?)?;
        }
        fs::write(run.join("notes.txt"), "no snapshot")?;
        Ok(Self { work, pictures, run })
    }

    /// Takes a picture of the page, and keeps it for people to look at.
    fn picture(&self, browser: &mut dyn Browser, name: &str) -> anyhow::Result<Vec<u8>> {
        let picture = browser.screenshot()?;
        fs::write(self.pictures.join(format!("{name}.png")), &picture)?;
        Ok(picture)
    }
}

fn recording(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = root().join(format!("testdata/recordings/{name}.pickle.xz"));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(fs::File::open(path)?, false).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn recordings() -> anyhow::Result<Vec<Vec<u8>>> {
    RANKS.iter().map(|(_, name)| recording(name)).collect()
}

fn number(shown: &Value, path: &str) -> f64 {
    shown.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// How much of the axis is shown.
fn wide(shown: &Value) -> f64 {
    number(shown, "/x/1") - number(shown, "/x/0")
}

/// A point of the timeline, in shares of its width and height.
fn point(shown: &Value, x: f64, y: f64) -> (f64, f64) {
    let plot = |part: usize| number(shown, &format!("/plot/{part}"));
    (plot(0) + plot(2) * x, plot(1) + plot(3) * y)
}

fn is_open(shown: &Value, devices: u64) -> bool {
    shown["devices"] == devices && shown["at_rest"] == true && shown["reading"] == json!([])
}

/// Nothing went wrong, and nothing was fetched from anywhere else.
fn clean(chromium: &mut Chromium, base: &str) -> anyhow::Result<()> {
    let complaints = chromium.complaints()?;
    ensure!(complaints.is_empty(), "the console says: {complaints:?}");
    let foreign = |url: &&String| !["blob:", "data:", base].iter().any(|known| url.starts_with(known));
    let foreign: Vec<_> = chromium.requests.iter().filter(foreign).collect();
    ensure!(foreign.is_empty(), "fetched from elsewhere: {foreign:?}");
    Ok(())
}

/// The program; the page is inside.
fn vramscope() -> Command {
    let mut command = Command::new(process::binary());
    command.env_remove("VRAMSCOPE_WEB");
    command
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
