//! Other programs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

/// Cargo in the root of the workspace, of the toolchain that built this program.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    command
}

/// The program as the tests have it.
pub(crate) fn binary() -> PathBuf {
    root().join("target/debug/vramscope")
}

/// Builds [`binary`].
pub(crate) fn build() -> anyhow::Result<()> {
    run(&mut cargo(&["build", "--locked", "--package", "vramscope"]))
}

/// Runs a command and fails if it does.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let line = format!("{} {}", command.get_program().to_string_lossy(), line.join(" "));
    eprintln!("\n$ {line}");
    let status = command.status().with_context(|| format!("cannot start: {line}"))?;
    if !status.success() {
        bail!("failed ({status}): {line}");
    }
    Ok(())
}

/// Whether a command runs and succeeds; its output is not shown.
pub(crate) fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Whether Debian packages are installed.
fn debian_has(packages: &[&str]) -> bool {
    packages.iter().all(|package| works(Command::new("dpkg").args(["--status", package])))
}

/// Installs those Debian packages that are missing.
pub(crate) fn need(packages: &[&str]) -> anyhow::Result<()> {
    if debian_has(packages) {
        return Ok(());
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    run(Command::new("apt-get").args(install).args(packages))
}
