//! Fragmentation over time: at evenly spaced moments, how the free part of what is held lies.
//!
//! *Unusable* for a request is what is free in holes too small for it, in partly used segments: unused ones are released
//! on demand. A segment *lies idle* at a moment if it is used, but at most half of it; those that do so in most samples
//! are the ones that were pinned longest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use vramscope_replay::{AllocIdx, Moment, Range, Replay, makers};

use crate::device::Device;
use crate::questions::pins::pinned;
use crate::shelf::Small;

/// How fragmented free memory is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: Moment,
    /// Held from the driver.
    pub reserved: i64,
    /// Free in holes.
    pub free: u64,
    /// The largest hole.
    pub largest_hole: u64,
    /// Free in partly used segments, in holes that are too small for the request that was asked about.
    pub unusable: u64,
    /// Segments that are at most half used.
    pub idle_segments: u32,
}

/// A segment that lies idle for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleSegment {
    /// Where it begins.
    pub addr: u64,
    /// Its bytes when it was last seen.
    pub size: u64,
    /// In how many samples it lay idle.
    pub samples: u32,
    /// The first and the last of these.
    pub when: (Moment, Moment),
    /// Bytes in use when it was last seen idle.
    pub used: u64,
    /// The oldest block that lived in it then.
    pub pin: AllocIdx,
}

/// Fragmentation over a stretch of the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragmentation {
    /// The request that [`Sample::unusable`] is about.
    pub request: u64,
    /// In order of time.
    pub samples: Vec<Sample>,
    /// Longest idle first.
    pub segments: Vec<IdleSegment>,
    /// For each sample the sizes of holes in partly used segments, and the bytes of all holes of that size.
    holes: Vec<BTreeMap<u64, u64>>,
}

impl Fragmentation {
    /// The same for another request.
    #[must_use]
    pub fn for_request(mut self, replay: &Replay, request: u64) -> Self {
        self.request = request;
        let needed = replay.rules().round(request);
        for (sample, holes) in self.samples.iter_mut().zip(&self.holes) {
            sample.unusable = holes.range(..needed).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
        }
        self
    }
}

/// Looks at `samples` moments from one to another. Without a `request`, it is the largest that the program made. `keep`
/// says which segments count.
pub fn fragmentation(
    replay: &Replay,
    (from, to): (Moment, Moment),
    moments: u32,
    request: Option<u64>,
    keep: impl Fn(&Range) -> bool,
) -> Fragmentation {
    let largest = || makers(&replay.made()).map(|(_, made)| made.largest).max().unwrap_or(0);
    let request = request.unwrap_or_else(largest);
    let length = to.0.saturating_sub(from.0);
    let moments = moments.clamp(1, length.max(1));
    let mut samples: Vec<Sample> = Vec::new();
    let mut segments: HashMap<u64, IdleSegment> = HashMap::new();
    let mut holes = Vec::new();
    for number in 0..=moments {
        let at = Moment(from.0 + (u64::from(length) * u64::from(number) / u64::from(moments)) as u32);
        let state = replay.state(at);
        let kept: Vec<bool> = state.ranges.iter().map(&keep).collect();
        let reserved = match kept.iter().all(|kept| *kept) {
            true => state.counters.reserved,
            false => {
                let sizes =
                    state.ranges.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(range, _)| range.size);
                vramscope_format::signed(sizes.fold(0, u64::saturating_add))
            }
        };
        let pins = pinned(&state);
        let mut is_pinned = vec![false; state.ranges.len()];
        pins.iter().for_each(|pinned| is_pinned[pinned.range] = true);
        let mut sample = Sample { at, reserved, free: 0, largest_hole: 0, unusable: 0, idle_segments: 0 };
        let mut pinned_holes: BTreeMap<u64, u64> = BTreeMap::new();
        for hole in state.holes.iter().filter(|hole| kept[hole.range]) {
            sample.free = sample.free.saturating_add(hole.size);
            sample.largest_hole = sample.largest_hole.max(hole.size);
            // The allocator returns completely unused segments to make room for a request that fits nowhere.
            if is_pinned[hole.range] {
                let bytes = pinned_holes.entry(hole.size).or_default();
                *bytes = bytes.saturating_add(hole.size);
            }
        }
        holes.push(pinned_holes);
        for pinned in pins.into_iter().filter(|pinned| kept[pinned.range]) {
            let Some(range) = state.ranges.get(pinned.range) else { continue };
            if pinned.free < range.size / 2 {
                continue;
            }
            let live = state.allocations().skip(pinned.live.start).take(pinned.live.len());
            let oldest = live.min_by_key(|(index, allocation)| (allocation.opened, *index));
            let Some((pin, _)) = oldest else { continue };
            sample.idle_segments += 1;
            let segment = segments.entry(range.addr).or_insert(IdleSegment {
                addr: range.addr,
                size: range.size,
                samples: 0,
                when: (at, at),
                used: 0,
                pin,
            });
            segment.samples += 1;
            (segment.size, segment.used, segment.pin) = (range.size, range.size - pinned.free, pin);
            segment.when.1 = at;
        }
        samples.push(sample);
    }
    let mut segments: Vec<_> = segments.into_values().collect();
    segments.sort_unstable_by_key(|segment| (Reverse(segment.samples), Reverse(segment.size), segment.addr));
    Fragmentation { request, samples, segments, holes }.for_request(replay, request)
}

/// Number of moments at which fragmentation is looked at, unless another is asked for.
pub const SAMPLES: u32 = 16;

impl Small for Fragmentation {
    const NAME: &'static str = "fragmentation";
}

impl Device {
    /// Fragmentation from the first event to the last, at [`SAMPLES`] moments and the end, for the largest request.
    pub fn fragmentation(&self) -> Arc<Fragmentation> {
        self.once(|| fragmentation(self, (Moment::START, self.end()), SAMPLES, None, |_| true))
    }
}
