//! Events into allocations.
//!
//! An `alloc` opens an allocation, `free_requested` releases it, `free_completed` closes it. A free of
//! something that the trace does not open tells of an allocation from before; so does a block of the
//! final state that no event opened. What is open in the trace but free in the final state has lost
//! its free.

use bytemuck::{Pod, Zeroable};
use hashbrown::HashMap;
use vramscope_mapped::Buffer;
use vramscope_snapshot::{
    Action, Block, BlockState, DeviceId, EventIdx, EventTable, PoolId, Snapshot, StackId,
};

use crate::allocations::{AllocIdx, Allocation, Allocations, Moment};

/// What an event did to memory: nothing, something to an allocation, or something to the memory held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Link(u32);

const SEGMENT_BIT: u32 = 1 << 31;

impl Link {
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn allocation(index: AllocIdx) -> Self {
        Self(index.0 & !SEGMENT_BIT)
    }

    pub(crate) fn segment(row: usize) -> Self {
        Self(row as u32 | SEGMENT_BIT)
    }

    /// The allocation that the event concerns.
    #[inline]
    pub fn as_allocation(self) -> Option<AllocIdx> {
        (self.0 & SEGMENT_BIT == 0).then_some(AllocIdx(self.0))
    }

    /// Row of the change of memory held that the event makes.
    #[inline]
    pub fn as_segment(self) -> Option<usize> {
        (self.0 & SEGMENT_BIT != 0 && self != Self::NONE).then_some((self.0 & !SEGMENT_BIT) as usize)
    }
}

/// The result of pairing, before sizes are known exactly.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    pub(crate) allocations: Allocations,
    /// For every event what it did.
    pub(crate) links: Buffer<Link>,
    /// Events that change the memory held, in order.
    pub(crate) segment_events: Vec<EventIdx>,
    /// Allocations whose end no event shows, with the event by which they must have ended.
    pub(crate) lost_ends: Vec<(EventIdx, AllocIdx)>,
    /// Exact sizes of those that are live at the end.
    pub(crate) final_sizes: HashMap<u32, u64>,
    /// Requests that the final state gives otherwise than the event. Sizes follow from the event's.
    pub(crate) restated: Vec<(AllocIdx, u64)>,
    /// Addresses of the segments that an NPU uses as workspaces.
    pub(crate) workspaces: Vec<u64>,
    pub(crate) facts: Facts,
}

/// What the pairing found out about the recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) allocs: u64,
    pub(crate) frees_requested: u64,
    pub(crate) frees_completed: u64,
    pub(crate) segment_events: u64,
    /// Allocations from before the first event.
    pub(crate) earlier: u64,
    pub(crate) earlier_bytes: u64,
    /// Those of them whose stack is known: recording was on when they were made.
    pub(crate) earlier_with_stack: u64,
    /// Allocations whose free is missing, and their bytes.
    pub(crate) lost_frees: u64,
    pub(crate) lost_free_bytes: u64,
    /// Blocks live at the end whose size is not what the rules give, and by how much in all.
    pub(crate) differing: u64,
    pub(crate) differing_bytes: u64,
    /// Sizes that what happens next corrects, or that depend on when a setting changed.
    pub(crate) adjusted: u64,
    /// Events that contradict what came before.
    pub(crate) contradictions: u64,
    /// Blocks whose final state names another request than the event that made them.
    pub(crate) restated: u64,
    /// NPU workspaces, and the events that describe them.
    pub(crate) workspaces: u64,
    pub(crate) workspace_events: u64,
    /// Blocks of the final state that the intact part of a damaged file does not explain.
    pub(crate) unexplained_bytes: u64,
}

