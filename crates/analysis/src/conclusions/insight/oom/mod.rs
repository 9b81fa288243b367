//! Out of memory: what was asked, what was free, and why it did not fit.
//!
//! By the time PyTorch gives up it has released every unused segment. What is left is either
//! in use, or a hole in a segment that something pins. The cause is
//! - *lack*, if the step that failed needs more than the process may hold, as the steps before show, or if the free
//!   bytes would not have been enough in one piece;
//! - *another pool or stream*, if a hole was large enough but serves somebody else;
//! - *fragmentation*, if the free bytes, in holes and on the device, would have been enough in one piece.
//!
//! A setting that gets past one request is no remedy if the rest of the step does not fit.
//!
//! If the device itself had room, a limit was in force (`set_per_process_memory_fraction`, or a quota): then
//! only the holes count as free.

mod elsewhere;
mod pool;
mod remedy;

use hashbrown::HashMap;
use vramscope_replay::{Moment, Oom, State};
use vramscope_snapshot::{Event, Frame, StackId};

use super::trial::Tried;
use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::conclusions::trend::Trend;
use crate::questions::capacity::Capacity;
use crate::questions::compare::by_line;
use crate::questions::frames::{callers, program_frame, user_frame};
use crate::questions::pins::{largest_fit, pinned};
use crate::questions::weights::live_weights;
use elsewhere::Elsewhere;
use pool::Owner;
use remedy::Remedy;
use vramscope_format::count;

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    OtherPool,
    Fragmentation,
    Lack,
}

impl Cause {
    const fn name(self) -> &'static str {
        match self {
            Self::OtherPool => "other pool or stream",
            Self::Fragmentation => "fragmentation",
            Self::Lack => "lack",
        }
    }
}

/// How settings are simulated for an error that is not the first.
pub const GOES_ON: &str = "simulated for a program that goes on after an earlier error as it did here";

/// A loop that catches the error can make thousands: the first ones and the last are reported.
const MOST: usize = 8;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let ooms: Vec<_> = case.replay.ooms().iter().enumerate().collect();
    let reported = ooms.iter().take(MOST).chain(ooms.iter().skip(MOST).next_back());
    reported.flat_map(|&(number, oom)| one(case, number + 1, oom)).collect()
}

fn one(case: &Case<'_>, number: usize, oom: &Oom) -> Vec<Finding> {
    if !case.snapshot.has.addresses {
        return vec![without_map(case, oom)];
    }
    let failure = Failure::new(case, number, oom);
    std::iter::once(failure.finding()).chain(failure.fragmentation()).collect()
}

fn site(case: &Case<'_>, event: &Event) -> Site {
    let stack = Some(event.stack).filter(|stack| *stack != StackId::ABSENT);
    Site { stack, line: case.line(user_frame(case.snapshot, event.stack)), ..Site::default() }
}

/// What was asked, and by whom: `out of memory at event 17: train.py:4 step requested 32.0 MiB`.
fn asked(case: &Case<'_>, oom: &Oom, site: &Site) -> String {
    let (event, size) = (count(oom.event.0), (case.bytes)(oom.requested));
    match &site.line {
        Some(line) => format!("out of memory at event {event}: {} requested {size}", line.short()),
        None => format!("out of memory at event {event}: requested {size}"),
    }
}

/// Of a profile, which does not show what was free and where.
fn without_map(case: &Case<'_>, oom: &Oom) -> Finding {
    let Case { snapshot, replay, bytes, device: _, .. } = *case;
    let at = Moment::after(oom.event);
    let in_use = super::signed(replay.counters(at).active);
    let site = site(case, &snapshot.events(replay.device()).get(oom.event.index()));
    let what = format!(
        "{} while {} was in use; what was free is not in this file",
        asked(case, oom, &site),
        bytes(in_use)
    );
    Finding::new(Kind::OutOfMemory, Severity::High, oom.requested, (at, at))
        .says(what, "Record a snapshot to see why: torch.cuda.memory._record_memory_history()")
        .on(site)
        .with("requested", Amount::Bytes(oom.requested))
        .with("in use", Amount::Bytes(in_use))
        .shown_by(format!("at --event {}", oom.event.0))
}

/// A failed request with everything that was known about it.
struct Failure<'a> {
    case: &'a Case<'a>,
    oom: &'a Oom,
    /// Which of the errors, from 1.
    number: usize,
    state: State,
    event: Event,
    owner: Owner,
    /// The largest request that would have fitted into a hole.
    fits: u64,
    holes: u64,
    /// Whether a limit kept the process from what the device had.
    is_limited: bool,
    capacity: Option<Capacity>,
    elsewhere: Option<Elsewhere<'a>>,
    remedy: Remedy,
    /// The peaks of the steps before, and where they lead.
    peaks: Vec<u64>,
    trend: Option<Trend>,
    /// The line that holds most.
    most: Option<(String, u64)>,
}

