//! The rows of a profile into a snapshot.

use std::collections::BTreeMap;

use super::stacks::Stacks;
use super::{Component, OpRow, RecordRow, Rows};
use crate::model::{Action, DeviceId, Event, Has, Outside, Snapshot, StackId, StreamId, Total, Trace};
use crate::read::rows::Tables;
use crate::read::trace::{SliceKind, annotations};

/// The graph engine's allocator is a device of its own, behind those of the framework.
const GRAPH: i32 = 1024;

/// Events at one time whose order is worked out from their totals.
const MAX_AT_ONCE: usize = 64;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
struct Point {
    time_ns: i64,
    kind: Kind,
    /// Which row.
    row: u32,
    total: Total,
    /// What it adds to what is allocated.
    change: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The block is let go and free at once.
    Freed,
    /// The block is let go, and another stream still uses it.
    Released,
    Reusable,
    Allocated,
    Stated,
}

pub(super) fn build(rows: Rows, mut tables: Tables) -> Snapshot {
    let Rows { ops, records, slices, decimals, warnings } = rows;
    let has = Has { addresses: false, requested: false, stacks: false };
    let mut snapshot = Snapshot { has, warnings, ..Snapshot::default() };

    let mut points: BTreeMap<DeviceId, Vec<Point>> = BTreeMap::new();
    for (row, op) in ops.iter().enumerate() {
        let device = device(op.device, op.is_graph);
        points.entry(device).or_default().extend(points_of(op, row as u32));
    }
    for record in &records {
        let is_graph = match record.component {
            Component::Framework => false,
            Component::Graph => true,
            Component::Sum => continue,
            Component::Other(name) => {
                snapshot.outside.extend(record.total.reserved.or(record.total.allocated).map(|bytes| {
                    Outside {
                        device: device(record.device, false),
                        name,
                        time_us: record.time_ns.div_euclid(1000),
                        bytes,
                        peak: bytes,
                    }
                }));
                continue;
            }
        };
        points.entry(device(record.device, is_graph)).or_default().push(stated(record));
    }
    snapshot.outside.sort_by_key(|outside| outside.time_us);

    let marks: Vec<_> = slices
        .iter()
        .filter(|slice| {
            slice.kind == SliceKind::Annotation
                || tables.strings.table.get(slice.name).starts_with("ProfilerStep#")
        })
        .copied()
        .collect();
    let devices: Vec<DeviceId> = points.keys().copied().collect();
    snapshot.annotations = annotations(&marks, 0, &devices, &mut tables);

    let mut stacks = Stacks::new(slices);
    let resolution = decimals.map_or(0, resolution);
    let traces = points.into_iter().map(|(device, points)| {
        let mut trace = Trace { device, ..Trace::default() };
        trace.totals.resolution = resolution;
        fill(&mut trace, points, &ops, &mut stacks, &mut tables);
        trace
    });
    let traces: Vec<Trace> = traces.collect();
    snapshot.has.stacks = stacks.found > 0;
    if stacks.ambiguous > 0 {
        snapshot.warnings.push(format!(
            "{} allocations have the call stack of one of several threads that ran their operator at that time",
            stacks.ambiguous
        ));
    }
    snapshot.device_names = devices.into_iter().map(|device| (device, name(device))).collect();
    tables.into_snapshot(traces, snapshot)
}

fn device(ordinal: i32, is_graph: bool) -> DeviceId {
    let ordinal = ordinal.clamp(0, GRAPH - 1);
    DeviceId(if is_graph { GRAPH + ordinal } else { ordinal })
}

fn name(device: DeviceId) -> String {
    match device.0.checked_sub(GRAPH).filter(|ordinal| *ordinal >= 0) {
        Some(ordinal) => format!("NPU {ordinal}, graph engine"),
        None => format!("NPU {}", device.0),
    }
}

/// By how much totals may be off written with that many digits after the point, in MiB: half a unit
/// of the last digit, for each of the two that are compared.
fn resolution(decimals: usize) -> u64 {
    let digit = 0.1_f64.powi(decimals.min(32) as i32);
    (digit * f64::from(1 << 20)) as u64
}

