//! What can be typed. Help, and later the manual and completions, come from here.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use vramscope_analysis::Counter;
use vramscope_files::Cache;

/// What is in my accelerator's memory, why, and what do I do about it?
///
/// Reads the memory snapshots that PyTorch writes. Record one in three lines of Python:
///
///   torch.cuda.memory._record_memory_history()
///   ...                                             # the part that runs out of memory
///   torch.cuda.memory._dump_snapshot("snapshot.pickle")
#[derive(Debug, Parser)]
#[command(name = "vramscope", version, verbatim_doc_comment, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Summary(SummaryArgs),
    At(AtArgs),
    Demo(DemoArgs),
}

/// Peak, end and out-of-memory events of each file, and whether the recording is complete
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope summary snapshot.pickle
  vramscope summary runs/today/            # every rank below a folder
  zcat snapshot.pickle.gz | vramscope summary -
  vramscope summary --json snapshot.pickle | jq '.files[0].devices[0].peak'")]
pub(crate) struct SummaryArgs {
    /// Snapshot files, folders of them, or - for standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What was in memory at one moment: totals and the live allocations, largest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope at snapshot.pickle --peak
  vramscope at snapshot.pickle --oom --limit 50
  vramscope at snapshot.pickle --event 12345 --json
  vramscope at snapshot.pickle --time-us 1794725346326863")]
pub(crate) struct AtArgs {
    /// Snapshot file, or - for standard input
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) moment: MomentArgs,
    /// Which device, if the file has several (default: the one with the longest trace)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    pub(crate) device: Option<i32>,
    /// Show at most N allocations (default: 15 as text, all as JSON)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Exactly one says which moment is meant.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct MomentArgs {
    /// After event N of the trace, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) event: Option<u32>,
    /// After the last event at or before T microseconds since 1970
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) time_us: Option<i64>,
    /// When a counter was highest
    #[arg(long, value_name = "COUNTER", num_args = 0..=1, require_equals = true, default_missing_value = "requested")]
    pub(crate) peak: Option<CounterArg>,
    /// When memory ran out: the last time, or the Kth
    #[arg(long, value_name = "K", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub(crate) oom: Option<usize>,
    /// Before the first event
    #[arg(long)]
    pub(crate) start: bool,
    /// After the last event
    #[arg(long)]
    pub(crate) end: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CounterArg {
    Requested,
    Allocated,
    Active,
    Reserved,
}

impl From<CounterArg> for Counter {
    fn from(counter: CounterArg) -> Self {
        match counter {
            CounterArg::Requested => Self::Requested,
            CounterArg::Allocated => Self::Allocated,
            CounterArg::Active => Self::Active,
            CounterArg::Reserved => Self::Reserved,
        }
    }
}

/// The summary of a real recording that is built in: a training run that runs out of memory
#[derive(Debug, ClapArgs)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OutputArgs {
    /// Print JSON, described in docs/json.md
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the file even if it is in the cache, and do not put it there
    #[arg(long)]
    pub(crate) no_cache: bool,
}

impl OutputArgs {
    pub(crate) fn cache(&self) -> Option<Cache> {
        if self.no_cache { None } else { Cache::of_user() }
    }
}
