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
    // What is built for one run has no use for what a next build could reuse.
    command.args(args).current_dir(root()).env("CARGO_INCREMENTAL", "0");
    command
}

/// What would be typed.
pub(crate) fn line(command: &Command) -> String {
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    format!("{} {}", command.get_program().to_string_lossy(), args.join(" "))
}

/// Runs a command and fails if it does.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = line(command);
    eprintln!("\n$ {line}");
    let status = command.status().with_context(|| format!("cannot start: {line}"))?;
    if !status.success() {
        bail!("failed ({status}): {line}");
    }
    Ok(())
}

/// Has cargo compile the workspace with clippy, which takes no second pass over what is built anyway; a warning fails.
pub(crate) fn linted(command: &mut Command) -> &mut Command {
    // As `cargo clippy` calls it: arguments end with this word.
    let deny = ["--deny", "warnings"].map(|arg| format!("{arg}__CLIPPY_HACKERY__")).concat();
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", deny)
}

/// Whether a command runs and succeeds; its output is not shown.
pub(crate) fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
