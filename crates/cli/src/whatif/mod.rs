//! `vramscope whatif`: the recorded requests under other settings, simulated.

pub(crate) mod batch;
mod changes;
mod chart;
pub(crate) mod print;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use vramscope_analysis::query::parse_device;
use vramscope_analysis::whatif::{Limit, WhatIf};
use vramscope_format::parse_bytes as size;
use vramscope_simulate::{Settings, Simulator, Study};
use vramscope_snapshot::DeviceId;

use crate::args::{FilterArgs, OutputArgs};
use crate::style::units;
use crate::subject::{Subject, one_device, open_path};
use batch::{Run, Watched};
use changes::ChangeArgs;

/// The same run under other allocator settings, simulated from its recorded requests
///
/// Peak reserved memory, device calls, retries, and whether a request runs out of memory, beside the recording. Where the
/// device's addresses matter, which no setting determines, a range is given. docs/whatif.md has the method.
#[derive(Debug, Args)]
#[command(
    after_help = "Settings \"\" are the defaults. Without --limit, a limit that the recording shows stays in force.

Examples:
  vramscope whatif snapshot.pickle --set expandable_segments:True
  vramscope whatif snapshot.pickle --set max_split_size_mb:128 --limit 80GiB
  vramscope whatif snapshot.pickle --without category:gradients        # an assumption about the program
  vramscope whatif snapshot.pickle --scale train.py:88=0.5"
)]
pub(crate) struct WhatifArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Settings to simulate, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times (default: the recorded ones)
    #[arg(long = "set", value_name = "CONF")]
    set: Vec<String>,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Also print the counters after these events, separated by commas; start is before the first (with --json)
    #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
    moments: Vec<MomentArg>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What `whatif` and `tune` are asked about.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    /// Snapshot file, or - for standard input
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Which device, if the file has several
    #[arg(long, value_name = "D", value_parser = parse_device, allow_negative_numbers = true)]
    device: Option<DeviceId>,
    /// Bytes that the process may reserve, e.g. 80GiB (set_per_process_memory_fraction); none for no limit
    #[arg(long, value_name = "SIZE", value_parser = str::parse::<Limit>)]
    limit: Option<Limit>,
    /// The limit that the recording was made under, if it is known
    #[arg(long, value_name = "SIZE", value_parser = size)]
    recorded_limit: Option<u64>,
    /// Memory of the device that the process can get
    #[arg(long, value_name = "SIZE", value_parser = size)]
    device_memory: Option<u64>,
}

/// A moment as how many events have happened.
#[derive(Clone, Copy, Debug)]
struct MomentArg(u32);

impl std::str::FromStr for MomentArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "start" {
            return Ok(Self(0));
        }
        let event: u32 = text.parse().map_err(|_| format!("'{text}' is not an event number, nor start"))?;
        Ok(Self(event.saturating_add(1)))
    }
}

/// A recording, and what it is simulated under where nothing else is said.
pub(crate) struct Question {
    pub(crate) subject: Subject,
    pub(crate) study: Study,
    /// The limit for simulated settings.
    pub(crate) limit: Option<u64>,
    device_memory: Option<u64>,
}

impl SubjectArgs {
    pub(crate) fn open(&self, output: &OutputArgs) -> anyhow::Result<Question> {
        let filter = FilterArgs::of_device(self.device);
        let mut subjects = open_path(&self.path, &filter, &output.cache)?;
        one_device(&subjects)?;
        let subject = subjects.remove(0);
        let path = || self.path.display().to_string();
        let mut study = Study::new(subject.snapshot(), subject.replay().device(), self.recorded_limit)
            .with_context(path)?;
        study.recorded.device = self.device_memory;
        let limit = self.limit.unwrap_or_default().of(&study);
        Ok(Question { subject, study, limit, device_memory: self.device_memory })
    }
}

impl Question {
    /// Settings as they are typed, on the device and under the limit of this question.
    pub(crate) fn settings(&self, text: &str) -> anyhow::Result<Settings> {
        let base = Settings { limit: self.limit, device: self.device_memory, ..Settings::default() };
        Ok(base.with(text)?)
    }

    /// The words for what is simulated.
    pub(crate) fn words(&self) -> WhatIf<'_> {
        WhatIf {
            snapshot: self.subject.snapshot(),
            replay: self.subject.replay(),
            study: &self.study,
            units: units(),
        }
    }

    /// The recorded settings, under the limit of this question.
    pub(crate) fn recorded(&self) -> Settings {
        Settings { limit: self.limit, device: self.device_memory, ..self.study.recorded.clone() }
    }
}

pub(crate) fn run(args: &WhatifArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let question = args.subject.open(&args.output)?;
    let changed = args.changes.apply(&question)?;
    let settings: Vec<Settings> = match args.set.as_slice() {
        [] => vec![question.recorded()],
        texts => texts.iter().map(|text| question.settings(text)).collect::<anyhow::Result<_>>()?,
    };
    if args.set.is_empty()
        && args.subject.limit.is_none()
        && args.subject.device_memory.is_none()
        && changed.is_none()
    {
        bail!(
            "nothing to simulate: give --set, --limit, --without, --free-early or --scale, as in \
             vramscope whatif {} --set expandable_segments:True",
            question.subject.path()
        );
    }
    let assumptions = changed.as_ref().map(|changed| changed.assumptions.clone()).unwrap_or_default();
    let simulator: &Simulator =
        changed.as_ref().map_or(&question.study.simulator, |changed| &changed.simulator);
    let watched = Watched {
        moments: args.moments.iter().map(|moment| moment.0).collect(),
        events: question.subject.replay().events(),
        stretches: if args.output.json { report::STRETCHES } else { chart::POINTS },
    };
    let runs: Vec<Run> = batch::answers(simulator, &settings, &watched)?;
    if args.output.json {
        vramscope_files::json(&mut *out, &report::Report::new(&question, &assumptions, &runs))?;
        writeln!(out)?;
    } else {
        print::print(&question, &assumptions, &runs, out)?;
    }
    Ok(ExitCode::SUCCESS)
}
