//! The tables of `ascend_pytorch_profiler.db`: the same rows, in bytes and nanoseconds.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{Component, OpRow, RecordRow, Rows};
use crate::model::{Damage, StrId, Total};
use crate::read::intern::Strings;
use crate::read::sqlite::{Database, SqliteError, Value};
use crate::read::trace::{Slice, SliceKind};

/// Frames of a call stack that are joined to a text.
const MAX_FRAMES: usize = 256;

/// A row that is kept has two times or a time and totals, so that it is longer than this in any profile. What is
/// kept of it takes a multiple of that.
const LEAST_ROW: usize = 24;

/// What a database says beside its rows.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) rank: Option<u64>,
    /// Whether it has a table of memory at all.
    pub(super) is_profile: bool,
    /// The first page that is damaged.
    pub(super) damage: Option<Damage>,
}

/// Takes over what a database has. What is intact of it is there even if something is damaged.
pub(super) fn read(bytes: &[u8], strings: &mut Strings, rows: &mut Rows) -> Result<Facts, SqliteError> {
    let database = Database::open(bytes)?;
    let mut reading = Reading {
        database: &database,
        names: HashMap::new(),
        components: HashMap::new(),
        strings,
        rows,
        faults: Vec::new(),
        bytes: bytes.len() as u64,
        most_rows: 1024 + bytes.len() / LEAST_ROW,
        refused: 0,
    };
    reading.names();
    reading.operators();
    reading.records();
    reading.modules();
    reading.marks();
    reading.operators_running();
    let rank = reading.rank();
    let faults = std::mem::take(&mut reading.faults);
    let refused = reading.refused;
    if refused > 0 {
        rows.warnings.push(format!("{refused} rows are left out: the file is too short to hold them"));
    }
    let is_profile = ["OP_MEMORY", "MEMORY_RECORD"].iter().any(|name| database.table(name).is_some());
    let damage = faults
        .first()
        .map(|(table, error)| Damage { offset: database.offset(error), reason: format!("{table}: {error}") });
    for (table, error) in faults {
        rows.warnings.push(format!("{table}: {error}; rows after that are missing"));
    }
    Ok(Facts { rank, is_profile, damage })
}

struct Reading<'a> {
    database: &'a Database<'a>,
    /// Texts by their number.
    names: HashMap<i64, StrId>,
    /// Who a name stands for.
    components: HashMap<StrId, Component>,
    strings: &'a mut Strings,
    rows: &'a mut Rows,
    faults: Vec<(&'static str, SqliteError)>,
    bytes: u64,
    /// Rows that are kept of each kind.
    most_rows: usize,
    /// Rows beyond that.
    refused: u64,
}

fn total(allocated: Value<'_>, active: Value<'_>, reserved: Value<'_>) -> Total {
    Total { allocated: allocated.unsigned(), active: active.unsigned(), reserved: reserved.unsigned() }
}

fn ordinal(value: Value<'_>) -> i32 {
    value.int().and_then(|device| i32::try_from(device).ok()).unwrap_or_default()
}

