//! Some allocations alone: which they are, piled up from zero, and their level over time.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use vramscope_analysis::pictures::Pile;
use vramscope_analysis::{AllocIdx, Allocation, Counter, Moment, Peak, Sum};
use vramscope_snapshot::{PoolId, StackId, StreamId};

use crate::answers::{LineId, Owner};
use crate::device::{DeviceIndex, File};
use crate::protocol::{AskLevels, Stretch, Which};
use crate::rows::{self, NoRows};
use crate::tiles;

/// What some allocations have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Group {
    /// Their stack.
    Stack(StackId),
    /// Their line of the program.
    Line(LineId),
    /// What they are for: a row of [`vramscope_analysis::categories::DEFAULT_CATEGORIES`].
    Category(u8),
    /// A module of the model, or one inside it.
    Module(String),
    /// Their pool.
    Pool(PoolId),
    /// Their stream.
    Stream(StreamId),
}

impl Group {
    /// Whether an allocation is one of them.
    pub(crate) fn has(&self, file: &File, device: &DeviceIndex, index: AllocIdx, a: &Allocation) -> bool {
        match self {
            Self::Stack(stack) => a.stack == *stack,
            Self::Line(line) => file.stack_name(a.stack).line == *line,
            Self::Category(category) => device.categories().of(index) == usize::from(*category),
            Self::Module(path) => device.module(index).is_some_and(|module| {
                module
                    .strip_prefix(path.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }),
            Self::Pool(pool) => a.pool == *pool,
            Self::Stream(stream) => a.stream == *stream,
        }
    }
}

impl Group {
    /// Whether an allocation in a picture is one of them, as far as a picture says.
    pub(crate) fn has_owner(&self, owner: &Owner) -> bool {
        match self {
            Self::Stack(stack) => owner.stack == *stack,
            Self::Line(line) => owner.line == *line,
            Self::Category(category) => owner.category == *category,
            Self::Module(_) => true,
            Self::Pool(pool) => owner.pool == *pool,
            Self::Stream(stream) => owner.stream == *stream,
        }
    }
}

/// The level of some allocations, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetLevels {
    /// Columns.
    pub stretch: Stretch,
    /// The most of each column; `None` outside the recording.
    pub most: Vec<Option<u64>>,
    /// All of them, whenever they lived.
    pub sum: Sum,
    /// When they were highest.
    pub peak: Peak,
    /// Microseconds from the first event to that moment.
    pub peak_time: i64,
    /// From the first birth to the last end.
    pub life: (Moment, Moment),
    /// The same in microseconds since the first event.
    pub time: (i64, i64),
}

/// Sets that are kept for the next picture.
pub(crate) const KEPT: usize = 6;

/// Some allocations, with a pile of each counter once it is asked for.
#[derive(Default)]
pub(crate) struct Set {
    /// In order.
    pub(crate) members: Vec<AllocIdx>,
    piles: [OnceLock<Pile>; 3],
}

impl Set {
    /// The allocations that pass a filter.
    pub(crate) fn new(
        file: &File,
        device: &DeviceIndex,
        which: &Which,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self, NoRows> {
        let mut members: Vec<AllocIdx> =
            rows::filtered(file, device, which, go_on)?.into_iter().map(AllocIdx).collect();
        members.sort_unstable();
        Ok(Self { members, ..Self::default() })
    }

    /// The pile of a counter.
    pub(crate) fn pile(&self, device: &DeviceIndex, counter: Counter) -> &Pile {
        let slot = DeviceIndex::pile_slot(counter);
        self.piles[slot].get_or_init(|| Pile::of(&device.replay, counter, &self.members))
    }
}

/// A set that is made once and kept for a while. `None` if it was stopped; what is no filter matches nothing.
pub(crate) fn set(
    file: &File,
    device: &DeviceIndex,
    which: &Which,
    go_on: &dyn Fn() -> bool,
) -> Option<Arc<Set>> {
    if let Ok(sets) = device.sets.lock()
        && let Some((_, set)) = sets.iter().find(|(known, _)| known == which)
    {
        return Some(Arc::clone(set));
    }
    let set = Arc::new(match Set::new(file, device, which, go_on) {
        Ok(set) => set,
        Err(NoRows::Stopped) => return None,
        Err(NoRows::Problem(_)) => Set::default(),
    });
    if let Ok(mut sets) = device.sets.lock() {
        if sets.len() >= KEPT {
            sets.remove(0);
        }
        sets.push((which.clone(), Arc::clone(&set)));
    }
    Some(set)
}

pub(crate) fn levels(
    file: &File,
    device: &DeviceIndex,
    ask: &AskLevels,
    go_on: &dyn Fn() -> bool,
) -> Option<SetLevels> {
    let replay = &device.replay;
    let set = set(file, device, &ask.only, go_on)?;
    let levels = set.pile(device, ask.counter).levels()?;
    let columns = tiles::columns(file, device, ask.stretch);
    let most = columns.iter().map(|moments| {
        let (from, to) = moments?;
        Some(levels.at(levels.highest(from, to)))
    });
    let mut sum = Sum::default();
    let mut life: Option<(Moment, Moment)> = None;
    for &index in &set.members {
        let a = replay.allocation(index);
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(a.requested);
        let end = a.closed.min(replay.end());
        life = Some(life.map_or((a.opened, end), |(from, to)| (from.min(a.opened), to.max(end))));
    }
    let life = life.unwrap_or((Moment::START, replay.end()));
    let clock = device.clock(&file.snapshot);
    let time = |at: Moment| clock.map_or(0, |clock| clock.of(at));
    let peak = levels.peak();
    Some(SetLevels {
        stretch: ask.stretch,
        most: most.collect(),
        sum,
        peak,
        peak_time: time(peak.at),
        life,
        time: (time(life.0), time(life.1)),
    })
}
