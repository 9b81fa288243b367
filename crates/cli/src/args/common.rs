//! Options that verbs share: moments, filters, where answers go.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use vramscope_analysis::Counter;
use vramscope_analysis::query::{
    Filter, InPhase, MomentSpec, Pattern, parse_address, parse_device, parse_pool, parse_stream,
};
use vramscope_files::{Cache, Opened};
use vramscope_format::parse_bytes as size;
use vramscope_snapshot::{DeviceId, Pool};

use crate::text;

/// Which moment is meant: at most one of these.
#[derive(Debug, Default, ClapArgs)]
#[group(multiple = false)]
pub(crate) struct MomentArgs {
    /// A moment in words (default: peak)
    #[arg(long, value_name = "MOMENT")]
    pub(crate) at: Option<MomentSpec>,
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
    /// After event N of the trace, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) event: Option<u32>,
    /// After the last event at or before T microseconds since 1970
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) time_us: Option<i64>,
    /// Inside a phase, where it was highest; also PHASE#K, PHASE:start, PHASE#K:end
    #[arg(long, value_name = "PHASE")]
    pub(crate) r#in: Option<String>,
}

impl MomentArgs {
    /// The moment that is meant.
    pub(crate) fn spec(&self) -> MomentSpec {
        if let Some(at) = &self.at {
            at.clone()
        } else if let Some(event) = self.event {
            MomentSpec::Event(event)
        } else if let Some(time) = self.time_us {
            MomentSpec::Time(time)
        } else if let Some(number) = self.oom {
            MomentSpec::Oom((number > 0).then_some(number))
        } else if let Some(text) = &self.r#in {
            let whole = || MomentSpec::In { name: text.clone(), nth: None, place: InPhase::Peak };
            format!("in:{text}").parse().unwrap_or_else(|_| whole())
        } else if self.start {
            MomentSpec::Start
        } else if self.end {
            MomentSpec::End
        } else {
            MomentSpec::Peak(self.peak.map_or(Counter::Requested, Counter::from))
        }
    }
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

fn address(text: &str) -> Result<u64, String> {
    parse_address(text).ok_or_else(|| format!("'{text}' is not an address (try 0x7f686c000000)"))
}

/// Filters as they are typed: the same for every verb. `vramscope help filters` describes them.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only this device, e.g. 0, cuda:1, host (default: all)
    #[arg(long, value_name = "D", value_parser = parse_device, allow_negative_numbers = true)]
    pub(crate) device: Option<DeviceId>,
    /// Only this stream handle; 0 is the default stream
    #[arg(long, value_name = "S", value_parser = parse_stream)]
    stream: Option<u64>,
    /// Only this pool, e.g. 0,1; 0,0 is the default pool
    #[arg(long, value_name = "A,B", value_parser = parse_pool)]
    pool: Option<Pool>,
    /// From this moment on; it also bounds where the peak is looked for
    #[arg(long, value_name = "MOMENT")]
    since: Option<MomentSpec>,
    /// Up to this moment; it also bounds where the peak is looked for
    #[arg(long, value_name = "MOMENT")]
    until: Option<MomentSpec>,
    /// Only allocations of at least this size, e.g. 512, 20MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_size: Option<u64>,
    /// Only allocations of at most this size
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Only stacks with a frame that matches, as file:line name; ignores case unless it has upper case. Or a stack's
    /// handle, e.g. s:44
    #[arg(long, value_name = "REGEX")]
    stack: Vec<Pattern>,
    /// Only blocks around this address, e.g. 0x7f686c000000
    #[arg(long, value_name = "ADDR", value_parser = address)]
    address: Option<u64>,
    /// Only this category, as `vramscope categories` names it
    #[arg(long, value_name = "NAME")]
    category: Option<String>,
    /// Only what was allocated in phases of this name
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// Pass over frames that match when looking for your own line
    #[arg(long, value_name = "REGEX")]
    ignore_frames: Vec<Pattern>,
    /// Leave out frames of PyTorch, CPython and the C++ runtime; =false shows them
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    hide_internal: bool,
}

impl Default for FilterArgs {
    /// No filter was typed.
    fn default() -> Self {
        Self {
            device: None,
            stream: None,
            pool: None,
            since: None,
            until: None,
            min_size: None,
            max_size: None,
            stack: Vec::new(),
            address: None,
            category: None,
            phase: None,
            ignore_frames: Vec::new(),
            hide_internal: true,
        }
    }
}

impl FilterArgs {
    /// One device and nothing else.
    pub(crate) fn of_device(device: Option<DeviceId>) -> Self {
        Self { device, ..Self::default() }
    }

    /// The filter that was typed.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            address: self.address,
            stream: self.stream,
            pool: self.pool,
            min_size: self.min_size,
            max_size: self.max_size,
            stacks: self.stack.clone(),
            category: self.category.clone(),
            phase: self.phase.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            show_internal: !self.hide_internal,
        }
    }

    /// Passes over the frames that were typed.
    pub(crate) fn ignore_frames(&self, opened: &Opened) {
        if !self.ignore_frames.is_empty() {
            opened.snapshot.ignore_frames(|file, line, name| {
                self.ignore_frames.iter().any(|pattern| pattern.matches_frame(file, line, name))
            });
        }
    }
}

/// One file, as most verbs take it.
#[derive(Debug, ClapArgs)]
pub(crate) struct Source {
    /// Snapshot file, or - for standard input
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Many files.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sources {
    /// Snapshot files, folders of them, or - for standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print JSON, described in docs/json.md
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// Where a command writes to.
#[derive(Debug, ClapArgs)]
pub(crate) struct FileArgs {
    /// Write to a file instead of standard output, which is `-`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// Overwrite the file if it exists; never the input
    #[arg(long)]
    pub(crate) force: bool,
}

impl FileArgs {
    /// The file, unless standard output is meant.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.output_file.as_deref().filter(|path| path.as_os_str() != "-")
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CacheArgs {
    /// Read the file even if it is in the cache, and do not put it there
    #[arg(long)]
    no_cache: bool,
}

impl CacheArgs {
    /// The user's cache, unless it is not wanted, or not the user's alone.
    pub(crate) fn cache(&self) -> Option<Cache> {
        let cache = if self.no_cache { None } else { Cache::of_user() }?;
        match cache.problem() {
            None => Some(cache),
            Some(problem) => {
                text::complain(&problem);
                None
            }
        }
    }
}
