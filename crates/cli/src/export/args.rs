//! What `export` can be asked.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use vramscope_analysis::tables::Whole;
use vramscope_dataset::Key;

use crate::args::{CacheArgs, FileArgs, FilterArgs};

/// Tables for other tools: CSV, JSON lines, Arrow, Parquet; a dataset of many files; or a trace for Perfetto
///
/// The tables and their columns are described in docs/tables.md, datasets in docs/sql.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope export snapshot.pickle -o allocations.parquet
  duckdb -c \"select max(requested) from 'events.parquet'\"
  vramscope export runs/ --dataset tables/      # all tables of all ranks
  vramscope export snapshot.pickle --format perfetto -o trace.json    # open in ui.perfetto.dev")]
pub(crate) struct ExportArgs {
    /// Snapshot file, or - for standard input; with --dataset, files and folders
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write all tables of all files into this folder, as Parquet by run, step, rank and device
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["table", "format", "columns", "keys", "escape_formulas", "output_file", "force"],
        conflicts_with_all = ["device", "stream", "pool", "since", "until", "min_size", "max_size", "stack"],
        conflicts_with_all = ["address", "category", "phase", "ignore_frames"]
    )]
    pub(crate) dataset: Option<PathBuf>,
    /// Which table
    #[arg(long, value_name = "TABLE", value_parser = table(), default_value = Whole::Allocations.name())]
    pub(crate) table: Whole,
    /// The format [default: that of the file's name, else csv]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Only these columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Columns run, step, rank and device in front, with these values: RUN,STEP,RANK; Arrow and Parquet only
    #[arg(long, value_name = "KEYS", value_parser = keys, hide = true)]
    pub(crate) keys: Option<Key>,
    /// CSV for a spreadsheet: formulas get an apostrophe
    #[arg(long)]
    pub(crate) escape_formulas: bool,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

impl ExportArgs {
    /// The format that was asked for, or else the one that the file's name says.
    pub(crate) fn format(&self) -> ExportFormat {
        let ending = self.file.path().and_then(|path| path.extension()?.to_str());
        let by_name = || match ending?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(ExportFormat::Jsonl),
            "arrow" | "feather" | "ipc" => Some(ExportFormat::Arrow),
            "parquet" => Some(ExportFormat::Parquet),
            _ => None,
        };
        self.format.or_else(by_name).unwrap_or(ExportFormat::Csv)
    }
}

fn keys(text: &str) -> Result<Key, String> {
    let wrong = || format!("'{text}' is not RUN,STEP,RANK (try today,100,3)");
    let [run, step, rank] = text.splitn(3, ',').collect::<Vec<_>>().try_into().map_err(|_| wrong())?;
    let number = |text: &str| text.parse().map_err(|_| wrong());
    Ok(Key { run: run.to_owned(), step: number(step)?, rank: number(rank)? })
}

/// The name of a table.
fn table() -> impl TypedValueParser<Value = Whole> {
    let of = |name: String| Whole::ALL.into_iter().find(|table| table.name() == name).ok_or("no such table");
    PossibleValuesParser::new(Whole::ALL.map(Whole::name)).try_map(of)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Jsonl,
    /// Arrow IPC file
    Arrow,
    /// Parquet
    Parquet,
    /// Chrome trace JSON, for Perfetto
    Perfetto,
}
