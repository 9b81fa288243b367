//! Private pools: what CUDA graphs and `MemPool`s hold, used or not.
//!
//! Memory of a private pool serves nothing else until it is given back to the driver, so it counts in full
//! whether or not anything lives in it. The [`Envelope`] of a pool and stream is what it holds and what is in
//! use over time: what was held before the first event, then every `segment_alloc`, `segment_free`,
//! `segment_map` and `segment_unmap`. It shrinks when memory is given back, and an empty pool has
//! one too. The envelopes of all pools, the default one included, add up to the counters.
//!
//! PyTorch from 2.12 on writes the pool of every event. Before, the final segments tell, with the events undone:
//! an address belongs to the pool whose memory was there *at that moment*. What was given back before the end
//! cannot be told; it has an envelope of its own, without a pool.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Change, Effect, Moment, RangeSet, Replay};
use vramscope_snapshot::{Column, Pool, PoolId, Snapshot, StreamId};

use crate::device::Device;
pub use crate::questions::envelope::DEFAULT_POOL;
use crate::questions::envelope::{Envelope, Known, Level};
pub use crate::questions::pool_table::{PoolRow, PoolTable};

/// The envelopes of a device.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    envelopes: Vec<Envelope>,
    /// For each allocation the number of its envelope, from 1; 0 if it has none.
    pub(super) of: Column<u32>,
}

/// One pool and stream at a moment, and over its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSummary {
    /// What it has at the moment.
    pub now: Level,
    /// Segments that it has at the moment.
    pub segments: usize,
    /// When it held most; of all such moments the one at which most was in use.
    pub peak_at: Moment,
    /// What it had then.
    pub peak: Level,
    /// The most that was ever in use.
    pub peak_active: i64,
    /// When it first held anything.
    pub first: Option<Moment>,
    /// When it had given everything back; `None` if it had not at the end.
    pub last: Option<Moment>,
}

impl Pools {
    /// The envelopes of private pools. Costs nothing where there are none.
    pub fn private(device: &Device) -> Self {
        let (snapshot, _replay) = (device.snapshot(), device.replay());
        match has_private(snapshot) {
            true => Self::new(device, |pool| is_private(snapshot, pool)),
            false => Self::default(),
        }
    }

    /// The envelopes of all pools.
    pub fn all(device: &Device) -> Self {
        let (_snapshot, _replay) = (device.snapshot(), device.replay());
        Self::new(device, |_| true)
    }

    /// One pass over the events: what each changes goes to the envelope of its pool and stream.
    fn new(device: &Device, keep: impl Fn(PoolId) -> bool) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let start = replay.ranges_at(Moment::START);
        let mut build = Build {
            snapshot,
            keep,
            set: start.clone(),
            assume_default: !has_private(snapshot),
            numbers: HashMap::new(),
            pools: Self::default(),
        };
        for range in start.iter() {
            build.add(range.pool, range.stream, false, Moment::START, 0, signed(range.size));
        }
        replay.each_moment(|now, effects| {
            for effect in effects {
                match *effect {
                    Effect::Opened(index) => build.open(replay, index, now),
                    Effect::Closed(index) => build.close(replay, index, now),
                    Effect::Held(change) => {
                        let stated = snapshot.events(replay.device()).get(change.event.index()).pool;
                        build.hold(&change, stated, now);
                    }
                }
            }
        });
        build.pools.finish()
    }

    /// Sorts the envelopes, private pools first, and builds their indices.
    fn finish(mut self) -> Self {
        let mut numbered: Vec<_> = self.envelopes.into_iter().enumerate().collect();
        numbered.sort_by_key(|(_, envelope)| {
            let kind = envelope.pool.map_or(2, |pool| u8::from(pool == DEFAULT_POOL));
            (kind, envelope.pool, envelope.stream)
        });
        let mut place = vec![0; numbered.len() + 1];
        for (new, (old, _)) in numbered.iter().enumerate() {
            place[old + 1] = new as u32 + 1;
        }
        let of = self.of.stored().iter().map(|&number| place[number as usize]).collect();
        self.envelopes = numbered.into_iter().map(|(_, envelope)| envelope.finish()).collect();
        Self { of: Column::from_stored(of), ..self }
    }

    /// The envelopes: private pools by number and stream, then the default pool, then what is not known.
    pub fn envelopes(&self) -> &[Envelope] {
        &self.envelopes
    }

    /// The envelope of a pool and stream handle.
    pub fn find(&self, pool: Option<Pool>, stream: u64) -> Option<&Envelope> {
        self.envelopes.iter().find(|envelope| (envelope.pool, envelope.stream) == (pool, stream))
    }

    /// Which of [`Pools::envelopes`] an allocation lies in.
    pub fn envelope_of(&self, allocation: AllocIdx) -> Option<usize> {
        self.of.get(allocation.index()).checked_sub(1).map(|number| number as usize)
    }

    /// The pool of an allocation, where it is known.
    pub fn pool_of(&self, allocation: AllocIdx) -> Option<Pool> {
        self.envelopes.get(self.envelope_of(allocation)?)?.pool
    }

    /// What is to be said about each of [`Pools::envelopes`], at a moment.
    pub fn summaries(&self, device: &Device, at: Moment) -> Vec<PoolSummary> {
        let (_snapshot, replay) = (device.snapshot(), device.replay());
        let segments = segments_at(device, at);
        let summary = |envelope: &Envelope| {
            let (peak_at, peak) = envelope.peak();
            let life = envelope.life();
            PoolSummary {
                now: envelope.level(at),
                segments: segments.get(&(envelope.pool, envelope.stream)).copied().unwrap_or_default(),
                peak_at,
                peak,
                peak_active: envelope.extremes(Moment::START, replay.end()).1.active,
                first: life.map(|(first, _)| first),
                last: life.and_then(|(_, last)| last),
            }
        };
        self.envelopes.iter().map(summary).collect()
    }
}

