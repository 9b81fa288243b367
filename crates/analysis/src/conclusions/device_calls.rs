//! Device calls: segments acquired from the driver and released to it, by step and by the line that caused them.
//!
//! PyTorch notes an acquisition after the call returns and the release of a segment before the call begins, so the call
//! lies between that event and its neighbor. The time between the two is the most that the call can have taken:
//! the program may have done something else meanwhile.

use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_mapped::{Buffer, Store, StoreError, Writer};
use vramscope_replay::{Allocation, Moment, Replay};
use vramscope_snapshot::stored::{get_small, put_small};
use vramscope_snapshot::{Action, Actions, Event, EventIdx, EventTable, PoolId, Snapshot, StackId, StreamId};

use super::insight::DriverCalls;
use super::steps::{Step, Steps};
use crate::device::Device;
use crate::questions::compare::Line;
use crate::shelf::Shelved;

/// Segments, or parts of expandable ones, that went from the driver and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Acquired.
    pub acquired: u64,
    /// Bytes of those.
    pub acquired_bytes: u64,
    /// Released.
    pub released: u64,
    /// Bytes of those.
    pub released_bytes: u64,
    /// The most that the calls can have taken, in microseconds; 0 where events have no times.
    pub micros: u64,
}

impl Calls {
    /// Acquisitions and releases.
    pub fn count(&self) -> u64 {
        self.acquired.saturating_add(self.released)
    }

    fn add(&mut self, takes: bool, bytes: u64, micros: u64) {
        let (count, sum) = match takes {
            true => (&mut self.acquired, &mut self.acquired_bytes),
            false => (&mut self.released, &mut self.released_bytes),
        };
        *count += 1;
        *sum = sum.saturating_add(bytes);
        self.micros = self.micros.saturating_add(micros);
    }
}

/// All device calls of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCalls {
    /// Of all.
    pub total: Calls,
    /// By step, in order; `None` is what lies before the first and after the last.
    pub steps: Vec<(Option<Step>, Calls)>,
    /// By the line that caused them, with one of its stacks; most calls first.
    pub lines: Vec<(Line, StackId, Calls)>,
    /// How often segments were released by the program itself and acquired again.
    pub cycles: u64,
    /// How often an allocation failed at first and made the allocator release what it could.
    pub retries: u64,
    /// Whether events have times.
    pub has_times: bool,
}

/// Every device call of a recording, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTable {
    #[serde(skip)]
    calls: Buffer<Call>,
    has_times: bool,
    cycles: u64,
    retries: u64,
}

/// One device call, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Call {
    addr: u64,
    size: u64,
    micros: u64,
    event: EventIdx,
    /// The stack of the event, and the one that caused it.
    stack: StackId,
    cause: StackId,
    stream: StreamId,
    pool: PoolId,
    /// The number of the action.
    action: u32,
}

impl Call {
    /// The event as far as filters look at it.
    fn event(&self) -> Event {
        Event {
            action: Action::numbered(self.action as u8),
            addr: self.addr,
            size: self.size,
            stack: self.stack,
            stream: self.stream,
            pool: self.pool,
            time_us: EventTable::NO_TIME,
            ..Event::default()
        }
    }
}

impl CallTable {
    /// The calls of a device. Goes through the whole trace.
    pub fn new(device: &Device) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let events = snapshot.events(replay.device());
        let DriverCalls { cycles, retries, .. } = DriverCalls::new(device);
        let rows: Vec<usize> =
            events.rows_like(0..events.len(), Actions::of(is_call), 0..=u64::MAX).collect();
        let call = |(&row, cause): (&usize, StackId)| {
            let Event { action, addr, size, stack, stream, pool, .. } = events.get(row);
            Call {
                addr,
                size,
                micros: longest(events, row).unwrap_or(0),
                event: EventIdx::from_index(row),
                stack,
                cause,
                stream,
                pool,
                action: action as u32,
            }
        };
        let calls = rows.iter().zip(causes(events, replay, &rows)).map(call).collect();
        Self { calls, has_times: events.time_us(0).is_some(), cycles, retries }
    }
}

