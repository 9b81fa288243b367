//! What `sql` can be asked.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vramscope_format::parse_bytes as size;

use crate::args::{FileArgs, OutputArgs};

/// SQL over snapshots, folders of ranks and datasets; without a query, a prompt
///
/// Tables and views are described in docs/sql.md. Queries only read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope sql snapshot.pickle \"select max(requested) from events\"
  vramscope sql runs/today/ peak_by_line                                # a view, over all ranks
  vramscope sql runs/today/ \"select * from odd_ranks where rank < 64\"
  vramscope sql runs/today/                                             # a prompt
  vramscope sql --list                                                  # all views
  vramscope sql --print peak_by_line                                    # the same query for Spark or DuckDB")]
pub(crate) struct SqlArgs {
    /// Snapshots, folders of ranks or datasets (export --dataset); then a query or the name of a view
    #[arg(value_name = "PATH", required_unless_present_any = ["list", "print"])]
    pub(crate) words: Vec<PathBuf>,
    /// List the views
    #[arg(long, conflicts_with_all = ["words", "print"])]
    pub(crate) list: bool,
    /// Print the query of a view
    #[arg(long, value_name = "NAME", conflicts_with = "words")]
    pub(crate) print: Option<String>,
    /// List the files with run, step and rank as JSON
    #[arg(long, hide = true)]
    pub(crate) files: bool,
    /// The format (default: table)
    #[arg(long, value_enum, conflicts_with = "json")]
    pub(crate) format: Option<SqlFormat>,
    /// Show at most N rows; 0 for all (default: 100 as a table on a terminal, else all)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Memory that a query may use
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "2GiB")]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SqlFormat {
    /// For people; sizes with units
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object with columns and rows
    Json,
    /// Arrow IPC file
    Arrow,
    /// Parquet
    Parquet,
}
