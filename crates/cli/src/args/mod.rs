//! What can be typed. Help, the manual and completions come from here.

mod common;

pub(crate) use common::*;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use vramscope_analysis::query::MomentSpec;
use vramscope_format::parse_bytes as size;

use crate::categories::CategoriesArgs;
use crate::diff::Limit;
use crate::insights::SeverityArg;
use crate::modules::ModulesArgs;
use crate::overlap::OverlapArgs;
use crate::pools::PoolsArgs;
use crate::shapes::{ModelArgs, ShapesArgs};
use crate::style::{ColorChoice, UnitsArg};
use crate::tui::TuiArgs;

/// What is in my accelerator's memory, why, and what do I do about it?
///
/// Reads the memory snapshots that PyTorch writes. Record one in three lines of Python:
///
///   torch.cuda.memory._record_memory_history()
///   ...                                             # the part that runs out of memory
///   torch.cuda.memory._dump_snapshot("snapshot.pickle")
#[derive(Debug, Parser)]
#[command(name = "vramscope", version, verbatim_doc_comment, disable_help_subcommand = true)]
#[command(
    arg_required_else_help = true,
    subcommand_precedence_over_arg = true,
    override_usage = "vramscope [OPTIONS] <PATH>...
       vramscope [OPTIONS] <COMMAND>"
)]
pub(crate) struct Args {
    /// Units of sizes
    #[arg(long, value_enum, global = true, default_value_t = UnitsArg::Binary, hide_default_value = true)]
    pub(crate) units: UnitsArg,
    /// Colors; auto means on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, global = true, default_value_t = ColorChoice::Auto, hide_default_value = true)]
    pub(crate) color: ColorChoice,
    /// Leave out what exceeds about N tokens, and say what; 0 for no limit (default: 1500 for text that does not go to a
    /// terminal; no limit with --json and with --limit)
    #[arg(long, global = true, value_name = "N")]
    pub(crate) budget: Option<u64>,
    #[command(flatten)]
    pub(crate) open: TuiArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tui(TuiArgs),
    Summary(Box<SummaryArgs>),
    Insights(Box<InsightsArgs>),
    At(Box<AtArgs>),
    Tree(Box<TreeArgs>),
    Top(Box<TopArgs>),
    Diff(Box<DiffArgs>),
    Ranks(Box<RanksArgs>),
    Phases(Box<PhasesArgs>),
    Steps(Box<crate::steps::StepsArgs>),
    Minimum(Box<crate::minimum::MinimumArgs>),
    Lives(Box<crate::lives::LivesArgs>),
    Fragmentation(Box<FragmentationArgs>),
    Segments(Box<SegmentsArgs>),
    Overlap(Box<OverlapArgs>),
    Pools(Box<PoolsArgs>),
    Categories(Box<CategoriesArgs>),
    Modules(Box<ModulesArgs>),
    Shapes(ShapesArgs),
    Events(Box<EventsArgs>),
    Oom(Box<crate::oom::OomArgs>),
    Churn(Box<crate::churn::ChurnArgs>),
    Show(Box<crate::show::ShowArgs>),
    /// The call tree as a flame graph: tree --format svg
    #[command(hide = true)]
    Flame(Box<TreeArgs>),
    Export(Box<crate::export::ExportArgs>),
    Sql(Box<crate::sql::SqlArgs>),
    View(crate::view::ViewArgs),
    Serve(crate::serve::ServeArgs),
    Run(crate::record::RunArgs),
    Report(Box<crate::report::ReportArgs>),
    Tune(Box<crate::tune::TuneArgs>),
    Whatif(Box<crate::whatif::WhatifArgs>),
    Doctor(Box<crate::doctor::DoctorArgs>),
    Guide(crate::guide::GuideArgs),
    Mcp(crate::mcp::McpArgs),
    Skill(crate::skill::SkillArgs),
    Demo(Box<DemoArgs>),
    Cache(crate::cache::CacheVerbArgs),
    Help(crate::help::HelpArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Completions for a shell, on standard output
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope completions bash > ~/.local/share/bash-completion/completions/vramscope")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// The manual page, on standard output
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope man > vramscope.1 && man ./vramscope.1")]
pub(crate) struct ManArgs {}

/// What changed between two files or two moments; or several files beside each other
///
/// Two files are compared at the peak of each, device by device. Lines are matched by file, line and function.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope diff before.pickle after.pickle
  vramscope diff snapshot.pickle --at in:forward#2:end --vs in:forward#6:end
  vramscope diff before.pickle after.pickle --by module
  vramscope diff seq128.pickle seq256.pickle seq512.pickle --capacity H100    # how lines grow, and what fits
  vramscope diff main.pickle branch.pickle --fail-on peak+5%,end+100MiB    # exit code 1 if exceeded")]
pub(crate) struct DiffArgs {
    /// Two files, before and after; one, with --vs; or several, beside each other
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) moment: MomentArgs,
    /// The moment of B, if it is another
    #[arg(long, value_name = "MOMENT")]
    pub(crate) vs: Option<MomentSpec>,
    /// Fail with exit code 1 if B exceeds A by more: COUNTER+SIZE or COUNTER+PERCENT%, separated by commas;
    /// peak and end are requested bytes, and so are peak:COUNTER and end:COUNTER
    #[arg(long, value_name = "LIMITS", value_delimiter = ',')]
    pub(crate) fail_on: Vec<Limit>,
    /// What is compared
    #[arg(long, value_enum, default_value_t = DiffBy::Line)]
    pub(crate) by: DiffBy,
    /// Of several files: what differs between them, such as the batch or the sequence of each, to tell how rows grow
    /// with it (default: the number in their names that differs)
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) values: Vec<f64>,
    /// Of several files: what the device has, to tell the largest value that fits: a name such as H100, or a size
    #[arg(long, value_name = "DEVICE", value_parser = vramscope_analysis::capacity)]
    pub(crate) capacity: Option<u64>,
    /// Show at most N that grew and N that shrank (default: 12 as text, all as JSON)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffBy {
    /// Your own lines
    Line,
    /// Whole stacks
    Stack,
    /// What memory is for
    Category,
    /// Modules of the model
    Module,
}

