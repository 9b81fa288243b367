//! `vramscope serve`, in a browser.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use vramscope_e2e::{Browser, Chromium, is_open, number, pixels, point, recording, root, vramscope};

use crate::{Place, clean, recordings};

/// Ctrl, as Chromium numbers modifiers.
const CTRL: u32 = 2;

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

/// Few rows, of all ranks, without units: the page writes sizes as people read them, the command as numbers.
const QUERY: &str =
    "select rank, action, count(*) as n, sum(size) as total from events group by 1, 2 order by 1, 2 limit 8";

/// A query that is typed into the page has the rows of `vramscope sql --json` over the same files.
#[test]
fn sql_of_a_served_page_is_that_of_the_command() -> anyhow::Result<()> {
    let place = Place::new()?;
    let output = vramscope()?.args(["sql", "--no-cache", "--json"]).arg(&place.run).arg(QUERY).output()?;
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let printed = printed["rows"].as_array().context("no rows")?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |row: &Value| ["rank", "action", "n", "total"].map(|column| text(&row[column])).join(", ");
    let printed: Vec<String> = printed.iter().map(row).collect();
    ensure!(printed.len() == 8, "the command prints {printed:?}");

    let serving = Serving::start(&place.run)?;
    let mut chromium = Chromium::start()?;
    chromium.open(&serving.url)?;
    chromium.wait("four ranks", |shown| is_open(shown, 4))?;
    chromium.key("q")?;
    let shown = chromium.wait("the view", |shown| shown["tab"] == "Sql" && shown["at_rest"] == true)?;
    // The field is at the left of the lower view, below its buttons.
    let below = number(&shown, "/plot/1") + number(&shown, "/plot/3");
    chromium.click(number(&shown, "/plot/0") + 20.0, below + 130.0)?;
    chromium.write(QUERY)?;
    chromium.key_with("Enter", CTRL)?;
    let words = "document.getElementById('words').textContent";
    chromium.wait_for(&format!("{words}.includes('Query: 8 rows of rank, action, n, total\\n')"))?;
    chromium.wait("the rows", |shown| shown["at_rest"] == true)?;
    place.picture(&mut chromium, "serve-sql")?;
    let words = chromium.value(words)?;
    let (_, rows) = words.as_str().and_then(|words| words.split_once("Query: ")).context("no query")?;
    let rows: Vec<&str> = rows.lines().skip(1).collect();
    ensure!(rows == printed, "the page has {rows:?}, the command {printed:?}");
    clean(&mut chromium, &serving.url)
}

/// What an editor opens, packed or not, and from whatever it was packed with, is the recording that PyTorch counted.
#[test]
fn packed_snapshots_are_served_to_an_editor() -> anyhow::Result<()> {
    let place = Place::new()?;
    let recordings = root().join("testdata/recordings");
    let oracle: Value = serde_json::from_slice(&fs::read(recordings.join("leak_graph.oracle.json"))?)?;
    let peak =
        &oracle["marks"].as_array().and_then(|marks| marks.last()).context("no mark")?["requested_peak"];
    let (gzip, xz) = ("leak_graph.pickle.gz", "leak_graph.pickle.xz");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&recording("leak_graph")?)?;
    fs::write(place.work.path().join(gzip), packed.finish()?)?;
    fs::copy(recordings.join(xz), place.work.path().join(xz))?;
    for name in [gzip, xz] {
        let mut chromium = Chromium::start()?;
        let serving = Serving::with(&place.work.path().join(name), &["--embed"])?;
        chromium.open(&serving.url)?;
        let shown = chromium.wait(name, |shown| is_open(shown, 1))?;
        ensure!(shown["peak"] == *peak, "{name} has a peak of {}, not of {peak}", shown["peak"]);
        clean(&mut chromium, &serving.url)?;
    }
    Ok(())
}
