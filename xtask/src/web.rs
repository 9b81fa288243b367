//! `cargo xtask web`: the viewer as a static site in `dist/web`.
//!
//! The site is a page with all of its script inside and the module beside it, packed: a file server needs to
//! know nothing, and a report is the same page with everything inside. `offline.js` keeps both in the browser.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::ensure;
use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use wasm_bindgen_cli_support::Bindgen;

use crate::process::{cargo, linted, root, run};

/// What browsers run.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

const PORTABLE: [&str; 5] =
    ["vramscope-pickle", "vramscope-snapshot", "vramscope-analysis", "vramscope-engine", "vramscope-viewer"];

/// What a visitor may have to download.
const MOST_BYTES: u64 = 4 << 20;

/// Checks that the portable crates compile for a browser.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut command = cargo(&["check", "--locked", "--target", TARGET]);
    for package in PORTABLE {
        command.args(["--package", package]);
    }
    run(&mut command)
}

/// How the page is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// As it is handed out: small.
    Small,
    /// The same, with the names of functions for a profiler.
    Named,
    /// As the gate tries it: in little time, with all checks, and with clippy.
    Quick,
}

/// Builds the site.
pub(crate) fn build(page: Page) -> anyhow::Result<()> {
    let (profile, folder) = if page == Page::Quick { ("dev", "debug") } else { ("web", "web") };
    let what = ["--package", "vramscope-viewer", "--lib", "--crate-type", "cdylib", "--profile", profile];
    let mut rustc = cargo(&["rustc", "--locked", "--target", TARGET]);
    rustc.args(what).args(["--target-dir", "target"]);
    run(if page == Page::Quick { linted(&mut rustc) } else { &mut rustc })?;
    let built = root().join("target").join(TARGET).join(folder).join("vramscope_viewer.wasm");

    let bound = tempfile::tempdir()?;
    Bindgen::new()
        .input_path(&built)
        .no_modules(true)?
        .typescript(false)
        .remove_name_section(page != Page::Named)
        .remove_producers_section(true)
        .generate(bound.path())?;
    let module = fs::read(bound.path().join("vramscope_viewer_bg.wasm"))?;
    let glue = fs::read_to_string(bound.path().join("vramscope_viewer.js"))?;
    // Where the script lies is not needed, and cannot be asked in a frame that has its page as a text (`srcdoc`).
    let glue = replaced(&glue, "new URL(document.currentScript.src, location.href).toString()", "''")?;

    let source = |name: &str| fs::read_to_string(root().join("crates/viewer/web").join(name));
    let html = put(&source("index.html")?, "/*glue*/", &glue)?;
    let html = put(&html, "/*worker*/", &source("worker.js")?)?;
    let html = put(&html, "/*page*/", &source("page.js")?)?;
    let mut version = flate2::Crc::new();
    version.update(&module);
    version.update(html.as_bytes());
    let version = format!("{:08x}", version.sum());
    let html = with_policy(&put(&html, "/*version*/", &version)?)?;
    let offline = put(&source("offline.js")?, "/*version*/", &version)?;

    let folder = root().join("dist/web");
    fs::create_dir_all(&folder)?;
    let packed = pack(&module)?;
    write(&folder.join("index.html"), html.as_bytes())?;
    write(&folder.join("vramscope.wasm.gz"), &packed)?;
    write(&folder.join("offline.js"), offline.as_bytes())?;
    let download = (packed.len() + pack(html.as_bytes())?.len()) as u64;
    eprintln!(
        "{}: module {} bytes, {} packed; page {} bytes; {download} to download",
        folder.display(),
        module.len(),
        packed.len(),
        html.len(),
    );
    ensure!(
        page == Page::Quick || download <= MOST_BYTES,
        "the site is too large: {download} bytes to download, {MOST_BYTES} at most"
    );
    Ok(())
}

/// The page with a policy that lets its own scripts run, each by its hash, and no other.
fn with_policy(html: &str) -> anyhow::Result<String> {
    let scripts = html.match_indices("<script").filter_map(|(at, _)| {
        let (tag, rest) = html.get(at..)?.split_once('>')?;
        let (script, _) = rest.split_once("</script>")?;
        (!tag.contains("text/plain")).then_some(script)
    });
    let hash =
        |script: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script.as_bytes())));
    let hashes: Vec<String> = scripts.map(hash).collect();
    ensure!(hashes.len() == 2, "{} scripts in the page: the glue and the page's own are two", hashes.len());
    replaced(html, "script-src 'unsafe-inline'", &format!("script-src {}", hashes.join(" ")))
}

/// Writes what has changed only: what contains a file is built anew when it is written.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    Ok(fs::write(path, bytes)?)
}

fn put(page: &str, mark: &str, script: &str) -> anyhow::Result<String> {
    ensure!(!script.contains("</script"), "the script for {mark} would end its own element");
    replaced(page, mark, script)
}

/// A text with something else in the one place that has this.
fn replaced(text: &str, this: &str, other: &str) -> anyhow::Result<String> {
    ensure!(text.matches(this).count() == 1, "not once in the page: {this}");
    Ok(text.replace(this, other))
}

fn pack(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}