impl DiffBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Stack => "stack",
            Self::Category => "category",
            Self::Module => "module",
        }
    }

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Stack => "stack, innermost frames first",
            by => by.name(),
        }
    }
}

/// One row per rank, the outliers, and what makes them differ
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope ranks runs/today/
  vramscope ranks --json rank*.pickle | jq '.ranks[].peak'")]
pub(crate) struct RanksArgs {
    #[command(flatten)]
    pub(crate) sources: Sources,
}

/// What looks wrong, worst first: how much, when, where, why, and what to do
///
/// High: the run failed or will fail. Medium: memory or time could be saved. Low: good to know. Within each, sorted
/// by bytes. Several files are also compared with each other, as ranks of a run.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope insights snapshot.pickle
  vramscope insights runs/today/                        # every rank, and what sets them apart
  vramscope insights --fail-on high snapshot.pickle     # exits 1, for CI
  vramscope insights --json snapshot.pickle | jq '.files[].findings[] | {kind, bytes, what}'")]
pub(crate) struct InsightsArgs {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Exit with 1 if there is a finding of this severity or a worse one
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub(crate) fail_on: Option<SeverityArg>,
}

/// Annotated phases: peak, growth and allocations of each
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope phases snapshot.pickle
  vramscope phases snapshot.pickle --hide-internal=false     # those of PyTorch itself, too
  vramscope phases snapshot.pickle --json | jq '.phases[] | {name, peak}'")]
pub(crate) struct PhasesArgs {
    #[command(flatten)]
    pub(crate) source: Source,
}

/// How fragmented free memory is: the largest hole, what is unusable, what pins segments
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope fragmentation snapshot.pickle
  vramscope fragmentation snapshot.pickle --request 2GiB          # unusable for a request of that size
  vramscope fragmentation snapshot.pickle --since in:backward:start --samples 100 --json")]
pub(crate) struct FragmentationArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// The request to be served (default: the largest that the program made)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) request: Option<u64>,
    /// Moments to look at, evenly spaced
    #[arg(long, value_name = "N", default_value_t = vramscope_analysis::SAMPLES)]
    pub(crate) samples: u32,
}

/// The allocator's map at a moment: segments, what pins each, and the holes in it
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope segments snapshot.pickle
  vramscope segments snapshot.pickle --at oom --limit 50
  vramscope segments snapshot.pickle --pool 1,0 --json")]
pub(crate) struct SegmentsArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) moment: MomentArgs,
    /// Show at most N segments, those with most free first (default: 16 as text, all as JSON)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// The trace, event by event
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope events snapshot.pickle | head
  vramscope events snapshot.pickle --since oom --action segment_free
  vramscope events snapshot.pickle --min-size 100MiB --action alloc
  vramscope events snapshot.pickle --json | jq -c 'select(.action == \"oom\")'")]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Only these actions, e.g. alloc,oom
    #[arg(long, value_name = "ACTIONS", value_delimiter = ',')]
    pub(crate) action: Vec<String>,
    /// Leave out the first N that match
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: usize,
    /// Show at most N
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// Each file on one screen: peak, what was live, the gap, phases, findings
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope summary snapshot.pickle
  vramscope summary runs/today/            # every rank below a folder
  zcat snapshot.pickle.gz | vramscope summary -
  vramscope summary --json snapshot.pickle | jq '.files[0].devices[0].peak'
  vramscope summary snapshot.pickle --fail-on 'peak>30GiB,oom,leak'    # exit code 1 if it has any of these")]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Fail with exit code 1 if a device has any of these, separated by commas: COUNTER>SIZE or COUNTER>PERCENT% of the
    /// device, where peak, end, peak:COUNTER and end:COUNTER are as of diff; oom; leak; a finding of at least low, medium
    /// or high severity; a kind or id of a finding
    #[arg(long, value_name = "LIMITS", value_delimiter = ',')]
    pub(crate) fail_on: Vec<crate::summary::Limit>,
}

