//! The form of a finding: what it is about, how bad and how sure it is, what it rests on, what to do.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use vramscope_replay::Moment;
use vramscope_snapshot::{DeviceId, Pool, StackId};

use crate::conclusions::known::KnownBy;
use crate::questions::compare::Line;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// An allocation failed.
    OutOfMemory,
    /// The next step will not fit.
    WillNotFit,
    /// Autograd graphs are kept from step to step.
    KeptGraph,
    /// Memory grows from step to step.
    Growth,
    /// A forward pass without a backward pass keeps what only a backward pass needs.
    NoGrad,
    /// Attention scores are written out, whose size grows with the square of the sequence.
    AttentionScores,
    /// A KV cache is kept while training.
    TrainingCache,
    /// One request dominates the peak.
    HugeTensor,
    /// Gradients live through forward passes.
    GradientsKept,
    /// The peak is inside the optimizer's step.
    OptimizerTemporaries,
    /// Weights or optimizer state are made again while the older ones live.
    Copies,
    /// Numbers take more bytes than usual.
    Precision,
    /// Tensors are freed by the garbage collector, long after their last use.
    ReferenceCycle,
    /// The same weights are there twice.
    DoubledWeights,
    /// Autocast keeps copies of the weights in low precision.
    LowPrecisionCopies,
    /// What weights, gradients and optimizer state take per parameter.
    ParameterBytes,
    /// Free in partly used segments.
    Fragmentation,
    /// Completely unused segments.
    Cached,
    /// What a private pool costs.
    PrivatePool,
    /// Requests that are rounded up.
    Rounding,
    /// Blocks that were too large for the request and not split.
    Unsplit,
    /// Blocks that the program let go and another stream still used.
    PendingFree,
    /// Segments are released and acquired again and again.
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
    /// All kinds, in the order of their names in the documentation.
    pub const ALL: [Self; 27] = [
        Self::OutOfMemory,
        Self::WillNotFit,
        Self::KeptGraph,
        Self::Growth,
        Self::NoGrad,
        Self::AttentionScores,
        Self::TrainingCache,
        Self::HugeTensor,
        Self::GradientsKept,
        Self::OptimizerTemporaries,
        Self::Copies,
        Self::Precision,
        Self::ReferenceCycle,
        Self::DoubledWeights,
        Self::LowPrecisionCopies,
        Self::ParameterBytes,
        Self::Fragmentation,
        Self::Cached,
        Self::PrivatePool,
        Self::Rounding,
        Self::Unsplit,
        Self::PendingFree,
        Self::DriverCalls,
        Self::Retries,
        Self::Churn,
        Self::Rank,
        Self::Straggler,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out_of_memory",
            Self::WillNotFit => "will_not_fit",
            Self::KeptGraph => "kept_graph",
            Self::Growth => "growth",
            Self::NoGrad => "no_grad",
            Self::AttentionScores => "attention_scores",
            Self::TrainingCache => "training_cache",
            Self::HugeTensor => "huge_tensor",
            Self::GradientsKept => "gradients_kept",
            Self::OptimizerTemporaries => "optimizer_temporaries",
            Self::Copies => "copies",
            Self::Precision => "precision",
            Self::ReferenceCycle => "reference_cycle",
            Self::DoubledWeights => "doubled_weights",
            Self::LowPrecisionCopies => "low_precision_copies",
            Self::ParameterBytes => "parameter_bytes",
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// How sizes are written in sentences.
pub type ShowBytes<'a> = &'a dyn Fn(u64) -> String;

/// One fact that a finding rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is.
    pub name: Cow<'static, str>,
    /// The place in the program that it is about, if it is about one.
    pub place: Option<String>,
    /// How much.
    pub value: Amount,
    /// The command that shows it, without the program and the file: `at --at oom:1`.
    pub query: Option<String>,
}

/// A query of a finding as it is typed: `at --at oom:1` becomes `vramscope at FILE --at oom:1`.
pub fn command(query: &str, file: &str) -> String {
    let (verb, rest) = query.split_once(' ').unwrap_or((query, ""));
    format!("vramscope {verb} {file} {rest}").trim_end().to_owned()
}

