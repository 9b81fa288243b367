//! The gate.

use crate::process::{self, cargo, works};
use crate::{tables, wasm, window};

/// Fails on unformatted code, on any warning, on a failing test, if other tools read the exported
/// tables differently, if the window does not draw, and if the portable crates do not build for the browser.
pub(crate) fn run() -> anyhow::Result<()> {
    process::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    process::run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "--deny",
        "warnings",
    ]))?;
    // Nextest gives each test a process of its own and stops one that hangs.
    if works(&mut cargo(&["nextest", "--version"])) {
        process::run(&mut cargo(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]))?;
    } else {
        process::run(&mut cargo(&["test", "--workspace", "--locked", "--lib", "--bins", "--tests"]))?;
    }
    process::run(&mut cargo(&["test", "--workspace", "--locked", "--doc"]))?;
    process::run(
        cargo(&["doc", "--workspace", "--locked", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"),
    )?;
    tables::check()?;
    window::check()?;
    wasm::check()?;
    eprintln!("\nall checks passed");
    Ok(())
}
