//! Dictionaries into rows: an event, block, segment, annotation or frame by its keys.
//!
//! Keys may come in any order, be missing, or hold the wrong type: a field that cannot be read keeps
//! its default and is counted as an oddity.

use hashbrown::HashMap;

use super::extras;
use super::intern::{Rows, Stacks, Strings};
use super::keys::{self, Key};
use super::objects::{List, Objects};
use super::oddities::{Oddities, Oddity};
use super::value::{RowKind, Value};
use crate::model::{
    Annotation, Block, BlockState, BlockTable, DeviceId, Event, EventTable, Frame, Fx, MAX_SIZE, Meta,
    Segment, SegmentKind, Snapshot, StackId, Stage, StrId, Trace,
};

/// The address of a block that has none (PyTorch before 2.1); it follows from its neighbours.
pub(super) const NO_ADDR: u64 = u64::MAX;

/// How many C++ frames given as strings (PyTorch 2.0) are kept.
const MAX_CPP_FRAMES: usize = 512;

/// Bytes that may be repeated regardless of input size.
const REPEATED_BASE: u64 = 1 << 16;

/// A segment whose blocks are still a list.
#[derive(Debug)]
pub(super) struct RawSegment {
    pub(super) segment: Segment,
    pub(super) blocks: Value,
}

/// The tables that rows go into.
pub(super) struct Tables {
    pub(super) strings: Strings,
    pub(super) stacks: Stacks,
    pub(super) pools: Rows<(i64, i64)>,
    pub(super) streams: Rows<u64>,
    pub(super) metas: Rows<Meta>,
    pub(super) events: EventTable,
    pub(super) blocks: BlockTable,
    pub(super) segments: Vec<RawSegment>,
    pub(super) annotations: Vec<Annotation>,
    pub(super) oddities: Oddities,
    /// Bytes of the input so far.
    pub(super) bytes_read: u64,
    /// Work done, and memory used, again and again for the same part of the input.
    repeated: u64,
    /// Lists of strings that were joined before.
    joined: HashMap<Vec<StrId>, StrId>,
    scratch: Vec<crate::model::FrameId>,
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            strings: Strings::new(),
            stacks: Stacks::default(),
            pools: Rows::new(&[(i64::MIN, i64::MIN), (0, 0)]),
            streams: Rows::new(&[0]),
            metas: Rows::new(&[Meta::default()]),
            events: EventTable::default(),
            blocks: BlockTable::default(),
            segments: Vec::new(),
            annotations: Vec::new(),
            oddities: Oddities::default(),
            bytes_read: 0,
            repeated: 0,
            joined: HashMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Tables for a reader of rows, with what it has collected.
    pub(super) fn of(strings: Strings, oddities: Oddities, bytes_read: u64) -> Self {
        Self { strings, oddities, bytes_read, ..Self::new() }
    }

    /// The snapshot that these tables and traces make.
    pub(super) fn into_snapshot(self, mut traces: Vec<Trace>, mut snapshot: Snapshot) -> Snapshot {
        traces.retain(|trace| !trace.events.is_empty());
        traces.sort_by_key(|trace| trace.device);
        for trace in &mut traces {
            trace.events.shrink_to_fit();
            trace.totals.forget_absent();
        }
        snapshot.traces = traces;
        snapshot.strings = self.strings.table;
        snapshot.stacks = self.stacks.table;
        snapshot.streams = self.streams.rows;
        snapshot.pools = self.pools.rows;
        snapshot.metas = self.metas.rows;
        snapshot.warnings.extend(self.oddities.into_warnings());
        snapshot
    }

    /// Whether work in proportion to a part that may be referred to again and again can be done: in all
    /// no more of it than the input is long, so that references cannot multiply.
    pub(super) fn afford(&mut self, work: u64) -> bool {
        self.repeated = self.repeated.saturating_add(work);
        self.repeated <= REPEATED_BASE + self.bytes_read
    }

