//! Building for the browser, with whatever toolchain this machine has for it.
//!
//! Where rustup can fetch the target, the ordinary toolchain does it. Otherwise Debian's `rustc-web`
//! builds the standard library from source, and links with the linker of the rustup toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::process::{cargo, need, root, run, works};

const TARGET: &str = "wasm32-unknown-unknown";
const PORTABLE: [&str; 6] = [
    "vramscope-pickle",
    "vramscope-snapshot",
    "vramscope-simulate",
    "vramscope-analysis",
    "vramscope-engine",
    "vramscope-viewer",
];
const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// Checks that the portable crates compile for wasm32.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut command = cargo_for_wasm("check")?;
    for package in PORTABLE {
        command.args(["--package", package]);
    }
    run(&mut command)
}

/// Clippy on what only the browser compiles. Debian's toolchain has none; rustup's does.
pub(crate) fn lint() -> anyhow::Result<()> {
    let mut command = cargo_for_wasm("clippy")?;
    if !has_target() {
        return Ok(());
    }
    run(command.args(["--package", "vramscope-viewer", "--", "--deny", "warnings"]))
}

/// Cargo set up to build for wasm32, up to the subcommand.
pub(crate) fn cargo_for_wasm(subcommand: &str) -> anyhow::Result<Command> {
    if has_target() || works(Command::new("rustup").args(["target", "add", TARGET])) && has_target() {
        return Ok(cargo(&[subcommand, "--locked", "--target", TARGET]));
    }
    let (cargo, rustc) = (Path::new("/usr/bin/cargo"), Path::new("/usr/bin/rustc"));
    need(&DEBIAN_PACKAGES).context(
        "wasm32 needs `rustup target add wasm32-unknown-unknown`, or on Debian rustc-web cargo-web rust-web-src",
    )?;
    if !cargo.exists() || !rustc.exists() {
        bail!("Debian's cargo-web is installed, but there is no {}", cargo.display());
    }
    let mut command = Command::new(cargo);
    command
        .args([subcommand, "--locked", "-Z", "build-std=std,panic_abort", "--target", TARGET])
        .args(["--target-dir", "target/wasm"])
        .current_dir(root())
        // Variables of the toolchain that runs this program would confuse the other one.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .env("PATH", "/usr/bin:/bin")
        .env("RUSTC", rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", rust_lld()?);
    Ok(command)
}

fn has_target() -> bool {
    sysroot().is_ok_and(|sysroot| sysroot.join("lib/rustlib").join(TARGET).join("lib").exists())
}

fn sysroot() -> anyhow::Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output()?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn rust_lld() -> anyhow::Result<PathBuf> {
    let host = env!("HOST_TRIPLE");
    Ok(sysroot()?.join("lib/rustlib").join(host).join("bin/rust-lld"))
}
