//! All about one allocation.

use serde::{Deserialize, Serialize};
use vramscope_analysis::shapes::{Clues, Hint, SHOWN, Shapes};
use vramscope_analysis::{AllocIdx, Allocation, KnownBy, Line, Moment, Replay, State, Sum};
use vramscope_snapshot::{EventIdx, StackId};

use crate::answers::Owner;
use crate::device::{DeviceIndex, File};

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameInfo {
    /// File, line and function.
    pub at: Line,
    /// Whether it is PyTorch's, CPython's or the C++ runtime's.
    pub internal: bool,
    /// What `torch.fx` knows of it, in lines.
    pub fx: Option<String>,
}

/// A block beside another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The allocation in it; `None` for free memory.
    pub alloc: Option<AllocIdx>,
    /// Bytes.
    pub size: u64,
    /// Where it was allocated.
    pub place: String,
}

/// All about an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Which, with what its color depends on.
    pub owner: Owner,
    /// First address.
    pub addr: u64,
    /// Bytes of the block.
    pub size: u64,
    /// Whether `size` is inferred.
    pub estimated: bool,
    /// When the program freed it, which may be before its block is free again.
    pub released: Option<Moment>,
    /// Microseconds since 1970 of when it began, was released and was closed.
    pub times: [Option<i64>; 3],
    /// Stack, innermost frame first.
    pub frames: Vec<FrameInfo>,
    /// Where it was freed, if that was recorded.
    pub free_frames: Vec<FrameInfo>,
    /// The user's own line.
    pub place: String,
    /// Stream handle.
    pub stream: u64,
    /// Pool in words.
    pub pool: String,
    /// What the memory is for.
    pub category: String,
    /// The same as a row of [`vramscope_analysis::categories::DEFAULT_CATEGORIES`].
    pub category_number: u8,
    /// How that is known.
    pub known_by: KnownBy,
    /// The module of the model that made it, or that a backward pass made it for.
    pub module: Option<String>,
    /// The step that it was made in.
    pub step: Option<u64>,
    /// Names of the annotations that were open when it began, outermost first.
    pub phases: Vec<String>,
    /// Shapes that it could have, the likeliest first.
    pub shapes: Vec<String>,
    /// What was attached to its event, by name.
    pub notes: Vec<(String, String)>,
    /// The segment around it at its birth: first address and bytes.
    pub segment: Option<(u64, u64)>,
    /// What lies before and after it at the moment of the request, or when it was allocated.
    pub neighbours: [Option<Neighbour>; 2],
    /// The allocations that had its address, in order, itself among them: the nearest before and after it.
    pub tenants: Vec<Tenant>,
    /// How many there are in all.
    pub tenancies: u32,
    /// All allocations of the same stack.
    pub same_stack: Sum,
    /// Of these, those live at the moment of the request.
    pub same_stack_live: Sum,
}

/// An allocation that had an address for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Which, with when it lived.
    pub owner: Owner,
    /// Where it was allocated.
    pub place: String,
}

/// Tenants of an address that are worth listing before an allocation, and after it.
const TENANTS: usize = 6;

/// Allocations by address, so that all that ever covered an address are found without looking at the others.
#[derive(Default)]
pub(crate) struct Addresses {
    /// By address.
    order: Vec<AllocIdx>,
    /// The highest end of these and all before.
    ends: Vec<u64>,
}

impl Addresses {
    pub(crate) fn new(replay: &Replay) -> Self {
        let mut order: Vec<AllocIdx> = (0..replay.allocations().len() as u32).map(AllocIdx).collect();
        order.sort_unstable_by_key(|&index| (replay.allocation(index).addr, index));
        let mut highest = 0;
        let end = |&index: &AllocIdx| {
            let a = replay.allocation(index);
            highest = a.addr.saturating_add(a.size).max(highest);
            highest
        };
        let ends = order.iter().map(end).collect();
        Self { order, ends }
    }

    /// All that covered an address, in order of birth.
    fn at(&self, replay: &Replay, addr: u64) -> Vec<AllocIdx> {
        let begun = self.order.partition_point(|&index| replay.allocation(index).addr <= addr);
        let mut found: Vec<AllocIdx> = self.order[..begun]
            .iter()
            .zip(&self.ends)
            .rev()
            .take_while(|(_, end)| **end > addr)
            .map(|(&index, _)| index)
            .filter(|&index| {
                let a = replay.allocation(index);
                addr < a.addr.saturating_add(a.size.max(1))
            })
            .collect();
        found.sort_unstable_by_key(|&index| (replay.allocation(index).opened, index));
        found
    }
}

/// Who had the address of an allocation, near it in time; and how many there are in all.
fn tenants(
    file: &File,
    device: &DeviceIndex,
    index: AllocIdx,
    allocation: &Allocation,
) -> (Vec<Tenant>, u32) {
    if !file.snapshot.has.addresses {
        return (Vec::new(), 0);
    }
    let all = device.addresses().at(&device.replay, allocation.addr);
    let own = all.iter().position(|&other| other == index).unwrap_or_default();
    let near = all.iter().skip(own.saturating_sub(TENANTS)).take(2 * TENANTS + 1);
    let tenant = |&other: &AllocIdx| Tenant {
        owner: device.owner(file, other, false),
        place: file.stack_name(device.replay.allocation(other).stack).place.clone(),
    };
    (near.map(tenant).collect(), all.len() as u32)
}

