//! `vramscope cache`: what is kept of files that were read before.

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use vramscope_files::{Cache, Entry};
use vramscope_format::parse_bytes;

use crate::style::{self, Role};
use crate::text;

/// What is kept of files that were read before
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope cache list
  vramscope cache limit 20GB
  vramscope cache clear")]
pub(crate) struct CacheVerbArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List what is kept, what was used last first
    List {
        /// Print JSON, described in docs/json.md
        #[arg(long)]
        json: bool,
    },
    /// Print the folder
    Where,
    /// Remove everything
    Clear,
    /// Print how large the cache may get, or set it
    Limit {
        /// All entries together; one file may take half of it
        #[arg(value_name = "SIZE", value_parser = parse_bytes)]
        bytes: Option<u64>,
    },
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    folder: String,
    bytes: u64,
    limit: u64,
    entries: Vec<EntryJson>,
}

#[derive(Serialize)]
struct EntryJson {
    /// None of another version's.
    path: Option<String>,
    bytes: u64,
    answers: usize,
    used_s_ago: u64,
}

pub(crate) fn run(args: &CacheVerbArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let cache = Cache::of_user().context("there is no home folder, and XDG_CACHE_HOME is not set")?;
    match &args.command {
        CacheCommand::List { json } => list(&cache, *json, out)?,
        CacheCommand::Where => writeln!(out, "{}", cache.folder().display())?,
        CacheCommand::Clear => writeln!(out, "{} removed", text::size(cache.clear()?))?,
        CacheCommand::Limit { bytes } => {
            let limit = bytes.unwrap_or(cache.limit());
            if bytes.is_some() {
                cache.set_limit(limit).context("the limit cannot be written")?;
            }
            writeln!(out, "{}", text::size(limit))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(cache: &Cache, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let entries = cache.entries();
    let total = entries.iter().fold(0, |sum, entry| sum + entry.bytes);
    let ago = |entry: &Entry| SystemTime::now().duration_since(entry.used).unwrap_or_default();
    if json {
        let entry = |entry: &'_ Entry| EntryJson {
            path: entry.source.as_ref().map(|path| path.to_string_lossy().into_owned()),
            bytes: entry.bytes,
            answers: entry.answers,
            used_s_ago: ago(entry).as_secs(),
        };
        let folder = cache.folder().display().to_string();
        let entries = entries.iter().map(entry).collect();
        let schema = "vramscope/cache/1";
        let listing = Listing { schema, folder, bytes: total, limit: cache.limit(), entries };
        vramscope_files::json(&mut *out, &listing)?;
        return Ok(writeln!(out)?);
    }
    let (used, limit) = (text::size(total), text::size(cache.limit()));
    writeln!(out, "{}", style::paint(Role::Strong, &cache.folder().display().to_string()))?;
    writeln!(out, "{used} of {limit}")?;
    if !entries.is_empty() {
        writeln!(out, "\n  {:>10}  {:>7}  {:>10}  file", "bytes", "answers", "used")?;
    }
    for entry in &entries {
        let path = entry.source.as_deref().map_or_else(|| "another version's".to_owned(), text::path);
        let used = format!(
            "{} ago",
            vramscope_format::duration(i64::try_from(ago(entry).as_micros()).unwrap_or(i64::MAX))
        );
        writeln!(out, "  {:>10}  {:>7}  {used:>10}  {path}", text::size(entry.bytes), entry.answers)?;
    }
    Ok(())
}
