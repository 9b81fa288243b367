//! What looks wrong: findings, each with how much it is about, when, where, the evidence, and what to do.
//!
//! Each module of this folder looks for one thing. A finding of high severity says that the run failed or will
//! fail; a medium one that memory or time could be had; a low one is good to know. Healthy runs have none above
//! low.

mod churn;
mod driver;
mod gap;
mod growth;
mod oom;
mod pending;
mod pool;
mod rounding;
mod trial;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use vramscope_snapshot::{Frame, Pool, Snapshot, StackId};

use crate::questions::compare::Line;
use crate::questions::spans::Span;
use crate::replay::Replay;
use crate::replay::allocations::Moment;
use crate::replay::counters::Counter;

pub(crate) use driver::DriverCalls;
use trial::Trial;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An allocation failed.
    OutOfMemory,
    /// Autograd graphs are kept from step to step.
    KeptGraph,
    /// Memory grows from step to step.
    Growth,
    /// Holes in segments that something lives in.
    Fragmentation,
    /// Whole segments in which nothing lives.
    Cached,
    /// What a private pool costs.
    PrivatePool,
    /// Requests that are rounded up.
    Rounding,
    /// Blocks that were too large for the request and not split.
    Unsplit,
    /// Blocks that the program let go and another stream still used.
    PendingFree,
    /// Memory asked from the driver and given back again and again.
    DriverCalls,
    /// The allocator had to empty its cache and try again.
    Retries,
    /// A line that allocates and frees far more than it holds.
    Churn,
    /// A rank that is unlike the others.
    Rank,
    /// A rank that comes later than the others.
    Straggler,
}

impl Kind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out_of_memory",
            Self::KeptGraph => "kept_graph",
            Self::Growth => "growth",
            Self::Fragmentation => "fragmentation",
            Self::Cached => "cached",
            Self::PrivatePool => "private_pool",
            Self::Rounding => "rounding",
            Self::Unsplit => "unsplit",
            Self::PendingFree => "pending_free",
            Self::DriverCalls => "driver_calls",
            Self::Retries => "retries",
            Self::Churn => "churn",
            Self::Rank => "rank",
            Self::Straggler => "straggler",
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// Good to know.
    #[default]
    Low,
    /// Memory or time could be saved.
    Medium,
    /// The run failed, or will fail.
    High,
}

impl Severity {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A number, with what it counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// How many.
    Count(u64),
    /// A part of a whole, from 0 to 1.
    Share(f64),
    /// Microseconds.
    Micros(u64),
    /// A word, or a place in the program.
    Text(String),
}

impl Amount {
    /// The number in words, sizes as `bytes` writes them.
    pub fn words(&self, bytes: ShowBytes<'_>) -> String {
        match self {
            Self::Bytes(n) => bytes(*n),
            Self::Count(n) => vramscope_format::count(*n),
            Self::Share(share) => vramscope_format::percent(*share),
            Self::Micros(us) => vramscope_format::seconds(*us),
            Self::Text(text) => text.clone(),
        }
    }
}

/// One fact that a finding rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What it is.
    pub name: &'static str,
    /// The place in the program that it is about, if it is about one.
    pub place: Option<String>,
    /// How much.
    pub value: Amount,
}

/// Where a finding is: as much as is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// The stack.
    pub stack: Option<StackId>,
    /// The line to look at.
    pub line: Option<Line>,
    /// The pool.
    pub pool: Option<Pool>,
    /// The stream.
    pub stream: Option<u64>,
    /// The address of the segment.
    pub segment: Option<u64>,
    /// The rank, where there are several files.
    pub rank: Option<u64>,
}

/// One thing that looks wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// How bad it is.
    pub severity: Severity,
    /// How many bytes it is about.
    pub bytes: u64,
    /// From when to when.
    pub when: (Moment, Moment),
    /// Where.
    pub site: Site,
    /// What, in one sentence.
    pub what: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do, in one sentence.
    pub advice: String,
}

impl Finding {
    /// Adds a fact.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: Amount) -> Self {
        self.evidence.push(Evidence { name, place: None, value });
        self
    }

    /// Adds the bytes of a place in the program.
    #[must_use]
    pub(crate) fn at(mut self, name: &'static str, place: String, bytes: u64) -> Self {
        self.evidence.push(Evidence { name, place: Some(place), value: Amount::Bytes(bytes) });
        self
    }
}

/// How sizes are written in sentences.
pub type ShowBytes<'a> = &'a dyn Fn(u64) -> String;

/// What every module looks at.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) replay: &'a Replay,
    pub(crate) spans: &'a [Span],
    pub(crate) bytes: ShowBytes<'a>,
    /// Settings that findings suggest are tried here.
    trial: &'a Trial<'a>,
}

impl Case<'_> {
    /// `train.py:88 forward`, the file without its folders.
    fn place(&self, frame: Frame) -> String {
        Line::new(self.snapshot, frame).short()
    }

    fn line(&self, frame: Option<Frame>) -> Option<Line> {
        frame.map(|frame| Line::new(self.snapshot, frame))
    }

    /// Whether unused segments are given back before memory runs out.
    fn collects_garbage(&self) -> bool {
        self.snapshot.settings.all.iter().any(|(name, value)| {
            name == "garbage_collection_threshold"
                && value.parse::<f64>().is_ok_and(|threshold| threshold > 0.0)
        })
    }

    /// What a setting would do to the peak of reserved bytes, for the end of an advice.
    fn effect_of(&self, settings: &str) -> String {
        let peak = signed(self.replay.peak(Counter::Reserved).bytes);
        self.trial.effect(settings, peak, self.bytes)
    }

    /// Time between two moments, as far as the events have times.
    fn micros(&self, from: Moment, to: Moment) -> Option<u64> {
        let events = self.snapshot.events(self.replay.device());
        let time = |moment: Moment| events.time_us(moment.event()?.index());
        let last = Moment(events.len() as u32);
        u64::try_from(time(to.min(last))?.saturating_sub(time(from.max(Moment(1)))?)).ok()
    }
}

/// Everything that looks wrong on a device, worst first, and of the same severity most bytes first. `spans` are
/// those of the device; `bytes` writes sizes.
pub fn insights(snapshot: &Snapshot, replay: &Replay, spans: &[Span], bytes: ShowBytes<'_>) -> Vec<Finding> {
    let trial = Trial::new(snapshot, replay.device());
    let case = Case { snapshot, replay, spans, bytes, trial: &trial };
    let calls = DriverCalls::new(snapshot, replay);
    let mut findings = oom::find(&case);
    findings.extend(growth::find(&case));
    findings.extend(gap::find(&case, &calls));
    findings.extend(pool::find(&case));
    findings.extend(rounding::find(&case));
    findings.extend(pending::find(&case));
    findings.extend(driver::find(&case, &calls));
    findings.extend(churn::find(&case));
    findings.sort_by_key(|finding| (Reverse(finding.severity), Reverse(finding.bytes), finding.kind));
    findings
}

fn signed(bytes: i64) -> u64 {
    bytes.max(0).unsigned_abs()
}
