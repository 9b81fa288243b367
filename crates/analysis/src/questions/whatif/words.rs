//! A simulation in words and rows, the same on every surface.

use serde::{Deserialize, Serialize};
use vramscope_format::table::Value;
use vramscope_format::{Units, count, plural, printable};
use vramscope_replay::{Counter, Replay};
use vramscope_simulate::{Answer, End, OutOfMemory, Settings, Study};
use vramscope_snapshot::Snapshot;

use crate::questions::compare::Line;
use crate::tables::TRIALS;

/// How something is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tone {
    /// A fact.
    #[default]
    Plain,
    /// As it should be.
    Fine,
    /// To be read with care.
    Warning,
    /// A failure.
    Bad,
}

/// A line about the recording or an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// How it is meant.
    pub tone: Tone,
    /// The words.
    pub text: String,
}

impl Remark {
    fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, text: text.into() }
    }
}

/// A setting, or the recording itself, as a row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Peak of reserved bytes.
    pub reserved_peak: u64,
    /// How much more or less than the recording that is; empty for the recording.
    pub change: String,
    /// The largest gap between reserved and requested bytes.
    pub gap: u64,
    /// Calls that took device memory, and calls that gave it back.
    pub device_calls: (u64, u64),
    /// Times that everything was released to serve a request; the recording does not count them.
    pub retries: Option<u64>,
    /// How it ends.
    pub result: Remark,
    /// How far it depends on the device's addresses; empty for the recording.
    pub confidence: Remark,
}

impl Row {
    /// The row as it leaves, see [`TRIALS`].
    pub fn cells(&self) -> [Value<'_>; TRIALS.len()] {
        [
            self.name.as_str().into(),
            self.reserved_peak.into(),
            self.gap.into(),
            self.device_calls.0.into(),
            self.device_calls.1.into(),
            self.retries.into(),
            self.result.text.as_str().into(),
            self.confidence.text.as_str().into(),
        ]
    }
}

/// Settings as they are called in tables.
pub fn settings_name(settings: &Settings) -> String {
    match settings.to_string() {
        none if none.is_empty() => "defaults".into(),
        some => some,
    }
}

/// The line to paste into a shell.
pub fn settings_line(settings: &Settings) -> String {
    match settings.to_string() {
        none if none.is_empty() => "unset PYTORCH_CUDA_ALLOC_CONF".into(),
        some => format!("export PYTORCH_CUDA_ALLOC_CONF={some}"),
    }
}

