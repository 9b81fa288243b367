//! Memory that is held from the driver and not used, at the moment when most was held.
//!
//! *Fragmentation* is what is free in partly used segments; *cached* is what lies in completely unused ones. Both come out of [`crate::questions::gap`], which adds up to the byte.

use vramscope_replay::{Counter, Hole, Moment};

use super::driver::{LEAST_CYCLES, retries_with};
use super::trial::Tried;
use super::{Amount, Case, DriverCalls, Finding, Kind, Severity, Site, signed};
use crate::questions::frames::user_frame;
use crate::questions::gap::gap;
use crate::questions::pins::pinned;
use crate::questions::pools::is_private;

/// Less than this, or than this share of what is reserved, is nothing to act on.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_SHARE: f64 = 0.15;
/// The share of what is reserved that makes a setting worth a word while memory suffices.
const LARGE_SAVING: f64 = 1.0 / 3.0;
const EXPANDABLE: &str = "expandable_segments:True";
const THRESHOLD: &str = "garbage_collection_threshold:0.8";

pub(super) fn worth_telling(bytes: u64, reserved: i64) -> bool {
    bytes >= LEAST_BYTES && bytes as f64 >= reserved.max(0) as f64 * LEAST_SHARE
}

/// Whether expandable segments, which have no such holes, would not have needed less: others fill the holes later.
fn is_harmless(case: &Case<'_>, calls: &DriverCalls) -> bool {
    let reserved = case.replay.peak(Counter::Reserved).bytes;
    calls.retries == 0
        && !case.snapshot.settings.expandable_segments
        && case.trial.run(EXPANDABLE).is_ok_and(|tried| {
            tried.fails.is_none() && (saved(reserved, &tried) as f64) < reserved as f64 * LEAST_SHARE
        })
}

pub(super) fn find(case: &Case<'_>, calls: &DriverCalls) -> Vec<Finding> {
    let Case { snapshot, replay, bytes, device, .. } = *case;
    let at = replay.peak(Counter::Reserved).at;
    let state = replay.state(at);
    let gap = gap(device, &state);
    let reserved = state.counters.reserved;
    let share = |part: u64| Amount::Share(part as f64 / reserved.max(1) as f64);
    let mut found = Vec::new();
    if worth_telling(gap.pinned_holes, reserved) && !is_harmless(case, calls) {
        let segments = pinned(&state);
        let worst = segments.first();
        // The smallest pin of the worst segment: moving it would have freed the most for the least.
        let pin = worst
            .and_then(|worst| {
                state
                    .live
                    .get(worst.live.clone())?
                    .iter()
                    .copied()
                    .min_by_key(|&index| (replay.allocation(index).size, index))
            })
            .map(|index| replay.allocation(index));
        let frame = pin.and_then(|pin| user_frame(snapshot, pin.stack));
        // Only holes in partly used segments of the default pool make up the finding.
        let mut is_pinned = vec![false; state.ranges.len()];
        for pinned in &segments {
            is_pinned[pinned.range] = !is_private(snapshot, state.ranges[pinned.range].pool);
        }
        // What expandable segments can give back is cached, and not stranded.
        let stranded = |hole: &Hole| match state.ranges[hole.range].expandable {
            true => hole.size - hole.whole_pages(),
            false => hole.size,
        };
        let holes = || state.holes.iter().filter(|hole| is_pinned[hole.range]);
        let largest = holes().map(stranded).max().unwrap_or(0);
        let whole = holes()
            .filter(|hole| !state.ranges[hole.range].expandable)
            .map(Hole::whole_pages)
            .fold(0, u64::saturating_add);
        let advice = if snapshot.settings.expandable_segments {
            "Allocate long-lived tensors before short-lived ones, so that they do not lie in between"
                .to_owned()
        } else {
            format!(
                "Set PYTORCH_CUDA_ALLOC_CONF={EXPANDABLE}: up to {} of it could then serve other sizes{}",
                bytes(whole),
                case.effect_of(EXPANDABLE)
            )
        };
        let what = format!(
            "{} is stranded in {}; the largest hole in them is {}",
            bytes(gap.pinned_holes),
            vramscope_format::plural(segments.len() as u64, "partly used segment"),
            bytes(largest)
        );
        let site = Site {
            stack: pin.map(|pin| pin.stack),
            line: case.line(frame),
            segment: worst.and_then(|worst| Some(state.ranges.get(worst.range)?.addr)),
            ..Site::default()
        };
        // Holes are nothing but a cache while memory suffices.
        let is_short = calls.retries > 0 || !replay.ooms().is_empty();
        let severity = if is_short { Severity::Medium } else { Severity::Low };
        let mut finding = Finding::new(Kind::Fragmentation, severity, gap.pinned_holes, (at, at))
            .says(what, advice)
            .on(site)
            .with("share of reserved", share(gap.pinned_holes))
            .with("pinned segments", Amount::Count(segments.len() as u64))
            .shown_by(format!("segments --at {}", super::moment(at)))
            .with("largest hole in them", Amount::Bytes(largest))
            .with("in whole pages of 2 MiB", Amount::Bytes(whole));
        if let (Some(worst), Some(pin)) = (worst, pin) {
            let place = frame.map_or_else(|| "(no frame)".to_owned(), |frame| case.place(frame));
            finding = finding
                .with("free in the worst segment", Amount::Bytes(worst.free))
                .with("blocks that pin it", Amount::Count(worst.live.len() as u64))
                .at("the smallest of them", place, pin.size);
        }
        found.push(finding);
    }
    found.extend(cached(case, calls, gap.cached, at));
    found
}

/// Completely unused segments, where there is something to do about them, as simulated: retries that a setting would
/// have avoided, or much less memory. A cache that nobody misses is what the allocator is for.
fn cached(case: &Case<'_>, calls: &DriverCalls, cached: u64, at: Moment) -> Option<Finding> {
    let Case { replay, bytes, .. } = *case;
    let reserved = replay.peak(Counter::Reserved).bytes;
    if !worth_telling(cached, reserved) {
        return None;
    }
    let share = cached as f64 / reserved.max(1) as f64;
    let tried = |settings| case.trial.run(settings).ok().filter(|tried| tried.fails.is_none());
    let advice = if calls.retries > 0
        && !case.collects_garbage()
        && tried(THRESHOLD).is_some_and(|tried| tried.retries < calls.retries)
    {
        let effect = retries_with(case, THRESHOLD, calls.retries);
        format!("Set {THRESHOLD}, so that unused segments go back before memory runs out{effect}")
    } else if !case.snapshot.settings.expandable_segments
        && calls.cycles < LEAST_CYCLES
        && tried(EXPANDABLE)
            .is_some_and(|tried| saved(reserved, &tried) as f64 >= reserved as f64 * LARGE_SAVING)
    {
        format!("Set PYTORCH_CUDA_ALLOC_CONF={EXPANDABLE}{}", case.effect_of(EXPANDABLE))
    } else {
        return None;
    };
    Some(
        Finding::new(
            Kind::Cached,
            if calls.retries > 1 { Severity::Medium } else { Severity::Low },
            cached,
            (at, at),
        )
        .says(format!("{} is cached in completely unused segments", bytes(cached)), advice)
        .with("share of reserved", Amount::Share(share))
        .shown_by(format!("segments --at {}", super::moment(at))),
    )
}

/// Bytes that a setting would have reserved less, unless it runs out of memory.
fn saved(reserved: i64, tried: &Tried) -> u64 {
    match tried.fails {
        Some(_) => 0,
        None => signed(reserved).saturating_sub(tried.reserved_peak),
    }
}
