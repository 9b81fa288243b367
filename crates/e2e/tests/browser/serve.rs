//! `vramscope serve`, in a browser.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, ensure};
use vramscope_e2e::{Browser, Chromium, is_open, pixels, point, vramscope};

use crate::{Place, clean, recordings};

/// A server that ends with its owner.
struct Serving {
    child: Child,
    /// The address, with the token.
    url: String,
}

impl Serving {
    fn start(path: &Path) -> anyhow::Result<Self> {
        Self::with(path, &[])
    }

    fn with(path: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let mut command = vramscope()?;
        let child =
            command.args(["serve", "--no-cache"]).args(more).arg(path).stdout(Stdio::piped()).spawn()?;
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

/// Without the server, numbers of another moment are pale and a message says why; a server with the same token and port goes
/// on where the page is.
fn stale(chromium: &mut Chromium, serving: &mut Serving, run: &Path) -> anyhow::Result<()> {
    let _ = serving.child.kill();
    let _ = serving.child.wait();
    let shown = chromium.shown()?;
    let (x, y) = point(&shown, 0.3, 0.9);
    chromium.click(x, y)?;
    chromium.wait("pale numbers", |shown| shown["stale"] == true)?;
    let message =
        "document.getElementById('message').hidden ? '' : document.getElementById('message').textContent";
    let said = chromium.value(message)?;
    ensure!(said.as_str().is_some_and(|said| said.contains("connection") && said.contains("lost")), "{said}");
    let address = serving.url.strip_prefix("http://127.0.0.1:").context("no address")?;
    let (port, token) = address.trim_end_matches('/').split_once('/').context("no token")?;
    *serving = Serving::with(run, &["--port", port, "--token", token])?;
    chromium.wait("all of it again", |shown| is_open(shown, 4) && shown["stale"] == false)?;
    ensure!(chromium.value(message)? == "", "the message stays");
    Ok(())
}

/// With the token there is the viewer, without it there is nothing. `crates/cli/tests/web.rs` has what no browser
/// would send.
#[test]
fn serve_shows_files_to_requests_with_the_token() -> anyhow::Result<()> {
    let place = Place::new()?;
    let mut serving = Serving::start(&place.run)?;
    let mut chromium = Chromium::start()?;
    chromium.open(&serving.url)?;
    let shown = chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    let received = chromium.received;
    let picture = place.picture(&mut chromium, "serve")?;
    pixels::bars(&picture, &shown, 4)?;
    pixels::compare(&picture, &shown, &recordings()?)?;
    clean(&mut chromium, &serving.url)?;
    stale(&mut chromium, &mut serving, &place.run)?;
    place.picture(&mut chromium, "serve-again")?;
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