/// How many segments each pool and stream has at a moment.
pub(super) fn segments_at(device: &Device, at: Moment) -> HashMap<(Option<Pool>, u64), usize> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let assume_default = !has_private(snapshot);
    let mut segments: HashMap<(Option<Pool>, u64), usize> = HashMap::new();
    for range in replay.ranges_at(at).iter() {
        let pool = named(snapshot, range.pool, assume_default);
        *segments.entry((pool, snapshot.stream(range.stream))).or_default() += 1;
    }
    segments
}

/// Whether a snapshot names any private pool.
pub fn has_private(snapshot: &Snapshot) -> bool {
    (0..snapshot.pools.len()).any(|row| is_private(snapshot, PoolId::from_index(row)))
}

/// Whether a pool is known to be a private one.
pub fn is_private(snapshot: &Snapshot, pool: PoolId) -> bool {
    snapshot.pool(pool).is_some_and(|pool| pool != DEFAULT_POOL)
}

/// The two numbers of a pool. Where a file names no private pool, everything is in the default one, although PyTorch
/// before 2.12 does not say so.
pub fn known_pool(snapshot: &Snapshot, pool: PoolId) -> Option<Pool> {
    named(snapshot, pool, !has_private(snapshot))
}

pub(super) fn named(snapshot: &Snapshot, pool: PoolId, assume_default: bool) -> Option<Pool> {
    snapshot.pool(pool).or(assume_default.then_some(DEFAULT_POOL))
}

pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The pool that memory is added to, or taken from, by a change of what is held.
pub(super) fn pool_of_change(set: &mut RangeSet, change: &Change) -> PoolId {
    // What is given back belongs to the pool that had it, unless the event knows better.
    let had = match change.held {
        true => set.insert(change.range).then_some(change.range),
        false => set.remove(change.range.addr, change.range.size),
    };
    match change.range.pool {
        PoolId::UNKNOWN => had.map_or(PoolId::UNKNOWN, |had| had.pool),
        known => known,
    }
}

struct Build<'a, Keep> {
    snapshot: &'a Snapshot,
    keep: Keep,
    /// What is held at the moment that the pass has reached.
    set: RangeSet,
    assume_default: bool,
    numbers: HashMap<(Option<Pool>, StreamId), u32>,
    pools: Pools,
}

impl<Keep: Fn(PoolId) -> bool> Build<'_, Keep> {
    fn open(&mut self, replay: &Replay, index: AllocIdx, now: Moment) {
        let allocation = replay.allocation(index);
        let found = match allocation.pool {
            PoolId::UNKNOWN => self.set.find(allocation.addr).map(|range| range.pool),
            _ => None,
        };
        let pool = found.unwrap_or(allocation.pool);
        let size = signed(allocation.size);
        if let Some(number) = self.add(pool, allocation.stream, found.is_some(), now, size, 0) {
            self.pools.of.set(index.index(), number);
        }
    }

    fn close(&mut self, replay: &Replay, index: AllocIdx, now: Moment) {
        if let Some(envelope) = self.pools.envelope_of(index) {
            self.pools.envelopes[envelope].add(now, -signed(replay.allocation(index).size), 0);
        }
    }

    fn hold(&mut self, change: &Change, stated: PoolId, now: Moment) {
        let pool = pool_of_change(&mut self.set, change);
        self.add(pool, change.range.stream, stated == PoolId::UNKNOWN, now, 0, change.bytes());
    }

    /// Adds to the envelope of a pool and stream, and returns its number from 1; `None` if it is not kept.
    fn add(
        &mut self,
        pool: PoolId,
        stream: StreamId,
        by_address: bool,
        at: Moment,
        active: i64,
        reserved: i64,
    ) -> Option<u32> {
        if !(self.keep)(pool) {
            return None;
        }
        let name = named(self.snapshot, pool, self.assume_default);
        let envelopes = &mut self.pools.envelopes;
        let number = *self.numbers.entry((name, stream)).or_insert_with(|| {
            envelopes.push(Envelope::new(name, self.snapshot.stream(stream)));
            envelopes.len() as u32
        });
        let envelope = &mut envelopes[number as usize - 1];
        let known = match (pool, name) {
            (PoolId::UNKNOWN, Some(_)) => Known::Assumed,
            (PoolId::UNKNOWN, None) => Known::Unknown,
            _ if by_address => Known::ByAddress,
            _ => Known::Stated,
        };
        envelope.known = envelope.known.max(known);
        envelope.add(at, active, reserved);
        Some(number)
    }
}
