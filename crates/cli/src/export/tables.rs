//! The tables, as docs/tables.md describes them.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema, SchemaRef};
use vramscope_analysis::pools::Pools;
use vramscope_analysis::{Allocation, Moment, spans, user_frame};
use vramscope_snapshot::{Action, EventIdx, Frame, FrameId, Pool, Snapshot, StackId};

use crate::args::Table;
use crate::subject::Subject;

/// Rows of a batch: enough to be quick, few enough to stream.
const ROWS: usize = 1 << 14;

type Columns = Vec<(&'static str, ArrayRef)>;

/// A table's schema, and its rows in batches.
pub(super) fn table(
    subjects: &[Subject],
    table: Table,
) -> (SchemaRef, impl Iterator<Item = RecordBatch> + '_) {
    let shared = subjects.first().map(Subject::snapshot);
    let batches: Box<dyn Iterator<Item = Columns> + '_> = match table {
        Table::Allocations => Box::new(each_device(subjects, allocations)),
        Table::Events => Box::new(each_device(subjects, events)),
        Table::Stacks => Box::new(shared.into_iter().flat_map(stacks)),
        Table::Frames => Box::new(shared.into_iter().flat_map(frames)),
        Table::Segments => Box::new(each_device(subjects, segments)),
        Table::Annotations => Box::new(each_device(subjects, annotations)),
    };
    let mut batches = batches.peekable();
    let fields = |columns: &Columns| {
        let field =
            |(name, array): &(&'static str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    };
    // Every table gives at least one batch, if an empty one.
    let schema = batches.peek().map_or_else(|| Arc::new(Schema::empty()), fields);
    let batch_schema = schema.clone();
    let batches = batches.filter_map(move |columns| {
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(batch_schema.clone(), arrays).ok()
    });
    (schema, batches)
}

/// The rows of every device, with a column that says which.
fn each_device<'a, I: Iterator<Item = Columns> + 'a>(
    subjects: &'a [Subject],
    rows: fn(&'a Subject) -> I,
) -> impl Iterator<Item = Columns> + 'a {
    subjects.iter().flat_map(move |subject| {
        let device = subject.replay().device().0;
        rows(subject).map(move |mut columns| {
            let rows = columns.first().map_or(0, |(_, array)| array.len());
            columns
                .push(("device", Arc::new(Int32Array::from_iter_values(std::iter::repeat_n(device, rows)))));
            columns
        })
    })
}

/// Splits rows into batches, at least one.
fn in_batches<T>(rows: Vec<T>, columns: impl Fn(&[T]) -> Columns) -> impl Iterator<Item = Columns> {
    let batches = rows.len().div_ceil(ROWS).max(1);
    (0..batches).map(move |batch| {
        let end = rows.len().min((batch + 1) * ROWS);
        columns(rows.get(batch * ROWS..end).unwrap_or_default())
    })
}

fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn i64s(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn maybe_u32s(values: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    Arc::new(values.collect::<UInt32Array>())
}

fn maybe_u64s(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

fn maybe_i64s(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

/// The two numbers of a pool as two columns.
fn pools(pools: &[Option<Pool>]) -> [(&'static str, ArrayRef); 2] {
    [
        ("pool_a", maybe_i64s(pools.iter().map(|pool| pool.map(|(a, _)| a)))),
        ("pool_b", maybe_i64s(pools.iter().map(|pool| pool.map(|(_, b)| b)))),
    ]
}

/// The user's own line as three columns.
fn lines(snapshot: &Snapshot, stacks: impl Iterator<Item = StackId>) -> [(&'static str, ArrayRef); 3] {
    let frames: Vec<Frame> = stacks.map(|stack| user_frame(snapshot, stack).unwrap_or_default()).collect();
    [
        ("file", texts(frames.iter().map(|frame| snapshot.text(frame.file)))),
        ("line", u32s(frames.iter().map(|frame| frame.line))),
        ("name", texts(frames.iter().map(|frame| snapshot.text(frame.name)))),
    ]
}

fn allocations(subject: &Subject) -> impl Iterator<Item = Columns> + '_ {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let of_pool = Pools::all(snapshot, replay);
    let all = replay.allocations().iter().filter(|(index, allocation)| subject.keeps(*index, allocation));
    let time = move |moment: Moment| {
        let event = moment.event()?;
        snapshot.trace(replay.device())?.time_us(event.index())
    };
    let event = |moment: Moment| moment.event().map(|event| event.0);
    in_batches(all.collect(), move |rows: &[(vramscope_analysis::AllocIdx, Allocation)]| {
        let each = || rows.iter().map(|(_, allocation)| allocation);
        let pool: Vec<_> = rows.iter().map(|(index, _)| of_pool.pool_of(*index)).collect();
        let mut columns: Columns = vec![
            ("allocation", u32s(rows.iter().map(|(index, _)| index.0))),
            ("addr", u64s(each().map(|a| a.addr))),
            ("requested", u64s(each().map(|a| a.requested))),
            ("size", u64s(each().map(|a| a.size))),
            ("alloc_event", maybe_u32s(each().map(|a| event(a.opened)))),
            ("release_event", maybe_u32s(each().map(|a| event(a.released)))),
            ("free_event", maybe_u32s(each().map(|a| event(a.closed)))),
            ("alloc_time_us", maybe_i64s(each().map(|a| time(a.opened)))),
            ("free_time_us", maybe_i64s(each().map(|a| time(a.closed)))),
            ("stream", u64s(each().map(|a| snapshot.stream(a.stream)))),
        ];
        columns.extend(pools(&pool));
        columns.push(("stack", u32s(each().map(|a| a.stack.0))));
        columns.push(("estimated", Arc::new(BooleanArray::from_iter(each().map(|a| Some(a.estimated))))));
        columns.extend(lines(snapshot, each().map(|a| a.stack)));
        columns
    })
}

fn events(subject: &Subject) -> impl Iterator<Item = Columns> + '_ {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let (from, to) = subject.range();
    let mut counters = replay.all_counters().skip(from.0 as usize);
    let rows = (to.0 - from.0.min(to.0)) as usize;
    let batches = rows.div_ceil(ROWS).max(1);
    (0..batches).map(move |batch| {
        let events = snapshot.events(replay.device());
        let first = from.0 as usize + batch * ROWS;
        let range = first..(first + ROWS).min(to.0 as usize).max(first);
        let after: Vec<_> = counters.by_ref().take(range.len()).collect();
        let kept: Vec<_> = range
            .clone()
            .zip(after)
            .filter(|(row, _)| subject.keeps_event(EventIdx::from_index(*row), &events.get(*row)))
            .collect();
        let each = || kept.iter().map(|(row, _)| events.get(*row));
        let is_oom = |action| action == Action::Oom;
        let pool: Vec<_> = each().map(|event| snapshot.pool(event.pool)).collect();
        let allocation = |row: usize| replay.allocation_of(EventIdx::from_index(row)).map(|index| index.0);
        let mut columns: Columns = vec![
            ("event", u32s(kept.iter().map(|(row, _)| *row as u32))),
            ("time_us", maybe_i64s(kept.iter().map(|(row, _)| events.time_us(*row)))),
            ("action", texts(each().map(|event| event.action.name()))),
            ("addr", maybe_u64s(each().map(|event| (!is_oom(event.action)).then_some(event.addr)))),
            ("size", u64s(each().map(|event| event.size))),
            ("device_free", maybe_u64s(each().map(|event| is_oom(event.action).then_some(event.addr)))),
            ("stream", u64s(each().map(|event| snapshot.stream(event.stream)))),
        ];
        columns.extend(pools(&pool));
        columns.push(("stack", u32s(each().map(|event| event.stack.0))));
        columns.push(("allocation", maybe_u32s(kept.iter().map(|(row, _)| allocation(*row)))));
        columns.push(("requested", i64s(kept.iter().map(|(_, after)| after.requested))));
        columns.push(("allocated", i64s(kept.iter().map(|(_, after)| after.allocated))));
        columns.push(("active", i64s(kept.iter().map(|(_, after)| after.active))));
        let reserved = |after: i64| subject.has_reserved().then_some(after);
        columns.push(("reserved", maybe_i64s(kept.iter().map(|(_, after)| reserved(after.reserved)))));
        let meta = |event: vramscope_snapshot::Event| snapshot.meta(event.meta);
        columns
            .push(("compile_context", texts(each().map(|event| snapshot.text(meta(event).compile_context)))));
        columns.push(("user_metadata", texts(each().map(|event| snapshot.text(meta(event).user_metadata)))));
        columns
    })
}

fn stacks(snapshot: &Snapshot) -> impl Iterator<Item = Columns> + '_ {
    let rows: Vec<(u32, u32, FrameId)> = snapshot
        .stacks
        .ids()
        .flat_map(|id| {
            let frames = snapshot.stacks.get(id).iter().enumerate();
            frames.map(move |(position, &frame)| (id.0, position as u32, frame))
        })
        .collect();
    in_batches(rows, |rows| {
        vec![
            ("stack", u32s(rows.iter().map(|row| row.0))),
            ("position", u32s(rows.iter().map(|row| row.1))),
            ("frame", u32s(rows.iter().map(|row| row.2.0))),
        ]
    })
}

fn frames(snapshot: &Snapshot) -> impl Iterator<Item = Columns> + '_ {
    let rows: Vec<(u32, Frame)> = (0..snapshot.stacks.frame_count() as u32)
        .map(|id| (id, snapshot.stacks.frame(FrameId(id))))
        .collect();
    in_batches(rows, |rows| {
        let is_internal = |frame: &Frame| {
            Some(vramscope_analysis::is_internal(snapshot.text(frame.name), snapshot.text(frame.file)))
        };
        vec![
            ("frame", u32s(rows.iter().map(|(id, _)| *id))),
            ("file", texts(rows.iter().map(|(_, frame)| snapshot.text(frame.file)))),
            ("line", u32s(rows.iter().map(|(_, frame)| frame.line))),
            ("name", texts(rows.iter().map(|(_, frame)| snapshot.text(frame.name)))),
            ("internal", Arc::new(BooleanArray::from_iter(rows.iter().map(|(_, frame)| is_internal(frame))))),
        ]
    })
}

fn segments(subject: &Subject) -> impl Iterator<Item = Columns> + '_ {
    let snapshot = subject.snapshot();
    let rows: Vec<_> = snapshot
        .segments_of(subject.replay().device())
        .iter()
        .filter(|segment| {
            let (pool, stream) = (snapshot.pool(segment.pool), snapshot.stream(segment.stream));
            subject.keeps_segment(pool, stream, segment.total_size)
        })
        .collect();
    in_batches(rows, |rows| {
        let pool: Vec<_> = rows.iter().map(|segment| snapshot.pool(segment.pool)).collect();
        let mut columns: Columns = vec![
            ("addr", u64s(rows.iter().map(|segment| segment.addr))),
            ("total_size", u64s(rows.iter().map(|segment| segment.total_size))),
            ("allocated_size", u64s(rows.iter().map(|segment| segment.allocated_size))),
            ("active_size", u64s(rows.iter().map(|segment| segment.active_size))),
            ("requested_size", u64s(rows.iter().map(|segment| segment.requested_size))),
            ("stream", u64s(rows.iter().map(|segment| snapshot.stream(segment.stream)))),
        ];
        columns.extend(pools(&pool));
        let expandable = rows.iter().map(|segment| Some(segment.expandable));
        columns.push(("expandable", Arc::new(BooleanArray::from_iter(expandable))));
        columns.push(("blocks", u32s(rows.iter().map(|segment| segment.blocks.end - segment.blocks.start))));
        columns.push(("stack", u32s(rows.iter().map(|segment| segment.stack.0))));
        columns
    })
}

fn annotations(subject: &Subject) -> impl Iterator<Item = Columns> + '_ {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    in_batches(spans(snapshot, replay.device()), |rows| {
        let peak = |span: &vramscope_analysis::Span| replay.extremes(span.from, span.to).1.requested;
        vec![
            ("name", texts(rows.iter().map(|span| snapshot.text(span.name)))),
            ("nth", u32s(rows.iter().map(|span| span.nth + 1))),
            ("depth", u32s(rows.iter().map(|span| span.depth))),
            ("start_us", i64s(rows.iter().map(|span| span.start_us))),
            ("end_us", maybe_i64s(rows.iter().map(|span| span.end_us))),
            ("first_event", u32s(rows.iter().map(|span| span.from.0))),
            ("last_event", maybe_u32s(rows.iter().map(|span| span.to.event().map(|event| event.0)))),
            ("peak_requested", i64s(rows.iter().map(peak))),
        ]
    })
}
