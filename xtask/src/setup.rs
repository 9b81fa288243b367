//! `cargo xtask setup`: what the checks need beside a Rust toolchain. What is there already is left as it is.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::process::{root, run, works};

/// Real browsers; a screen that needs no hardware, and what a window loads when it opens; Python.
const DEBIAN_PACKAGES: [&str; 12] = [
    "chromium",
    "firefox-esr",
    "xvfb",
    "libgl1",
    "libgl1-mesa-dri",
    "libegl1",
    "libx11-xcb1",
    "libxcursor1",
    "libxi6",
    "libxkbcommon-x11-0",
    "python3",
    "python3-venv",
];

/// What reads our tables; what builds wheels; what tests the Python package and the server for agents.
const PYTHON_PACKAGES: [&str; 8] = [
    "duckdb==1.*",
    "polars==1.*",
    "maturin==1.*",
    "wheel==0.*",
    "pytest==9.*",
    "pyarrow",
    "jsonschema==4.*",
    "mcp==2.*",
];

pub(crate) fn setup() -> anyhow::Result<()> {
    target().context("the wasm32 target")?;
    packages().context("system packages")?;
    python().context("Python packages")?;
    eprintln!("everything that `cargo xtask ci` needs is there");
    Ok(())
}

/// `rust-toolchain.toml` names it, and rustup fetches it with the toolchain; older ones of rustup do not.
fn target() -> anyhow::Result<()> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output()?;
    let sysroot = String::from_utf8(output.stdout)?;
    let library = format!("{}/lib/rustlib/wasm32-unknown-unknown/lib", sysroot.trim());
    if root().join(library).exists() {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", "wasm32-unknown-unknown"]).current_dir(root()))
}

fn packages() -> anyhow::Result<()> {
    let is_missing = |package: &&str| {
        let status = Command::new("dpkg-query").args(["--show", "--showformat=${Status}", package]).output();
        !status.is_ok_and(|status| status.stdout == b"install ok installed")
    };
    let missing: Vec<_> = DEBIAN_PACKAGES.into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    ensure!(
        works(Command::new("apt-get").arg("--version")),
        "this is no Debian: install what corresponds to its packages {}",
        missing.join(" ")
    );
    run(Command::new("apt-get").args(["update", "--quiet"])).context("apt-get needs root")?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    run(Command::new("apt-get").args(install).args(missing).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// A virtual environment below the target folder.
fn python() -> anyhow::Result<()> {
    let folder = root().join("target/python");
    let python = folder.join("bin/python");
    if works(
        Command::new(&python)
            .args(["-c", "import duckdb, jsonschema, maturin, mcp, polars, pyarrow, pytest, wheel"]),
    ) {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PYTHON_PACKAGES))
}
