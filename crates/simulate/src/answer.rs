//! A question about a recording, and how sure the answer is.

use vramscope_snapshot::{DeviceId, Snapshot};

use crate::addresses::Order;
use crate::check::{Agreement, Refusal};
use crate::extract::{ExtractError, requests};
use crate::run::{Outcome, Simulator};
use crate::settings::{Settings, SettingsError};
use crate::watch::Observer;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// The file has no requests.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The requests cannot be simulated.
    #[error("cannot be simulated: {0}")]
    Refused(Refusal),
}

/// Not as its source: the sentence has the reason already.
impl From<Refusal> for StudyError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A recording that questions can be asked about.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its requests.
    pub simulator: Simulator,
    /// The settings that it was recorded under, with the limit as far as it is known.
    pub recorded: Settings,
    /// How well the simulation reproduces it.
    pub agreement: Agreement,
}

impl Study {
    /// Prepares a device of a recording. `limit` is that of the recorded run, where somebody knows it.
    pub fn new(snapshot: &Snapshot, device: DeviceId, limit: Option<u64>) -> Result<Self, StudyError> {
        let requests = requests(snapshot, device, limit)?;
        if let Some(refusal) = requests.facts().refusal() {
            return Err(refusal.into());
        }
        let recorded = Settings::recorded(&snapshot.settings).map_err(ExtractError::from)?;
        // Of the limits that explain the recording, the lowest promises least. The threshold of garbage collection
        // is a part of the limit, and what is known of it is from above.
        let inferred = requests.facts().limit;
        let inferred =
            inferred.map(|(lowest, highest)| if recorded.gc_threshold > 0.0 { highest } else { lowest });
        let recorded = Settings { limit: limit.or(inferred), ..recorded };
        let (simulator, agreement) = Simulator::checked(requests, &recorded);
        if agreement.recorded == 0 && agreement.simulated > 0 && simulator.requests().prelude() == 0 {
            return Err(Refusal::SegmentsSkipped.into());
        }
        // The sign alone is not enough: memory of the default pool may have come in between.
        if simulator.requests().facts().pool_released && !agreement.is_exact() {
            return Err(Refusal::PoolReleased.into());
        }
        if let Some(refusal) = agreement.refusal() {
            return Err(refusal.into());
        }
        Ok(Self { simulator, recorded, agreement })
    }

    /// Settings as a text gives them, on the device and under the limit of the recording.
    pub fn settings(&self, text: &str) -> Result<Settings, SettingsError> {
        let Settings { limit, device, .. } = self.recorded;
        Settings { limit, device, ..Settings::default() }.with(text)
    }
}

/// What would have happened under some settings, over several [`Order`]s of addresses.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The settings.
    pub settings: Settings,
    /// What happened with the first order, the likeliest.
    pub outcome: Outcome,
    /// How many orders were simulated.
    pub orders: usize,
    /// In how many of them a request failed.
    pub out_of_memory: usize,
    /// Lowest and highest peak of reserved bytes.
    pub reserved_peak: (u64, u64),
    /// Fewest and most device allocations.
    pub device_allocs: (u64, u64),
    /// Fewest and most retries.
    pub retries: (u64, u64),
    /// Whether all orders gave the same.
    pub agree: bool,
}

impl Answer {
    /// The orders that a setting is simulated with. Within expandable segments the device has no say.
    pub fn orders(settings: &Settings) -> &'static [Order] {
        if settings.expandable { &Order::ALL[..1] } else { &Order::ALL }
    }

    /// Puts the outcomes of [`Answer::orders`] together; `None` if there are none.
    pub fn of(settings: Settings, outcomes: Vec<Outcome>) -> Option<Self> {
        let range = |of: fn(&Outcome) -> u64| {
            outcomes.iter().map(of).fold((u64::MAX, 0), |(least, most), n| (least.min(n), most.max(n)))
        };
        let first = outcomes.first()?;
        let same = |outcome: &Outcome| {
            let fails = |outcome: &Outcome| outcome.out_of_memory.map(|oom| oom.allocation);
            let counted = |outcome: &Outcome| {
                let counters = &outcome.counters;
                (counters.reserved_peak, counters.device_allocs, counters.retries, counters.allocated_peak)
            };
            counted(outcome) == counted(first) && fails(outcome) == fails(first)
        };
        Some(Self {
            orders: outcomes.len(),
            out_of_memory: outcomes.iter().filter(|outcome| outcome.out_of_memory.is_some()).count(),
            reserved_peak: range(|outcome| outcome.counters.reserved_peak),
            device_allocs: range(|outcome| outcome.counters.device_allocs),
            retries: range(|outcome| outcome.counters.retries),
            agree: outcomes.iter().all(same),
            outcome: outcomes.into_iter().next()?,
            settings,
        })
    }
}

impl Simulator {
    /// Runs one setting with its orders, one after the other, up to the first in which a request fails.
    /// `watch` sees the first; `go_on` is asked between runs and `None` is what it ends with.
    pub fn answer<O: Observer>(
        &self,
        settings: &Settings,
        watch: &mut O,
        mut go_on: impl FnMut() -> bool,
    ) -> Option<Answer> {
        let mut outcomes = Vec::new();
        for (at, &order) in Answer::orders(settings).iter().enumerate() {
            if !go_on() {
                return None;
            }
            outcomes.push(match at {
                0 => self.run(settings, order, watch),
                _ => self.run(settings, order, &mut ()),
            });
            if outcomes.iter().any(|outcome| outcome.out_of_memory.is_some()) {
                break;
            }
        }
        Answer::of(settings.clone(), outcomes)
    }
}
