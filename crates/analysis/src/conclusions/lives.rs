//! The lives of blocks: who frees them, which outlive their siblings, and what is there twice.
//!
//! *Siblings* are the blocks that one stack allocates in one step: when all but one are gone, the last one has most likely
//! been forgotten. Its bytes are held *alone* from the release of the sibling before it to its own.
//!
//! *Twins* are two blocks of the same size and stack whose lives begin and end together: the same thing made twice.

use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::StackId;

use crate::conclusions::steps::Steps;
use crate::device::Device;
use crate::shelf::Small;

/// Blocks that one stack allocates and one stack frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    /// Where they are allocated.
    pub stack: StackId,
    /// Where the program lets them go.
    pub freed: StackId,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Events that they lived, summed.
    pub events: u64,
    /// Bytes of the last ones of their siblings.
    pub alone_bytes: u64,
    /// The longest that one was held alone, in events.
    pub alone_events: u64,
}

/// Blocks that are there twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Twins {
    /// Where they are allocated.
    pub stack: StackId,
    /// Bytes of each.
    pub size: u64,
    /// Pairs.
    pub pairs: u64,
    /// Bytes of the second of each pair.
    pub bytes: u64,
    /// When the first pair began.
    pub first: Moment,
}

/// What is known of the lives of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lives {
    /// By allocating and freeing stack, most bytes first.
    pub freed: Vec<Freed>,
    /// By stack and size, most bytes first.
    pub twins: Vec<Twins>,
}

/// Lives that begin, and end, within this many events of each other belong together: a handful of operations.
const TOGETHER: u32 = 16;
/// Shorter lives are temporary, and smaller blocks are not worth a word.
const LEAST_EVENTS: u32 = 100;
const LEAST_BYTES: u64 = 1 << 20;

/// The last releases of some siblings: of the last one, and of the one before.
#[derive(Clone, Copy, Default)]
struct Family {
    count: u64,
    last: Option<AllocIdx>,
    released: Moment,
    before: Moment,
}

/// The lives of some of the blocks of a device, which come in order.
pub fn lives(device: &Device, steps: &Steps, blocks: impl Iterator<Item = (AllocIdx, Allocation)>) -> Lives {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let events = snapshot.events(replay.device());
    let freed_by = |block: &Allocation| block.released.event().and_then(|event| events.stack(event.index()));
    let mut groups: HashMap<(StackId, StackId), Freed> = HashMap::new();
    let mut families: HashMap<(StackId, usize), Family> = HashMap::new();
    let mut twins: HashMap<(StackId, u64), Twins> = HashMap::new();
    // The last block of each stack and size that has no twin yet.
    let mut single: HashMap<(StackId, u64), Allocation> = HashMap::new();
    for (index, block) in blocks {
        let has_stack = block.recorded.has_frames();
        if block.opened == Moment::START {
            continue;
        }
        let life = block.released.0.saturating_sub(block.opened.0);
        if has_stack && block.requested >= LEAST_BYTES && life >= LEAST_EVENTS {
            let key = (block.stack, block.requested);
            let is_twin = |other: &Allocation| {
                block.opened.0 - other.opened.0 <= TOGETHER
                    && block.released.0.abs_diff(other.released.0) <= TOGETHER
            };
            match single.get(&key).is_some_and(is_twin) {
                true => {
                    let first = single.remove(&key).map_or(block.opened, |other| other.opened);
                    let found = twins.entry(key).or_insert(Twins {
                        stack: block.stack,
                        size: block.requested,
                        first,
                        ..Twins::default()
                    });
                    found.pairs += 1;
                    found.bytes = found.bytes.saturating_add(block.requested);
                }
                false => {
                    single.insert(key, block);
                }
            }
        }
        let Some(freed) = freed_by(&block).filter(|_| block.released != Moment::NEVER) else { continue };
        let group = groups.entry((block.stack, freed)).or_insert(Freed {
            stack: block.stack,
            freed,
            ..Freed::default()
        });
        group.count += 1;
        group.bytes = group.bytes.saturating_add(block.requested);
        group.events += u64::from(life);
        let step = steps.list.partition_point(|step| step.to < block.opened);
        let family = families.entry((block.stack, step)).or_default();
        family.count += 1;
        if family.last.is_none() || block.released > family.released {
            (family.before, family.released) = (family.released, block.released);
            family.last = Some(index);
        } else {
            family.before = family.before.max(block.released);
        }
    }
    for family in families.values().filter(|family| family.count >= 2) {
        let Some(block) = family.last.map(|index| replay.allocation(index)) else { continue };
        let alone = u64::from(family.released.0.saturating_sub(family.before.0));
        let key = freed_by(&block).map(|freed| (block.stack, freed));
        if let Some(group) = key.and_then(|key| groups.get_mut(&key)).filter(|_| alone > 0) {
            group.alone_events = group.alone_events.max(alone);
            group.alone_bytes = group.alone_bytes.saturating_add(block.requested);
        }
    }
    let mut found = Lives { freed: groups.into_values().collect(), twins: twins.into_values().collect() };
    found.freed.sort_by_key(|group| (std::cmp::Reverse(group.bytes), group.stack, group.freed));
    found.twins.sort_by_key(|twins| (std::cmp::Reverse(twins.bytes), twins.stack, twins.size));
    found
}

impl Small for Lives {
    const NAME: &'static str = "lives";
}

impl Device {
    /// The lives of all blocks.
    pub fn lives(&self) -> Arc<Lives> {
        self.once(|| lives(self, self.steps(), self.allocations().iter()))
    }
}
