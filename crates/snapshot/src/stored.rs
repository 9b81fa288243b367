//! A snapshot as columns of a file, which are read where they lie.
//!
//! Everything that grows with the trace is a column of its own. The rest is small and encoded as one.
//! Nothing that comes back is checked against each other: the file's checksums say that it is what was written.

use std::io::{self, Seek, Write};
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vramscope_mapped::{Buffer, Pod, Store, StoreError, Writer};

use crate::model::{Column, Kept, Snapshot, StackTable, Storage, StringTable, Trace};

/// Adds a snapshot to a file, with the stacks that replays have added to it.
pub fn put<W: Write + Seek>(snapshot: &Snapshot, out: &mut Writer<W>) -> io::Result<()> {
    put_small("snapshot", snapshot, out)?;
    let storages = snapshot.sidecar.as_deref().map(|sidecar| &sidecar.storages);
    put_small("storages", &storages, out)?;
    put_tables("", &snapshot.strings, &snapshot.stacks, out)?;
    if let (Some(strings), Some(stacks)) = (snapshot.strings.added.get(), snapshot.stacks.added.get()) {
        put_tables("added.", strings, stacks, out)?;
    }
    for (number, trace) in snapshot.traces.iter().enumerate() {
        let mut columns = Columns { table: format!("trace{number}."), out };
        let (events, totals) = (&trace.events, &trace.totals);
        columns.put("action", &events.action)?;
        columns.put("addr", &events.addr)?;
        columns.put("size", &events.size)?;
        columns.put("time_us", &events.time_us)?;
        columns.put("stack", &events.stack)?;
        columns.put("stream", events.stream.stored())?;
        columns.put("pool", events.pool.stored())?;
        columns.put("meta", events.meta.stored())?;
        columns.put("nanos", &events.nanos)?;
        columns.put("time_bounds", &events.time_bounds())?;
        columns.put("kinds", &events.kinds())?;
        columns.put("distinct_stacks", &events.distinct_stacks())?;
        columns.put("allocated", &totals.allocated)?;
        columns.put("active", &totals.active)?;
        columns.put("reserved", &totals.reserved)?;
    }
    Ok(())
}

/// The snapshot of a file.
pub fn get(store: &Store) -> Result<Snapshot, StoreError> {
    let mut snapshot: Snapshot = get_small("snapshot", store)?;
    if let (Some(sidecar), Some(storages)) =
        (&mut snapshot.sidecar, get_small::<Option<Vec<Storage>>>("storages", store)?)
    {
        sidecar.storages = storages;
    }
    (snapshot.strings, snapshot.stacks) = get_tables("", store)?;
    if let Ok((strings, stacks)) = get_tables("added.", store) {
        snapshot.strings.added = OnceLock::from(Box::new(strings));
        snapshot.stacks.added = OnceLock::from(Box::new(stacks));
    }
    for (number, trace) in snapshot.traces.iter_mut().enumerate() {
        get_trace(&format!("trace{number}."), trace, store)?;
    }
    Ok(snapshot)
}

fn get_trace(table: &str, trace: &mut Trace, store: &Store) -> Result<(), StoreError> {
    fn column<T: Pod>(table: &str, name: &str, store: &Store) -> Result<Buffer<T>, StoreError> {
        store.get(&format!("{table}{name}"))
    }
    let (events, totals) = (&mut trace.events, &mut trace.totals);
    events.action = column(table, "action", store)?;
    events.addr = column(table, "addr", store)?;
    events.size = column(table, "size", store)?;
    events.time_us = column(table, "time_us", store)?;
    events.stack = column(table, "stack", store)?;
    events.stream = Column::from_buffer(column(table, "stream", store)?);
    events.pool = Column::from_buffer(column(table, "pool", store)?);
    events.meta = Column::from_buffer(column(table, "meta", store)?);
    events.nanos = column(table, "nanos", store)?;
    events.time_bounds = Kept(column(table, "time_bounds", store)?);
    events.kinds = Kept(column(table, "kinds", store)?);
    events.distinct_stacks = Kept(column(table, "distinct_stacks", store)?);
    totals.allocated = column(table, "allocated", store)?;
    totals.active = column(table, "active", store)?;
    totals.reserved = column(table, "reserved", store)?;
    let rows = events.action.len();
    let lengths = [events.addr.len(), events.size.len(), events.time_us.len(), events.stack.len()];
    if lengths.iter().all(|&len| len == rows) { Ok(()) } else { Err(StoreError::Damaged) }
}

fn put_tables<W: Write + Seek>(
    table: &str,
    strings: &StringTable,
    stacks: &StackTable,
    out: &mut Writer<W>,
) -> io::Result<()> {
    let mut columns = Columns { table: table.to_owned(), out };
    columns.put("text", &strings.text)?;
    columns.put("text_ends", &strings.ends)?;
    columns.put("frames", &stacks.frames)?;
    columns.put("fx", &stacks.fx)?;
    columns.put("stack_ends", &stacks.ends)?;
    columns.put("stack_frames", &stacks.lists)
}

fn get_tables(table: &str, store: &Store) -> Result<(StringTable, StackTable), StoreError> {
    let mut strings = StringTable::none();
    strings.text = store.get(&format!("{table}text"))?;
    strings.ends = store.get(&format!("{table}text_ends"))?;
    let mut stacks = StackTable::none();
    stacks.frames = store.get(&format!("{table}frames"))?;
    stacks.fx = store.get(&format!("{table}fx"))?;
    stacks.ends = store.get(&format!("{table}stack_ends"))?;
    stacks.lists = store.get(&format!("{table}stack_frames"))?;
    Ok((strings, stacks))
}

struct Columns<'a, W> {
    table: String,
    out: &'a mut Writer<W>,
}

impl<W: Write + Seek> Columns<'_, W> {
    fn put<T: Pod>(&mut self, name: &str, values: &[T]) -> io::Result<()> {
        self.out.put(format!("{}{name}", self.table), values)
    }
}

/// Adds what is small.
pub fn put_small<W: Write + Seek>(name: &str, value: &impl Serialize, out: &mut Writer<W>) -> io::Result<()> {
    out.put(name, &postcard::to_stdvec(value).map_err(io::Error::other)?)
}

/// What [`put_small`] added.
pub fn get_small<T: DeserializeOwned>(name: &str, store: &Store) -> Result<T, StoreError> {
    postcard::from_bytes(&store.get::<u8>(name)?).map_err(|_| StoreError::Damaged)
}
