//! The top-level value into a [`Snapshot`].

use super::ReadError;
use super::extras;
use super::keys::Key;
use super::objects::{Items, Objects, Run};
use super::oddities::Oddity;
use super::rows::{NO_ADDR, RawSegment, Tables};
use super::value::{RowKind, Value};
use crate::model::{
    Action, Annotation, BlockTable, DeviceId, EventTable, Outside, Settings, Snapshot, StrId, Trace,
};

/// Unknown keys that are named; a file with more means to fill the screen.
const MAX_UNKNOWN_KEYS: usize = 32;

/// Entries of traces that are no events, beyond as many as there are events.
const MOST_OTHERS: usize = 1 << 16;

/// Settings that are kept, and characters of each: PyTorch has a dozen settings.
const MAX_SETTINGS: usize = 64;
const MAX_SETTING_LEN: usize = 4096;

/// PyTorch numbers devices with 8 bits. Hosts with several nodes' worth of them may come.
const MAX_DEVICES: i32 = 1024;

/// Threads may record a few microseconds out of order. A ring that was resized while recording is
/// written in the wrong order altogether.
const JUMP_BACK_US: i64 = 10_000;

/// Makes the snapshot, or says what the file holds instead.
pub(super) fn build(top: Option<Value>, objects: &Objects, tables: Tables) -> Result<Snapshot, ReadError> {
    let mut build =
        Build { objects, tables, traces: Vec::new(), segments: Vec::new(), snapshot: Snapshot::default() };
    match top {
        Some(top @ Value::Dict(_)) => {
            let items = objects.dict(top).map(|dict| dict.items.as_slice()).unwrap_or_default();
            build.top_level(items)?;
        }
        // `torch.cuda.memory_snapshot()`: the segments alone.
        Some(Value::EmptyList { .. }) => {}
        Some(top @ Value::List(_))
            if objects.list(top).is_some_and(|list| list.runs(RowKind::Segment).is_some()) =>
        {
            build.segment_list(top, None);
        }
        Some(Value::EmptyDict { .. }) | None => return Err(ReadError::NothingIntact),
        Some(top) => return Err(build.not_a_snapshot(top)),
    }
    Ok(build.finish())
}

struct Build<'a> {
    objects: &'a Objects,
    tables: Tables,
    /// Which list of rows of the event table makes which trace.
    traces: Vec<(DeviceId, u32)>,
    segments: Vec<RawSegment>,
    snapshot: Snapshot,
}