    /// The row that a dictionary of these items is; `None` if it is none that the model knows.
    pub(super) fn row(&mut self, objects: &Objects, items: &[Value]) -> Option<Value> {
        let mut present = 0;
        for pair in items.chunks_exact(2) {
            if let Value::Str(text) = pair[0]
                && let Some(key) = Key::of(text)
            {
                present |= key.bit();
            }
        }
        let has = |key: Key| present & key.bit() != 0;
        if has(Key::Action) {
            let event = self.event(objects, items);
            self.events.push(&event);
            Some(Value::Row(RowKind::Event, self.events.len() as u32 - 1))
        } else if has(Key::Filename) || (has(Key::Name) && has(Key::Line)) {
            Some(self.frame(items))
        } else if has(Key::State) && has(Key::Size) {
            let block = self.block(objects, items);
            self.blocks.push(block);
            Some(Value::Row(RowKind::Block, self.blocks.len() as u32 - 1))
        } else if has(Key::TotalSize) || (has(Key::Blocks) && has(Key::Address)) {
            let segment = self.segment(objects, items);
            self.segments.push(segment);
            Some(Value::Row(RowKind::Segment, self.segments.len() as u32 - 1))
        } else if has(Key::Stage) && has(Key::Name) {
            let annotation = self.annotation(items);
            self.annotations.push(annotation);
            Some(Value::Row(RowKind::Annotation, self.annotations.len() as u32 - 1))
        } else {
            None
        }
    }

    fn event(&mut self, objects: &Objects, items: &[Value]) -> Event {
        let mut event = Event { time_us: EventTable::NO_TIME, ..Event::default() };
        let mut meta = Meta::default();
        let mut cpp_frames = Value::None;
        // Of a key that comes twice the last value counts, and only that one gets an id.
        let mut stream = Value::None;
        for (key, value) in known(items) {
            match key {
                Key::Action => match value {
                    Value::Str(text) => match keys::action(text) {
                        Some(action) => event.action = action,
                        None => meta.unknown_action = text,
                    },
                    _ => self.oddities.note(Oddity::UnknownAction),
                },
                Key::Addr | Key::DeviceFree => event.addr = self.addr(value),
                Key::Size => event.size = self.size(value),
                Key::Stream => stream = value,
                Key::TimeUs => event.time_us = self.time(value),
                Key::PoolId | Key::SegmentPoolId => event.pool = self.pool(objects, value),
                Key::Frames => event.stack = self.stack(value),
                Key::CppFrames => cpp_frames = value,
                Key::CompileContext => meta.compile_context = text_of(value),
                Key::UserMetadata => {
                    meta.user_metadata = match value {
                        Value::Dict(_) | Value::List(_) | Value::Tuple(_) => self.as_json(objects, value),
                        _ => text_of(value),
                    }
                }
                Key::InternalMetadata => meta.internal_metadata = text_of(value),
                Key::Category => meta.category = text_of(value),
                Key::ForwardFrames => meta.forward = self.joined(objects, value),
                _ => {}
            }
        }
        event.stream = self.stream(stream);
        if cpp_frames != Value::None {
            event.stack = self.with_cpp_frames(objects, event.stack, cpp_frames);
        }
        if meta.unknown_action != StrId::EMPTY {
            self.oddities.note(Oddity::UnknownAction);
        }
        event.meta = self.meta(meta);
        event
    }

    /// The id of an event's strings; PyTorch's word for "not compiled" counts as nothing.
    #[inline]
    pub(super) fn meta(&mut self, mut meta: Meta) -> crate::model::MetaId {
        if meta.compile_context == keys::NOT_COMPILED {
            meta.compile_context = StrId::EMPTY;
        }
        self.metas.meta(meta)
    }

    fn block(&mut self, objects: &Objects, items: &[Value]) -> Block {
        let mut block = Block { addr: NO_ADDR, ..Block::default() };
        let mut requested = None;
        let mut history = Value::None;
        for (key, value) in known(items) {
            match key {
                Key::Address | Key::Addr if value != Value::None => block.addr = self.addr(value),
                Key::Size => block.size = self.size(value),
                // A free block keeps the last tenant's request, which may exceed it.
                Key::RequestedSize => requested = Some(value),
                Key::State => block.state = self.block_state(value),
                Key::Frames => block.stack = self.stack(value),
                Key::History => history = value,
                _ => {}
            }
        }
        let newest = objects.list(history).and_then(|list| list.values().first()).copied();
        if let Some(newest) = newest.and_then(|entry| objects.dict(entry))
            && self.afford(newest.items.len() as u64)
        {
            for (key, value) in known(&newest.items) {
                match key {
                    Key::RealSize if requested.is_none() => requested = Some(value),
                    Key::Frames if block.stack == StackId::ABSENT => block.stack = self.stack(value),
                    _ => {}
                }
            }
        }
        block.requested = match (block.state, requested) {
            (BlockState::Inactive, _) => 0,
            (_, Some(value)) => self.size(value),
            (_, None) => block.size,
        };
        block
    }