/// Where a finding is: as much as is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// Which of its kind, by when they begin, from 1; 0 where several files are compared.
    pub number: u32,
    /// How bad it is.
    pub severity: Severity,
    /// How it is known.
    pub known_by: KnownBy,
    /// How many bytes it is about.
    pub bytes: u64,
    /// The devices that it is about.
    pub devices: Vec<DeviceId>,
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
    /// A finding that follows from the events, without a place or evidence yet.
    pub(crate) fn new(kind: Kind, severity: Severity, bytes: u64, when: (Moment, Moment)) -> Self {
        Self {
            kind,
            number: 0,
            severity,
            known_by: KnownBy::Certain,
            bytes,
            devices: Vec::new(),
            when,
            site: Site::default(),
            what: String::new(),
            evidence: Vec::new(),
            advice: String::new(),
        }
    }

    /// What was found, in one sentence, and what to do.
    #[must_use]
    pub(crate) fn says(mut self, what: impl Into<String>, advice: impl Into<String>) -> Self {
        (self.what, self.advice) = (what.into(), advice.into());
        self
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn on(mut self, site: Site) -> Self {
        self.site = site;
        self
    }

    /// The best explanation, not the only one.
    #[must_use]
    pub(crate) fn likely(mut self) -> Self {
        self.known_by = KnownBy::Likely;
        self
    }

    /// Adds a fact.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: Amount) -> Self {
        self.evidence.push(Evidence { name: name.into(), place: None, value, query: None });
        self
    }

    /// Adds the bytes of a place in the program.
    #[must_use]
    pub(crate) fn at(mut self, name: &'static str, place: String, bytes: u64) -> Self {
        self.evidence.push(Evidence {
            name: name.into(),
            place: Some(place),
            value: Amount::Bytes(bytes),
            query: None,
        });
        self
    }

    /// The command that shows the fact that was added last.
    #[must_use]
    pub(crate) fn shown_by(mut self, query: impl Into<String>) -> Self {
        if let Some(last) = self.evidence.last_mut() {
            last.query = Some(query.into());
        }
        self
    }

    /// The name that its handle has: `growth-1`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.kind.name(), self.number)
    }

    /// A name that is the same whenever the same thing is found again: the kind, the device or rank, and the place.
    /// A failed allocation is named by its event.
    pub fn id(&self) -> String {
        let owner = match (self.site.rank, self.devices.as_slice()) {
            (Some(rank), _) => format!("rank{rank}"),
            (None, [device, ..]) => device.0.to_string(),
            (None, []) => "all".to_owned(),
        };
        let place = match (self.kind, &self.site) {
            (Kind::OutOfMemory, _) => self.when.1.event().map(|event| event.0.to_string()),
            (Kind::PrivatePool, Site { pool: Some((a, b)), stream, .. }) => {
                Some(format!("{a},{b}@{}", stream.unwrap_or_default()))
            }
            (Kind::Rank, _) => self.evidence.first().map(|evidence| evidence.name.replace(' ', "_")),
            (_, Site { line: Some(line), .. }) => {
                Some(format!("{}:{}", line.file.rsplit(['/', '\\']).next().unwrap_or_default(), line.line))
            }
            _ => None,
        };
        let place = place.map_or_else(String::new, |place| format!("/{place}"));
        format!("{}/{owner}{place}", self.kind.name())
    }

    /// What it rests on in words, by name: the facts, how sure it is, and the commands that show them for a file.
    pub fn facts(&self, bytes: ShowBytes<'_>, file: &str) -> Vec<(String, String)> {
        let fact = |evidence: &Evidence| {
            let place = evidence.place.as_deref().map_or_else(String::new, |place| format!("  {place}"));
            (vramscope_format::words(&evidence.name), format!("{}{place}", evidence.value.words(bytes)))
        };
        let mut facts: Vec<_> = self.evidence.iter().map(fact).collect();
        facts.push(("how it is known".to_owned(), self.how_known()));
        facts.extend(self.queries().iter().map(|query| ("see".to_owned(), command(query, file))));
        facts
    }

    /// How it is known, in words.
    pub fn how_known(&self) -> String {
        format!("{}: {}", self.known_by.name(), self.known_by.about())
    }

    /// The commands that show the evidence, each once.
    pub fn queries(&self) -> Vec<&str> {
        let mut queries: Vec<&str> = Vec::new();
        for query in self.evidence.iter().filter_map(|evidence| evidence.query.as_deref()) {
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        queries
    }
}
