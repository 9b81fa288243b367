//! The pools of a device without a step per event: what they are over the whole trace, and their levels every so often.
//! The level at a moment is that before it and the few events since.

use std::fs::File;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_mapped::{Buffer, Store, StoreError, Writer};
use vramscope_replay::{AllocIdx, Effect, Moment};
use vramscope_snapshot::stored::{get_small, put_small};
use vramscope_snapshot::{Column, Pool};

use crate::device::Device;
use crate::questions::envelope::{DEFAULT_POOL, Known, Level};
use crate::questions::pools::{PoolSummary, Pools, has_private, named, pool_of_change, segments_at, signed};
use crate::shelf::Shelved;

/// Events between two levels.
const STRIDE: usize = 4096;

/// One pool and stream over the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// The pool's two numbers; `None` where the file does not say.
    pub pool: Option<Pool>,
    /// Handle of the stream that it serves.
    pub stream: u64,
    /// How its memory is known to be its own.
    pub known: Known,
    /// With what it has at the end.
    over_all: PoolSummary,
}

impl PoolRow {
    /// Whether it is known to be a private pool's.
    pub fn is_private(&self) -> bool {
        self.pool.is_some_and(|pool| pool != DEFAULT_POOL)
    }
}

/// All pools of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolTable {
    rows: Vec<PoolRow>,
    /// For each allocation the number of its row, from 1; 0 if it has none.
    #[serde(skip)]
    of: Column<u32>,
    /// The levels of all rows before every [`STRIDE`] events.
    #[serde(skip)]
    levels: Buffer<Level>,
}

impl PoolTable {
    /// The pools of a device, in the order of [`Pools::envelopes`]. Goes through the whole trace.
    pub fn new(device: &Device) -> Self {
        let (_snapshot, replay) = (device.snapshot(), device.replay());
        let pools = Pools::all(device);
        let rows = pools.envelopes().iter().zip(pools.summaries(device, replay.end()));
        let rows = rows.map(|(envelope, over_all)| PoolRow {
            pool: envelope.pool,
            stream: envelope.stream,
            known: envelope.known,
            over_all,
        });
        let moments = (0..=replay.events()).step_by(STRIDE).map(|at| Moment(at as u32));
        let levels = moments.flat_map(|at| pools.envelopes().iter().map(move |envelope| envelope.level(at)));
        Self { rows: rows.collect(), levels: levels.collect::<Vec<_>>().into(), of: pools.of.clone() }
    }

    /// Private pools by number and stream, then the default pool, then what is not known.
    pub fn rows(&self) -> &[PoolRow] {
        &self.rows
    }

    /// The pool of an allocation, where it is known.
    pub fn pool_of(&self, allocation: AllocIdx) -> Option<Pool> {
        self.rows.get(self.row_of(allocation)?)?.pool
    }

    fn row_of(&self, allocation: AllocIdx) -> Option<usize> {
        self.of.get(allocation.index()).checked_sub(1).map(|number| number as usize)
    }

    /// What is to be said about each of [`PoolTable::rows`], at a moment.
    pub fn summaries(&self, device: &Device, at: Moment) -> Vec<PoolSummary> {
        let (_snapshot, _replay) = (device.snapshot(), device.replay());
        let segments = segments_at(device, at);
        let levels = self.levels(device, at);
        let summary = |(row, now): (&PoolRow, Level)| PoolSummary {
            now,
            segments: segments.get(&(row.pool, row.stream)).copied().unwrap_or_default(),
            ..row.over_all
        };
        self.rows.iter().zip(levels).map(summary).collect()
    }

    fn levels(&self, device: &Device, at: Moment) -> Vec<Level> {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let at = at.min(replay.end());
        let before = at.0 as usize / STRIDE;
        let kept = self.levels.slice(before * self.rows.len()..(before + 1) * self.rows.len());
        let mut levels = kept.unwrap_or_default().to_vec();
        let before = Moment((before * STRIDE) as u32);
        let assume_default = !has_private(snapshot);
        let mut held = replay.ranges_at(before);
        let mut add = |row: Option<usize>, active: i64, reserved: i64| {
            if let Some(level) = row.and_then(|row| levels.get_mut(row)) {
                *level = level.plus(active, reserved);
            }
        };
        replay.each_moment_between(before, at, |_, effects| {
            for effect in effects {
                match *effect {
                    Effect::Opened(index) => {
                        add(self.row_of(index), signed(replay.allocation(index).size), 0);
                    }
                    Effect::Closed(index) => {
                        add(self.row_of(index), -signed(replay.allocation(index).size), 0);
                    }
                    Effect::Held(change) => {
                        let pool = named(snapshot, pool_of_change(&mut held, &change), assume_default);
                        let stream = snapshot.stream(change.range.stream);
                        let row = self.rows.iter().position(|row| (row.pool, row.stream) == (pool, stream));
                        add(row, 0, change.bytes());
                    }
                }
            }
        });
        levels
    }
}

impl Shelved for PoolTable {
    const NAME: &'static str = "pools";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        put_small("pools", self, out)?;
        out.put("pool_of", self.of.stored())?;
        out.put("levels", &self.levels)
    }

    /// Looking at a part of it touches that part.
    fn get(store: &Store) -> Result<Self, StoreError> {
        let mut found: Self = get_small("pools", store)?;
        found.of = Column::from_buffer(store.get("pool_of")?);
        found.levels = store.get("levels")?;
        Ok(found)
    }
}

impl Device {
    /// The pools over the whole trace.
    pub fn pools(&self) -> Arc<PoolTable> {
        self.once(|| PoolTable::new(self))
    }
}
