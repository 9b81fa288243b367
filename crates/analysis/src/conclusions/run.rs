//! A run as conclusions see it: its annotations, stacks, passes and steps, and what its memory is for. Several questions
//! start from each of these, so a replay keeps what was worked out once.

use std::sync::OnceLock;

use vramscope_snapshot::{DeviceId, Snapshot};

use crate::conclusions::categories::{Categories, Rules, classify};
use crate::conclusions::passes::{Pass, Passes};
use crate::conclusions::stacks::Stacks;
use crate::conclusions::steps::Steps;
use crate::questions::spans::{Span, spans};
use crate::replay::Replay;

/// What a replay keeps of its run. Nothing in it depends on attributed stacks, nor on the frames that a user passes over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    spans: OnceLock<Vec<Span>>,
    stacks: OnceLock<Stacks>,
    passes: OnceLock<Passes>,
    steps: OnceLock<Steps>,
    categories: OnceLock<Categories>,
}

/// What follows from the events of a device alone, where they tell anything: it can be worked out while they are replayed.
pub(crate) struct OfEvents {
    spans: Vec<Span>,
    stacks: Stacks,
    passes: Vec<Pass>,
}

impl OfEvents {
    pub(crate) fn new(snapshot: &Snapshot, device: DeviceId) -> Option<Self> {
        let stacks = Stacks::of_events(snapshot, device)?;
        let spans = spans(snapshot, device);
        let passes = Passes::of_events(snapshot, device, &stacks, &spans);
        Some(Self { spans, stacks, passes })
    }

    /// The same once the events were replayed.
    pub(crate) fn settled(self, snapshot: &Snapshot, replay: &Replay) -> Found {
        let stacks = self.stacks.with_old(snapshot, replay);
        let passes = Passes::settled(self.passes, replay, &stacks);
        Found { spans: self.spans.into(), stacks: stacks.into(), passes: passes.into(), ..Found::default() }
    }
}

/// What conclusions about a device start from. Each part is worked out when it is first asked for.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    snapshot: &'a Snapshot,
    replay: &'a Replay,
}

impl<'a> Run<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, replay: &'a Replay) -> Self {
        Self { snapshot, replay }
    }

    /// The annotations, in order of beginning.
    pub(crate) fn spans(self) -> &'a [Span] {
        self.replay.found.spans.get_or_init(|| spans(self.snapshot, self.replay.device()))
    }

    /// What the stacks say.
    pub(crate) fn stacks(self) -> &'a Stacks {
        self.replay.found.stacks.get_or_init(|| Stacks::new(self.snapshot, self.replay))
    }

    /// Where passes begin and end.
    pub(crate) fn passes(self) -> &'a Passes {
        let passes = || {
            let device = self.replay.device();
            let list = Passes::of_events(self.snapshot, device, self.stacks(), self.spans());
            Passes::settled(list, self.replay, self.stacks())
        };
        self.replay.found.passes.get_or_init(passes)
    }

    /// Where steps begin and end.
    pub(crate) fn steps(self) -> &'a Steps {
        let steps = || Steps::new(self.snapshot, self.replay, self.spans(), self.passes());
        self.replay.found.steps.get_or_init(steps)
    }

    /// What memory is for, by the default rules.
    pub(crate) fn categories(self) -> &'a Categories {
        let categories = || classify(self.replay, self.snapshot, &Rules::default());
        self.replay.found.categories.get_or_init(categories)
    }
}

impl Replay {
    /// The annotations of the device as spans, in order of beginning. `snapshot` is the one that this is a replay of.
    pub fn spans<'a>(&'a self, snapshot: &'a Snapshot) -> &'a [Span] {
        Run::of(snapshot, self).spans()
    }

    /// The steps of the device.
    pub fn steps<'a>(&'a self, snapshot: &'a Snapshot) -> &'a Steps {
        Run::of(snapshot, self).steps()
    }
}
