//! Rows of the tables that follow from a replay.

use std::cell::RefCell;

use hashbrown::HashMap;
use vramscope_format::table::Value;
use vramscope_replay::{AllocIdx, Counters, Moment};
use vramscope_snapshot::{Action, Event, EventIdx, Frame, FrameId, Pool, Segment, Snapshot, StackId};

use super::{ALLOCATIONS, ANNOTATIONS, EVENTS, FRAMES, SEGMENTS, TOTALS};
use crate::conclusions::each::Conclusions;
use crate::device::Device;
use crate::questions::compare::Sum;
use crate::questions::frames::{is_internal, user_frame};
use crate::questions::overlap::operator;
use crate::questions::pools::Pools;
use crate::questions::spans::Span;

/// Makes rows of one device.
pub struct Rows<'a> {
    device: &'a Device,
    pools: &'a Pools,
    /// The user's own line of each stack that was asked for.
    lines: RefCell<HashMap<StackId, [Value<'a>; 3]>>,
}

impl<'a> Rows<'a> {
    /// `pools` are [`Pools::all`] of the device.
    pub fn new(device: &'a Device, pools: &'a Pools) -> Self {
        Self { device, pools, lines: RefCell::default() }
    }

    /// The life of a block, with what is concluded about it.
    pub fn allocation(
        &self,
        index: AllocIdx,
        conclusions: &'a Conclusions,
    ) -> [Value<'a>; ALLOCATIONS.len()] {
        let allocation = self.device.allocation(index);
        let concluded = conclusions.of(self.device, index);
        let event = |moment: Moment| moment.event().map(|event| event.0);
        let [pool_a, pool_b] = pool(self.pools.pool_of(index));
        let [file, line, name] = self.line(allocation.stack);
        [
            index.0.into(),
            allocation.addr.into(),
            allocation.requested.into(),
            allocation.size.into(),
            event(allocation.opened).into(),
            event(allocation.released).into(),
            event(allocation.closed).into(),
            self.time(allocation.opened).into(),
            self.time(allocation.closed).into(),
            self.device.snapshot().stream(allocation.stream).into(),
            pool_a,
            pool_b,
            allocation.stack.0.into(),
            allocation.estimated.into(),
            file,
            line,
            name,
            concluded.category.into(),
            concluded.known_by.name().into(),
            concluded.phase.unwrap_or_default().into(),
            concluded.module.unwrap_or_default().into(),
            concluded.step.into(),
            self.device.device().0.into(),
        ]
    }

    fn line(&self, stack: StackId) -> [Value<'a>; 3] {
        let mut lines = self.lines.borrow_mut();
        lines.entry(stack).or_insert_with(|| line(self.device.snapshot(), stack)).clone()
    }

    fn time(&self, moment: Moment) -> Option<i64> {
        self.device.snapshot().trace(self.device.device())?.time_us(moment.event()?.index())
    }
}

/// An event, with the counters after it.
pub fn event<'a>(device: &'a Device, row: EventIdx, after: Counters) -> [Value<'a>; EVENTS.len()] {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let device = replay.device();
    let events = snapshot.events(device);
    let event: Event = events.get(row.index());
    let is_oom = event.action == Action::Oom;
    let meta = snapshot.meta(event.meta);
    let [pool_a, pool_b] = pool(snapshot.pool(event.pool));
    [
        row.0.into(),
        events.time_us(row.index()).into(),
        event.action.name().into(),
        (!is_oom).then_some(event.addr).into(),
        event.size.into(),
        is_oom.then_some(event.addr).into(),
        snapshot.stream(event.stream).into(),
        pool_a,
        pool_b,
        event.stack.0.into(),
        replay.allocation_of(row).map(|index| index.0).into(),
        after.requested.into(),
        after.allocated.into(),
        after.active.into(),
        snapshot.has_reserved(device).then_some(after.reserved).into(),
        snapshot.text(meta.compile_context).into(),
        snapshot.text(meta.user_metadata).into(),
        device.0.into(),
    ]
}

/// A segment at the end.
pub fn segment<'a>(device: &Device, segment: &Segment) -> [Value<'a>; SEGMENTS.len()] {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let [pool_a, pool_b] = pool(snapshot.pool(segment.pool));
    [
        segment.addr.into(),
        segment.total_size.into(),
        segment.allocated_size.into(),
        segment.active_size.into(),
        segment.requested_size.into(),
        snapshot.stream(segment.stream).into(),
        pool_a,
        pool_b,
        segment.expandable.into(),
        (segment.blocks.end - segment.blocks.start).into(),
        segment.stack.0.into(),
        replay.device().0.into(),
    ]
}

/// A `record_function` span.
pub fn annotation<'a>(device: &'a Device, span: &Span) -> [Value<'a>; ANNOTATIONS.len()] {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    [
        snapshot.text(span.name).into(),
        (span.nth + 1).into(),
        span.depth.into(),
        span.start_us.into(),
        span.end_us.into(),
        span.from.0.into(),
        span.to.event().map(|event| event.0).into(),
        replay.extremes(span.from, span.to).1.requested.into(),
        replay.device().0.into(),
    ]
}

/// A line of the program.
pub fn frame(snapshot: &Snapshot, id: FrameId) -> [Value<'_>; FRAMES.len()] {
    let frame = snapshot.stacks.frame(id);
    let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
    [id.0.into(), file.into(), frame.line.into(), name.into(), is_internal(name, file).into()]
}

/// Requested bytes of a stack.
pub fn total(snapshot: &Snapshot, stack: StackId, sum: Sum, largest: u64) -> [Value<'_>; TOTALS.len()] {
    let [file, line, name] = line(snapshot, stack);
    let operator = operator(snapshot, stack).unwrap_or_default();
    [stack.0.into(), sum.bytes.into(), sum.count.into(), largest.into(), file, line, name, operator.into()]
}

/// The two numbers of a pool.
fn pool<'a>(pool: Option<Pool>) -> [Value<'a>; 2] {
    [pool.map(|(a, _)| a).into(), pool.map(|(_, b)| b).into()]
}

/// The user's own line.
fn line(snapshot: &Snapshot, stack: StackId) -> [Value<'_>; 3] {
    let Frame { file, line, name, .. } = user_frame(snapshot, stack).unwrap_or_default();
    [snapshot.text(file).into(), line.into(), snapshot.text(name).into()]
}
