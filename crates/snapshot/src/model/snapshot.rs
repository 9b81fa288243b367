//! What one file says.

use std::sync::OnceLock;

use super::{
    Annotation, BlockTable, DeviceId, DeviceMemory, EventTable, Extras, Frame, FrameId, Has, Meta, MetaId,
    Outside, Pinned, PoolId, Segment, Settings, Sidecar, StackId, StackTable, StrId, StreamId, StringTable,
    Totals, Trace,
};
use serde::{Deserialize, Serialize};

/// A pool's two numbers. `(0, 0)` is the default pool, `(0, n)` a `MemPool`, `(n, 0)` a CUDA graph's.
pub type Pool = (i64, i64);

/// Where and why reading stopped before the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Byte offset into the unpacked file.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
}

/// A memory snapshot as read: the history and the final state of every device, with the tables that
/// they refer to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The input format in words, outermost packing first, e.g. `gzip, pickle 4`.
    pub format: String,
    /// All text.
    #[serde(skip)]
    pub strings: StringTable,
    /// All stacks.
    #[serde(skip)]
    pub stacks: StackTable,
    /// Raw stream handles.
    pub streams: Vec<u64>,
    /// Pools that segments and events name; row 0 is unknown, row 1 is the default pool.
    pub pools: Vec<Pool>,
    /// Rows that [`EventTable`] refers to; row 0 has nothing set.
    pub metas: Vec<Meta>,
    /// Traces that have events, by device.
    #[serde(skip)]
    pub traces: Vec<Trace>,
    /// Final state, by device and address.
    pub segments: Vec<Segment>,
    /// The blocks of `segments`.
    pub blocks: BlockTable,
    /// `record_function` marks in the file's order.
    pub annotations: Vec<Annotation>,
    /// What the source can tell at all.
    pub has: Has,
    /// What devices are called, where the source says more than a number, e.g. `NPU 0`.
    pub device_names: Vec<(DeviceId, String)>,
    /// Memory of devices in bytes, where the source says so.
    pub capacities: Vec<(DeviceId, u64)>,
    /// Memory that the framework's allocator does not manage, in the order of time.
    pub outside: Vec<Outside>,
    /// The rank that the source itself names.
    pub rank: Option<u64>,
    /// What the process was for, e.g. `actor_update`, where the source says so.
    pub role: Option<String>,
    /// Allocator settings.
    pub settings: Settings,
    /// Why reading stopped early, if it did.
    pub damage: Option<Damage>,
    /// What was odd and how it was read, in words.
    pub warnings: Vec<String>,
    /// Keys that this version does not know and left out.
    pub unknown_keys: Vec<String>,
    /// What other recorders added.
    pub extras: Extras,
    /// What vramscope's recorder wrote beside the file.
    pub sidecar: Option<Box<Sidecar>>,
    /// Frames that are passed over when the user's own line of a stack is looked for: the user's choice, not the
    /// file's. In order.
    #[serde(skip)]
    pub ignored_frames: OnceLock<Vec<FrameId>>,
}

impl Snapshot {
    /// What is odd or missing, in sentences.
    pub fn problems(&self) -> Vec<String> {
        let damage = self.damage.iter().map(|Damage { offset, reason }| {
            format!("damaged or cut at byte {offset}: {reason}; what is intact is shown")
        });
        self.warnings.iter().cloned().chain(damage).collect()
    }

