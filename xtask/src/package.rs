//! `cargo xtask package`: the crates as they would be published, with the page inside the program's.
//!
//! Cargo's own verification builds every dependency anew. Here the packaged sources become a workspace with our
//! profiles, which shares macros and build scripts that are built already, and is checked without making code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::process::{cargo, linted, root, run, works};
use crate::web;

/// What is not published.
const PRIVATE: [&str; 6] =
    ["vramscope-testkit", "vramscope-soft", "vramscope-bench", "vramscope-e2e", "vramscope-evals", "xtask"];

/// Packages the crates into `target/package` with the page of `dist/web`, and checks what was packaged.
pub(crate) fn package() -> anyhow::Result<()> {
    let page = Page::put()?;
    let package = || {
        let mut package =
            cargo(&["package", "--workspace", "--locked", "--no-verify", "--allow-dirty", "--quiet"]);
        package.args(PRIVATE.iter().flat_map(|name| ["--exclude", name]));
        package
    };
    // Asking the registry takes longer than all else; a new machine has to.
    if !works(package().arg("--offline")) {
        run(&mut package())?;
    }
    drop(page);
    verify(&root().join("target/package"))
}

/// The page beside the program's sources, for as long as they are packaged.
struct Page(PathBuf);

impl Page {
    fn put() -> anyhow::Result<Self> {
        let (from, to) = (root().join("dist/web"), root().join("crates/cli/page"));
        ensure!(from.join("index.html").exists(), "there is no page: `cargo xtask web` builds it");
        fs::create_dir_all(&to)?;
        let page = Self(to);
        for name in ["index.html", "vramscope.wasm.gz"] {
            fs::copy(from.join(name), page.0.join(name))?;
        }
        Ok(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks the packaged program against the packaged libraries, with clippy, and without its window.
fn verify(packages: &Path) -> anyhow::Result<()> {
    let (folder, fresh) = (packages.join("unpacked"), tempfile::tempdir()?);
    let version = env!("CARGO_PKG_VERSION");
    let mut patches = String::new();
    for entry in fs::read_dir(packages)? {
        let path = entry?.path();
        let Some(stem) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".crate")) else {
            continue;
        };
        let Some(name) = stem.strip_suffix(version).and_then(|name| name.strip_suffix('-')) else { continue };
        run(Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(fresh.path()))?;
        patches += &format!("{name} = {{ path = {stem:?} }}\n");
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let profiles = manifest.find("[profile.dev]").and_then(|at| manifest.get(at..));
    let profiles = profiles.context("no [profile.dev] in Cargo.toml")?;
    let members = format!("\"vramscope-{version}\", \"vramscope-viewer-{version}\"");
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}\n{profiles}\n"
    );
    fs::write(fresh.path().join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), fresh.path().join("Cargo.lock"))?;
    // All times in a package are the same, whatever its contents: cargo is to see what has changed, and only that.
    update(fresh.path(), &folder)?;
    let program = folder.join(format!("vramscope-{version}"));
    ensure!(program.join("page/vramscope.wasm.gz").exists(), "the packaged program has no page");
    // Features differ from those of all tests together, so that much is compiled once more: without code.
    let check = ["check", "--quiet", "--no-default-features", "--features", "vramscope-viewer/window"];
    let mut check = cargo(&check);
    check.args(["--package", "vramscope", "--package", "vramscope-viewer"]);
    check.arg("--target-dir").arg(root().join("target"));
    run(linted(&mut check).current_dir(&folder))
}

/// Makes a folder equal to another one, and writes only what differs.
fn update(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let there = entry?.path();
        let Some(name) = there.file_name() else { continue };
        match (from.join(name).exists(), there.is_dir()) {
            (true, _) => {}
            (false, true) => fs::remove_dir_all(&there)?,
            (false, false) => fs::remove_file(&there)?,
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, there) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            update(&path, &there)?;
        } else {
            web::write(&there, &fs::read(&path)?)?;
        }
    }
    Ok(())
}