/// Pairs the events of a device. `complete` is false for a damaged file, whose final state belongs to
/// events that are not there.
pub(crate) fn pair(snapshot: &Snapshot, device: DeviceId, events: &EventTable, complete: bool) -> Pairing {
    let mut pairing = Pairing { links: Vec::with_capacity(events.len()).into(), ..Pairing::default() };
    let mut facts = Facts::default();
    for action in events.actions() {
        match action {
            Action::Alloc => facts.allocs += 1,
            Action::FreeRequested => facts.frees_requested += 1,
            Action::FreeCompleted => facts.frees_completed += 1,
            _ => {}
        }
    }
    let mut open: HashMap<u64, AllocIdx> = HashMap::new();
    let mut completes_next = None;
    let mut skip_until = 0;
    pairing.allocations.reserve(facts.allocs as usize);
    let mut table = pairing.allocations.growing();
    let addrs = events.addrs();
    let links = pairing.links.to_mut();
    for (row, action) in events.actions().enumerate() {
        let event = EventIdx::from_index(row);
        let now = Moment::after(event);
        let link = match action {
            _ if row < skip_until => {
                facts.workspace_events += 1;
                Link::NONE
            }
            Action::Alloc => {
                let Some(new) = opened(events, row, now) else {
                    links.push(Link::NONE);
                    continue;
                };
                let index = table.push(&new);
                if let Some(lost) = open.insert(new.addr, index) {
                    table.end(lost, now);
                    pairing.lost_ends.push((event, lost));
                    facts.lost_frees += 1;
                    facts.lost_free_bytes =
                        facts.lost_free_bytes.saturating_add(table.requested[lost.index()]);
                }
                Link::allocation(index)
            }
            Action::FreeRequested => {
                let addr = addrs[row];
                // Nearly always the free completes with the next event, and one look-up serves both.
                if events.action(row + 1) == Some(Action::FreeCompleted)
                    && addrs.get(row + 1) == Some(&addr)
                    && let Some(index) = open.remove(&addr)
                {
                    completes_next = Some(index);
                    let released = &mut table.released[index.index()];
                    facts.contradictions += u64::from(*released != Moment::NEVER);
                    *released = now.min(*released);
                    links.push(Link::allocation(index));
                    continue;
                }
                match open.get(&addr).copied() {
                    Some(index) if table.released[index.index()] == Moment::NEVER => {
                        table.released[index.index()] = now;
                        if facts.frees_completed == 0 {
                            table.closed[index.index()] = now;
                            open.remove(&addr);
                        }
                        Link::allocation(index)
                    }
                    Some(_) => {
                        facts.contradictions += 1;
                        Link::NONE
                    }
                    None => {
                        let closed = if facts.frees_completed == 0 { now } else { Moment::NEVER };
                        let index = table.push(&earlier(events, row, now, closed));
                        if closed == Moment::NEVER {
                            open.insert(addr, index);
                        }
                        Link::allocation(index)
                    }
                }
            }
            Action::FreeCompleted => {
                match completes_next.take().or_else(|| open.remove(&addrs[row])) {
                    Some(index) => {
                        table.end(index, now);
                        Link::allocation(index)
                    }
                    None => {
                        // Its release lies before the first event, unless such events are left out.
                        let released = if facts.frees_requested == 0 { now } else { Moment::START };
                        Link::allocation(table.push(&earlier(events, row, released, now)))
                    }
                }
            }
            Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap => {
                facts.segment_events += 1;
                pairing.segment_events.push(event);
                Link::segment(pairing.segment_events.len() - 1)
            }
            Action::WorkspaceSnapshot => {
                skip_until = row + 1 + workspace_len(events, row);
                facts.workspaces += 1;
                pairing.workspaces.push(events.addrs()[row]);
                facts.workspace_events += 1;
                Link::NONE
            }
            Action::Snapshot
            | Action::Oom
            | Action::Annotate
            | Action::UserDefined
            | Action::Total
            | Action::Unknown => Link::NONE,
        };
        links.push(link);
    }
    pairing.facts = facts;
    if complete {
        pairing.settle(snapshot, device, &mut open, events.len());
    } else {
        pairing.facts.unexplained_bytes = final_blocks(snapshot, device)
            .filter(|(block, ..)| !open.contains_key(&block.addr))
            .fold(0_u64, |sum, (block, ..)| sum.saturating_add(block.size));
    }
    let is_recorded = pairing.facts.earlier_with_stack > 0;
    for row in 0..pairing.allocations.len() {
        if pairing.allocations.opened[row] == Moment::START {
            // An empty stack is that of a thread without Python frames only if recording was on.
            if !is_recorded {
                pairing.allocations.stack[row] = StackId::ABSENT;
            }
            pairing.facts.earlier += 1;
            let bytes = &mut pairing.facts.earlier_bytes;
            *bytes = bytes.saturating_add(pairing.allocations.requested[row]);
        }
    }
    pairing
}

