//! All about one allocation.

use vramscope_analysis::shapes::{Clues, Hint, SHOWN, Shapes};
use vramscope_analysis::{AllocIdx, Allocation, Moment, State, Sum};
use vramscope_snapshot::{EventIdx, StackId};

use crate::answers::{Details, Neighbour};
use crate::device::{Device, File};

pub(crate) fn details(
    file: &File,
    device: &Device,
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
    let concluded = device.conclusions(snapshot).of(snapshot, replay, index);
    Details {
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
        category_number: device.categories(&file.snapshot).of(index) as u8,
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
fn free_stack(file: &File, device: &Device, allocation: &Allocation) -> Option<StackId> {
    let event = allocation.released.event()?;
    let stack = device.events(&file.snapshot).get(event.index()).stack;
    (stack.has_frames() && stack != allocation.recorded).then_some(stack)
}

/// What was attached to the event that opened it.
fn notes(file: &File, device: &Device, allocation: &Allocation) -> Vec<(String, String)> {
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
    device: &Device,
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