impl<'a> Failure<'a> {
    fn new(case: &'a Case<'a>, number: usize, oom: &'a Oom) -> Self {
        let Case { snapshot, replay, device, .. } = *case;
        let at = Moment::after(oom.event);
        let state = replay.state(at);
        let event = snapshot.events(replay.device()).get(oom.event.index());
        let owner = Owner::of(case, oom, &event, &state);
        let peaks = case.peaks_before(at);
        let lines = by_line(snapshot, &live_weights(&state, |_, _| true));
        let heaviest =
            lines.into_iter().max_by_key(|(line, sum)| (sum.bytes, std::cmp::Reverse(line.clone())));
        Self {
            number,
            fits: largest_fit(device, &state, owner.pool, event.stream),
            holes: state.holes.iter().fold(0_u64, |sum, hole| sum.saturating_add(hole.size)),
            is_limited: oom.device_free >= oom.requested,
            capacity: Capacity::of(device),
            elsewhere: Elsewhere::of(device, oom, &state),
            remedy: remedy::find(case, oom),
            trend: Trend::of(&peaks),
            most: heaviest
                .filter(|(line, _)| !line.is_missing())
                .map(|(line, sum)| (line.short(), sum.bytes)),
            case,
            oom,
            state,
            event,
            owner,
            peaks,
        }
    }

    /// What was free, where it could have served. Below a limit the room on the device is of no use.
    fn free(&self) -> u64 {
        if self.is_limited { self.holes } else { self.holes.saturating_add(self.oom.device_free) }
    }

    /// What the step that failed needs, if that is more than the process may hold.
    fn too_much(&self) -> Option<(&Trend, Capacity)> {
        let (trend, capacity) = (self.trend.as_ref()?, self.capacity?);
        (trend.grows() && trend.next > super::signed(capacity.bytes)).then_some((trend, capacity))
    }

    fn cause(&self) -> Cause {
        if self.too_much().is_some() {
            Cause::Lack
        } else if self.state.largest_hole() >= self.oom.requested && self.fits < self.oom.requested {
            Cause::OtherPool
        } else if self.free() >= self.oom.requested {
            Cause::Fragmentation
        } else {
            Cause::Lack
        }
    }

    fn why(&self) -> String {
        let bytes = self.case.bytes;
        let short = |by: u64| bytes(self.oom.requested.saturating_sub(by));
        match (self.cause(), self.too_much()) {
            (Cause::OtherPool, _) => {
                let hole = bytes(self.state.largest_hole());
                format!("a hole of {hole} was there, but for another pool or stream")
            }
            (Cause::Fragmentation, _) => format!(
                "fragmentation: {} was free in holes; the largest request that fits is {}, {} short",
                bytes(self.holes),
                bytes(self.fits),
                short(self.fits)
            ),
            (Cause::Lack, Some((trend, capacity))) => {
                let peaks: Vec<_> =
                    self.peaks.iter().rev().take(SHOWN_PEAKS).rev().map(|n| bytes(*n)).collect();
                format!(
                    "lack of memory: {} ({}), so this one needs about {}, more than {}",
                    trend.words(bytes),
                    peaks.join(", "),
                    bytes(trend.next),
                    capacity.words(bytes)
                )
            }
            (Cause::Lack, None) => {
                format!(
                    "lack of memory: {} was free in holes, {} short",
                    bytes(self.holes),
                    short(self.free())
                )
            }
        }
    }

    fn advice(&self) -> String {
        let order = || format!("Allocate long-lived tensors before short-lived ones{}", self.pinning());
        let simulated = self.simulated();
        match (self.cause(), &self.remedy) {
            (Cause::OtherPool, Remedy::Found(tried)) => {
                format!("{}. Or set {}", self.of_others(), self.tried(tried))
            }
            (Cause::OtherPool, _) => self.of_others(),
            (Cause::Fragmentation, Remedy::Found(tried)) => format!("Set {}", self.tried(tried)),
            (Cause::Fragmentation, Remedy::None) => {
                format!(
                    "{}. No setting helps: this request fails under each that was tried ({simulated})",
                    order()
                )
            }
            (Cause::Fragmentation, Remedy::Unknown(_)) if self.case.snapshot.settings.expandable_segments => {
                order()
            }
            (Cause::Fragmentation, Remedy::Unknown(reason)) => {
                format!("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (not simulated: {reason})")
            }
            (Cause::Lack, _) => self.hold_less(),
        }
    }