impl Build<'_> {
    fn top_level(&mut self, items: &[Value]) -> Result<(), ReadError> {
        // Of a key that comes more than once the last value counts, as in Python.
        let mut values: Vec<(Key, Value)> = Vec::new();
        for pair in items.chunks_exact(2) {
            let (Value::Str(text), value) = (pair[0], pair[1]) else { continue };
            match Key::of(text) {
                Some(key) => match values.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => values.push((key, value)),
                },
                None if self.snapshot.unknown_keys.len() < MAX_UNKNOWN_KEYS => {
                    let key = shortened(self.tables.strings.table.get(text));
                    let raw = extras::raw(self.objects, &self.tables, value);
                    self.snapshot.extras.raw.push((key.clone(), raw));
                    self.snapshot.unknown_keys.push(key);
                }
                None => {}
            }
        }
        let mut is_snapshot = false;
        for (key, value) in values {
            match key {
                Key::Segments => self.segment_list(value, None),
                Key::DeviceTraces | Key::Traces => self.trace_lists(value),
                Key::HostSegments => self.segment_list(value, Some(DeviceId::HOST)),
                Key::HostTraces => self.trace(DeviceId::HOST, value),
                Key::AllocatorSettings => {
                    self.snapshot.settings = settings(self.objects, &self.tables, value);
                }
                Key::ExternalAnnotations => self.annotations(value),
                Key::SourceCode => {
                    self.snapshot.extras.sources = extras::sources(self.objects, &mut self.tables, value);
                    continue;
                }
                Key::ShapeData => {
                    self.snapshot.extras.shapes = extras::shapes(self.objects, &mut self.tables, value);
                    continue;
                }
                _ => continue,
            }
            is_snapshot |= !matches!(key, Key::AllocatorSettings | Key::ExternalAnnotations);
        }
        if is_snapshot {
            return Ok(());
        }
        let is_sidecar = items.chunks_exact(2).any(|pair| match pair[1] {
            Value::Str(text) => self.tables.strings.table.get(text).starts_with("vramscope/sidecar/"),
            _ => false,
        });
        if is_sidecar {
            let what = "the sidecar of a snapshot, which is read with the snapshot beside it";
            return Err(ReadError::NotASnapshot(what.to_owned()));
        }
        let keys: Vec<_> = items
            .chunks_exact(2)
            .filter_map(|pair| match pair[0] {
                Value::Str(text) => Some(format!("`{}`", shortened(self.tables.strings.table.get(text)))),
                _ => None,
            })
            .take(6)
            .collect();
        Err(ReadError::NotASnapshot(format!("a dictionary with the keys {}", keys.join(", "))))
    }

    fn not_a_snapshot(&self, top: Value) -> ReadError {
        let what = match top {
            Value::List(_) | Value::Stack { .. } => "a list, but not of segments".to_owned(),
            Value::Tuple(_) | Value::Pair(_) => "a tuple".to_owned(),
            Value::Str(text) => format!("the text \"{}\"", shortened(self.tables.strings.table.get(text))),
            Value::Row(..) => "a single entry of a snapshot".to_owned(),
            _ => "a single value".to_owned(),
        };
        ReadError::NotASnapshot(what)
    }

    fn segment_list(&mut self, value: Value, device: Option<DeviceId>) {
        let Some(list) = self.objects.list(value) else { return };
        let mut rows = Vec::new();
        match &list.items {
            Items::Rows { kind: RowKind::Segment, runs } => {
                rows.extend(runs.iter().flat_map(|run| run.rows()));
            }
            Items::Rows { .. } => self.tables.oddities.note(Oddity::NotABlock),
            Items::Values(values) => {
                for value in values {
                    match value {
                        Value::Row(RowKind::Segment, row) => rows.push(*row),
                        _ => self.tables.oddities.note(Oddity::NotABlock),
                    }
                }
            }
        }
        for row in rows {
            let Some(raw) = self.tables.segments.get_mut(row as usize) else { continue };
            // A segment taken once is gone, so references to it cannot multiply memory.
            let blocks = std::mem::replace(&mut raw.blocks, Value::HugeInt);
            if blocks == Value::HugeInt {
                self.tables.oddities.note(Oddity::Repeated);
                continue;
            }
            let mut segment = std::mem::take(&mut raw.segment);
            if let Some(device) = device {
                segment.device = device;
            }
            if !(DeviceId::HOST..DeviceId(MAX_DEVICES)).contains(&segment.device) {
                self.tables.oddities.note(Oddity::TooManyDevices);
                continue;
            }
            self.segments.push(RawSegment { segment, blocks });
        }
    }

    fn trace_lists(&mut self, value: Value) {
        let Some(list) = self.objects.list(value) else { return };
        match &list.items {
            // Events directly where a list per device belongs.
            Items::Rows { kind: RowKind::Event, .. } => self.trace(DeviceId(0), value),
            Items::Rows { .. } => self.tables.oddities.note(Oddity::NotAnEvent),
            Items::Values(values) => {
                for (&value, device) in values.iter().zip(0..MAX_DEVICES) {
                    self.trace(DeviceId(device), value);
                }
                let surplus = values.len().saturating_sub(MAX_DEVICES as usize);
                self.tables.oddities.add(Oddity::TooManyDevices, surplus as u64);
            }
        }
    }

    fn trace(&mut self, device: DeviceId, value: Value) {
        match (self.objects.list(value), value) {
            (Some(_), Value::List(slot)) => self.traces.push((device, slot)),
            (_, Value::EmptyList { .. } | Value::None) => {}
            _ => self.tables.oddities.note(Oddity::NotAnEvent),
        }
    }

    fn annotations(&mut self, value: Value) {
        let Some(list) = self.objects.list(value) else { return };
        let Some(runs) = list.runs(RowKind::Annotation) else { return };
        let all: &[Annotation] = &self.tables.annotations;
        let rows = runs.iter().flat_map(|run| run.rows());
        let rows = rows.take(all.len()).filter_map(|row| all.get(row as usize)).copied();
        self.snapshot.annotations.extend(rows);
    }

    fn finish(mut self) -> Snapshot {
        self.gather_events();
        self.gather_blocks();
        self.workspaces();
        let Self { tables, mut snapshot, .. } = self;
        let traces = std::mem::take(&mut snapshot.traces);
        tables.into_snapshot(traces, snapshot)
    }

    /// An NPU writes its workspaces in front of the trace, as they were at the end. They are a part of what is
    /// reserved, all the time, that no allocation is in.
    fn workspaces(&mut self) {
        let name = self.tables.strings.intern(b"workspace");
        for Trace { device, events, .. } in &self.snapshot.traces {
            let prologue = |row: &usize| events.get(3 * row).action == Action::WorkspaceSnapshot;
            for row in (0..).take_while(prologue) {
                let bytes = events.get(3 * row).size;
                let time_us = EventTable::NO_TIME;
                self.snapshot.outside.push(Outside { device: *device, name, time_us, bytes, peak: bytes });
            }
        }
    }

    /// Gives each device its part of the event table. Nearly always the parts follow each other in
    /// the table; then they are cut off its end one by one, and a single device takes it whole.
    fn gather_events(&mut self) {
        let mut table = std::mem::take(&mut self.tables.events);
        let list = |slot: u32| &self.objects.lists[slot as usize];
        let single_run = |&(device, slot): &(DeviceId, u32)| match list(slot).runs(RowKind::Event) {
            Some(&[run]) => Some((device, run)),
            _ => None,
        };
        let mut runs: Vec<(DeviceId, Run)> = self.traces.iter().filter_map(single_run).collect();
        runs.sort_by_key(|(_, run)| run.start);
        let in_order = runs.len() == self.traces.len()
            && runs.windows(2).all(|pair| pair[0].1.rows().end <= pair[1].1.start);
        let mut traces = Vec::new();
        if in_order {
            for &(device, run) in runs.iter().rev() {
                let rows = run.rows();
                // Events that belong to no trace may follow.
                drop(table.split_off((rows.end as usize).min(table.len())));
                let events = if rows.start == 0 {
                    std::mem::take(&mut table)
                } else {
                    table.split_off(rows.start as usize)
                };
                traces.push(Trace { device, events, ..Trace::default() });
            }
        } else {
            // References cannot multiply events: in all there are no more than were read. Entries that are
            // none have a budget of their own.
            let mut budget = table.len();
            let mut others = table.len() + MOST_OTHERS;
            for &(device, slot) in &self.traces {
                let mut events = EventTable::default();
                let oddities = &mut self.tables.oddities;
                let mut take = |row: Option<u32>| {
                    let left = if row.is_some() { &mut budget } else { &mut others };
                    if *left == 0 {
                        return false;
                    }
                    *left -= 1;
                    match row {
                        Some(row) => events.push(&table.get(row as usize)),
                        None => oddities.note(Oddity::NotAnEvent),
                    }
                    true
                };
                let fits = match &list(slot).items {
                    Items::Rows { kind, runs } => {
                        let mut rows = runs.iter().flat_map(|run| run.rows());
                        rows.all(|row| take(Some(row).filter(|_| *kind == RowKind::Event)))
                    }
                    Items::Values(values) => values.iter().all(|value| {
                        take(match value {
                            Value::Row(RowKind::Event, row) => Some(*row),
                            _ => None,
                        })
                    }),
                };
                traces.push(Trace { device, events, ..Trace::default() });
                if !fits {
                    self.tables.oddities.note(Oddity::Repeated);
                    break;
                }
            }
        }
        traces.retain(|trace| !trace.events.is_empty());
        traces.sort_by_key(|trace| trace.device);
        traces.dedup_by_key(|trace| trace.device);
        for Trace { device, events, .. } in &mut traces {
            if let Some((row, back)) = events.first_jump_back(JUMP_BACK_US)
                && events.sort_by_time_if_better()
            {
                self.snapshot.warnings.push(format!(
                    "device {device}: time went back by {back} µs at event {row}: was max_entries changed while recording? \
                     The events are put in the order of their times"
                ));
            }
        }
        self.snapshot.traces = traces;
    }

    /// Puts the blocks of each segment together, by address, and fills in what old files leave out.
    fn gather_blocks(&mut self) {
        self.segments.sort_by_key(|raw| (raw.segment.device, raw.segment.addr));
        let source = std::mem::take(&mut self.tables.blocks);
        let mut blocks = BlockTable::default();
        let mut budget = source.len();
        for RawSegment { mut segment, blocks: list } in std::mem::take(&mut self.segments) {
            let start = blocks.len();
            let runs = self.objects.list(list).and_then(|list| list.runs(RowKind::Block));
            if runs.is_none() && !matches!(list, Value::EmptyList { .. } | Value::None) {
                self.tables.oddities.note(Oddity::NotABlock);
            }
            let mut rows: Vec<_> = Vec::new();
            for row in runs.unwrap_or_default().iter().flat_map(|run| run.rows()) {
                if budget == 0 {
                    self.tables.oddities.note(Oddity::Repeated);
                    break;
                }
                budget -= 1;
                rows.push(source.get(row as usize));
            }
            let mut next = segment.addr;
            for block in &mut rows {
                if block.addr == NO_ADDR {
                    block.addr = next;
                }
                next = block.addr.wrapping_add(block.size);
            }
            if !rows.is_sorted_by_key(|block| block.addr) {
                rows.sort_by_key(|block| block.addr);
            }
            let sum = rows.iter().fold(0_u64, |sum, block| sum.saturating_add(block.size));
            if segment.total_size == 0 {
                segment.total_size = sum;
            } else if sum != segment.total_size {
                self.tables.oddities.note(Oddity::BlockSum);
            }
            for block in rows {
                blocks.push(block);
            }
            segment.blocks = start as u32..blocks.len() as u32;
            self.snapshot.segments.push(segment);
        }
        self.snapshot.blocks = blocks;
    }
}

