//! How far a recording can be simulated: refusal with the reason, and the self-check.

use std::fmt;

use vramscope_format::{plural, size};
use vramscope_snapshot::Pool;

use crate::addresses::Order;
use crate::allocator::Counters;
use crate::requests::{Action, DeviceCall, Facts, Requests, Step};
use crate::run::Simulator;
use crate::settings::Settings;
use crate::watch::Observer;

/// Memory from before the recording may be this part of the peak. Where it lies is known, how it got there is not.
const MAX_BASELINE: f64 = 0.5;

/// The part of the calls that must be reproduced for an answer, where there are at least [`FEW_CALLS`].
const LEAST_AGREEMENT: f64 = 0.5;

/// Fewer calls say little about agreement.
const FEW_CALLS: usize = 8;

/// Why a recording cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too much was in use before the first event.
    #[error(
        "the recording started late: {} of a peak of {} were allocated before its first event, and the order of \
         those allocations is not known. Record from the start of the program", size(*baseline), size(*peak)
    )]
    LateStart {
        /// Bytes from before the first event.
        baseline: u64,
        /// Highest sum of requested bytes.
        peak: u64,
    },
    /// Events were left out of the trace.
    #[error("free_requested or free_completed events were skipped in the recording (skip_actions)")]
    FreesSkipped,
    /// The trace has no calls to the device, and requests that need some.
    #[error(
        "segment events were skipped in the recording (skip_actions): nothing shows how requests were served"
    )]
    SegmentsSkipped,
    /// A pool was released, so that its requests cannot be told from others.
    #[error(
        "a private pool (of a CUDA graph or a MemPool) was released before the snapshot was taken: which requests went \
         to it is not recorded. PyTorch 2.12 and later record it"
    )]
    PoolReleased,
    /// The recorded settings lead to other calls than the recorded ones.
    #[error(
        "only {equal} of {calls} device calls of the recording are reproduced under its own settings: something that the \
         file does not record decided them (a pool released before the snapshot, a custom allocator, changed settings)"
    )]
    NotReproduced {
        /// Calls that are the same.
        equal: usize,
        /// All calls.
        calls: usize,
    },
    /// A pool has an allocator of its own.
    #[error(
        "{} has whole segments although new segments are expandable: it has a custom allocator, whose rules are not known",
        vramscope_format::pool(Some(*.0))
    )]
    CustomAllocator(Pool),
    /// A pool never splits blocks.
    #[error(
        "{} has blocks that are not split: it was made with no_split, and which of its requests shared a block is not known",
        vramscope_format::pool(Some(*.0))
    )]
    NoSplit(Pool),
    /// Expandable segments were switched on or off.
    #[error(
        "allocator settings changed while recording: the file has both whole and expandable segments, and its \
         settings explain only one of them"
    )]
    SettingsChanged,
    /// The trace contradicts itself.
    #[error(
        "{odd} of {events} events contradict the ones before (memory freed twice, or allocated while in use): \
         events are missing, or checkpoints of CUDA graph trees were restored"
    )]
    Contradictions {
        /// Events that do.
        odd: usize,
        /// All events.
        events: usize,
    },
}

impl Facts {
    /// Why these requests cannot be simulated, if they cannot.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self { baseline, peak_requested: peak, odd, events, .. } = *self;
        if self.frees_skipped {
            Some(Refusal::FreesSkipped)
        } else if let Some(pool) = self.custom_pool {
            Some(Refusal::CustomAllocator(pool))
        } else if let Some(pool) = self.unsplit_pool {
            Some(Refusal::NoSplit(pool))
        } else if self.mixed_segments {
            Some(Refusal::SettingsChanged)
        } else if odd > 0 {
            Some(Refusal::Contradictions { odd, events })
        } else if baseline as f64 > MAX_BASELINE * peak as f64 {
            Some(Refusal::LateStart { baseline, peak })
        } else {
            None
        }
    }
}

/// How well a simulation of the recorded settings reproduces the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Calls to the device in the recording.
    pub recorded: usize,
    /// Calls to the device in the simulation.
    pub simulated: usize,
    /// Those that are equal: same request, same action, same bytes, same address.
    pub equal: usize,
    /// Where the first difference is.
    pub first_difference: Option<Difference>,
    /// Frees of which the trace leaves open whether they had completed before a request, decided so that the recorded
    /// calls come out.
    pub decided: usize,
}

/// A request that the simulation served in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How many events had happened.
    pub moment: u32,
    /// The first call that differs: what and how many bytes; `None` if there is none.
    pub recorded: Option<(Action, u64)>,
    /// The same of the simulation.
    pub simulated: Option<(Action, u64)>,
}

impl Agreement {
    /// Whether every call to the device is the same.
    pub fn is_exact(&self) -> bool {
        self.first_difference.is_none()
    }

    /// Why the recording cannot be simulated, if its own settings explain too little of it.
    pub fn refusal(&self) -> Option<Refusal> {
        let (equal, calls) = (self.equal, self.recorded.max(self.simulated));
        let is_unlike = calls >= FEW_CALLS && self.fraction() < LEAST_AGREEMENT;
        is_unlike.then_some(Refusal::NotReproduced { equal, calls })
    }