/// What was in memory at a moment: totals and live allocations, largest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope at snapshot.pickle --peak
  vramscope at snapshot.pickle --oom --limit 50
  vramscope at snapshot.pickle --event 12345 --json
  vramscope at snapshot.pickle --time-us 1794725346326863")]
pub(crate) struct AtArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) moment: MomentArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// With --in: the Kth phase of that name, from 1
    #[arg(long, value_name = "K", requires = "in", hide = true)]
    pub(crate) nth: Option<usize>,
    /// Show the live set as a call tree instead of a list
    #[arg(long, conflicts_with_all = ["limit", "json"])]
    pub(crate) tree: bool,
    /// Show at most N allocations (default: 15 as text, all as JSON)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// Where the bytes come from: a call tree at a moment
///
/// Bytes are requested bytes. With --lifetime they are bytes times the number of events they lived, from
/// --since to --until: what held memory longest comes first.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope tree snapshot.pickle
  vramscope tree snapshot.pickle --at oom --invert
  vramscope tree snapshot.pickle --at in:backward#2 --min 5
  vramscope tree snapshot.pickle --lifetime --since in:forward:start --until in:forward:end
  vramscope tree snapshot.pickle --format svg -o peak.svg
  vramscope tree snapshot.pickle --format folded | grep backward
  vramscope tree snapshot.pickle --format speedscope -o peak.speedscope.json")]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) weigh: WeighArgs,
    /// Innermost frames first, each with its callers below
    #[arg(long)]
    pub(crate) invert: bool,
    /// Levels to show; a chain of single calls counts as one (default: 12 as text, all as JSON)
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Leave out what is below this share of the whole, in percent (default: 1 as text, 0 as JSON)
    #[arg(long, value_name = "PERCENT")]
    pub(crate) min: Option<f64>,
    /// A flame graph instead of text; of one device
    #[arg(long, value_enum, conflicts_with = "json")]
    pub(crate) format: Option<FlameFormat>,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// At a moment, or over a stretch.
#[derive(Debug, ClapArgs)]
pub(crate) struct WeighArgs {
    #[command(flatten)]
    pub(crate) moment: MomentArgs,
    /// Bytes times events lived, between --since and --until, instead of a moment
    #[arg(long, conflicts_with = "MomentArgs")]
    pub(crate) lifetime: bool,
}

/// Lines, stacks or allocations, ranked by size, count, lifetime or churn
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  vramscope top snapshot.pickle                          # the user's lines that hold most at the peak
  vramscope top snapshot.pickle --of allocations --by lifetime
  vramscope top snapshot.pickle --by churn --limit 30")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// What is ranked
    #[arg(long, value_enum, default_value_t = TopOf::Lines)]
    pub(crate) of: TopOf,
    /// By what
    #[arg(long, value_enum, default_value_t = TopBy::Live)]
    pub(crate) by: TopBy,
    #[command(flatten)]
    pub(crate) moment: MomentArgs,
    /// Show at most N (default: 20 as text, all as JSON)
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopOf {
    /// The user's own lines: the innermost frame that is not PyTorch's or Python's
    Lines,
    /// Whole stacks
    Stacks,
    /// Single allocations
    Allocations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopBy {
    /// Bytes live at the moment
    #[value(alias = "peak")]
    Live,
    /// Size of the largest allocation
    Size,
    /// Bytes allocated in all
    Total,
    /// Number of allocations
    Count,
    /// Events lived, summed over the allocations
    Lifetime,
    /// Bytes allocated and freed again
    Churn,
}

impl TopBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Size => "size",
            Self::Total => "total",
            Self::Count => "count",
            Self::Lifetime => "lifetime",
            Self::Churn => "churn",
        }
    }
}

/// How a flame graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlameFormat {
    /// One line per stack: frames joined by semicolons, and the bytes
    Folded,
    /// For speedscope
    Speedscope,
    /// A picture that opens in any browser, with names and bytes on hover
    Svg,
}

/// Summarize a built-in recording of a training run that runs out of memory
#[derive(Debug, ClapArgs)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
