//! `vramscope mcp` with the official client library of the Model Context Protocol, over standard input and output.

use std::process::Command;

use anyhow::{Context, ensure};
use vramscope_e2e::{generate, root, vramscope};

/// Enough that simulating it takes seconds.
const EVENTS: u64 = 300_000;

#[test]
fn the_official_client_lists_calls_and_cancels() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    generate(&folder.path().join("big.pickle"), EVENTS)?;
    let mut check = Command::new(root().join("target/python/bin/python"));
    check.arg(root().join("crates/e2e/tests/mcp_client.py"));
    check.arg(vramscope()?.get_program()).arg(root().join("testdata/recordings")).arg(folder.path());
    let status = check.status().context("the MCP client: `cargo xtask setup` installs it")?;
    ensure!(status.success(), "the MCP server does not keep to the protocol");
    Ok(())
}
