//! A snapshot as named columns: in the file of a cache, which are read where they lie, and in a report.
//!
//! Everything that grows with the trace is a column of its own. The rest is small and encoded as one.
//! Nothing that comes back is checked against each other here. The cache's checksums say that it is what was written;
//! [`embedded`](crate::embedded) checks what a report holds.

use std::io::{self, Seek, Write};
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vramscope_mapped::{Buffer, Pod, Store, StoreError, Writer};

use crate::model::{Column, DeviceId, Kept, Snapshot, StackTable, Storage, StringTable, Trace};

/// Place that columns are written to.
pub trait ColumnSink {
    /// Adds a column.
    fn put<T: Pod>(&mut self, name: &str, values: &[T]) -> io::Result<()>;
}

impl<W: Write + Seek> ColumnSink for Writer<W> {
    fn put<T: Pod>(&mut self, name: &str, values: &[T]) -> io::Result<()> {
        Self::put(self, name, values)
    }
}

/// Place that columns are read from. Some have them only in the order in which they were written.
pub trait ColumnSource {
    /// Returns a column.
    fn get<T: Pod>(&mut self, name: &str) -> Result<Buffer<T>, StoreError>;
}

impl<S: ColumnSource> ColumnSource for &mut S {
    fn get<T: Pod>(&mut self, name: &str) -> Result<Buffer<T>, StoreError> {
        S::get(self, name)
    }
}

impl ColumnSource for &Store {
    fn get<T: Pod>(&mut self, name: &str) -> Result<Buffer<T>, StoreError> {
        Store::get(self, name)
    }
}

/// Facts about a trace beside its columns: the device, whether events were reordered, and the totals' resolution.
type TraceFacts = (DeviceId, bool, u64);

/// Adds a snapshot to a file, with the stacks that replays have added to it, and with what makes questions about few events
/// quick.
pub fn put<W: Write + Seek>(snapshot: &Snapshot, out: &mut Writer<W>) -> io::Result<()> {
    put_recorded(snapshot, out)?;
    if let (Some(strings), Some(stacks)) = (snapshot.strings.added.get(), snapshot.stacks.added.get()) {
        put_tables("added.", strings, stacks, out)?;
    }
    for (number, Trace { events, .. }) in snapshot.traces.iter().enumerate() {
        let mut put = Named { table: format!("trace{number}."), columns: &mut *out };
        put.put("time_bounds", &events.time_bounds())?;
        put.put("kinds", &events.kinds())?;
        put.put("distinct_stacks", &events.distinct_stacks())?;
    }
    Ok(())
}

/// Returns the snapshot of a file.
pub fn get(store: &Store) -> Result<Snapshot, StoreError> {
    let mut snapshot = get_recorded(store)?;
    if let Ok((strings, stacks)) = get_tables("added.", store) {
        snapshot.strings.added = OnceLock::from(Box::new(strings));
        snapshot.stacks.added = OnceLock::from(Box::new(stacks));
    }
    for (number, Trace { events, .. }) in snapshot.traces.iter_mut().enumerate() {
        let mut columns = Named { table: format!("trace{number}."), columns: store };
        events.time_bounds = Kept(columns.get("time_bounds")?);
        events.kinds = Kept(columns.get("kinds")?);
        events.distinct_stacks = Kept(columns.get("distinct_stacks")?);
    }
    Ok(snapshot)
}

/// Adds what was read of a snapshot, without what follows from it.
pub(crate) fn put_recorded(snapshot: &Snapshot, out: &mut impl ColumnSink) -> io::Result<()> {
    put_small("snapshot", snapshot, out)?;
    let storages = snapshot.sidecar.as_deref().map(|sidecar| &sidecar.storages);
    put_small("storages", &storages, out)?;
    put_tables("", &snapshot.strings, &snapshot.stacks, out)?;
    let facts = |trace: &Trace| (trace.device, trace.events.reordered, trace.totals.resolution);
    put_small("traces", &snapshot.traces.iter().map(facts).collect::<Vec<TraceFacts>>(), out)?;
    for (number, Trace { events, totals, .. }) in snapshot.traces.iter().enumerate() {
        let mut columns = Named { table: format!("trace{number}."), columns: &mut *out };
        columns.put("action", &events.action)?;
        columns.put("addr", &events.addr)?;
        columns.put("size", &events.size)?;
        columns.put("time_us", &events.time_us)?;
        columns.put("stack", &events.stack)?;
        columns.put("stream", events.stream.stored())?;
        columns.put("pool", events.pool.stored())?;
        columns.put("meta", events.meta.stored())?;
        columns.put("nanos", &events.nanos)?;
        columns.put("allocated", &totals.allocated)?;
        columns.put("active", &totals.active)?;
        columns.put("reserved", &totals.reserved)?;
    }
    Ok(())
}