    /// A setting that gets past the request.
    fn tried(&self, tried: &Tried) -> String {
        let bytes = self.case.bytes;
        let before = super::signed(self.case.replay.peak(crate::Counter::Reserved).bytes);
        format!(
            "PYTORCH_CUDA_ALLOC_CONF={} ({}: gets past this request; peak reserved {} → {})",
            tried.settings,
            self.simulated(),
            bytes(before),
            bytes(tried.reserved_peak)
        )
    }

    /// What to do about holes that serve another pool or stream.
    fn of_others(&self) -> String {
        let snapshot = self.case.snapshot;
        let largest = self.state.holes.iter().max_by_key(|hole| (hole.size, std::cmp::Reverse(hole.addr)));
        let Some(range) = largest.and_then(|hole| self.state.ranges.get(hole.range)) else {
            return "Free what other pools and streams hold before this request".to_owned();
        };
        let (pool, stream) = (snapshot.pool(range.pool), snapshot.stream(range.stream));
        let theirs = vramscope_format::pool_and_stream(pool, stream);
        let one = if pool.unwrap_or_default() == self.owner.pool { "on one stream" } else { "from one pool" };
        format!(
            "Before this request, free what keeps segments of pool {theirs} in use{}. Or allocate both {one}",
            self.pinning()
        )
    }

