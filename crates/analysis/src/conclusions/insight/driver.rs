//! What the allocator asked of the driver: memory taken and given back, and attempts that had to be repeated.
//!
//! A *retry* is an allocation that failed at first, made PyTorch return its unused segments, and then worked or
//! ended in an out-of-memory error. It shows as segments given back right before one is taken, by the same line of
//! the program (`empty_cache()` is a line of its own), or before an error. Retries that found nothing to give back
//! leave no trace, except by the error that follows. Under `garbage_collection_threshold` and `max_split_size_mb`
//! segments are given back earlier than that, which looks the same.

use vramscope_snapshot::{Action, EventTable, Snapshot, StackId};

use super::trial::Tried;
use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::questions::frames::user_frame;
use crate::replay::Replay;
use crate::replay::allocations::Moment;

/// So many segments taken again after others were given back are a storm.
const STORM: u64 = 64;

/// How often memory was taken from the driver and given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriverCalls {
    /// Segments taken, or parts of expandable ones.
    pub(crate) taken: u64,
    /// Given back.
    pub(crate) returned: u64,
    /// Taken after something was given back.
    pub(crate) taken_again: u64,
    /// Their bytes.
    pub(crate) bytes_again: u64,
    /// Attempts that had to be repeated.
    pub(crate) retries: u64,
    /// The first and the last retry.
    pub(crate) retried: Option<(Moment, Moment)>,
    /// Bytes given back by retries.
    pub(crate) bytes_returned: u64,
    /// The first and the last event that took again.
    again: Option<(Moment, Moment)>,
    /// Where most was taken again.
    stack: Option<StackId>,
}

impl DriverCalls {
    pub(crate) fn new(snapshot: &Snapshot, replay: &Replay) -> Self {
        let events = snapshot.events(replay.device());
        let mut calls = Self::default();
        let mut by_stack: hashbrown::HashMap<StackId, u64> = hashbrown::HashMap::new();
        // Bytes given back by the events just before this one, and by which stack.
        let mut returning = (0_u64, StackId::ABSENT);
        for (row, action) in events.actions().iter().enumerate() {
            let now = Moment(row as u32 + 1);
            let size = events.sizes()[row];
            match action {
                Action::SegmentFree | Action::SegmentUnmap => {
                    calls.returned += 1;
                    returning = (returning.0.saturating_add(size), stack(events, row));
                    continue;
                }
                Action::SegmentAlloc | Action::SegmentMap => {
                    calls.taken += 1;
                    if calls.returned > 0 {
                        calls.taken_again += 1;
                        calls.bytes_again = calls.bytes_again.saturating_add(size);
                        calls.again = Some((calls.again.map_or(now, |(first, _)| first), now));
                        *by_stack.entry(stack(events, row)).or_default() += 1;
                    }
                    if returning.0 > 0 && returning.1 == stack(events, row) && returning.1 != StackId::ABSENT
                    {
                        calls.note_retry(now, returning.0);
                    }
                }
                Action::Oom => calls.note_retry(now, returning.0),
                _ => {}
            }
            returning = (0, StackId::ABSENT);
        }
        calls.stack = by_stack
            .into_iter()
            .max_by_key(|&(stack, n)| (n, std::cmp::Reverse(stack)))
            .map(|(stack, _)| stack);
        calls
    }

    fn note_retry(&mut self, now: Moment, bytes: u64) {
        self.retries += 1;
        self.retried = Some((self.retried.map_or(now, |(first, _)| first), now));
        self.bytes_returned = self.bytes_returned.saturating_add(bytes);
    }
}

/// What a setting would do to retries, for the end of an advice.
fn retries_with(case: &Case<'_>, settings: &str, retries: u64) -> String {
    match case.trial.run(settings) {
        Ok(Tried { fails: Some(_), .. }) => " (simulated: would not help, runs out of memory)".to_owned(),
        Ok(tried) => format!(" (simulated: retries {retries} → {})", tried.retries),
        Err(reason) => format!(" (not simulated: {reason})"),
    }
}

