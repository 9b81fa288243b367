//! What other allocator settings would have done with the recorded requests: the simulation as every surface asks
//! for it, and the words for what comes out.
//!
//! Settings are simulated with several orders of device addresses, one after the other ([`Simulation::advance`]): the
//! first gives an answer, the others say how far it depends on addresses. A surface shows each as it comes.

mod words;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vramscope_format::{parse_bytes, size};
use vramscope_simulate::{Answer, End, Levels, Outcome, Settings, SettingsError, Study, WhileWanted};

pub use words::{Remark, Row, Tone, WhatIf, range, settings_line, settings_name};

/// The limit that settings are simulated under: what `set_per_process_memory_fraction` allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Limit {
    /// The limit that the recording shows, if it shows one.
    #[default]
    Recorded,
    /// No limit.
    None,
    /// This many bytes.
    Bytes(u64),
}

impl Limit {
    /// In bytes.
    pub fn of(self, study: &Study) -> Option<u64> {
        match self {
            Self::Recorded => study.recorded.limit,
            Self::None => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// As it is typed: a size, `none`, or nothing for that of the recording.
impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Ok(Self::Recorded),
            "none" => Ok(Self::None),
            text => parse_bytes(text).map(Self::Bytes),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded => f.write_str("as recorded"),
            Self::None => f.write_str("none"),
            Self::Bytes(bytes) => f.write_str(&size(*bytes)),
        }
    }
}

/// What is simulated: settings as in `PYTORCH_CUDA_ALLOC_CONF`, under a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Under {
    /// The settings as they are typed; empty for the defaults.
    pub settings: String,
    /// The limit.
    pub limit: Limit,
}

impl Under {
    /// The settings as tables call them.
    pub fn name(&self) -> &str {
        if self.settings.is_empty() { "defaults" } else { &self.settings }
    }

    /// What is wrong with the settings as they are typed, before there is anything to simulate them on.
    pub fn check(&self) -> Result<(), SettingsError> {
        Settings::parse(&self.settings).map(|_| ())
    }

    /// The settings on the device of the recording.
    pub fn settings(&self, study: &Study) -> Result<Settings, SettingsError> {
        let base =
            Settings { limit: self.limit.of(study), device: study.recorded.device, ..Settings::default() };
        base.with(&self.settings)
    }
}

/// Settings that every surface offers: each changes one thing that PyTorch's documentation recommends.
const CHOICES: [&str; 6] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:32",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.8,max_split_size_mb:64",
];

/// The ready-made settings that differ from the recorded ones. Garbage collection needs a limit.
pub fn choices(study: &Study, limit: Limit) -> Vec<Under> {
    let limited = limit.of(study);
    let recorded = Settings { limit: limited, ..study.recorded.clone() };
    let under = |text: &&str| Under { settings: (*text).to_owned(), limit };
    let differs = |under: &Under| {
        under
            .settings(study)
            .is_ok_and(|settings| settings != recorded && (limited.is_some() || settings.gc_threshold == 0.0))
    };
    // Without anything changed, another limit is a question of its own.
    let same = Under { settings: study.recorded.to_string(), limit };
    let same = (limit != Limit::Recorded).then_some(same);
    same.into_iter().chain(CHOICES.iter().map(under).filter(differs)).collect()
}

/// One setting on its way through the orders of addresses.
#[derive(Clone, Debug)]
pub struct Simulation {
    settings: Settings,
    outcomes: Vec<Outcome>,
    levels: Levels,
}

impl Simulation {
    /// Nothing is simulated yet.
    pub fn new(study: &Study, under: &Under) -> Result<Self, SettingsError> {
        Ok(Self { settings: under.settings(study)?, outcomes: Vec::new(), levels: Levels::default() })
    }

    /// Orders that are simulated, and how many there are to be.
    pub fn orders(&self) -> (usize, usize) {
        (self.outcomes.len(), Answer::orders(&self.settings).len())
    }

    /// Simulates the next order, if there is one. `false` if `go_on` said to stop.
    pub fn advance(&mut self, study: &Study, go_on: &dyn Fn() -> bool) -> bool {
        let Some(&order) = Answer::orders(&self.settings).get(self.outcomes.len()) else { return true };
        let mut outcome = if self.outcomes.is_empty() {
            let mut watch = (Levels::default(), WhileWanted(go_on));
            let outcome = study.simulator.run(&self.settings, order, &mut watch);
            self.levels = watch.0;
            outcome
        } else {
            study.simulator.run(&self.settings, order, &mut WhileWanted(go_on))
        };
        if outcome.end == End::Cancelled {
            return false;
        }
        // A map of memory is asked for by moment.
        outcome.segments = Vec::new();
        self.outcomes.push(outcome);
        true
    }

    /// What is known so far; `None` before the first order.
    pub fn answer(&self) -> Option<Answer> {
        Answer::of(self.settings.clone(), self.outcomes.clone())
    }

    /// Reserved bytes over the recording, with the likeliest addresses.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }
}