impl Reading<'_> {
    /// Goes through a table, if there is one, and keeps what is wrong with it.
    fn each<const N: usize>(
        &mut self,
        table: &'static str,
        columns: [&str; N],
        mut take: impl FnMut(&mut Self, [Value<'_>; N]),
    ) {
        let database = self.database;
        let Some(found) = database.table(table) else { return };
        if let Err(error) = database.rows(found, columns, &mut |values| take(self, values)) {
            self.faults.push((table, error));
        }
    }

    fn name(&self, value: Value<'_>) -> StrId {
        value.int().and_then(|id| self.names.get(&id)).copied().unwrap_or(StrId::EMPTY)
    }

    fn names(&mut self) {
        self.each("STRING_IDS", ["id", "value"], |reading, [id, value]| {
            if let (Some(id), Some(text)) = (id.int(), value.text()) {
                let text = reading.strings.intern(text);
                reading.names.insert(id, text);
            }
        });
    }

    fn operators(&mut self) {
        let columns = [
            "name",
            "size",
            "allocationTime",
            "releaseTime",
            "activeReleaseTime",
            "allocationTotalAllocated",
            "allocationTotalActive",
            "allocationTotalReserved",
            "releaseTotalAllocated",
            "releaseTotalActive",
            "releaseTotalReserved",
            "streamPtr",
            "deviceId",
        ];
        let (mut number, mut bad, mut first) = (0_u64, 0_u64, None);
        self.each(
            "OP_MEMORY",
            columns,
            |reading, [name, size, allocated, released, reusable, a, b, c, d, e, f, stream, device]| {
                number += 1;
                let name = reading.name(name);
                if !reading.has_room(reading.rows.ops.len()) {
                    return;
                }
                let (Some(size), Some(allocated_ns)) =
                    (size.unsigned().filter(|size| *size < 1 << 48), allocated.int())
                else {
                    bad += 1;
                    first.get_or_insert(number);
                    return;
                };
                let (released, reusable_ns) = (released.int(), reusable.int());
                reading.rows.ops.push(OpRow {
                    name,
                    size,
                    allocated_ns,
                    // A block that is released before it is allocated has no end that can be believed.
                    released_ns: released.or(reusable_ns).filter(|released| *released >= allocated_ns),
                    reusable_ns,
                    at_allocation: total(a, b, c),
                    at_release: total(d, e, f),
                    stream: stream.unsigned().unwrap_or_default(),
                    device: ordinal(device),
                    is_graph: reading.strings.table.get(name).starts_with("cann::"),
                });
            },
        );
        if let Some(first) = first {
            let reason = "it has no size or no time";
            self.rows
                .warnings
                .push(format!("OP_MEMORY: {bad} rows are left out, the first is row {first}: {reason}"));
        }
    }

    fn records(&mut self) {
        let columns =
            ["component", "timestamp", "totalAllocated", "totalActive", "totalReserved", "deviceId"];
        self.each(
            "MEMORY_RECORD",
            columns,
            |reading, [component, time, allocated, active, reserved, device]| {
                let Some(time_ns) = time.int() else { return };
                let component = reading.component(component);
                let total = total(allocated, active, reserved);
                reading.record(RecordRow { component, time_ns, total, device: ordinal(device) });
            },
        );
    }

    fn modules(&mut self) {
        let columns = ["moduleId", "timestampNs", "totalReserved", "deviceId"];
        self.each("NPU_MODULE_MEM", columns, |reading, [module, time, reserved, device]| {
            let Some(time_ns) = time.int() else { return };
            let component = Component::Other(reading.name(module));
            let total = Total { reserved: reserved.unsigned(), ..Total::default() };
            reading.record(RecordRow { component, time_ns, total, device: ordinal(device) });
        });
    }

    /// Who a row is about.
    fn component(&mut self, name: Value<'_>) -> Component {
        let name = self.name(name);
        if let Some(known) = self.components.get(&name) {
            return *known;
        }
        let text = self.strings.table.get(name).to_owned();
        let component = Component::of(text.as_bytes(), self.strings);
        self.components.insert(name, component);
        component
    }

    /// Whether one more row can be kept; counts those that cannot.
    fn has_room(&mut self, kept: usize) -> bool {
        let has_room = kept < self.most_rows;
        self.refused += u64::from(!has_room);
        has_room
    }

    fn record(&mut self, row: RecordRow) {
        if self.has_room(self.rows.records.len()) {
            self.rows.records.push(row);
        }
    }

    fn slice(&mut self, slice: Slice) {
        if self.has_room(self.rows.slices.len()) {
            self.rows.slices.push(slice);
        }
    }

    /// Ranges that the program marked, and the profiler's steps.
    fn marks(&mut self) {
        let mark = |reading: &mut Self, name: StrId, start: Value<'_>, end: Value<'_>| {
            if let (Some(start_ns), Some(end_ns)) = (start.int(), end.int())
                && name != StrId::EMPTY
            {
                let kind = SliceKind::Annotation;
                reading.slice(Slice { start_ns, end_ns, thread: 0, name, call_stack: StrId::EMPTY, kind });
            }
        };
        self.each("MSTX_EVENTS", ["startNs", "endNs", "message"], |reading, [start, end, message]| {
            let name = reading.name(message);
            mark(reading, name, start, end);
        });
        self.each("STEP_TIME", ["id", "startNs", "endNs"], |reading, [_, start, end]| {
            let name = reading.strings.intern(b"ProfilerStep");
            mark(reading, name, start, end);
        });
    }

    /// Operators with their call stacks, which stand in a table of their own, a row for each frame.
    fn operators_running(&mut self) {
        let mut chains: BTreeMap<i64, Vec<(i64, StrId)>> = BTreeMap::new();
        self.each("PYTORCH_CALLCHAINS", ["id", "stack", "stackDepth"], |reading, [id, stack, depth]| {
            let frame = reading.name(stack);
            if let Some(id) = id.int() {
                let chain = chains.entry(id).or_default();
                if chain.len() < MAX_FRAMES {
                    chain.push((depth.int().unwrap_or_default(), frame));
                }
            }
        });
        let mut texts: HashMap<i64, StrId> = HashMap::new();
        // The same frames are joined once, as most stacks come again in every step.
        let mut joined: HashMap<Vec<StrId>, StrId> = HashMap::new();
        // Long texts that are referred to again and again cannot multiply.
        let mut budget = (1 << 20) + 4 * self.bytes;
        let mut too_long = 0_u64;
        for (id, mut chain) in chains {
            chain.sort_by_key(|(depth, _)| *depth);
            let frames: Vec<StrId> = chain.iter().map(|(_, frame)| *frame).collect();
            if let Some(known) = joined.get(&frames) {
                texts.insert(id, *known);
                continue;
            }
            let names = frames.iter().map(|frame| self.strings.table.get(*frame));
            let length = names.clone().fold(0, |sum, name| sum + name.len() as u64 + 1);
            let Some(rest) = budget.checked_sub(length) else {
                too_long += 1;
                continue;
            };
            budget = rest;
            let text = names.collect::<Vec<_>>().join(";");
            let text = self.strings.intern(text.as_bytes());
            joined.insert(frames, text);
            texts.insert(id, text);
        }
        if too_long > 0 {
            let warning = format!(
                "PYTORCH_CALLCHAINS: {too_long} call stacks are left out: written out they are far longer than the file"
            );
            self.rows.warnings.push(warning);
        }
        if texts.is_empty() {
            return;
        }
        let columns = ["startNs", "endNs", "globalTid", "name", "callchainId"];
        let mut threads: HashMap<i64, u32> = HashMap::new();
        self.each("PYTORCH_API", columns, |reading, [start, end, thread, name, chain]| {
            let call_stack = chain.int().and_then(|id| texts.get(&id)).copied();
            let (Some(start_ns), Some(end_ns), Some(call_stack)) = (start.int(), end.int(), call_stack)
            else {
                return;
            };
            let next = threads.len() as u32;
            let thread = *threads.entry(thread.int().unwrap_or_default()).or_insert(next);
            let (name, kind) = (reading.name(name), SliceKind::Operator);
            reading.slice(Slice { start_ns, end_ns, thread, name, call_stack, kind });
        });
    }

    fn rank(&mut self) -> Option<u64> {
        let mut rank = None;
        self.each("RANK_DEVICE_MAP", ["rankId"], |_, [id]| rank = rank.or(id.unsigned()));
        rank
    }
}