    /// Text of a string id.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, stack: StackId) -> impl ExactSizeIterator<Item = Frame> + '_ {
        self.stacks.get(stack).iter().map(|&frame| self.stacks.frame(frame))
    }

    /// Passes over the frames for which `ignores` says so, given file, line and function. Said once, before the first
    /// question: answers that were given stay as they are.
    pub fn ignore_frames(&self, ignores: impl Fn(&str, u32, &str) -> bool) {
        let ids = (0..self.stacks.frame_count()).map(FrameId::from_index);
        let ignored = ids
            .filter(|&id| {
                let frame = self.stacks.frame(id);
                ignores(self.text(frame.file), frame.line, self.text(frame.name))
            })
            .collect();
        let _ = self.ignored_frames.set(ignored);
    }

    /// The frames that are passed over, in order.
    pub fn ignored_frames(&self) -> &[FrameId] {
        self.ignored_frames.get().map_or(&[], Vec::as_slice)
    }

    /// Whether a frame is passed over.
    pub fn is_ignored(&self, frame: FrameId) -> bool {
        self.ignored_frames().binary_search(&frame).is_ok()
    }

    /// The two numbers of a pool; `None` where the file names none.
    pub fn pool(&self, id: PoolId) -> Option<Pool> {
        if id == PoolId::UNKNOWN { None } else { self.pools.get(id.index()).copied() }
    }

    /// The raw handle of a stream.
    pub fn stream(&self, id: StreamId) -> u64 {
        self.streams.get(id.index()).copied().unwrap_or_default()
    }

    /// The strings attached to an event.
    pub fn meta(&self, id: MetaId) -> Meta {
        self.metas.get(id.index()).copied().unwrap_or_default()
    }

    /// The trace of a device, if it has events.
    pub fn trace(&self, device: DeviceId) -> Option<&EventTable> {
        let at = self.traces.binary_search_by_key(&device, |trace| trace.device).ok()?;
        self.traces.get(at).map(|trace| &trace.events)
    }

    /// The events of a device: an empty table if it has none.
    pub fn events(&self, device: DeviceId) -> &EventTable {
        static NONE: EventTable = EventTable::EMPTY;
        self.trace(device).unwrap_or(&NONE)
    }

    /// The totals that the source states beside a device's events: empty for a snapshot.
    pub fn totals(&self, device: DeviceId) -> &Totals {
        static NONE: Totals = Totals::EMPTY;
        let at = self.traces.binary_search_by_key(&device, |trace| trace.device);
        at.ok().and_then(|at| self.traces.get(at)).map_or(&NONE, |trace| &trace.totals)
    }

    /// Whether the file tells how much of a device is held from the driver.
    pub fn has_reserved(&self, device: DeviceId) -> bool {
        self.has.addresses || self.totals(device).has_reserved()
    }

    /// Whether the file tells apart what is allocated and what awaits its free.
    pub fn has_active(&self, device: DeviceId) -> bool {
        self.has.addresses || self.totals(device).has_active()
    }

    /// What a device is called: `cuda:0`, `host`, or as the source has it.
    pub fn device_name(&self, device: DeviceId) -> String {
        let named = self.device_names.iter().find(|(named, _)| *named == device);
        vramscope_format::device(device.0, named.map(|(_, name)| name.as_str()))
    }

    /// What a recorder says of a device's memory as a whole.
    pub fn device_memory(&self, device: DeviceId) -> Option<&DeviceMemory> {
        self.sidecar.as_ref()?.devices.iter().find(|memory| memory.device == device)
    }

    /// Pinned host memory when the file was written: as PyTorch counted it, else what the host's segments hold.
    pub fn pinned(&self) -> Option<Pinned> {
        let counted = self.sidecar.as_ref().and_then(|sidecar| sidecar.pinned);
        let segments = self.segments_of(DeviceId::HOST);
        counted.or_else(|| {
            let sum = |size: fn(&Segment) -> u64| segments.iter().map(size).fold(0, u64::saturating_add);
            let held = sum(|segment| segment.total_size);
            let active = sum(|segment| segment.active_size);
            let pinned = Pinned { blocks: segments.len() as u64, held, peak: held, active, tensors: None };
            (!segments.is_empty()).then_some(pinned)
        })
    }

    /// The final segments of a device, by address.
    pub fn segments_of(&self, device: DeviceId) -> &[Segment] {
        let start = self.segments.partition_point(|segment| segment.device < device);
        let end = self.segments.partition_point(|segment| segment.device <= device);
        self.segments.get(start..end).unwrap_or_default()
    }

    /// Devices that have a trace or segments, in order.
    pub fn devices(&self) -> Vec<DeviceId> {
        let traced = self.traces.iter().map(|trace| trace.device);
        let mut devices: Vec<_> = traced.chain(self.segments.iter().map(|segment| segment.device)).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Whether the file holds no event and no segment.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty() && self.segments.is_empty()
    }
}