    fn block_state(&mut self, value: Value) -> BlockState {
        let Value::Str(text) = value else {
            self.oddities.note(Oddity::BlockState);
            return BlockState::Inactive;
        };
        match self.strings.table.get(text) {
            "active_allocated" => BlockState::Allocated,
            "active_pending_free" | "active_awaiting_free" => BlockState::PendingFree,
            "inactive" => BlockState::Inactive,
            _ => {
                self.oddities.note(Oddity::BlockState);
                BlockState::Inactive
            }
        }
    }

    fn segment(&mut self, objects: &Objects, items: &[Value]) -> RawSegment {
        let mut segment = Segment::default();
        let mut blocks = Value::None;
        for (key, value) in known(items) {
            match key {
                Key::Device => segment.device = self.device(value),
                Key::Address => segment.addr = self.addr(value),
                Key::TotalSize => segment.total_size = self.size(value),
                Key::AllocatedSize => segment.allocated_size = self.size(value),
                Key::ActiveSize => segment.active_size = self.size(value),
                Key::RequestedSize => segment.requested_size = self.size(value),
                Key::Stream => segment.stream = self.stream(value),
                Key::SegmentPoolId | Key::PoolId => segment.pool = self.pool(objects, value),
                Key::IsExpandable => segment.expandable = value == Value::Bool(true),
                Key::Frames => segment.stack = self.stack(value),
                Key::SegmentType => {
                    if let Value::Str(text) = value
                        && self.strings.table.get(text) == "small"
                    {
                        segment.kind = SegmentKind::Small;
                    }
                }
                Key::Blocks => blocks = value,
                _ => {}
            }
        }
        RawSegment { segment, blocks }
    }

    fn annotation(&mut self, items: &[Value]) -> Annotation {
        let mut annotation = Annotation::default();
        for (key, value) in known(items) {
            match key {
                Key::Name => annotation.name = text_of(value),
                Key::Device => annotation.device = self.device(value),
                Key::TimeUs => annotation.time_us = self.time(value),
                Key::Stage => {
                    if let Value::Str(text) = value
                        && self.strings.table.get(text) == "END"
                    {
                        annotation.stage = Stage::End;
                    }
                }
                _ => {}
            }
        }
        annotation
    }

    fn frame(&mut self, items: &[Value]) -> Value {
        let mut frame = Frame::default();
        let mut fx = Fx::default();
        for (key, value) in known(items) {
            match key {
                Key::Name => frame.name = text_of(value),
                Key::Filename => frame.file = text_of(value),
                Key::Line => {
                    frame.line = match value {
                        Value::Int(line) => u32::try_from(line).unwrap_or_default(),
                        _ => 0,
                    }
                }
                Key::FxNodeOp => fx.op = text_of(value),
                Key::FxNodeName => fx.name = text_of(value),
                Key::FxNodeTarget => fx.target = text_of(value),
                Key::FxOriginalTrace => fx.original_trace = text_of(value),
                _ => {}
            }
        }
        Value::Frame(self.stacks.intern_frame(frame, fx))
    }

    /// An address as PyTorch means it: the C++ writer casts it to a signed integer.
    pub(super) fn addr(&mut self, value: Value) -> u64 {
        match value {
            Value::Int(n) => n as u64,
            Value::UInt(n) => n,
            _ => {
                self.oddities.note(Oddity::Addr);
                0
            }
        }
    }

    /// A size in bytes.
    pub(super) fn size(&mut self, value: Value) -> u64 {
        match value {
            Value::Int(n) if (0..=MAX_SIZE as i64).contains(&n) => n as u64,
            _ => {
                self.oddities.note(Oddity::Size);
                0
            }
        }
    }

    pub(super) fn stream(&mut self, value: Value) -> crate::model::StreamId {
        let handle = match value {
            Value::Int(n) => n as u64,
            Value::UInt(n) => n,
            _ => 0,
        };
        self.streams.stream(handle)
    }

    pub(super) fn time(&mut self, value: Value) -> i64 {
        match value {
            Value::Int(n) => n,
            Value::Float(t) if t.is_finite() => t as i64,
            Value::None => EventTable::NO_TIME,
            _ => {
                self.oddities.note(Oddity::Time);
                EventTable::NO_TIME
            }
        }
    }

