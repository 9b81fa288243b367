//! Free memory at a moment by pool and stream: what a request could use, and what could be given back to the driver.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vramscope_replay::State;
use vramscope_snapshot::{Pool, Snapshot, StreamId};

use crate::questions::pools::known_pool;

/// What one pool and stream has free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The pool; `None` where the file does not say.
    pub pool: Option<Pool>,
    /// The stream.
    pub stream: StreamId,
    /// Bytes held from the driver.
    pub reserved: u64,
    /// Holes.
    pub holes: u64,
    /// Bytes of all holes.
    pub free: u64,
    /// Bytes of the largest hole.
    pub largest: u64,
    /// Bytes that the allocator could give back: completely unused segments, and whole free pages of expandable ones.
    pub releasable: u64,
    /// Bytes that the program let go and another stream still uses.
    pub awaiting_free: u64,
}

/// What each pool and stream has free, most first.
pub fn room(snapshot: &Snapshot, state: &State) -> Vec<Room> {
    let mut rooms: BTreeMap<(Option<Pool>, StreamId), Room> = BTreeMap::new();
    let mut keys = Vec::with_capacity(state.ranges.len());
    for range in &state.ranges {
        let key = (known_pool(snapshot, range.pool), range.stream);
        keys.push(key);
        let room = rooms.entry(key).or_insert(Room { pool: key.0, stream: key.1, ..Room::default() });
        room.reserved = room.reserved.saturating_add(range.size);
    }
    for hole in &state.holes {
        let (Some(range), Some(room)) =
            (state.ranges.get(hole.range), keys.get(hole.range).and_then(|key| rooms.get_mut(key)))
        else {
            continue;
        };
        room.holes += 1;
        room.free = room.free.saturating_add(hole.size);
        room.largest = room.largest.max(hole.size);
        let releasable = match range.expandable {
            true => hole.whole_pages(),
            false if hole.size == range.size => hole.size,
            false => 0,
        };
        room.releasable = room.releasable.saturating_add(releasable);
    }
    for (_, allocation) in state.allocations() {
        if allocation.released > state.at {
            continue;
        }
        let after = state.ranges.partition_point(|range| range.addr <= allocation.addr);
        let key = after.checked_sub(1).and_then(|at| keys.get(at));
        if let Some(room) = key.and_then(|key| rooms.get_mut(key)) {
            room.awaiting_free = room.awaiting_free.saturating_add(allocation.size);
        }
    }
    let mut rooms: Vec<_> = rooms.into_values().collect();
    rooms.sort_by_key(|room| (Reverse(room.free), room.pool, room.stream));
    rooms
}
