//! `cargo xtask web`: the viewer as a static site in `dist/web`.
//!
//! The site is a page with all of its script inside and the module beside it, packed: a file server needs to
//! know nothing, and a report is the same page with everything inside.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;

use crate::process::{root, run};
use crate::wasm::cargo_for_wasm;

/// What a visitor may have to download.
const MOST_BYTES: u64 = 4 << 20;

/// Where the site is.
pub(crate) fn folder() -> PathBuf {
    root().join("dist/web")
}

/// Builds the site, with the names of functions if a profiler is to show them.
pub(crate) fn build(names: bool) -> anyhow::Result<()> {
    let mut command = cargo_for_wasm("rustc")?;
    command.args(["--package", "vramscope-viewer", "--lib", "--crate-type", "cdylib", "--profile", "web"]);
    run(&mut command)?;
    let built = ["target", "target/wasm"]
        .map(|target| root().join(target).join("wasm32-unknown-unknown/web/vramscope_viewer.wasm"));
    let built = built.iter().filter(|path| path.exists()).max_by_key(|path| modified(path));
    let built = built.context("cargo has built no module")?;

    let bound = tempfile::tempdir()?;
    Bindgen::new()
        .input_path(built)
        .no_modules(true)?
        .typescript(false)
        .remove_name_section(!names)
        .remove_producers_section(true)
        .generate(bound.path())?;
    let module = fs::read(bound.path().join("vramscope_viewer_bg.wasm"))?;
    let glue = fs::read_to_string(bound.path().join("vramscope_viewer.js"))?;

    let source = |name: &str| fs::read_to_string(root().join("crates/viewer/web").join(name));
    let page = put(&source("index.html")?, "/*glue*/", &glue)?;
    let page = put(&page, "/*worker*/", &source("worker.js")?)?;
    let page = put(&page, "/*page*/", &source("page.js")?)?;

    let folder = folder();
    fs::create_dir_all(&folder)?;
    let packed = pack(&module)?;
    write(&folder.join("index.html"), page.as_bytes())?;
    write(&folder.join("vramscope.wasm.gz"), &packed)?;
    let download = (packed.len() + pack(page.as_bytes())?.len()) as u64;
    eprintln!(
        "{}: module {} bytes, {} packed; page {} bytes; {download} to download",
        folder.display(),
        module.len(),
        packed.len(),
        page.len(),
    );
    ensure!(
        download <= MOST_BYTES,
        "the site is too large: {download} bytes to download, {MOST_BYTES} at most"
    );
    Ok(())
}

/// Writes what has changed only: the binary is built anew when the page is.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    Ok(fs::write(path, bytes)?)
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn put(page: &str, mark: &str, script: &str) -> anyhow::Result<String> {
    ensure!(page.matches(mark).count() == 1, "no {mark} in the page");
    ensure!(!script.contains("</script"), "the script for {mark} would end its own element");
    Ok(page.replace(mark, script))
}

fn pack(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}