/// Returns what [`put_recorded`] added.
pub(crate) fn get_recorded(mut source: impl ColumnSource) -> Result<Snapshot, StoreError> {
    let mut snapshot: Snapshot = get_small("snapshot", &mut source)?;
    let storages = get_small::<Option<Vec<Storage>>>("storages", &mut source)?;
    if let (Some(sidecar), Some(storages)) = (&mut snapshot.sidecar, storages) {
        sidecar.storages = storages;
    }
    (snapshot.strings, snapshot.stacks) = get_tables("", &mut source)?;
    let facts: Vec<TraceFacts> = get_small("traces", &mut source)?;
    for (number, (device, reordered, resolution)) in facts.into_iter().enumerate() {
        let mut trace = get_trace(&mut Named { table: format!("trace{number}."), columns: &mut source })?;
        (trace.device, trace.events.reordered, trace.totals.resolution) = (device, reordered, resolution);
        snapshot.traces.push(trace);
    }
    Ok(snapshot)
}

fn get_trace(columns: &mut Named<impl ColumnSource>) -> Result<Trace, StoreError> {
    let mut trace = Trace::default();
    let (events, totals) = (&mut trace.events, &mut trace.totals);
    events.action = columns.get("action")?;
    events.addr = columns.get("addr")?;
    events.size = columns.get("size")?;
    events.time_us = columns.get("time_us")?;
    events.stack = columns.get("stack")?;
    events.stream = Column::from_buffer(columns.get("stream")?);
    events.pool = Column::from_buffer(columns.get("pool")?);
    events.meta = Column::from_buffer(columns.get("meta")?);
    events.nanos = columns.get("nanos")?;
    totals.allocated = columns.get("allocated")?;
    totals.active = columns.get("active")?;
    totals.reserved = columns.get("reserved")?;
    let rows = events.action.len();
    let lengths = [events.addr.len(), events.size.len(), events.time_us.len(), events.stack.len()];
    if lengths == [rows; 4] { Ok(trace) } else { Err(StoreError::Damaged) }
}

fn put_tables(
    table: &str,
    strings: &StringTable,
    stacks: &StackTable,
    out: &mut impl ColumnSink,
) -> io::Result<()> {
    let mut columns = Named { table: table.to_owned(), columns: out };
    columns.put("text", &strings.text)?;
    columns.put("text_ends", &strings.ends)?;
    columns.put("frames", &stacks.frames)?;
    columns.put("fx", &stacks.fx)?;
    columns.put("stack_ends", &stacks.ends)?;
    columns.put("stack_frames", &stacks.lists)
}

fn get_tables(table: &str, columns: impl ColumnSource) -> Result<(StringTable, StackTable), StoreError> {
    let mut columns = Named { table: table.to_owned(), columns };
    let (mut strings, mut stacks) = (StringTable::none(), StackTable::none());
    strings.text = columns.get("text")?;
    strings.ends = columns.get("text_ends")?;
    stacks.frames = columns.get("frames")?;
    stacks.fx = columns.get("fx")?;
    stacks.ends = columns.get("stack_ends")?;
    stacks.lists = columns.get("stack_frames")?;
    Ok((strings, stacks))
}

/// Columns of one table, whose names begin with that of the table.
struct Named<C> {
    table: String,
    columns: C,
}

impl<C: ColumnSink> Named<&mut C> {
    fn put<T: Pod>(&mut self, name: &str, values: &[T]) -> io::Result<()> {
        self.columns.put(&format!("{}{name}", self.table), values)
    }
}

impl<C: ColumnSource> Named<C> {
    fn get<T: Pod>(&mut self, name: &str) -> Result<Buffer<T>, StoreError> {
        self.columns.get(&format!("{}{name}", self.table))
    }
}

/// Adds what is small.
pub fn put_small(name: &str, value: &impl Serialize, out: &mut impl ColumnSink) -> io::Result<()> {
    out.put(name, &postcard::to_stdvec(value).map_err(io::Error::other)?)
}

/// Returns what [`put_small`] added.
pub fn get_small<T: DeserializeOwned>(name: &str, mut source: impl ColumnSource) -> Result<T, StoreError> {
    postcard::from_bytes(&source.get::<u8>(name)?).map_err(|_| StoreError::Damaged)
}
