//! One device of a recording: what the file says, its replay, and the facts that follow.
//!
//! A fact is worked out when it is first asked for, once, and shared by everything that asks. The facts that every
//! conclusion starts from (annotations, stacks, passes, steps) have methods here. Answers that go through the whole trace
//! keep themselves with [`Device::once`], by their type: this module knows none of them, so that they may depend on it.

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hashbrown::HashMap;
use vramscope_replay::{Both, IN_TURN, Replay};
use vramscope_snapshot::{DeviceId, EventTable, Snapshot};

use crate::conclusions::backward::attribute;
use crate::conclusions::cycles::Cycles;
use crate::conclusions::passes::{Pass, Passes};
use crate::conclusions::stacks::Stacks;
use crate::conclusions::steps::Steps;
use crate::questions::spans::{Span, spans};
use crate::shelf::{Shelf, Shelved};

/// One device of a recording. It is a [`Replay`] with the facts that follow from it.
#[derive(Clone, Debug)]
pub struct Device {
    snapshot: Arc<Snapshot>,
    replay: Replay,
    spans: OnceLock<Vec<Span>>,
    stacks: OnceLock<Stacks>,
    passes: OnceLock<Passes>,
    steps: OnceLock<Steps>,
    cycles: OnceLock<Cycles>,
    answers: Arc<Answers>,
    shelf: Option<Arc<dyn Shelf>>,
}

/// Answers that were asked for, by their type: each a [`Slot`] of it.
#[derive(Default)]
struct Answers(Mutex<HashMap<TypeId, Box<dyn Any + Send>>>);

/// Place of an answer, so that of two who ask at once one waits for the other.
type Slot<T> = Arc<OnceLock<Arc<T>>>;

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// Facts that follow from the events of a device alone, so that they can be worked out while it is replayed.
struct OfEvents {
    spans: Vec<Span>,
    stacks: Stacks,
    passes: Vec<Pass>,
}

impl OfEvents {
    fn new(snapshot: &Snapshot, device: DeviceId) -> Option<Self> {
        let stacks = Stacks::of_events(snapshot, device)?;
        let spans = spans(snapshot, device);
        let passes = Passes::of_events(snapshot, device, &stacks, &spans);
        Some(Self { spans, stacks, passes })
    }
}

impl Device {
    /// A device whose replay is known, e.g. from the cache.
    pub fn of(snapshot: Arc<Snapshot>, replay: Replay) -> Self {
        Self {
            snapshot,
            replay,
            spans: OnceLock::new(),
            stacks: OnceLock::new(),
            passes: OnceLock::new(),
            steps: OnceLock::new(),
            cycles: OnceLock::new(),
            answers: Arc::default(),
            shelf: None,
        }
    }

    /// Sets where answers are kept beyond the process.
    #[must_use]
    pub fn on(mut self, shelf: Arc<dyn Shelf>) -> Self {
        self.shelf = Some(shelf);
        self
    }

    /// Replays one device of a snapshot. Stacks stay as they were recorded.
    pub fn new(snapshot: impl Into<Arc<Snapshot>>, device: DeviceId) -> Self {
        let snapshot = snapshot.into();
        let replay = Replay::new(&snapshot, device);
        Self::of(snapshot, replay)
    }

    /// Replays every device of a snapshot that has a trace or segments, in order; pinned host memory comes last. Memory
    /// of backward passes gets the stack of the forward line that it belongs to.
    pub fn all(snapshot: &Arc<Snapshot>) -> Vec<Self> {
        Self::all_with(snapshot, IN_TURN)
    }

    /// Replays every device for a caller that has threads: `both` does two things that do not depend on each other.
    pub fn all_with(snapshot: &Arc<Snapshot>, both: Both<'_>) -> Vec<Self> {
        // Pinned host memory comes last: it is not what people open a snapshot for.
        let mut devices = snapshot.devices();
        devices.sort_by_key(|&device| (device == DeviceId::HOST, device));
        let replay = |device| {
            let (mut replay, mut of_events) = (None, None);
            both(&mut || replay = Some(Replay::new_with(snapshot, device, both)), &mut || {
                of_events = OfEvents::new(snapshot, device);
            });
            let replay = replay.unwrap_or_else(|| Replay::new(snapshot, device));
            let Some(OfEvents { spans, stacks, passes }) = of_events else {
                return Self::of(Arc::clone(snapshot), replay);
            };
            let stacks = stacks.with_old(snapshot, &replay);
            let passes = Passes::settled(passes, &replay, &stacks);
            let (spans, stacks, passes) = (spans.into(), stacks.into(), passes.into());
            Self { spans, stacks, passes, ..Self::of(Arc::clone(snapshot), replay) }
        };
        let mut devices: Vec<_> = devices.into_iter().map(replay).collect();
        let passes: Vec<_> = devices.iter().map(|device| device.passes().clone()).collect();
        let replays = devices.iter_mut().map(|device| &mut device.replay);
        attribute(snapshot, replays.zip(&passes));
        devices
    }

    /// The snapshot that the device is of.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The snapshot, shared.
    pub fn shared_snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The replay without its facts.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// The events of the device.
    pub fn event_table(&self) -> &EventTable {
        self.snapshot.events(self.replay.device())
    }

    /// The annotations as spans, in order of beginning.
    pub fn spans(&self) -> &[Span] {
        self.spans.get_or_init(|| self.kept(|| spans(&self.snapshot, self.replay.device())))
    }

    /// The role of every stack.
    pub(crate) fn stacks(&self) -> &Stacks {
        self.stacks.get_or_init(|| Stacks::new(&self.snapshot, &self.replay))
    }

    /// The passes in order.
    pub fn passes(&self) -> &Passes {
        self.passes.get_or_init(|| {
            let device = self.replay.device();
            let list = Passes::of_events(&self.snapshot, device, self.stacks(), self.spans());
            Passes::settled(list, &self.replay, self.stacks())
        })
    }

    /// The steps in order.
    pub fn steps(&self) -> &Steps {
        let steps = || Steps::new(&self.snapshot, &self.replay, self.spans(), self.passes());
        self.steps.get_or_init(|| self.kept(steps))
    }

    /// Backward passes, and the units of work that repeat.
    pub fn cycles(&self) -> &Cycles {
        self.cycles.get_or_init(|| Cycles::new(&self.snapshot, &self.replay, self.steps()))
    }

    /// An answer about the whole trace: the one that was given before, else that of `make`. Who asks meanwhile waits.
    pub(crate) fn once<T: Shelved + Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let slot = {
            let mut answers = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = answers.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(Slot::<T>::default()));
            slot.downcast_ref::<Slot<T>>().cloned().unwrap_or_default()
        };
        Arc::clone(slot.get_or_init(|| Arc::new(self.kept(make))))
    }

    /// What is on the shelf, else what `make` makes, which is put there.
    fn kept<T: Shelved>(&self, make: impl FnOnce() -> T) -> T {
        // Frames that the user passes over may change it.
        let shelf = self.shelf.as_ref().filter(|_| self.snapshot.ignored_frames().is_empty());
        let Some(shelf) = shelf else { return make() };
        let device = self.replay.device();
        if let Some(found) = shelf.load(device, T::NAME).and_then(|store| T::get(&store).ok()) {
            return found;
        }
        let made = make();
        shelf.store(device, T::NAME, &|out| made.put(out));
        made
    }
}

impl Deref for Device {
    type Target = Replay;

    fn deref(&self) -> &Replay {
        &self.replay
    }
}

impl AsRef<Self> for Device {
    fn as_ref(&self) -> &Self {
        self
    }
}