    fn device(&mut self, value: Value) -> DeviceId {
        match value {
            Value::Int(n) => i32::try_from(n).map_or(DeviceId(0), DeviceId),
            _ => DeviceId(0),
        }
    }

    fn pool(&mut self, objects: &Objects, value: Value) -> crate::model::PoolId {
        match value {
            Value::Pair(id) => id,
            other => match objects.list(other).map(List::values) {
                Some(&[Value::Int(a), Value::Int(b)]) => self.pools.pool((a, b)),
                _ => crate::model::PoolId::UNKNOWN,
            },
        }
    }

    pub(super) fn stack(&mut self, value: Value) -> StackId {
        match value {
            Value::Stack { id, .. } => id,
            Value::EmptyList { .. } => StackId::EMPTY,
            Value::None => StackId::ABSENT,
            _ => {
                self.oddities.note(Oddity::Frames);
                StackId::ABSENT
            }
        }
    }

    /// PyTorch 2.0 wrote C++ frames as plain strings beside the Python frames.
    fn with_cpp_frames(&mut self, objects: &Objects, stack: StackId, cpp_frames: Value) -> StackId {
        let Some(list) = objects.list(cpp_frames) else { return stack };
        let frames = list.values().len().min(MAX_CPP_FRAMES) + self.stacks.table.get(stack).len();
        if !self.afford(4 * frames as u64) {
            self.oddities.note(Oddity::Repeated);
            return stack;
        }
        let file = self.strings.intern(b"??");
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        for &value in list.values().iter().take(MAX_CPP_FRAMES) {
            if let Value::Str(name) = value {
                let frame = Frame { name, file, ..Frame::default() };
                frames.push(self.stacks.intern_frame(frame, Fx::default()));
            }
        }
        frames.extend_from_slice(self.stacks.table.get(stack));
        let stack = self.stacks.intern(&frames);
        self.scratch = frames;
        stack
    }

    /// Metadata that is no text, as JSON: newer versions of PyTorch take dictionaries.
    #[cold]
    #[inline(never)]
    fn as_json(&mut self, objects: &Objects, value: Value) -> StrId {
        let text = extras::raw(objects, self, value);
        if !self.afford(text.len() as u64) {
            self.oddities.note(Oddity::Repeated);
            return StrId::EMPTY;
        }
        self.strings.intern(text.as_bytes())
    }

    /// A list of strings as one string. Lists that hold the same strings are joined once.
    fn joined(&mut self, objects: &Objects, value: Value) -> StrId {
        let Some(list) = objects.list(value) else { return StrId::EMPTY };
        if let [only] = list.values() {
            return text_of(*only);
        }
        if !self.afford(list.values().len() as u64) {
            self.oddities.note(Oddity::Repeated);
            return StrId::EMPTY;
        }
        let chunks: Vec<StrId> = list.values().iter().map(|&value| text_of(value)).collect();
        if let Some(&known) = self.joined.get(&chunks) {
            return known;
        }
        let len: usize = chunks.iter().map(|&text| self.strings.table.get(text).len()).sum();
        if !self.afford(len as u64) {
            self.oddities.note(Oddity::Repeated);
            return StrId::EMPTY;
        }
        let text: String = chunks.iter().map(|&text| self.strings.table.get(text)).collect();
        let id = self.strings.intern(text.as_bytes());
        self.joined.insert(chunks, id);
        id
    }
}

/// The items whose keys the reader knows.
fn known(items: &[Value]) -> impl Iterator<Item = (Key, Value)> + '_ {
    items.chunks_exact(2).filter_map(|pair| match pair[0] {
        Value::Str(text) => Key::of(text).map(|key| (key, pair[1])),
        _ => None,
    })
}

fn text_of(value: Value) -> StrId {
    match value {
        Value::Str(text) => text,
        _ => StrId::EMPTY,
    }
}

/// Whether a half-read dictionary can be used: rows cannot, since what is missing would be guessed.
pub(super) fn is_row(items: &[Value]) -> bool {
    known(items).any(|(key, _)| {
        matches!(
            key,
            Key::Action
                | Key::Filename
                | Key::Line
                | Key::State
                | Key::TotalSize
                | Key::Stage
                | Key::Address
                | Key::Addr
        )
    })
}
