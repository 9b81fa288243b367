//! `cargo xtask package`: the crates as they would be published, with the page inside the program's.
//!
//! Cargo's own verification builds every dependency anew in another profile. Here the packaged sources become a
//! workspace with our profiles, which shares what is built already: only what was packaged is compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::process::{cargo, root, run, works};

/// What is not published.
const PRIVATE: [&str; 6] =
    ["vramscope-testkit", "vramscope-soft", "vramscope-bench", "vramscope-e2e", "vramscope-evals", "xtask"];

/// Packages the crates into `target/package` with the page of `dist/web`, and lints what was packaged.
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

/// Compiles the packaged program against the packaged libraries, with clippy, and without its window: the workspace's own
/// lints are with it.
fn verify(packages: &Path) -> anyhow::Result<()> {
    let folder = packages.join("unpacked");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let version = env!("CARGO_PKG_VERSION");
    let mut patches = String::new();
    for entry in fs::read_dir(packages)? {
        let path = entry?.path();
        let Some(stem) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".crate")) else {
            continue;
        };
        let Some(name) = stem.strip_suffix(version).and_then(|name| name.strip_suffix('-')) else { continue };
        // All times in a package are the same, whatever its contents: with them cargo would take the last check for this.
        run(Command::new("tar").arg("-xmzf").arg(&path).arg("-C").arg(&folder))?;
        patches += &format!("{name} = {{ path = {stem:?} }}\n");
    }
    let program = folder.join(format!("vramscope-{version}"));
    ensure!(program.join("page/vramscope.wasm.gz").exists(), "the packaged program has no page");
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let profiles = manifest.find("[profile.dev]").and_then(|at| manifest.get(at..));
    let profiles = profiles.context("no [profile.dev] in Cargo.toml")?;
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"vramscope-{version}\", \"vramscope-viewer-{version}\"]\n\n[patch.crates-io]\n{patches}\n{profiles}"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let packages = ["--package", "vramscope", "--package", "vramscope-viewer"];
    let mut check = Command::new("cargo");
    check.args(["clippy", "--quiet", "--no-default-features", "--features", "vramscope-viewer/window"]);
    check.args(packages).arg("--target-dir").arg(root().join("target")).args(["--", "--deny", "warnings"]);
    run(check.current_dir(&folder))
}