impl Pairing {
    /// Brings the end of the trace and the final state together.
    fn settle(
        &mut self,
        snapshot: &Snapshot,
        device: DeviceId,
        open: &mut HashMap<u64, AllocIdx>,
        events: usize,
    ) {
        for (block, pool, stream) in final_blocks(snapshot, device) {
            let index = open.remove(&block.addr).unwrap_or_else(|| {
                let pending = block.state == BlockState::PendingFree;
                self.facts.earlier_with_stack += u64::from(block.stack.has_frames());
                self.allocations.push(&Allocation {
                    addr: block.addr,
                    requested: block.requested,
                    size: block.size,
                    opened: Moment::START,
                    released: if pending { Moment::START } else { Moment::NEVER },
                    closed: Moment::NEVER,
                    stack: block.stack,
                    recorded: block.stack,
                    stream,
                    pool,
                    estimated: false,
                })
            });
            let row = index.index();
            if self.allocations.requested[row] != block.requested {
                self.facts.restated += 1;
                self.restated.push((index, block.requested));
            }
            if block.stack.has_frames() && !self.allocations.stack[row].has_frames() {
                self.allocations.stack[row] = block.stack;
            }
            self.final_sizes.insert(index.0, block.size);
        }
        let mut lost: Vec<_> = open.drain().map(|(_, index)| index).collect();
        lost.sort_unstable();
        let Some(last) = events.checked_sub(1).map(EventIdx::from_index) else { return };
        for index in lost {
            self.allocations.end(index, Moment::after(last));
            self.lost_ends.push((last, index));
            self.facts.lost_frees += 1;
            self.facts.lost_free_bytes =
                self.facts.lost_free_bytes.saturating_add(self.allocations.requested[index.index()]);
        }
    }
}

/// The blocks in use when the snapshot was taken.
fn final_blocks(
    snapshot: &Snapshot,
    device: DeviceId,
) -> impl Iterator<Item = (Block, PoolId, vramscope_snapshot::StreamId)> + '_ {
    snapshot.segments_of(device).iter().flat_map(|segment| {
        let blocks = snapshot.blocks.of(segment).filter(|block| block.state != BlockState::Inactive);
        blocks.map(|block| (block, segment.pool, segment.stream))
    })
}

/// The allocation that an `alloc` event opens; `None` once there are more than can be numbered.
#[inline]
fn opened(events: &EventTable, row: usize, now: Moment) -> Option<Allocation> {
    if now.0 >= SEGMENT_BIT {
        return None;
    }
    let event = events.get(row);
    Some(Allocation {
        addr: event.addr,
        requested: event.size,
        size: 0,
        opened: now,
        released: Moment::NEVER,
        closed: Moment::NEVER,
        stack: event.stack,
        recorded: event.stack,
        stream: event.stream,
        pool: event.pool,
        estimated: false,
    })
}

/// The allocation from before the trace that a free event tells of. The event's stack is where it was
/// freed, so where it was allocated stays unknown.
fn earlier(events: &EventTable, row: usize, released: Moment, closed: Moment) -> Allocation {
    let event = events.get(row);
    Allocation {
        addr: event.addr,
        requested: event.size,
        size: 0,
        opened: Moment::START,
        released,
        closed,
        stack: StackId::ABSENT,
        recorded: StackId::ABSENT,
        stream: event.stream,
        pool: event.pool,
        estimated: true,
    }
}

/// An NPU writes a workspace as it was at the end in front of the trace: after the mark, a segment
/// and an allocation at the same address. They are no history.
fn workspace_len(events: &EventTable, row: usize) -> usize {
    let addr = events.addrs()[row];
    let belongs = |offset: usize, action: Action| {
        events.action(row + offset) == Some(action) && events.addrs().get(row + offset) == Some(&addr)
    };
    match (belongs(1, Action::SegmentAlloc), belongs(2, Action::Alloc)) {
        (true, true) => 2,
        (true, false) => 1,
        _ => 0,
    }
}
