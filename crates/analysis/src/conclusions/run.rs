//! A run as conclusions see it: its stacks, passes and annotations, worked out once.

use vramscope_snapshot::Snapshot;

use crate::conclusions::passes::Passes;
use crate::conclusions::stacks::Stacks;
use crate::questions::spans::{Span, spans};
use crate::replay::Replay;

/// What conclusions about a device start from.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) spans: Vec<Span>,
    pub(crate) stacks: Stacks,
    pub(crate) passes: Passes,
}

impl Run {
    pub(crate) fn new(snapshot: &Snapshot, replay: &Replay) -> Self {
        let spans = spans(snapshot, replay.device());
        let stacks = Stacks::new(snapshot, replay);
        let passes = Passes::new(snapshot, replay, &stacks, &spans);
        Self { spans, stacks, passes }
    }
}
