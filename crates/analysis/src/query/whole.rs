//! What filters and groups need of the whole trace, from wherever it is at hand: a file in the cache has it already.

use vramscope_snapshot::Snapshot;

use crate::conclusions::categories::Categories;
use crate::conclusions::run::Run;
use crate::questions::pools::PoolTable;
use crate::questions::spans::Span;
use crate::replay::Replay;

/// What questions need that follows from the whole trace of a device.
pub trait WholeTrace {
    /// What each allocation is for, by the default rules.
    fn categories(&self) -> Categories;
    /// Which pool each allocation lies in.
    fn pools(&self) -> PoolTable;
    /// The annotations.
    fn spans(&self) -> Vec<Span>;
}

/// All of it worked out.
pub(crate) struct Fresh<'a> {
    snapshot: &'a Snapshot,
    replay: &'a Replay,
}

impl<'a> Fresh<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, replay: &'a Replay) -> Self {
        Self { snapshot, replay }
    }
}

impl WholeTrace for Fresh<'_> {
    fn categories(&self) -> Categories {
        Run::of(self.snapshot, self.replay).categories().clone()
    }

    fn pools(&self) -> PoolTable {
        PoolTable::new(self.snapshot, self.replay)
    }

    fn spans(&self) -> Vec<Span> {
        self.replay.spans(self.snapshot).to_vec()
    }
}