    /// The part of the calls that is the same, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        let all = self.recorded.max(self.simulated);
        if all == 0 { 1.0 } else { self.equal as f64 / all as f64 }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recorded, simulated, equal, .. } = *self;
        if self.is_exact() {
            write!(
                f,
                "all {recorded} device calls of the recording are reproduced, in order and to the byte"
            )?;
        } else {
            write!(f, "{equal} of {} device calls of the recording are reproduced", recorded.max(simulated))?;
        }
        match self.decided {
            0 => Ok(()),
            decided => write!(
                f,
                "; the trace leaves open when {} completed: chosen so that they are",
                plural(decided as u64, "free")
            ),
        }
    }
}

/// Self-checks that may be spent on deciding when frees completed.
const MAX_TRIES: usize = 32;

impl Simulator {
    /// Prepares requests, and decides what a trace leaves open: whether a free that completed right before a request
    /// released the cache had completed when the request began, or was waited for. Under the recorded settings only one
    /// of the two leads to the recorded calls.
    pub fn checked(requests: Requests, recorded: &Settings) -> (Self, Agreement) {
        let mut simulator = Self::new(requests);
        let mut agreement = simulator.self_check(recorded);
        let (mut tries, mut decided) = (0, 0);
        while let Some(at) = agreement.first_difference.as_ref().map(|difference| difference.moment) {
            let other = (1..).map_while(|count| {
                tries += 1;
                let requests =
                    simulator.requests().completed_before(at, count).filter(|_| tries <= MAX_TRIES)?;
                let other = Self::new(requests);
                let agreement = other.self_check(recorded);
                Some((other, agreement))
            });
            let is_better = |agreement: &Agreement| {
                agreement.first_difference.as_ref().is_none_or(|next| next.moment > at)
            };
            let Some(better) = { other }.find(|(_, agreement)| is_better(agreement)) else { break };
            (simulator, agreement) = better;
            decided += 1;
        }
        agreement.decided = decided;
        (simulator, agreement)
    }

    /// Simulates the recorded settings, and compares every call to the device with the recording's own.
    pub fn self_check(&self, recorded: &Settings) -> Agreement {
        let mut comparison = Comparison::new(self.requests());
        self.run(recorded, Order::Recorded, &mut comparison);
        comparison.agreement.recorded = self.requests().calls.len();
        for call in comparison.calls {
            comparison.agreement.first_difference.get_or_insert(Difference {
                moment: self.requests().steps.get(call.step as usize).map_or(0, |step| step.moment),
                recorded: Some((call.action, call.size)),
                simulated: None,
            });
        }
        comparison.agreement
    }
}

/// Where the device reserves addresses for an expandable segment does not matter, and is not recorded if the first
/// request in it fails.
fn is_same(recorded: Option<(Action, u64, u64)>, simulated: Option<(Action, u64, u64)>) -> bool {
    match (recorded, simulated) {
        (Some((action, _, size)), Some((other, _, same)))
            if matches!(action, Action::Map | Action::Unmap) =>
        {
            (action, size) == (other, same)
        }
        _ => recorded == simulated,
    }
}

struct Comparison<'a> {
    calls: &'a [DeviceCall],
    prelude: usize,
    agreement: Agreement,
}

impl<'a> Comparison<'a> {
    fn new(requests: &'a Requests) -> Self {
        let agreement = Agreement { recorded: 0, simulated: 0, equal: 0, first_difference: None, decided: 0 };
        Self { calls: &requests.calls, prelude: requests.prelude, agreement }
    }
}

impl Observer for Comparison<'_> {
    const CALLS: bool = true;

    fn step(&mut self, index: usize, step: Step, _: &Counters, calls: &[(Action, u64, u64)]) -> bool {
        if index < self.prelude {
            return true;
        }
        let here = self.calls.iter().take_while(|call| call.step as usize <= index).count();
        let (recorded, later) = self.calls.split_at(here);
        self.calls = later;
        self.agreement.simulated += calls.len();
        for at in 0..recorded.len().max(calls.len()) {
            let recorded = recorded.get(at).map(|call| (call.action, call.addr, call.size));
            let simulated = calls.get(at).copied();
            if is_same(recorded, simulated) {
                self.agreement.equal += 1;
                continue;
            }
            let bytes = |(action, _, size)| (action, size);
            self.agreement.first_difference.get_or_insert(Difference {
                moment: step.moment,
                recorded: recorded.map(bytes),
                simulated: simulated.map(bytes),
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_its_own_settings_do_not_explain_is_refused() {
        let agreement = |recorded, equal| Agreement {
            recorded,
            simulated: recorded,
            equal,
            first_difference: None,
            decided: 0,
        };
        // Three MemPools that were gone before the snapshot: their requests look like the default pool's.
        assert_eq!(agreement(76, 28).refusal(), Some(Refusal::NotReproduced { equal: 28, calls: 76 }));
        assert_eq!(agreement(76, 38).refusal(), None);
        assert_eq!(agreement(7, 1).refusal(), None, "too few to tell");
    }
}