impl DeviceCalls {
    /// The calls of events that `keep` keeps, whose times and metadata it is not told. Cycles and retries are those of all.
    pub fn new(
        snapshot: &Snapshot,
        table: &CallTable,
        steps: &Steps,
        keep: impl Fn(EventIdx, &Event) -> bool,
    ) -> Self {
        let CallTable { calls, has_times, cycles, retries } = table;
        let mut found = Self { has_times: *has_times, cycles: *cycles, retries: *retries, ..Self::default() };
        let mut by_stack: HashMap<StackId, Calls> = HashMap::new();
        for call in calls {
            let event = call.event();
            if !keep(call.event, &event) {
                continue;
            }
            let takes = matches!(event.action, Action::SegmentAlloc | Action::SegmentMap);
            found.total.add(takes, call.size, call.micros);
            by_stack.entry(call.cause).or_default().add(takes, call.size, call.micros);
            let step = steps.at(Moment::after(call.event));
            match found.steps.last_mut() {
                Some((last, calls)) if *last == step => calls.add(takes, call.size, call.micros),
                _ => {
                    let mut calls = Calls::default();
                    calls.add(takes, call.size, call.micros);
                    found.steps.push((step, calls));
                }
            }
        }
        found.lines = by_line(snapshot, by_stack);
        found
    }
}

fn is_call(action: Action) -> bool {
    use Action::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
    matches!(action, SegmentAlloc | SegmentMap | SegmentFree | SegmentUnmap)
}

/// The stack behind each of some device calls, which come in order. A call for an allocation has its stack; in the
/// backward pass that is the forward line's.
fn causes(events: &EventTable, replay: &Replay, rows: &[usize]) -> Vec<StackId> {
    let allocation = |row: usize| {
        let is_made = events.action(row) == Some(Action::Alloc);
        replay
            .allocation_of(EventIdx::from_index(row))
            .filter(|_| is_made)
            .map(|index| replay.allocation(index))
    };
    let is_call = |row: usize| events.action(row).is_some_and(is_call);
    let mut causes = Vec::with_capacity(rows.len());
    // Calls in a row are for the allocation after the last of them.
    let (mut served, mut last) = (None, usize::MAX);
    for &row in rows.iter().rev() {
        if row + 1 != last {
            let next = (row + 1..).find(|&next| !is_call(next));
            served = next.and_then(allocation);
        }
        last = row;
        let own = events.get(row).stack;
        let is_same = served.as_ref().filter(|allocation: &&Allocation| allocation.recorded == own);
        causes.push(is_same.map_or(own, |allocation| allocation.stack));
    }
    causes.reverse();
    causes
}

fn by_line(snapshot: &Snapshot, by_stack: HashMap<StackId, Calls>) -> Vec<(Line, StackId, Calls)> {
    let mut stacks: Vec<_> = by_stack.into_iter().collect();
    stacks.sort_unstable_by_key(|(stack, calls)| (Reverse(calls.count()), *stack));
    let mut numbers: HashMap<Line, usize> = HashMap::new();
    let mut lines: Vec<(Line, StackId, Calls)> = Vec::new();
    for (stack, calls) in stacks {
        let line = Line::of(snapshot, stack);
        let number = *numbers.entry(line.clone()).or_insert_with(|| {
            lines.push((line, stack, Calls::default()));
            lines.len() - 1
        });
        if let Some((_, _, sum)) = lines.get_mut(number) {
            sum.acquired += calls.acquired;
            sum.acquired_bytes = sum.acquired_bytes.saturating_add(calls.acquired_bytes);
            sum.released += calls.released;
            sum.released_bytes = sum.released_bytes.saturating_add(calls.released_bytes);
            sum.micros = sum.micros.saturating_add(calls.micros);
        }
    }
    lines.sort_by(|a, b| b.2.count().cmp(&a.2.count()).then_with(|| a.0.cmp(&b.0)));
    lines
}

/// The most that a call can have taken. Time between a release and the acquisition that follows it counts once.
pub(super) fn longest(events: &EventTable, row: usize) -> Option<u64> {
    let action = |row: usize| events.action(row);
    let (from, to) = match action(row)? {
        Action::SegmentFree => (row, row + 1),
        _ => (row.checked_sub(1)?, row),
    };
    if from + 1 == row && action(from) == Some(Action::SegmentFree) {
        return None;
    }
    if to >= events.len() {
        return None;
    }
    u64::try_from(events.time_us(to)?.saturating_sub(events.time_us(from)?)).ok()
}

impl Shelved for CallTable {
    const NAME: &'static str = "calls";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        put_small("call_table", self, out)?;
        out.put("calls", &self.calls)
    }

    /// Looking at a part of it touches that part.
    fn get(store: &Store) -> Result<Self, StoreError> {
        let found: Self = get_small("call_table", store)?;
        Ok(Self { calls: store.get("calls")?, ..found })
    }
}

impl Device {
    /// All calls of the driver.
    pub fn calls(&self) -> Arc<CallTable> {
        self.once(|| CallTable::new(self))
    }
}
