//! The least memory that the same requests need: no less than what is live at once, and no more than a packing that was
//! found.
//!
//! The *lower bound* is the highest sum of live requests, each rounded to the allocator's unit. Whether it can be reached
//! is a hard problem (dynamic storage allocation), so the answer is a bound from each side: the packing is the best that
//! the known heuristics find. Addresses in it never change while a block lives, and blocks never overlap.
//!
//! * *best fit*: each request, in order, takes the smallest hole that it fits into; holes join.
//! * *largest first*: knowing the whole run, the largest block is placed first, each at the lowest address at which nothing
//!   lies that lives at the same time. It compares every two blocks, so it is tried only on runs of few.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Effect, Moment, Peak, Replay, UNIT};

use crate::device::Device;
use crate::shelf::Small;

/// How a packing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packing {
    /// In order, each into the smallest hole.
    BestFit,
    /// Largest first, knowing the whole run.
    LargestFirst,
}

impl Packing {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BestFit => "best_fit",
            Self::LargestFirst => "largest_first",
        }
    }
}

/// What the requests of a run need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minimum {
    /// No allocator needs less, and when that much is live.
    pub bound: Peak,
    /// An allocator with perfect knowledge needs no more.
    pub packed: u64,
    /// How that packing was found.
    pub by: Packing,
}

/// Blocks up to which every two are compared.
const FEW: usize = 2048;

/// What the requests of a device need.
pub fn minimum(replay: &Replay) -> Minimum {
    let allocations = replay.allocations();
    let size = |index: AllocIdx| {
        let requested = allocations.requested[index.index()].max(1);
        requested.checked_next_multiple_of(UNIT).unwrap_or(requested)
    };
    let mut arena = Arena::default();
    let mut addresses = vec![0_u64; allocations.len()];
    let (mut live, mut bound) = (0_u64, (0_u64, Moment::START));
    replay.each_moment(|now, effects| {
        for effect in effects {
            match *effect {
                Effect::Opened(index) => {
                    addresses[index.index()] = arena.take(size(index));
                    live = live.saturating_add(size(index));
                }
                Effect::Closed(index) => {
                    arena.put(addresses[index.index()], size(index));
                    live = live.saturating_sub(size(index));
                }
                Effect::Held(_) => {}
            }
        }
        if live > bound.0 {
            bound = (live, now);
        }
    });
    let bound = Peak { bytes: i64::try_from(bound.0).unwrap_or(i64::MAX), at: bound.1 };
    let mut best = Minimum { bound, packed: arena.top, by: Packing::BestFit };
    let is_perfect = best.packed <= bound.bytes.unsigned_abs();
    if allocations.len() <= FEW && !is_perfect {
        let packed = largest_first(replay, size);
        if packed < best.packed {
            best = Minimum { packed, by: Packing::LargestFirst, ..best };
        }
    }
    best
}

/// One stretch of memory without an end, from which blocks are taken by best fit.
///
/// A hole of just the size that is asked for is the best fit, so freed blocks wait by size, and join their neighbors only
/// when a request finds none of its own size: a program that repeats itself never gets there.
#[derive(Default)]
struct Arena {
    /// Where the memory that was ever used ends.
    top: u64,
    /// Freed blocks that have not joined their neighbors.
    waiting: HashMap<u64, Vec<u64>>,
    by_addr: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Arena {
    fn take(&mut self, size: u64) -> u64 {
        if let Some(addr) = self.waiting.get_mut(&size).and_then(Vec::pop) {
            return addr;
        }
        self.join();
        if let Some(&(hole, addr)) = self.by_size.range((size, 0)..).next() {
            self.remove(addr, hole);
            if hole > size {
                self.insert(addr + size, hole - size);
            }
            return addr;
        }
        // A hole at the end grows.
        let last = self.by_addr.last_key_value().map(|(addr, hole)| (*addr, *hole));
        let addr = match last.filter(|(addr, hole)| addr + hole == self.top) {
            Some((addr, hole)) => {
                self.remove(addr, hole);
                addr
            }
            None => self.top,
        };
        self.top = addr.saturating_add(size);
        addr
    }

    fn put(&mut self, addr: u64, size: u64) {
        self.waiting.entry(size).or_default().push(addr);
    }

    fn join(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        for (size, addrs) in waiting.drain() {
            for mut addr in addrs {
                let mut size = size;
                if let Some((&before, &hole)) = self.by_addr.range(..addr).next_back()
                    && before + hole == addr
                {
                    self.remove(before, hole);
                    (addr, size) = (before, size + hole);
                }
                if let Some(hole) = self.by_addr.get(&(addr + size)).copied() {
                    self.remove(addr + size, hole);
                    size += hole;
                }
                self.insert(addr, size);
            }
        }
        self.waiting = waiting;
    }

    fn insert(&mut self, addr: u64, size: u64) {
        self.by_addr.insert(addr, size);
        self.by_size.insert((size, addr));
    }

    fn remove(&mut self, addr: u64, size: u64) {
        self.by_addr.remove(&addr);
        self.by_size.remove(&(size, addr));
    }
}

/// The height of the packing that places the largest blocks first.
fn largest_first(replay: &Replay, size: impl Fn(AllocIdx) -> u64) -> u64 {
    let allocations = replay.allocations();
    let life = |row: u32| (allocations.opened[row as usize], allocations.closed[row as usize]);
    let mut rows: Vec<u32> =
        (0..allocations.len() as u32).filter(|row| life(*row).0 < life(*row).1).collect();
    rows.sort_by_key(|&row| {
        let (opened, closed) = life(row);
        (std::cmp::Reverse((size(AllocIdx(row)), closed.0 - opened.0)), row)
    });
    let mut placed: Vec<(u64, u64, Moment, Moment)> = Vec::new();
    let mut top = 0;
    for row in rows {
        let (opened, closed) = life(row);
        let size = size(AllocIdx(row));
        // Those that live at the same time, by address: `placed` is kept in that order.
        let mut addr = 0_u64;
        for &(start, end, from, to) in &placed {
            if from >= closed || to <= opened {
                continue;
            }
            if start >= addr.saturating_add(size) {
                break;
            }
            addr = addr.max(end);
        }
        let end = addr.saturating_add(size);
        let at = placed.partition_point(|&(start, ..)| start < addr);
        placed.insert(at, (addr, end, opened, closed));
        top = top.max(end);
    }
    top
}

impl Small for Minimum {
    const NAME: &'static str = "minimum";
}

impl Device {
    /// The least memory that the requests need.
    pub fn minimum(&self) -> Arc<Minimum> {
        self.once(|| minimum(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_join_and_the_smallest_that_fits_is_taken() {
        let mut arena = Arena::default();
        let [a, b, c, d] = [10, 20, 30, 5].map(|size| arena.take(size));
        assert_eq!((a, b, c, d, arena.top), (0, 10, 30, 60, 65));
        arena.put(a, 10);
        arena.put(c, 30);
        assert_eq!(arena.take(8), 0, "the hole of 10, not that of 30");
        arena.put(b, 20);
        // What is left of the first hole, 20 and 30 have joined: 52 from 8 on.
        assert_eq!(arena.take(52), 8);
        arena.put(d, 5);
        assert_eq!((arena.take(6), arena.top), (60, 66), "a hole at the end grows");
    }
}
