//! Advice is tried before it is given: settings that a finding suggests are simulated first.
//!
//! Only what a finding asks about is simulated, and each setting once; a recording without such a finding costs
//! nothing. Where the recording cannot be simulated, the advice says so.

use std::cell::{OnceCell, RefCell};

use vramscope_replay::Moment;
use vramscope_simulate::{Answer, End, Study};
use vramscope_snapshot::{DeviceId, Snapshot};

use super::ShowBytes;

/// A recording whose settings can be tried.
pub(super) struct Trial<'a> {
    snapshot: &'a Snapshot,
    device: DeviceId,
    study: OnceCell<Result<Study, String>>,
    tried: RefCell<Vec<(String, Moment, Option<Answer>)>>,
}

/// What became of a setting.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    /// The setting, as in `PYTORCH_CUDA_ALLOC_CONF`.
    pub(super) settings: String,
    /// Highest peak of reserved bytes over the orders of addresses.
    pub(super) reserved_peak: u64,
    /// Retries, the most over the orders.
    pub(super) retries: u64,
    /// When a request failed first.
    pub(super) fails: Option<Moment>,
    /// When a request succeeded that had failed in the recording.
    pub(super) passes: Option<Moment>,
    /// Whether a request fails with some order of addresses only.
    pub(super) unsure: bool,
}

impl<'a> Trial<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, device: DeviceId) -> Self {
        Self { snapshot, device, study: OnceCell::new(), tried: RefCell::new(Vec::new()) }
    }

    /// The recording as something that can be simulated. The error says why it cannot be.
    fn study(&self) -> Result<&Study, String> {
        let study = self
            .study
            .get_or_init(|| Study::new(self.snapshot, self.device, None).map_err(|error| error.to_string()));
        let study = study.as_ref().map_err(String::clone)?;
        match study.agreement.is_exact() {
            true => Ok(study),
            false => Err(format!("not even the recorded settings are reproduced: {}", study.agreement)),
        }
    }

    /// The retries that PyTorch counted, if the simulation reproduces the recording.
    pub(super) fn recorded_retries(&self) -> Option<u64> {
        let study = self.study().ok()?;
        let first = Answer::orders(&study.recorded).first()?;
        Some(study.simulator.run(&study.recorded, *first, &mut ()).counters.retries)
    }

    /// Simulates a setting, under the limit of the recording. The error says why it cannot be.
    pub(super) fn run(&self, settings: &str) -> Result<Tried, String> {
        self.run_with_errors_before(settings, Moment::START)
    }

    /// The same for a program that goes on alike after the errors before a moment, whether or not they happen.
    pub(super) fn run_with_errors_before(&self, settings: &str, moment: Moment) -> Result<Tried, String> {
        let study = self.study()?;
        let mut tried = self.tried.borrow_mut();
        let is_same =
            |(known, before, _): &&(String, Moment, Option<Answer>)| known == settings && *before == moment;
        if tried.iter().find(is_same).is_none() {
            let parsed = study.settings(settings).map_err(|error| error.to_string())?;
            let answer = match moment {
                Moment::START => study.simulator.answer(&parsed, &mut (), || true),
                Moment(moment) => {
                    let requests = study.simulator.requests().without_failures_before(moment);
                    study.simulator.with(requests).answer(&parsed, &mut (), || true)
                }
            };
            tried.push((settings.to_owned(), moment, answer));
        }
        let known = tried.iter().find(is_same);
        let answer = known.and_then(|(.., answer)| answer.as_ref()).ok_or("nothing was simulated")?;
        let failed = answer.outcome.out_of_memory.map(|oom| Moment(oom.moment));
        Ok(Tried {
            settings: settings.to_owned(),
            reserved_peak: answer.reserved_peak.1,
            retries: answer.retries.1,
            fails: failed,
            passes: match answer.outcome.end {
                End::PastFailure(moment) => Some(Moment(moment)),
                _ => None,
            },
            unsure: failed.is_none() && answer.out_of_memory > 0,
        })
    }

    /// What a setting would do to the peak of reserved bytes, in words for the end of an advice.
    pub(super) fn effect(&self, settings: &str, recorded_peak: u64, bytes: ShowBytes<'_>) -> String {
        let tried = match self.run(settings) {
            Ok(tried) => tried,
            Err(reason) => return format!(" (not simulated: {reason})"),
        };
        let peaks = format!("peak reserved {} → {}", bytes(recorded_peak), bytes(tried.reserved_peak));
        match tried {
            Tried { unsure: true, .. } => format!(
                " (simulated: depends on the device's addresses, some orders run out of memory; {peaks})"
            ),
            Tried { fails: Some(_), .. } => " (simulated: would not help, runs out of memory)".to_owned(),
            Tried { reserved_peak, .. } if reserved_peak >= recorded_peak => {
                format!(" (simulated: would not help; {peaks})")
            }
            _ => format!(" (simulated: would run; {peaks})"),
        }
    }
}

/// Settings that are tried against running out of memory, in this order.
pub(super) const REMEDIES: [&str; 4] = [
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:32",
    "garbage_collection_threshold:0.8,max_split_size_mb:64",
];
