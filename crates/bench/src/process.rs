//! Other programs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}

/// Cargo in the root of the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    command
}

/// Runs a command and fails if it does.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "failed ({status}): {command:?}");
    Ok(())
}
