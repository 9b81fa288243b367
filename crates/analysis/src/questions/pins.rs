//! What pins memory: segments that cannot be released because a block in them is in use, and what would fit.

use std::cmp::Reverse;
use std::ops;

use vramscope_replay::{Hole, SMALL, State, UNIT};
use vramscope_snapshot::{Pool, StreamId};

use crate::device::Device;

/// A range that is held, has holes, and cannot be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Which of [`State::ranges`].
    pub range: usize,
    /// Bytes of its holes.
    pub free: u64,
    /// The largest of them.
    pub largest_hole: u64,
    /// Which of [`State::live`] live in it: the blocks that pin it.
    pub live: ops::Range<usize>,
}

/// The partly used ranges, sorted by free bytes.
pub fn pinned(state: &State) -> Vec<Pinned> {
    let mut found: Vec<Pinned> = Vec::new();
    for hole in &state.holes {
        match found.last_mut() {
            Some(last) if last.range == hole.range => {
                last.free = last.free.saturating_add(hole.size);
                last.largest_hole = last.largest_hole.max(hole.size);
            }
            _ => {
                let Some(range) = state.ranges.get(hole.range) else { continue };
                let live = state.live_before(range.addr)..state.live_before(range.end());
                found.push(Pinned { range: hole.range, free: hole.size, largest_hole: hole.size, live });
            }
        }
    }
    found.retain(|pinned| !pinned.live.is_empty());
    found.sort_by_key(|pinned| (Reverse(pinned.free), pinned.range));
    found
}

/// Segments of this size serve requests of up to [`SMALL`] bytes, and nothing else.
const SMALL_SEGMENT: u64 = 2 << 20;

/// The largest request of a pool and a stream that fits into a hole, so that nothing more has to be asked from
/// the driver.
pub fn largest_fit(device: &Device, state: &State, pool: Pool, stream: StreamId) -> u64 {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let most = |hole: &Hole| {
        let range = state.ranges.get(hole.range)?;
        let serves = range.stream == stream && snapshot.pool(range.pool).unwrap_or((0, 0)) == pool;
        let is_small = !range.expandable && range.size <= SMALL_SEGMENT;
        let most = if is_small { hole.size.min(SMALL) } else { hole.size };
        serves.then_some(most)
    };
    let hole = state.holes.iter().filter_map(most).max().unwrap_or(0);
    // Rounding is monotone, so the largest that still fits is found by halving.
    let (mut fits, mut too_much) = (0, hole / UNIT + 1);
    while fits + 1 < too_much {
        let middle = fits + (too_much - fits) / 2;
        if replay.rules().round(middle * UNIT) <= hole {
            fits = middle;
        } else {
            too_much = middle;
        }
    }
    fits * UNIT
}
