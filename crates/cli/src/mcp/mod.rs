//! `vramscope mcp`: the commands as tools of the Model Context Protocol, on standard input and output.
//!
//! A tool call is a command line that is run as a process of its own: the same code as the verbs, memory that goes back
//! when the answer is there, and a call that is cancelled by ending the process. Tools only read, and only below
//! the folders that were named.

mod install;
#[cfg(feature = "mcp")]
mod server;
#[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "what the server alone uses"))]
mod tools;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// A server of the Model Context Protocol on standard input and output, for coding agents
///
/// Tools only read, and only files below the roots.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope mcp --root runs/                    # a client starts this
  vramscope mcp install                         # in the configuration of the clients that are used here
  vramscope mcp install --client codex --print")]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Folders that may be read (default: the current one)
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Install(install::InstallArgs),
    /// Print the tools and their schemas as JSON
    Tools,
}

pub(crate) fn run(args: &McpArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(McpCommand::Install(install)) => install::run(install, out),
        Some(McpCommand::Tools) => {
            let list: Vec<_> = tools::all().iter().map(tools::Tool::json).collect();
            vramscope_files::json(&mut *out, &list)?;
            writeln!(out)?;
            Ok(ExitCode::SUCCESS)
        }
        None => serve(&args.roots),
    }
}

#[cfg(feature = "mcp")]
fn serve(roots: &[PathBuf]) -> anyhow::Result<ExitCode> {
    server::serve(tools::Roots::new(roots)?)
}

#[cfg(not(feature = "mcp"))]
fn serve(_: &[PathBuf]) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "this build has no MCP server: build it with --features mcp, or install the wheel, which has it"
    )
}
