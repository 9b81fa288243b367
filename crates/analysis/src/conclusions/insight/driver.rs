//! What the allocator asked of the driver: segments released and acquired again, and attempts that had to be repeated.
//!
//! A *cycle* is a release of segments that is followed by the acquisition of others. Few cycles cost nothing, however
//! many segments each has; a cycle in every step waits for the device in every step.
//!
//! A *retry* is an allocation that failed at first, made PyTorch return its unused segments, and then worked or
//! ended in an out-of-memory error. It shows as segments released right before one is acquired, by the same line of
//! the program (`empty_cache()` is a line of its own), or before an error. Retries that found nothing to release
//! leave no trace, except by the error that follows. Under `garbage_collection_threshold` and `max_split_size_mb`
//! segments are released earlier than that, which looks the same: there the simulation counts, if it reproduces the
//! recording.

use hashbrown::HashMap;
use vramscope_replay::Moment;
use vramscope_snapshot::{Action, Actions, Event, EventIdx, EventTable, Frame, Snapshot, StackId};

use super::trial::Tried;
use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::conclusions::device_calls::longest;
use crate::device::Device;
use crate::questions::frames::{callers, user_frame};

/// Fewer cycles are no habit.
pub(super) const LEAST_CYCLES: u64 = 5;
/// Cycles of fewer bytes cost no time to speak of.
const LEAST_BYTES: u64 = 64 << 20;

/// How often memory was acquired from the driver and released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriverCalls {
    /// Segments acquired, or parts of expandable ones.
    pub(crate) acquired: u64,
    /// Segments released.
    pub(crate) released: u64,
    /// The most that these calls can have taken, in microseconds.
    micros: u64,
    /// Attempts that had to be repeated.
    pub(crate) retries: u64,
    /// Whether that is what the simulation counts.
    is_simulated: bool,
    /// The first and the last retry.
    pub(crate) retried: Option<(Moment, Moment)>,
    /// Bytes released by retries.
    pub(crate) bytes_retried: u64,
    /// How often segments were released by the program itself and acquired again.
    pub(crate) cycles: u64,
    /// Bytes that were released and acquired again in cycles.
    bytes_cycled: u64,
    /// The first release of a cycle and the last acquisition.
    cycled: Option<(Moment, Moment)>,
    /// Where most cycles begin.
    stack: Option<StackId>,
}

/// A release that is not yet followed by an acquisition, or that is being made up for.
#[derive(Clone, Copy)]
struct Release {
    at: Moment,
    stack: StackId,
    bytes: u64,
    /// Bytes acquired since.
    again: u64,
    /// Whether events other than releases came after it.
    is_over: bool,
}

impl DriverCalls {
    pub(crate) fn new(device: &Device) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let events = snapshot.events(replay.device());
        let mut calls = Self::default();
        let mut by_stack: HashMap<StackId, u64> = HashMap::new();
        let mut release: Option<Release> = None;
        let asks = Actions::of(|action| {
            use Action::{Oom, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
            matches!(action, SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap | Oom)
        });
        let mut next = 0;
        for row in events.rows_like(0..events.len(), asks, 0..=u64::MAX) {
            let now = Moment(row as u32 + 1);
            let Event { action, size, .. } = events.get(row);
            if std::mem::replace(&mut next, row + 1) < row
                && let Some(going) = &mut release
            {
                going.is_over = true;
            }
            if action != Action::Oom {
                calls.micros = calls.micros.saturating_add(longest(events, row).unwrap_or(0));
            }
            match action {
                Action::SegmentFree | Action::SegmentUnmap => {
                    calls.released += 1;
                    let stack = stack(events, row);
                    match &mut release {
                        Some(going) if going.again == 0 => {
                            going.bytes = going.bytes.saturating_add(size);
                            (going.stack, going.is_over) = (stack, false);
                        }
                        _ => {
                            let next = Release { at: now, stack, bytes: size, again: 0, is_over: false };
                            calls.note_cycle(release.replace(next), now, &mut by_stack);
                        }
                    }
                    continue;
                }
                Action::SegmentAlloc | Action::SegmentMap => {
                    calls.acquired += 1;
                    let own = stack(events, row);
                    match &mut release {
                        // The allocator released by itself, to make room for this.
                        Some(going)
                            if !going.is_over
                                && going.again == 0
                                && going.stack == own
                                && own != StackId::ABSENT =>
                        {
                            let bytes = going.bytes;
                            calls.note_retry(now, bytes);
                            release = None;
                        }
                        // Without stacks, that cannot be told from a program that releases and goes on at once.
                        Some(going)
                            if !going.is_over && going.again == 0 && going.stack == StackId::ABSENT =>
                        {
                            release = None;
                        }
                        Some(going) => going.again = going.again.saturating_add(size),
                        None => {}
                    }
                }
                Action::Oom => {
                    let bytes =
                        release.filter(|going| !going.is_over && going.again == 0).map_or(0, |r| r.bytes);
                    calls.note_retry(now, bytes);
                    if bytes > 0 {
                        release = None;
                    }
                }
                _ => {}
            }
            if let Some(going) = &mut release {
                going.is_over = true;
            }
        }
        calls.note_cycle(release, replay.end(), &mut by_stack);
        let most = by_stack.into_iter().max_by_key(|&(stack, n)| (n, std::cmp::Reverse(stack)));
        calls.stack = most.map(|(stack, _)| stack);
        calls
    }

