//! Memory that is held from the driver and not used, at the moment when most was held.
//!
//! *Fragmentation* is what is free in partly used segments; *cached* is what lies in completely unused ones. Both come out of [`crate::questions::gap`], which adds up to the byte.

use super::driver::LEAST_CYCLES;
use super::{Amount, Case, DriverCalls, Finding, Kind, Severity, Site};
use crate::questions::frames::user_frame;
use crate::questions::gap::gap;
use crate::questions::pins::pinned;
use crate::questions::pools::is_private;
use crate::replay::counters::Counter;
use crate::replay::state::Hole;

/// Less than this, or than this share of what is reserved, is nothing to act on.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_SHARE: f64 = 0.15;

pub(super) fn worth_telling(bytes: u64, reserved: i64) -> bool {
    bytes >= LEAST_BYTES && bytes as f64 >= reserved.max(0) as f64 * LEAST_SHARE
}

pub(super) fn find(case: &Case<'_>, calls: &DriverCalls) -> Vec<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let at = replay.peak(Counter::Reserved).at;
    let state = replay.state(at);
    let gap = gap(snapshot, replay, &state);
    let reserved = state.counters.reserved;
    let share = |part: u64| Amount::Share(part as f64 / reserved.max(1) as f64);
    let mut found = Vec::new();
    if worth_telling(gap.pinned_holes, reserved) {
        let segments = pinned(replay, &state);
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
                "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: up to {} of it could then serve other \
                 sizes{}",
                bytes(whole),
                case.effect_of("expandable_segments:True")
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
        let mut finding = Finding::new(Kind::Fragmentation, Severity::Medium, gap.pinned_holes, (at, at))
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
    if worth_telling(gap.cached, reserved) {
        let has_threshold = case.collects_garbage();
        let advice = if calls.retries > 0 && !has_threshold {
            "Set garbage_collection_threshold:0.8, so that unused segments go back before memory runs out"
        } else if calls.cycles >= LEAST_CYCLES {
            "Leave it: empty_cache() is called already, and what it releases is acquired again"
        } else {
            "Call torch.cuda.empty_cache() after the phase that needed them, if another process needs the memory"
        };
        let severity = if calls.retries > 0 { Severity::Medium } else { Severity::Low };
        found.push(
            Finding::new(Kind::Cached, severity, gap.cached, (at, at))
                .says(format!("{} is cached in completely unused segments", bytes(gap.cached)), advice)
                .with("share of reserved", share(gap.cached))
                .shown_by(format!("segments --at {}", super::moment(at))),
        );
    }
    found
}