/// The advice on calls to the driver: the setting that needs fewest, if one needs fewer than now.
fn fewer_calls(case: &Case<'_>, taken: u64) -> String {
    let less_often = "Call torch.cuda.empty_cache() less often";
    let settings = ["expandable_segments:True", "roundup_power2_divisions:8"];
    let tried: Result<Vec<Tried>, String> =
        settings.iter().map(|settings| case.trial.run(settings)).collect();
    let tried = match tried {
        Ok(tried) => tried,
        Err(reason) => return format!("{less_often} (settings were not simulated: {reason})"),
    };
    let best =
        tried.into_iter().filter(|tried| tried.fails.is_none()).min_by_key(|tried| tried.device_allocs);
    match best {
        Some(tried) if tried.device_allocs < taken => format!(
            "{less_often}, or set PYTORCH_CUDA_ALLOC_CONF={} (simulated: segments taken {taken} → {})",
            tried.settings, tried.device_allocs
        ),
        _ => format!(
            "{less_often}; expandable_segments and roundup_power2_divisions would not help (simulated)"
        ),
    }
}

fn stack(events: &EventTable, row: usize) -> StackId {
    events.get(row).stack
}

pub(super) fn find(case: &Case<'_>, calls: &DriverCalls) -> Vec<Finding> {
    let Case { snapshot, bytes, .. } = *case;
    let mut found = Vec::new();
    if let Some(when) = calls.retried {
        let ooms = case.replay.ooms().len() as u64;
        let saved = calls.retries.saturating_sub(ooms);
        let is_early = snapshot.settings.max_split_size.is_some() || case.collects_garbage();
        let reason = if is_early { "was short" } else { "nearly ran out" };
        if saved > 0 {
            found.push(
                Finding {
                    kind: Kind::Retries,
                    severity: Severity::Medium,
                    bytes: calls.bytes_returned,
                    when,
                    site: Site::default(),
                    what: format!(
                        "memory {reason} {}: the allocator released {} of cached segments and \
                         tried again",
                        if saved == 1 { "once".to_owned() } else { format!("{saved} times") },
                        bytes(calls.bytes_returned)
                    ),
                    evidence: Vec::new(),
                    advice: match snapshot.settings.expandable_segments {
                        true => "Use less memory at the peak: each retry waits for the device to be idle"
                            .to_owned(),
                        false => {
                            format!(
                                "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: each retry waits for \
                                 the device to be idle{}",
                                retries_with(case, "expandable_segments:True", calls.retries)
                            )
                        }
                    },
                }
                .with("retries", Amount::Count(calls.retries))
                .with("of which failed", Amount::Count(ooms)),
            );
        }
    }
    if calls.taken_again >= STORM
        && let Some(when) = calls.again
    {
        let frame = calls.stack.and_then(|stack| user_frame(snapshot, stack));
        let place = frame.map_or_else(String::new, |frame| format!(", most often in {}", case.place(frame)));
        let mut finding = Finding {
            kind: Kind::DriverCalls,
            severity: Severity::Medium,
            bytes: calls.bytes_again,
            when,
            site: Site { stack: calls.stack, line: case.line(frame), ..Site::default() },
            what: format!(
                "segments are repeatedly released and re-acquired: {} segments of {} were acquired after others had \
                 been released{place}",
                calls.taken_again,
                bytes(calls.bytes_again)
            ),
            evidence: Vec::new(),
            advice: fewer_calls(case, calls.taken),
        }
        .with("acquired from the driver", Amount::Count(calls.taken))
        .with("released", Amount::Count(calls.returned));
        if let Some(us) = case.micros(when.0, when.1) {
            finding = finding.with("over", Amount::Micros(us));
        }
        found.push(finding);
    }
    found
}
