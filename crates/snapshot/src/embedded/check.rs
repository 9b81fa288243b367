//! What holds in every snapshot that a [`Reader`](crate::Reader) made, checked where somebody else may have made it.

use vramscope_mapped::Pod;

use crate::model::{Action, Column, MAX_SIZE, Snapshot, Source, StackTable, StringTable, Trace};

/// Name of the table that is wrong.
type Wrong = &'static str;

/// Fails if an id refers to no row, if columns of a table differ in length, or if rows are out of order.
pub(super) fn check(snapshot: &Snapshot) -> Result<(), Wrong> {
    let Snapshot { metas, blocks, segments, traces, .. } = snapshot;
    strings(&snapshot.strings)?;
    let texts = snapshot.strings.len();
    stacks(&snapshot.stacks, texts)?;
    let stacks = snapshot.stacks.recorded().len();
    let ids_of_meta = metas.iter().flat_map(|meta| {
        let first = [meta.compile_context, meta.user_metadata, meta.internal_metadata];
        first.into_iter().chain([meta.category, meta.forward, meta.unknown_action])
    });
    within("metas", ids_of_meta.map(|id| id.0), texts)?;
    within("annotations", snapshot.annotations.iter().map(|mark| mark.name.0), texts)?;
    within("outside", snapshot.outside.iter().map(|outside| outside.name.0), texts)?;
    let storages = snapshot.sidecar.iter().flat_map(|sidecar| &sidecar.storages);
    within("storages", storages.map(|storage| storage.name.0), texts)?;
    holds("sources", snapshot.extras.sources.iter().all(Source::is_sound))?;

    holds("settings", snapshot.settings.roundup_divisions.is_sorted())?;
    let lengths = [blocks.size.len(), blocks.requested.len(), blocks.state.len(), blocks.stack.len()];
    holds("blocks", lengths == [blocks.len(); 4])?;
    sizes("blocks", blocks.size.iter().chain(&blocks.requested))?;
    within("blocks", blocks.stack.iter().map(|id| id.0), stacks)?;
    within("segments", segments.iter().map(|segment| segment.stream.0), snapshot.streams.len())?;
    within("segments", segments.iter().map(|segment| segment.pool.0), snapshot.pools.len())?;
    within("segments", segments.iter().map(|segment| segment.stack.0), stacks)?;
    holds("segments", segments.is_sorted_by_key(|segment| (segment.device, segment.addr)))?;
    let mut end = 0;
    for segment in segments {
        sizes("segments", [&segment.allocated_size, &segment.active_size, &segment.requested_size])?;
        holds("segments", segment.blocks.start == end && segment.blocks.end >= end)?;
        end = segment.blocks.end;
        holds("segments", end as usize <= blocks.len())?;
        holds("blocks", blocks.of(segment).is_sorted_by_key(|block| block.addr))?;
        // Where the file does not say it, it is the sum of the blocks.
        let sum = || blocks.of(segment).fold(0_u64, |sum, block| sum.saturating_add(block.size));
        holds("segments", segment.total_size <= MAX_SIZE || segment.total_size == sum())?;
    }

    holds("traces", traces.is_sorted_by(|a, b| a.device < b.device))?;
    traces.iter().try_for_each(|trace| check_trace(snapshot, trace))
}

fn strings(strings: &StringTable) -> Result<(), Wrong> {
    let text = str::from_utf8(&strings.text).map_err(|_| "strings")?;
    let is_border = |&end: &u64| usize::try_from(end).is_ok_and(|end| text.is_char_boundary(end));
    holds("strings", strings.ends.first() == Some(&0) && strings.ends.last() == Some(&(text.len() as u64)))?;
    holds("strings", strings.ends.is_sorted() && strings.ends.iter().all(is_border))
}

fn stacks(stacks: &StackTable, texts: usize) -> Result<(), Wrong> {
    let of_fx = stacks.fx.iter().flat_map(|fx| [fx.op, fx.name, fx.target, fx.original_trace]);
    within("fx", of_fx.map(|id| id.0), texts)?;
    within("frames", stacks.frames.iter().flat_map(|frame| [frame.name.0, frame.file.0]), texts)?;
    within("frames", stacks.frames.iter().map(|frame| frame.fx), stacks.fx.len() + 1)?;
    within("stacks", stacks.lists.iter().map(|id| id.0), stacks.frames.len())?;
    // The absent and the empty stack come first.
    holds("stacks", stacks.ends.starts_with(&[0, 0]) && stacks.ends.is_sorted())?;
    holds("stacks", stacks.ends.last() == Some(&(stacks.lists.len() as u64)))
}

fn check_trace(snapshot: &Snapshot, trace: &Trace) -> Result<(), Wrong> {
    let (events, totals) = (&trace.events, &trace.totals);
    let rows = events.len();
    let lengths = [events.addr.len(), events.size.len(), events.time_us.len(), events.stack.len()];
    // Events have numbers of 32 bits.
    holds("events", lengths == [rows; 4] && u32::try_from(rows).is_ok())?;
    let optional = [events.nanos.len(), totals.allocated.len(), totals.active.len(), totals.reserved.len()];
    holds("events", optional.iter().all(|&len| len == 0 || len == rows))?;
    holds("actions", events.action.iter().all(|&action| usize::from(action) < Action::ALL.len()))?;
    sizes("events", &events.size)?;
    within("stacks of events", events.stack.iter().map(|id| id.0), snapshot.stacks.recorded().len())?;
    sparse("streams of events", &events.stream, rows, |id| id.0, snapshot.streams.len())?;
    sparse("pools of events", &events.pool, rows, |id| id.0, snapshot.pools.len())?;
    sparse("metas of events", &events.meta, rows, |id| id.0, snapshot.metas.len())?;
    holds("totals", totals.is_sound())
}

/// Fails if a column has more rows than the table, ends with a default, or refers to no row.
fn sparse<T: Pod + Default + PartialEq>(
    table: Wrong,
    column: &Column<T>,
    rows: usize,
    number: impl Fn(&T) -> u32,
    limit: usize,
) -> Result<(), Wrong> {
    let stored = column.stored();
    holds(table, stored.len() <= rows && stored.last() != Some(&T::default()))?;
    within(table, stored.iter().map(number), limit)
}

/// Fails if a size is larger than any reader takes.
fn sizes<'a>(table: Wrong, sizes: impl IntoIterator<Item = &'a u64>) -> Result<(), Wrong> {
    holds(table, sizes.into_iter().all(|&size| size <= MAX_SIZE))
}

/// Fails if an id is not below the number of rows that it refers to.
fn within(table: Wrong, ids: impl Iterator<Item = u32>, rows: usize) -> Result<(), Wrong> {
    holds(table, ids.max().is_none_or(|highest| (highest as usize) < rows))
}

fn holds(table: Wrong, is_so: bool) -> Result<(), Wrong> {
    if is_so { Ok(()) } else { Err(table) }
}