fn points_of(op: &OpRow, row: u32) -> impl Iterator<Item = Point> {
    let size = i64::try_from(op.size).unwrap_or_default();
    let point = |time_ns, kind, total, change| Point { time_ns, kind, row, total, change };
    let allocated = point(op.allocated_ns, Kind::Allocated, op.at_allocation, size);
    // The writer's clocks differ by a microsecond or two: what is reusable before it is released is not.
    let waits = op.released_ns.zip(op.reusable_ns).filter(|(released, reusable)| reusable > released);
    let released = op.released_ns.map(|time| {
        let kind = if waits.is_some() { Kind::Released } else { Kind::Freed };
        point(time, kind, op.at_release, -size)
    });
    let reusable = waits.map(|(_, time)| point(time, Kind::Reusable, Total::default(), 0));
    [Some(allocated), released, reusable].into_iter().flatten()
}

fn stated(record: &RecordRow) -> Point {
    Point { time_ns: record.time_ns, kind: Kind::Stated, row: 0, total: record.total, change: 0 }
}

/// Puts the points of a device in order and makes events of them.
fn fill(trace: &mut Trace, mut points: Vec<Point>, ops: &[OpRow], stacks: &mut Stacks, tables: &mut Tables) {
    points.sort_unstable_by_key(|point| (point.time_ns, point.kind, point.row));
    let mut allocated = None;
    let mut at = 0;
    while let Some(first) = points.get(at) {
        let time_ns = first.time_ns;
        let len =
            points.get(at..).unwrap_or_default().iter().take_while(|point| point.time_ns == time_ns).count();
        let Some(now) = points.get_mut(at..at + len) else { break };
        order(now, allocated);
        // A total that is written beside the row of the same event says it a second time.
        let is_shown = |point: &Point| point.kind != Kind::Stated;
        let beside = now.iter().rev().find(|point| !is_shown(point)).map(|point| point.total);
        let last = now.iter().rposition(is_shown);
        for (place, point) in now.iter_mut().enumerate() {
            if last.is_some() && !is_shown(point) {
                continue;
            }
            if last == Some(place) && point.total == Total::default() && point.kind != Kind::Reusable {
                point.total = beside.unwrap_or_default();
            }
            allocated = point.total.allocated.or(allocated);
            push(trace, point, ops, stacks, tables);
        }
        at += len;
    }
}

/// Puts what happens at the same time in the order that its totals tell.
fn order(now: &mut [Point], mut allocated: Option<u64>) {
    if now.len() > MAX_AT_ONCE {
        return;
    }
    for place in 0..now.len() {
        let rest = now.get_mut(place..).unwrap_or_default();
        let follows = |point: &Point| {
            let before = point.total.allocated.and_then(|after| after.checked_add_signed(-point.change));
            point.kind != Kind::Stated && before.is_some() && before == allocated
        };
        if let Some(next) = rest.iter().position(follows)
            && let Some(moved) = rest.get_mut(..=next)
        {
            moved.rotate_right(1);
        }
        allocated = rest.first().and_then(|point| point.total.allocated).or(allocated);
    }
}

fn push(trace: &mut Trace, point: &Point, ops: &[OpRow], stacks: &mut Stacks, tables: &mut Tables) {
    let op = ops.get(point.row as usize).filter(|_| point.kind != Kind::Stated);
    let action = match point.kind {
        Kind::Allocated => Action::Alloc,
        Kind::Released => Action::FreeRequested,
        Kind::Freed | Kind::Reusable => Action::FreeCompleted,
        Kind::Stated => Action::Total,
    };
    let stack = match (op, point.kind) {
        (Some(op), Kind::Allocated) => stacks.get(tables, op.name, op.allocated_ns),
        _ => StackId::ABSENT,
    };
    let event = Event {
        action,
        // There are no addresses: the number of its row tells a block from others.
        addr: op.map_or(0, |_| u64::from(point.row) + 1),
        size: op.map_or(0, |op| op.size),
        stack,
        stream: op.map_or(StreamId::default(), |op| tables.streams.stream(op.stream)),
        ..Event::default()
    };
    trace.events.push_at(&event, Some(point.time_ns));
    trace.totals.push(point.total);
}
