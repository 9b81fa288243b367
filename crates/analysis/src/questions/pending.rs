//! Pending frees: blocks that the program let go (`free_requested`) while another stream still used them
//! (`record_stream`), so that they went back to their pool (`free_completed`) only later.
//!
//! An ordinary free does both at once: its two events follow each other. What counts here are frees with other
//! events between the two. How much they cost is bytes × time waited.

use hashbrown::HashMap;
use vramscope_replay::{AllocIdx, Allocations, Moment};
use vramscope_snapshot::{EventTable, StackId, StreamId};

use crate::device::Device;

/// Pending frees of one stack and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingGroup {
    /// Where the blocks were allocated.
    pub stack: StackId,
    /// Their stream.
    pub stream: StreamId,
    /// How many waited.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes × microseconds waited; where events have no times, bytes × events.
    pub byte_time: u128,
    /// The longest that one waited, in microseconds; 0 without times.
    pub longest_us: u64,
    /// Where the program let the first of them go.
    pub released_by: Option<StackId>,
}

/// All pending frees of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The most bytes that waited at once.
    pub peak_bytes: u64,
    /// When that was.
    pub peak_at: Moment,
    /// Segments that were acquired while at least as many bytes waited.
    pub acquired: u64,
    /// Bytes of those.
    pub acquired_bytes: u64,
    /// By stack and stream, most bytes × time first.
    pub groups: Vec<PendingGroup>,
}

/// The pending frees of a device.
pub fn pending(device: &Device) -> Pending {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let events = snapshot.events(replay.device());
    let mut groups: HashMap<(StackId, StreamId), PendingGroup> = HashMap::new();
    let mut changes: Vec<(Moment, i64)> = Vec::new();
    for index in waiting(replay.allocations()) {
        let allocation = replay.allocation(index);
        let until = allocation.closed.min(replay.end());
        let size = i64::try_from(allocation.size).unwrap_or(i64::MAX);
        changes.push((allocation.released, size));
        changes.push((until, -size));
        let key = (allocation.stack, allocation.stream);
        let (stack, stream) = key;
        let group = groups.entry(key).or_insert(PendingGroup {
            stack,
            stream,
            count: 0,
            bytes: 0,
            byte_time: 0,
            longest_us: 0,
            released_by: released_by(events, allocation.released),
        });
        let waited_us = waited(events, allocation.released, until);
        let waited = waited_us.unwrap_or_else(|| (until.0 - allocation.released.0.min(until.0)).into());
        group.count += 1;
        group.bytes = group.bytes.saturating_add(allocation.size);
        group.byte_time = group.byte_time.saturating_add(u128::from(allocation.size) * u128::from(waited));
        group.longest_us = group.longest_us.max(waited_us.unwrap_or(0));
    }
    // At the same moment what goes comes before what comes.
    changes.sort_unstable();
    let (mut now, mut peak, mut peak_at) = (0_i64, 0_i64, Moment::START);
    let (mut acquired, mut acquired_bytes) = (0, 0_u64);
    let segments = replay.source().changes.iter().filter(|change| change.held);
    let mut segments = segments.map(|change| (change.event, change.range.size)).peekable();
    for (at, change) in changes {
        while let Some((_, bytes)) = segments.next_if(|(event, _)| event.0 < at.0) {
            if bytes <= now.unsigned_abs() {
                acquired += 1;
                acquired_bytes = acquired_bytes.saturating_add(bytes);
            }
        }
        now = now.saturating_add(change);
        if now > peak {
            (peak, peak_at) = (now, at);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_unstable_by_key(|group| (std::cmp::Reverse(group.byte_time), group.stack, group.stream));
    Pending { peak_bytes: peak.unsigned_abs(), peak_at, acquired, acquired_bytes, groups }
}

/// The allocations with other events between the two halves of their free.
fn waiting(allocations: &Allocations) -> impl Iterator<Item = AllocIdx> + '_ {
    let halves = allocations.released.iter().zip(&allocations.closed).zip(0_u32..);
    let waits = |released: Moment, closed: Moment| {
        released != Moment::NEVER && closed.0.saturating_sub(released.0) > 1
    };
    halves.filter(move |((released, closed), _)| waits(**released, **closed)).map(|(_, row)| AllocIdx(row))
}

/// The stack of a release, if the file has one of its own.
fn released_by(events: &EventTable, at: Moment) -> Option<StackId> {
    events.stacks().get(at.event()?.index()).copied().filter(|stack| *stack > StackId::EMPTY)
}

fn waited(events: &EventTable, from: Moment, to: Moment) -> Option<u64> {
    let time = |moment: Moment| events.time_us(moment.event()?.index());
    u64::try_from(time(to)?.saturating_sub(time(from)?)).ok()
}
