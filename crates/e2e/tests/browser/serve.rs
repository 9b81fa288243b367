//! `vramscope serve`, in a browser.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, ensure};
use vramscope_e2e::{Browser, Chromium, is_open, pixels, vramscope};

use crate::{Place, clean, recordings};

/// A server that ends with its owner.
struct Serving {
    child: Child,
    /// The address, with the token.
    url: String,
}

impl Serving {
    fn start(path: &Path) -> anyhow::Result<Self> {
        let child = vramscope()?.args(["serve", "--no-cache"]).arg(path).stdout(Stdio::piped()).spawn()?;
        let mut serving = Self { child, url: String::new() };
        let mut lines = BufReader::new(serving.child.stdout.take().context("no output")?).lines();
        serving.url = lines.next().context("no address")??;
        ensure!(lines.next().context("no second line")??.contains("ssh -L"), "no ssh line");
        Ok(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// With the token there is the viewer, without it there is nothing. `crates/cli/tests/web.rs` has what no browser
/// would send.
#[test]
fn serve_shows_files_to_requests_with_the_token() -> anyhow::Result<()> {
    let place = Place::new()?;
    let serving = Serving::start(&place.run)?;
    let mut chromium = Chromium::start()?;
    chromium.open(&serving.url)?;
    let shown = chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    let received = chromium.received;
    let picture = place.picture(&mut chromium, "serve")?;
    pixels::bars(&picture, &shown, 4)?;
    pixels::compare(&picture, &shown, &recordings()?)?;
    clean(&mut chromium, &serving.url)?;
    eprintln!("serve: {received:.0} bytes received until the picture was sharp, page and module included");

    let (without, _) = serving.url.trim_end_matches('/').rsplit_once('/').context("no token")?;
    for url in [format!("{without}/"), format!("{without}/0123456789abcdef0123456789abcdef/")] {
        chromium.open(&url)?;
        let text = chromium.value("document.body.innerText")?;
        let text = text.as_str().unwrap_or_default();
        ensure!(text.contains("token") && text.contains("vramscope serve"), "{url} shows: {text}");
    }
    Ok(())
}
