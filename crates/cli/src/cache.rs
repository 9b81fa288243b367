//! `vramscope cache`: what is kept of files that were read before.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use vramscope_files::{Cache, Entry};
use vramscope_format::parse_bytes;

use crate::style::{self, Role};
use crate::{recall, text};

/// What is kept of files that were read before
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope cache list
  vramscope cache limit 20GB
  vramscope cache fill snapshot.pickle    # so that every verb answers at once
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
    /// Read files and keep the answer of every verb, as text and as JSON; of files of 64 MiB and more that happens in the
    /// background after the first command, unless VRAMSCOPE_CACHE_FILL is 0
    Fill {
        /// Leave the processor to others
        #[arg(long, hide = true)]
        nice: bool,
        /// Files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
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
        CacheCommand::Fill { nice, paths } => {
            if *nice {
                #[cfg(unix)]
                let _ = rustix::process::nice(10);
            }
            return fill(paths, out);
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

/// Fills the cache in a process that goes on when this one has ended. If it cannot be started, nothing is lost.
pub(crate) fn fill_later(path: &Path) {
    if std::env::var_os(recall::FILL).is_some_and(|value| value == "0") {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(["cache", "fill", "--nice", "--"]).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl+C is for the next command.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let _ = command.spawn();
}

/// Asks every verb, each in a process of its own as a user would, one after another.
fn fill(paths: &[PathBuf], out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe()?;
    for path in paths {
        let ask = |line: &[&str], path: &Path| {
            let mut command = Command::new(&program);
            command.args(line).arg(path).env(recall::FILL, recall::KEEP_ALL);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
        };
        // The first answer is that of the file itself, which is not kept.
        if !ask(&["summary"], path)?.success() {
            bail!("{}: cannot be read; vramscope summary says why", path.display());
        }
        // However it is typed later.
        let full = std::path::absolute(path)?;
        for verb in recall::plain() {
            let path = if verb == "ranks" { path } else { &full };
            // Not every file has an answer to every verb.
            ask(&[verb], path)?;
            // Events are data: they are as long as the file.
            if verb != "events" {
                ask(&[verb, "--json"], path)?;
            }
        }
        writeln!(out, "{}", text::path(path))?;
    }
    Ok(ExitCode::SUCCESS)
}
