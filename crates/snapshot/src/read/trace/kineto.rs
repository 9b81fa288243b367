//! The rows of a Kineto trace into a snapshot.

use std::collections::BTreeMap;

use super::stacks::enclosing;
use super::{MemoryEvent, Slice, SliceKind, TraceSink};
use crate::model::{
    Action, Annotation, DeviceId, Event, Has, MAX_SIZE, Snapshot, Stage, StrId, Total, Trace,
};
use crate::read::oddities::Oddity;
use crate::read::rows::Tables;

/// Kinds of devices as PyTorch numbers them.
const CPU: i64 = 0;
/// Devices of one kind in a machine, and kinds of them in a file.
const MAX_DEVICES: i64 = 256;
const MAX_KINDS: usize = 16;

/// The snapshot of a trace; `None` if it has no memory events.
pub(in crate::read) fn build(sink: TraceSink) -> Option<Snapshot> {
    let TraceSink {
        strings, mut slices, mut memory, base_ns, rank, capacities, oddities, bytes_read, ..
    } = sink;
    if memory.is_empty() {
        return None;
    }
    let mut tables = Tables::of(strings, oddities, bytes_read);
    let mut snapshot = Snapshot {
        rank,
        has: Has { addresses: false, requested: false, stacks: false },
        ..Snapshot::default()
    };
    memory.sort_by_key(|event| event.time_ns);
    let stacks = enclosing(&mut slices, &memory, &mut tables);
    snapshot.has.stacks = slices.iter().any(|slice| slice.kind == SliceKind::Python);

    let devices = Devices::new(&memory);
    let mut traces: BTreeMap<DeviceId, Trace> = BTreeMap::new();
    for (event, stack) in memory.iter().zip(stacks) {
        let Some(device) = devices.get(event) else {
            tables.oddities.note(Oddity::DeviceOdd);
            continue;
        };
        let trace = traces.entry(device).or_insert_with(|| Trace { device, ..Trace::default() });
        let mut size = event.bytes.unsigned_abs();
        if size > MAX_SIZE {
            tables.oddities.note(Oddity::Size);
            size = 0;
        }
        let (action, addr) = match (event.is_oom, event.bytes.signum()) {
            (true, _) => (Action::Oom, 0),
            (false, 1) => (Action::Alloc, event.addr),
            (false, -1) => (Action::FreeCompleted, event.addr),
            (false, _) => (Action::Total, 0),
        };
        let time_ns = base_ns.saturating_add(event.time_ns);
        trace.events.push_at(&Event { action, addr, size, stack, ..Event::default() }, Some(time_ns));
        trace.totals.push(Total {
            allocated: event.allocated,
            active: None,
            // The allocator of the CPU keeps no memory, and so the profiler writes 0.
            reserved: event.reserved.filter(|_| event.device_type != CPU),
        });
    }
    snapshot.device_names = devices.names(traces.keys().copied());
    snapshot.capacities = devices.capacities(&capacities);
    let spans: Vec<Slice> = slices.into_iter().filter(|slice| slice.kind == SliceKind::Annotation).collect();
    let devices: Vec<DeviceId> = traces.keys().copied().collect();
    snapshot.annotations = annotations(&spans, base_ns, &devices, &mut tables);
    Some(tables.into_snapshot(traces.into_values().collect(), snapshot))
}

/// Slices as marks, in the order of time, for every device: a thread is not bound to one.
pub(in crate::read) fn annotations(
    spans: &[Slice],
    base_ns: i64,
    devices: &[DeviceId],
    tables: &mut Tables,
) -> Vec<Annotation> {
    let mut marks: Vec<((i64, u8), StrId, Stage)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        // `ProfilerStep#12` is the step of that number: all steps are spans of one name.
        let text = tables.strings.table.get(span.name);
        let name = match text.strip_prefix("ProfilerStep#") {
            Some(_) => tables.strings.intern(b"ProfilerStep"),
            None => span.name,
        };
        // What ends where another begins ends first, unless it began there too.
        let is_instant = span.end_ns <= span.start_ns;
        marks.push(((span.start_ns, 1), name, Stage::Start));
        marks.push(((span.end_ns.max(span.start_ns), if is_instant { 2 } else { 0 }), name, Stage::End));
    }
    marks.sort_by_key(|(when, ..)| *when);
    // A mark for each of very many devices would be more than was read.
    let devices = devices.get(..devices.len().min(8)).unwrap_or_default();
    let on_device = |&device: &DeviceId| {
        marks.iter().map(move |&((time_ns, _), name, stage)| Annotation {
            name,
            stage,
            device,
            time_us: base_ns.saturating_add(time_ns).div_euclid(1000),
        })
    };
    devices.iter().flat_map(on_device).collect()
}

/// Kinds and ordinals of devices as one number each. The accelerator's own ordinals are kept; where a file
/// has several kinds, those of the others follow.
struct Devices {
    kinds: Vec<i64>,
}

impl Devices {
    fn new(memory: &[MemoryEvent]) -> Self {
        let mut kinds: Vec<i64> = Vec::new();
        for event in memory {
            if event.device_type != CPU && !kinds.contains(&event.device_type) && kinds.len() < MAX_KINDS {
                kinds.push(event.device_type);
            }
        }
        kinds.sort_unstable();
        Self { kinds }
    }

    fn get(&self, event: &MemoryEvent) -> Option<DeviceId> {
        if event.device_type == CPU {
            return Some(DeviceId::HOST);
        }
        let kind = self.kinds.iter().position(|&kind| kind == event.device_type)? as i64;
        // A single device without an ordinal is the first.
        let ordinal = if event.device_id == -1 { 0 } else { event.device_id };
        (0..MAX_DEVICES).contains(&ordinal).then(|| DeviceId((kind * MAX_DEVICES + ordinal) as i32))
    }

    /// The memory of each device. Where there are accelerators of several kinds, it is not said of which.
    fn capacities(&self, stated: &[(i64, u64)]) -> Vec<(DeviceId, u64)> {
        let [kind] = *self.kinds.as_slice() else { return Vec::new() };
        let known = stated.iter().filter_map(|&(device_id, bytes)| {
            let event = MemoryEvent { device_type: kind, device_id, ..MemoryEvent::default() };
            Some((self.get(&event).filter(|_| device_id >= 0)?, bytes))
        });
        known.collect()
    }

    fn names(&self, devices: impl Iterator<Item = DeviceId>) -> Vec<(DeviceId, String)> {
        let name = |device: DeviceId| {
            if device == DeviceId::HOST {
                return "CPU".to_owned();
            }
            let kind = self.kinds.get((i64::from(device.0) / MAX_DEVICES) as usize).copied().unwrap_or(0);
            let ordinal = i64::from(device.0) % MAX_DEVICES;
            match kind {
                1 => format!("GPU {ordinal}"),
                12 => format!("XPU {ordinal}"),
                15 => format!("HPU {ordinal}"),
                19 => format!("MTIA {ordinal}"),
                20 => format!("NPU or other accelerator {ordinal}"),
                other => format!("device {ordinal} of type {other}"),
            }
        };
        devices.map(|device| (device, name(device))).collect()
    }
}