    /// How advice was tried.
    fn simulated(&self) -> &'static str {
        match self.number {
            1 => "simulated",
            _ => GOES_ON,
        }
    }

    /// The holes that the request did not fit into, as a finding of their own: with the lines whose blocks lie between them.
    fn fragmentation(&self) -> Option<Finding> {
        if self.cause() != Cause::Fragmentation || self.number > 1 {
            return None;
        }
        let bytes = self.case.bytes;
        let at = Moment::after(self.oom.event);
        let blocks: Vec<_> = self.state.allocations().collect();
        let mut lines: HashMap<Frame, u64> = HashMap::new();
        for (_, block) in
            pinned(&self.state).into_iter().flat_map(|pinned| pinned.live).filter_map(|at| blocks.get(at))
        {
            if let Some(frame) = program_frame(self.case.snapshot, block.stack) {
                let sum = lines.entry(frame).or_default();
                *sum = sum.saturating_add(block.size);
            }
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(frame, size)| (std::cmp::Reverse(*size), frame.file, frame.line));
        let line = lines.first().map(|(frame, _)| *frame);
        let what = format!(
            "{} is free in holes and the largest request that fits is {}: blocks that live long lie between them",
            bytes(self.holes),
            bytes(self.fits)
        );
        let mut finding = Finding::new(Kind::Fragmentation, Severity::High, self.holes, (at, at))
            .says(what, self.advice())
            .on(Site { line: self.case.line(line), ..Site::default() })
            .with("free in holes", Amount::Bytes(self.holes))
            .shown_by(format!("segments --at oom:{}", self.number));
        for (frame, size) in lines.into_iter().take(4) {
            finding = finding.at("lies between them", self.case.place(frame), size);
        }
        if let Some(frame) = program_frame(self.case.snapshot, self.event.stack) {
            finding = finding.at("asked for by", self.case.place(frame), self.oom.requested);
        }
        Some(finding)
    }

    /// Who made most of the blocks that keep segments from being released.
    fn pinning(&self) -> String {
        let blocks: Vec<_> = self.state.allocations().collect();
        let live = pinned(&self.state).into_iter().flat_map(|pinned| pinned.live);
        let mut lines: HashMap<Frame, usize> = HashMap::new();
        let mut all = 0_usize;
        for (_, block) in live.filter_map(|at| blocks.get(at)) {
            all += 1;
            if let Some(frame) = user_frame(self.case.snapshot, block.stack) {
                *lines.entry(frame).or_default() += 1;
            }
        }
        let most = lines.into_iter().max_by_key(|(frame, count)| (*count, std::cmp::Reverse(frame.line)));
        most.filter(|(_, count)| *count * 2 > all).map_or_else(String::new, |(frame, count)| {
            let (count, all) = (vramscope_format::count(count as u64), vramscope_format::count(all as u64));
            format!(": {count} of {all} blocks in partly used segments are from {}", self.case.place(frame))
        })
    }

    /// What to do where memory is simply not enough.
    fn hold_less(&self) -> String {
        let bytes = self.case.bytes;
        let short = self.oom.requested.saturating_sub(self.free());
        let raise = if self.is_limited {
            ", or raise torch.cuda.set_per_process_memory_fraction or the quota"
        } else {
            ""
        };
        if let Some(others) = self.elsewhere.as_ref().and_then(|elsewhere| elsewhere.advice(short, bytes))
            && !self.is_limited
        {
            return others;
        }
        if let Some((trend, _)) = self.too_much() {
            let simulated = self.simulated();
            let last = self.peaks.last().copied().unwrap_or_default();
            let setting = match &self.remedy {
                Remedy::Found(tried) => format!(
                    ". {} would get past this request and not past this step ({simulated})",
                    tried.settings
                ),
                _ => String::new(),
            };
            let advice = match trend.shape {
                crate::conclusions::trend::Shape::Linear => {
                    "Find what each step keeps (vramscope steps shows it)".to_owned()
                }
                _ => format!(
                    "Go back to the batch and sequence of the step before, which peaked at {}",
                    bytes(last)
                ),
            };
            return format!("{advice}{raise}{setting}");
        }
        let whole = self.capacity.map_or(u64::MAX, |capacity| super::signed(capacity.bytes));
        if self.oom.requested >= whole {
            return format!(
                "Make the request smaller{raise}: alone it is more than the {} there are",
                bytes(whole)
            );
        }
        match &self.most {
            Some((place, held)) if *held >= short => {
                format!("Make {place} hold less: it has {} of what is in use{raise}", bytes(*held))
            }
            _ if self.oom.requested > super::signed(self.state.counters.active) => {
                format!("Make the request smaller: it is larger than everything that is in use{raise}")
            }
            _ => format!("Make the batch smaller, or checkpoint activations{raise}"),
        }
    }

    fn finding(&self) -> Finding {
        let Self { case, oom, state, .. } = self;
        let bytes = case.bytes;
        let at = Moment::after(oom.event);
        let moment = format!("oom:{}", self.number);
        let site = Site {
            pool: Some(self.owner.pool),
            stream: Some(case.snapshot.stream(self.event.stream)),
            ..site(case, &self.event)
        };
        let on_device = match self.is_limited {
            true => {
                format!("{} was free on the device, but a per-process limit applied", bytes(oom.device_free))
            }
            false => format!("{} was free on the device", bytes(oom.device_free)),
        };
        let elsewhere = self.elsewhere.as_ref();
        let held = elsewhere.filter(|_| !self.is_limited).map_or_else(String::new, |held| held.words(bytes));
        let what = format!("{}; {on_device}{held}; {}", asked(case, oom, &site), self.why());
        let fits = if self.is_limited { self.fits } else { self.fits.max(oom.device_free) };
        let mut finding = Finding::new(Kind::OutOfMemory, Severity::High, oom.requested, (at, at))
            .says(what, self.advice())
            .on(site)
            .with("cause", Amount::Text(self.cause().name().to_owned()))
            .with("requested", Amount::Bytes(oom.requested))
            .shown_by(format!("at --at {moment}"));
        if self.owner.is_inferred {
            let pool = vramscope_format::pool(Some(self.owner.pool));
            finding = finding.with("pool, inferred from the allocations around it", Amount::Text(pool));
        }
        finding = finding.with("free on the device", Amount::Bytes(oom.device_free));
        if let Some(elsewhere) = elsewhere {
            finding = elsewhere.evidence(finding);
        }
        if let Some(limit) = self.capacity.filter(|capacity| capacity.is_limit && capacity.is_exact()) {
            finding = finding.with("per-process limit", Amount::Bytes(super::signed(limit.bytes)));
        } else if let Some(capacity) = self.capacity.filter(|capacity| capacity.is_limit) {
            finding = finding
                .with("granted, so the limit is at least", Amount::Bytes(super::signed(capacity.at_least)))
                .with("refused, so the limit is below", Amount::Bytes(super::signed(capacity.bytes)));
        }
        finding = finding
            .with("free in holes", Amount::Bytes(self.holes))
            .shown_by(format!("segments --at {moment}"))
            .with("largest request that would have fitted", Amount::Bytes(fits))
            .with("in use", Amount::Bytes(super::signed(state.counters.active)))
            .with("reserved", Amount::Bytes(super::signed(state.counters.reserved)));
        if let Some((trend, _)) = self.too_much() {
            finding = finding
                .with(
                    "peak of the step before",
                    Amount::Bytes(self.peaks.last().copied().unwrap_or_default()),
                )
                .with("needed by this step", Amount::Bytes(trend.next))
                .shown_by("steps")
                .likely();
        }
        if let Remedy::Found(tried) = &self.remedy {
            finding = finding
                .with("gets past this request, simulated", Amount::Text(tried.settings.clone()))
                .shown_by(format!("whatif --set {}", tried.settings));
        }
        for frame in callers(case.snapshot, self.event.stack) {
            finding = finding.at("called by", case.place(frame), oom.requested);
        }
        if let Some((place, held)) = &self.most {
            finding =
                finding.at("most is held by", place.clone(), *held).shown_by(format!("top --at {moment}"));
        }
        if let Some(worst) = pinned(state).first() {
            finding = finding.with("most free in one pinned segment", Amount::Bytes(worst.free));
        }
        finding
    }
}

/// Peaks that a sentence lists.
const SHOWN_PEAKS: usize = 5;