/// A range of numbers; one number where both ends read the same.
pub fn range((low, high): (u64, u64), show: impl Fn(u64) -> String) -> String {
    let (low, high) = (show(low), show(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// A recording that is simulated.
#[derive(Clone, Copy)]
pub struct WhatIf<'a> {
    /// The file.
    pub snapshot: &'a Snapshot,
    /// The device.
    pub replay: &'a Replay,
    /// Its requests.
    pub study: &'a Study,
    /// How sizes are written.
    pub units: Units,
}

impl WhatIf<'_> {
    /// The settings of the recording.
    pub fn recorded_under(&self) -> String {
        match self.study.recorded.to_string() {
            none if none.is_empty() => "the default settings".into(),
            some => some,
        }
    }

    /// What was recorded, what is simulated, and how far it can be trusted, under a limit in bytes.
    pub fn about(&self, limit: Option<u64>) -> Vec<Remark> {
        let study = self.study;
        let mut remarks = vec![Remark::new(Tone::Plain, format!("recorded under {}", self.recorded_under()))];
        let facts = study.simulator.requests().facts();
        if let Some((low, high)) = facts.limit {
            let (low, high) = (self.units.size(low), self.units.size(high));
            let what = if facts.device_full { "the device's memory" } else { "a limit" };
            let words = format!("device memory was refused: {what} is between {low} and {high}");
            remarks.push(Remark::new(Tone::Plain, words));
        }
        remarks.push(Remark::new(
            Tone::Plain,
            match limit {
                Some(limit) => format!("simulated with a limit of {}", self.units.size(limit)),
                None => "simulated without a limit".into(),
            },
        ));
        remarks.extend(self.agreement());
        if facts.baseline > 0 {
            let words =
                format!("{} predate the recording: answers are estimates", self.units.size(facts.baseline));
            remarks.push(Remark::new(Tone::Warning, words));
        }
        if facts.delayed_frees > 0 {
            let delayed = plural(facts.delayed_frees, "free");
            let words = format!("{delayed} waited for another stream; simulated with the recorded timing");
            remarks.push(Remark::new(Tone::Plain, words));
        }
        remarks
    }

    /// How well the simulation reproduces the recording under its own settings.
    pub fn agreement(&self) -> Vec<Remark> {
        let agreement = &self.study.agreement;
        let tone = if agreement.is_exact() { Tone::Fine } else { Tone::Warning };
        let mut remarks = vec![Remark::new(tone, format!("self-check: {agreement}"))];
        if let Some(difference) = &agreement.first_difference {
            let call = |call: Option<(vramscope_simulate::Action, u64)>| {
                call.map_or_else(
                    || "no call".into(),
                    |(action, bytes)| format!("{} {}", action.name(), self.units.size(bytes)),
                )
            };
            let event = count(difference.moment.saturating_sub(1));
            let (recorded, simulated) = (call(difference.recorded), call(difference.simulated));
            let words = format!(
                "the first difference is at event {event}: {recorded} recorded, {simulated} simulated; answers are \
                 estimates"
            );
            remarks.push(Remark::new(Tone::Warning, words));
        }
        remarks
    }

    /// The recording.
    pub fn recorded(&self) -> Row {
        let requests = self.study.simulator.requests();
        let taken = requests.device_calls().iter().filter(|call| call.action.takes()).count();
        let given = requests.device_calls().len() - taken;
        let peak = self.replay.peak(Counter::Reserved);
        let gap = peak.bytes.saturating_sub(self.replay.counters(peak.at).requested);
        let result = match requests.facts().failures.first() {
            Some(moment) => {
                let event = count(moment.saturating_sub(1));
                Remark::new(Tone::Bad, format!("out of memory at event {event}"))
            }
            None => Remark::new(Tone::Plain, "ran"),
        };
        Row {
            name: "recording".into(),
            reserved_peak: u64::try_from(peak.bytes).unwrap_or(0),
            gap: u64::try_from(gap).unwrap_or(0),
            device_calls: (taken as u64, given as u64),
            result,
            ..Row::default()
        }
    }

    /// A simulated setting.
    pub fn row(&self, answer: &Answer) -> Row {
        let counters = &answer.outcome.counters;
        let recorded = self.replay.peak(Counter::Reserved).bytes;
        let change = (counters.reserved_peak as f64 - recorded as f64) / recorded.max(1) as f64 * 100.0;
        Row {
            name: settings_name(&answer.settings),
            reserved_peak: counters.reserved_peak,
            change: format!("{change:+.1} %"),
            gap: answer.outcome.largest_gap,
            device_calls: (counters.device_allocs, counters.device_frees),
            retries: Some(counters.retries),
            result: self.result(answer),
            confidence: self.confidence(answer),
        }
    }

    /// How a setting ends.
    pub fn result(&self, answer: &Answer) -> Remark {
        match (&answer.outcome.end, answer.outcome.out_of_memory) {
            (_, Some(oom)) => Remark::new(Tone::Bad, self.out_of_memory(&oom)),
            (End::PastFailure(moment), None) => {
                let event = count(moment.saturating_sub(1));
                let words = format!("gets past event {event}, where the recording ran out of memory");
                Remark::new(Tone::Fine, words)
            }
            _ => Remark::new(Tone::Fine, "runs"),
        }
    }

    fn out_of_memory(&self, oom: &OutOfMemory) -> String {
        let requested = self.units.size(oom.requested);
        let Some(event) = oom.moment.checked_sub(1) else {
            return format!("out of memory before the first event ({requested})");
        };
        let row = self.snapshot.events(self.replay.device()).get(event as usize);
        let place = match row.stack.has_frames() {
            true => format!(", {}", printable(&Line::of(self.snapshot, row.stack).short())),
            false => String::new(),
        };
        let failures = &self.study.simulator.requests().facts().failures;
        let beside = match failures.first() {
            _ if failures.contains(&oom.moment) => ", as in the recording",
            Some(first) if oom.moment < *first => ", before the recording ran out of memory",
            _ => "",
        };
        format!("out of memory at event {} ({requested}{place}){beside}", count(event))
    }

    /// How far an answer depends on the device's addresses.
    pub fn confidence(&self, answer: &Answer) -> Remark {
        let orders = answer.orders;
        let all = Answer::orders(&answer.settings).len();
        if answer.agree {
            let words = match (orders, all) {
                (_, 1) => "in expandable segments the device's addresses do not matter".into(),
                (1, _) => "with the likeliest order of device addresses".into(),
                _ => format!("does not depend on the device's addresses ({orders} orders simulated)"),
            };
            return Remark::new(Tone::Plain, words);
        }
        let mut words = format!(
            "depends on the device's addresses: over {orders} orders peak reserved is {}, device allocations {}",
            range(answer.reserved_peak, |n| self.units.size(n)),
            range(answer.device_allocs, count),
        );
        if answer.retries.1 > 0 {
            words.push_str(&format!(", retries {}", range(answer.retries, count)));
        }
        if answer.out_of_memory > 0 {
            words.push_str(&format!("; out of memory in {} of them", answer.out_of_memory));
        }
        Remark::new(Tone::Warning, words)
    }
}