    /// Counts retries as the simulation does, where events do not tell them from earlier releases.
    #[must_use]
    pub(super) fn settled(self, case: &Case<'_>) -> Self {
        let simulated = releases_early(case).then(|| case.trial.recorded_retries()).flatten();
        match simulated {
            Some(retries) => Self { retries, is_simulated: true, ..self },
            None => self,
        }
    }

    fn note_cycle(&mut self, release: Option<Release>, now: Moment, by_stack: &mut HashMap<StackId, u64>) {
        let Some(release) = release.filter(|release| release.again > 0) else { return };
        self.cycles += 1;
        self.bytes_cycled = self.bytes_cycled.saturating_add(release.bytes.min(release.again));
        self.cycled = Some((self.cycled.map_or(release.at, |(first, _)| first), now));
        *by_stack.entry(release.stack).or_default() += 1;
    }

    fn note_retry(&mut self, now: Moment, bytes: u64) {
        self.retries += 1;
        self.retried = Some((self.retried.map_or(now, |(first, _)| first), now));
        self.bytes_retried = self.bytes_retried.saturating_add(bytes);
    }
}

/// Whether segments are released before an allocation fails.
fn releases_early(case: &Case<'_>) -> bool {
    case.snapshot.settings.max_split_size.is_some() || case.collects_garbage()
}

/// What a setting would do to retries, for the end of an advice.
pub(super) fn retries_with(case: &Case<'_>, settings: &str, retries: u64) -> String {
    match case.trial.run(settings) {
        Ok(Tried { fails: Some(_), .. }) => " (simulated: would not help, runs out of memory)".to_owned(),
        Ok(tried) => format!(" (simulated: retries {retries} → {})", tried.retries),
        Err(reason) => format!(" (not simulated: {reason})"),
    }
}

fn stack(events: &EventTable, row: usize) -> StackId {
    events.get(row).stack
}

pub(super) fn find(case: &Case<'_>, calls: &DriverCalls) -> Vec<Finding> {
    retries(case, calls).into_iter().chain(cycles(case, calls)).collect()
}

fn retries(case: &Case<'_>, calls: &DriverCalls) -> Option<Finding> {
    let Case { snapshot, bytes, .. } = *case;
    let when = calls.retried?;
    let ooms = case.replay.ooms().len() as u64;
    let is_early = releases_early(case);
    let retries = calls.retries;
    let saved = retries.checked_sub(ooms).filter(|saved| *saved > 0)?;
    let times = if saved == 1 { "once".to_owned() } else { format!("{saved} times") };
    // What garbage collection released cannot be told from what retries did.
    let what = match is_early {
        true => format!("memory was short {times}: the allocator released cached segments and tried again"),
        false => format!(
            "memory nearly ran out {times}: the allocator released {} of cached segments and tried again",
            bytes(calls.bytes_retried)
        ),
    };
    let advice = match snapshot.settings.expandable_segments {
        true => "Use less memory at the peak: each retry waits for the device to be idle".to_owned(),
        false if case.trial.run("expandable_segments:True").is_ok_and(|tried| tried.fails.is_some()) => {
            "Use less memory at the peak: each retry waits for the device to be idle. expandable_segments:True would \
             not help (simulated: runs out of memory)"
                .to_owned()
        }
        false => format!(
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: each retry waits for the device to be idle{}",
            retries_with(case, "expandable_segments:True", retries)
        ),
    };
    let severity = if saved > 1 { Severity::Medium } else { Severity::Low };
    let lines = retried_by(case);
    let line = lines.first().map(|(frame, _)| *frame);
    let mut finding = Finding::new(Kind::Retries, severity, calls.bytes_retried, when)
        .says(what, advice)
        .on(Site { line: case.line(line), ..Site::default() })
        .with("retries", Amount::Count(retries))
        .shown_by("events --action segment_free,segment_unmap,segment_alloc,segment_map,oom")
        .with("of which failed", Amount::Count(ooms));
    for (frame, bytes) in lines.into_iter().take(6) {
        finding = finding.at("asked for by", case.place(frame), bytes);
    }
    Some(if is_early && !calls.is_simulated { finding.likely() } else { finding })
}

