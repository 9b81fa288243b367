//! Which pool an event's memory belonged to, where events do not say (before PyTorch 2.12).
//!
//! The final segments have their pools, and addresses are used again: the events are undone from the end, so that at
//! each one the segments are those of its own time. A segment that is gone at the end counts as one of the default
//! pool, except for pages of an expandable segment of which other pages remain.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use vramscope_snapshot::{Action, DeviceId, Pool, PoolId, Snapshot, StreamId};

/// The pools of events that are not in the default pool, by event from the end.
#[derive(Debug, Default)]
pub(super) struct Pools {
    private: Vec<(u32, Pool)>,
    /// A stream went from a private pool to a segment that is gone and back: that was of the pool, too.
    pub(super) released: bool,
}

impl Pools {
    pub(super) fn new(snapshot: &Snapshot, device: DeviceId) -> Self {
        let mut ranges = Ranges::default();
        for segment in snapshot.segments_of(device) {
            let pool = snapshot.pool(segment.pool).unwrap_or((0, 0));
            ranges.add(segment.addr, segment.total_size, pool);
        }
        if !ranges.0.values().any(|&(_, pool)| pool != (0, 0)) {
            return Self::default();
        }
        let mut private = Vec::new();
        // Of each stream, from the end: the pool of its last allocation, and whether one in a segment that is gone
        // came before that.
        let mut streams: HashMap<StreamId, (Pool, bool)> = HashMap::new();
        let mut released = false;
        let mut gone: HashSet<u64> = HashSet::new();
        let events = snapshot.events(device);
        for row in (0..events.len()).rev() {
            let event = events.get(row);
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => {
                    gone.remove(&event.addr);
                    ranges.remove(event.addr, event.size);
                }
                Action::SegmentFree => {
                    gone.insert(event.addr);
                    ranges.add(event.addr, event.size, (0, 0));
                }
                Action::SegmentUnmap => {
                    let pool = ranges.beside(event.addr, event.size).unwrap_or((0, 0));
                    ranges.add(event.addr, event.size, pool);
                }
                Action::Alloc | Action::FreeRequested | Action::FreeCompleted => {
                    let pool = ranges.at(event.addr).unwrap_or((0, 0));
                    if pool != (0, 0) {
                        private.push((row as u32, pool));
                    }
                    if event.action == Action::Alloc && event.pool == PoolId::UNKNOWN {
                        let start = ranges.start(event.addr).unwrap_or(event.addr);
                        match streams.get_mut(&event.stream) {
                            Some((_, after_gone)) if gone.contains(&start) => *after_gone = true,
                            Some((last, after_gone)) => {
                                released |= *after_gone && *last == pool && pool != (0, 0);
                                (*last, *after_gone) = (pool, false);
                            }
                            None => {
                                streams.insert(event.stream, (pool, false));
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        Self { private, released }
    }

    /// The pool of an event.
    pub(super) fn of(&self, row: usize) -> Pool {
        let at = self.private.binary_search_by(|&(other, _)| (row as u32).cmp(&other));
        at.ok().and_then(|at| self.private.get(at)).map_or((0, 0), |&(_, pool)| pool)
    }
}

/// Ranges of addresses: where each ends, and its pool.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, (u64, Pool)>);

impl Ranges {
    fn add(&mut self, addr: u64, size: u64, pool: Pool) {
        self.0.insert(addr, (addr.saturating_add(size), pool));
    }

    fn at(&self, addr: u64) -> Option<Pool> {
        let (_, &(end, pool)) = self.0.range(..=addr).next_back()?;
        (addr < end).then_some(pool)
    }

    fn start(&self, addr: u64) -> Option<u64> {
        self.0.range(..=addr).next_back().map(|(&start, _)| start)
    }

    fn beside(&self, addr: u64, size: u64) -> Option<Pool> {
        addr.checked_sub(1).and_then(|before| self.at(before)).or_else(|| self.at(addr.saturating_add(size)))
    }

    fn remove(&mut self, addr: u64, size: u64) {
        let end = addr.saturating_add(size);
        while let Some((&start, &(stop, pool))) = self.0.range(..end).next_back() {
            if stop <= addr {
                break;
            }
            self.0.remove(&start);
            if stop > end {
                self.0.insert(end, (stop, pool));
            }
            if start < addr {
                self.0.insert(start, (addr, pool));
                break;
            }
        }
    }
}