pub(crate) fn details(
    file: &File,
    device: &DeviceIndex,
    index: AllocIdx,
    at: Moment,
    shapes: Option<&Shapes>,
) -> Details {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let allocation = replay.allocation(index);
    let events = device.events(snapshot);
    let time = |at: Moment| at.event().and_then(|event| events.time_us(event.index()));
    // Neighbours are those at the cursor, if it lives then.
    let at = Some(at).filter(|&at| allocation.is_live(at)).unwrap_or(allocation.opened);
    let state = replay.state(at);
    let range = state.range_of(allocation.addr);
    let total = device.totals().get(&allocation.stack).copied().unwrap_or_default();
    let same_live = state.live.iter().map(|&index| replay.allocation(index));
    let same_stack_live =
        same_live.filter(|other| other.stack == allocation.stack).fold(Sum::default(), |sum, other| Sum {
            count: sum.count + 1,
            bytes: sum.bytes.saturating_add(other.requested),
        });
    let concluded = device.conclusions().of(replay, index);
    let (tenants, tenancies) = tenants(file, device, index, &allocation);
    Details {
        tenants,
        tenancies,
        owner: device.owner(file, index, false),
        addr: allocation.addr,
        size: allocation.size,
        estimated: allocation.estimated,
        released: allocation.released.known(),
        times: [allocation.opened, allocation.released, allocation.closed].map(time),
        frames: file.frames(allocation.stack),
        free_frames: free_stack(file, device, &allocation).map_or_else(Vec::new, |stack| file.frames(stack)),
        place: file.stack_name(allocation.stack).place.clone(),
        stream: snapshot.stream(allocation.stream),
        pool: file.pool_name(state.pool_of(allocation.addr, allocation.pool)),
        category: concluded.category.to_owned(),
        category_number: device.categories().of(index) as u8,
        known_by: concluded.known_by,
        module: concluded.module.map(str::to_owned),
        step: concluded.step,
        phases: device.phases(snapshot, allocation.opened),
        shapes: shapes.map_or_else(Vec::new, |shapes| hints(file, shapes, &allocation)),
        notes: notes(file, device, &allocation),
        segment: range.map(|range| (range.addr, range.size)),
        neighbours: neighbours(file, device, &state, &allocation),
        same_stack: total.sum,
        same_stack_live,
    }
}

/// Shapes that are likely enough to be shown.
fn hints(file: &File, shapes: &Shapes, allocation: &Allocation) -> Vec<String> {
    let clues = Clues::of_stack(&file.snapshot, allocation.stack);
    let found =
        shapes.hints(allocation.requested, &clues).into_iter().filter(|hint| hint.confidence >= SHOWN);
    let text = |hint: Hint| {
        let sides: Vec<_> = hint.shape.iter().map(u64::to_string).collect();
        format!("{}[{}]  {} {}", hint.dtype.name(), sides.join(", "), hint.names, hint.what)
    };
    found.map(text).collect()
}

/// The stack of the event that let it go, if it is another one.
fn free_stack(file: &File, device: &DeviceIndex, allocation: &Allocation) -> Option<StackId> {
    let event = allocation.released.event()?;
    let stack = device.events(&file.snapshot).get(event.index()).stack;
    (stack.has_frames() && stack != allocation.recorded).then_some(stack)
}

/// What was attached to the event that opened it.
fn notes(file: &File, device: &DeviceIndex, allocation: &Allocation) -> Vec<(String, String)> {
    let snapshot = &file.snapshot;
    let Some(EventIdx(event)) = allocation.opened.event() else { return Vec::new() };
    let meta = snapshot.meta(device.events(snapshot).get(event as usize).meta);
    let texts = [
        ("compiled region", meta.compile_context),
        ("metadata", meta.user_metadata),
        ("internal", meta.internal_metadata),
        ("forward traceback", meta.forward),
    ];
    let present = texts.into_iter().map(|(name, text)| (name.to_owned(), snapshot.text(text).to_owned()));
    present.filter(|(_, text)| !text.is_empty()).collect()
}

fn neighbours(
    file: &File,
    device: &DeviceIndex,
    state: &State,
    allocation: &Allocation,
) -> [Option<Neighbour>; 2] {
    let replay = &device.replay;
    let Some(range) = state.range_of(allocation.addr) else { return [None, None] };
    let end = allocation.addr.saturating_add(allocation.size);
    let describe = |index: AllocIdx| {
        let other = replay.allocation(index);
        Neighbour { alloc: Some(index), size: other.size, place: file.stack_name(other.stack).place.clone() }
    };
    let hole = |size: u64| Neighbour { alloc: None, size, place: "free".into() };
    let place = state.live.partition_point(|&index| replay.allocation(index).addr < allocation.addr);
    let before = place.checked_sub(1).and_then(|place| state.live.get(place)).copied();
    let before_end = before
        .map(|index| replay.allocation(index))
        .map(|other| other.addr.saturating_add(other.size))
        .filter(|&end| end > range.addr)
        .unwrap_or(range.addr);
    let before = match allocation.addr.saturating_sub(before_end) {
        0 if before_end > range.addr => before.map(describe),
        0 => None,
        free => Some(hole(free)),
    };
    let later = state.live.get(place..).unwrap_or_default().iter().copied();
    let after = later.map(|index| (index, replay.allocation(index).addr)).find(|&(_, addr)| addr >= end);
    let after = match after.filter(|&(_, addr)| addr < range.end()) {
        Some((index, addr)) if addr == end => Some(describe(index)),
        Some((_, addr)) => Some(hole(addr - end)),
        None if end < range.end() => Some(hole(range.end() - end)),
        None => None,
    };
    [before, after]
}