/// `allocator_settings`, by name.
fn settings(objects: &Objects, tables: &Tables, value: Value) -> Settings {
    let mut settings = Settings::default();
    let text = |id: StrId| tables.strings.table.get(id);
    let pairs = |value: Value| {
        objects.dict(value).map(|dict| dict.items.chunks_exact(2).take(MAX_SETTINGS)).into_iter().flatten()
    };
    let short = |text: &str| -> String { text.chars().take(MAX_SETTING_LEN).collect() };
    for pair in pairs(value) {
        let (Value::Str(name), value) = (pair[0], pair[1]) else { continue };
        match (text(name), value) {
            ("max_split_size", Value::Int(n)) => settings.max_split_size = u64::try_from(n).ok(),
            ("expandable_segments", Value::Bool(on)) => settings.expandable_segments = on,
            ("roundup_power2_divisions", divisions) => {
                settings.roundup_divisions.clear();
                for pair in pairs(divisions) {
                    if let (Value::Str(class), Value::Int(n)) = (pair[0], pair[1])
                        && let (Ok(class), Ok(n)) = (text(class).parse(), u64::try_from(n))
                    {
                        settings.roundup_divisions.push((class, n));
                    }
                }
                settings.roundup_divisions.sort_unstable();
            }
            _ => {}
        }
        let shown = match value {
            Value::Str(id) => short(text(id)),
            Value::Int(n) => n.to_string(),
            Value::UInt(n) => n.to_string(),
            Value::Float(n) => n.to_string(),
            Value::Bool(on) => on.to_string(),
            Value::Dict(_) => pairs(value)
                .filter_map(|pair| match (pair[0], pair[1]) {
                    (Value::Str(name), Value::Int(n)) => Some(format!("{}:{n}", shortened(text(name)))),
                    _ => None,
                })
                .collect::<Vec<_>>()
                .join(","),
            _ => continue,
        };
        settings.all.push((shortened(text(name)), shown));
    }
    settings
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
