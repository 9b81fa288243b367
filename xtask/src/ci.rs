//! The gate.

use crate::process::{self, cargo, works};
use crate::{browser, tables, wasm, web, window};

/// It has no tests, and would be built a second time with all that it needs.
const WITHOUT_XTASK: [&str; 2] = ["--exclude", "xtask"];

/// Fails on unformatted code, on any warning, on a failing test, if other tools read the exported
/// tables differently, if the window does not draw, if the portable crates do not build for the browser, and if
/// the page does not work in Chromium and Firefox.
pub(crate) fn run() -> anyhow::Result<()> {
    process::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    // First, because the binary contains it; and it is the portable crates built for the browser.
    web::build(false)?;
    process::run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "--deny",
        "warnings",
    ]))?;
    wasm::lint()?;
    // Nextest gives each test a process of its own and stops one that hangs.
    if works(&mut cargo(&["nextest", "--version"])) {
        let mut nextest = cargo(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]);
        process::run(nextest.args(WITHOUT_XTASK))?;
    } else {
        let mut test = cargo(&["test", "--workspace", "--locked", "--lib", "--bins", "--tests"]);
        process::run(test.args(WITHOUT_XTASK))?;
    }
    process::run(cargo(&["test", "--workspace", "--locked", "--doc"]).args(WITHOUT_XTASK))?;
    process::run(
        cargo(&["doc", "--workspace", "--locked", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"),
    )?;
    // The tests have built the program; for itself alone it would be built anew with other features.
    tables::check()?;
    window::check()?;
    browser::check_page()?;
    eprintln!("\nall checks passed");
    Ok(())
}