/// The lines whose requests made the allocator release segments and try again, most bytes first: an acquisition directly
/// after a release with the same stack.
fn retried_by(case: &Case<'_>) -> Vec<(Frame, u64)> {
    let events = case.device.event_table();
    let mut lines: HashMap<Frame, u64> = HashMap::new();
    let mut released = None;
    for (row, (action, &stack)) in events.actions().zip(events.stacks()).enumerate() {
        match action {
            Action::SegmentFree | Action::SegmentUnmap => released = Some(stack),
            Action::SegmentAlloc | Action::SegmentMap if released == Some(stack) => {
                // What the engine asks for belongs to a line of the forward pass.
                let served = case.replay.allocation_of(EventIdx::from_index(row + 1));
                let line = served.map_or(stack, |index| case.replay.allocation(index).stack);
                for frame in callers(case.snapshot, line) {
                    let sum = lines.entry(frame).or_default();
                    *sum = sum.saturating_add(events.sizes()[row]);
                }
            }
            _ => released = None,
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(frame, bytes)| (std::cmp::Reverse(*bytes), frame.file, frame.line));
    lines
}

fn cycles(case: &Case<'_>, calls: &DriverCalls) -> Option<Finding> {
    let Case { snapshot, bytes, .. } = *case;
    let when = calls.cycled.filter(|_| calls.cycles >= LEAST_CYCLES && calls.bytes_cycled >= LEAST_BYTES)?;
    let frame = calls.stack.and_then(|stack| user_frame(snapshot, stack));
    let empties = calls.stack.is_some_and(|stack| empties_cache(snapshot, stack));
    let by = if empties { " with torch.cuda.empty_cache()" } else { "" };
    let place = frame
        .map_or_else(String::new, |frame| format!("; most often {} releases them{by}", case.place(frame)));
    let what = format!(
        "segments are repeatedly released and re-acquired: {} times, {} in all{place}",
        calls.cycles,
        bytes(calls.bytes_cycled)
    );
    let less_often = match frame {
        Some(frame) => format!("Call torch.cuda.empty_cache() less often in {}", case.place(frame)),
        None => "Call torch.cuda.empty_cache() less often".to_owned(),
    };
    let mut finding = Finding::new(Kind::DriverCalls, Severity::Medium, calls.bytes_cycled, when)
        .says(
            what,
            format!("{less_often}: each call waits for the device, and what it releases is acquired again"),
        )
        .on(Site { stack: calls.stack, line: case.line(frame), ..Site::default() })
        .with("times", Amount::Count(calls.cycles))
        .shown_by("events --action segment_free,segment_unmap")
        .with("segments acquired from the driver", Amount::Count(calls.acquired))
        .with("segments released", Amount::Count(calls.released));
    if calls.micros > 0 {
        finding = finding.with("in these calls, at most", Amount::Micros(calls.micros));
    }
    if let Some(us) = case.micros(when.0, when.1) {
        finding = finding.with("from the first such release to the last acquisition", Amount::Micros(us));
    }
    // Nothing but `empty_cache()` releases segments so; which line calls it is a guess where no stack has it.
    Some(if empties { finding } else { finding.likely() })
}

/// Whether a stack is that of `torch.cuda.empty_cache()`, as Python or C++ calls it.
fn empties_cache(snapshot: &Snapshot, stack: StackId) -> bool {
    let is_it = |name: &str| name == "empty_cache" || name.contains("emptyCache");
    snapshot.frames(stack).any(|frame| is_it(snapshot.text(frame.name)))
}
