//! Which pool a failed request was for.
//!
//! PyTorch before 2.12 does not say. The allocations of the same stream around the error tell: a program that allocates
//! from a `MemPool` does so before the error, and often after it. A pool that had room did not refuse.

use vramscope_replay::{Moment, Oom, State};
use vramscope_snapshot::{Action, Event, EventIdx, Pool};

use super::super::Case;
use crate::questions::pins::largest_fit;
use crate::questions::pools::{DEFAULT_POOL, has_private};

/// The pool of a request, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pool: Pool,
    pub(super) is_inferred: bool,
}

impl Owner {
    pub(super) fn of(case: &Case<'_>, oom: &Oom, event: &Event, state: &State) -> Self {
        let Case { snapshot, replay, device, .. } = *case;
        if let Some(pool) = snapshot.pool(event.pool) {
            return Self { pool, is_inferred: false };
        }
        if !has_private(snapshot) {
            return Self { pool: DEFAULT_POOL, is_inferred: false };
        }
        let events = snapshot.events(replay.device());
        let is_neighbor = |row: &usize| {
            let other = events.get(*row);
            other.action == Action::Alloc && other.stream == event.stream
        };
        let pool_of = |row: usize| {
            let index = replay.allocation_of(EventIdx::from_index(row))?;
            let allocation = replay.allocation(index);
            let then = replay.state(Moment::after(EventIdx::from_index(row)));
            Some(snapshot.pool(then.pool_of(allocation.addr, allocation.pool)).unwrap_or(DEFAULT_POOL))
        };
        let at = oom.event.index();
        let before = (0..at).rev().find(is_neighbor).and_then(pool_of);
        let after = || (at..events.len()).find(is_neighbor).and_then(pool_of);
        let refused = |pool: &Pool| largest_fit(device, state, *pool, event.stream) < oom.requested;
        let found = before.filter(refused).or_else(|| after().filter(refused));
        Self { pool: found.unwrap_or(DEFAULT_POOL), is_inferred: true }
    }
}
