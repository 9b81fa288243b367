//! The page, a report and `serve` in real browsers, as a person uses them.

mod page;
mod report;
mod serve;

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;
use serde_json::Value;
use vramscope_e2e::{Browser, Chromium, number, recording, root};

/// The ranks of the run that is dropped: read side by side, they are ready in any order.
const RANKS: [(u32, &str); 4] = [(0, "oom"), (1, "alloc_retry"), (2, "expandable"), (10, "cudagraph_pools")];

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

fn recordings() -> anyhow::Result<Vec<Vec<u8>>> {
    RANKS.iter().map(|(_, name)| recording(name)).collect()
}

/// How much of the axis is shown.
fn wide(shown: &Value) -> f64 {
    number(shown, "/x/1") - number(shown, "/x/0")
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
