//! The rows of all devices, one by one, as `analysis::tables` defines them.

use vramscope_analysis::pools::Pools;
use vramscope_analysis::tables::{ALLOCATIONS, ANNOTATIONS, EVENTS, FRAMES, Rows, SEGMENTS, STACKS, frame};
use vramscope_analysis::{Conclusions, spans};
use vramscope_format::table::{Column, Value};
use vramscope_snapshot::{EventIdx, FrameId};

use crate::args::Table;
use crate::subject::Subject;

/// Takes in a row.
pub(super) type Take<'a> = &'a mut dyn FnMut(&[Value<'_>]) -> anyhow::Result<()>;

/// What a table holds.
pub(super) fn columns(table: Table) -> &'static [Column] {
    match table {
        Table::Allocations => &ALLOCATIONS,
        Table::Events => &EVENTS,
        Table::Stacks => &STACKS,
        Table::Frames => &FRAMES,
        Table::Segments => &SEGMENTS,
        Table::Annotations => &ANNOTATIONS,
    }
}

/// Hands out every row of a table. Stacks and frames are those of the file, the others those of each device.
pub(super) fn each_row(subjects: &[Subject], table: Table, take: Take<'_>) -> anyhow::Result<()> {
    match table {
        Table::Stacks => subjects.first().map_or(Ok(()), |subject| stacks(subject, take)),
        Table::Frames => subjects.first().map_or(Ok(()), |subject| frames(subject, take)),
        _ => subjects.iter().try_for_each(|subject| of_device(subject, table, take)),
    }
}

fn of_device(subject: &Subject, table: Table, take: Take<'_>) -> anyhow::Result<()> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let pools = Pools::all(snapshot, replay);
    let rows = Rows::new(snapshot, replay, &pools);
    match table {
        Table::Allocations => {
            let conclusions = Conclusions::new(snapshot, replay);
            let mut all = replay.allocations().iter();
            all.try_for_each(|(index, allocation)| match subject.keeps(index, &allocation) {
                true => take(&rows.allocation(index, &conclusions)),
                false => Ok(()),
            })
        }
        Table::Events => {
            let events = snapshot.events(replay.device());
            let (from, to) = subject.range();
            let counters = replay.all_counters().skip(from.0 as usize);
            (from.0..to.0).map(EventIdx).zip(counters).try_for_each(|(row, after)| {
                match subject.keeps_event(row, &events.get(row.index())) {
                    true => take(&rows.event(row, after)),
                    false => Ok(()),
                }
            })
        }
        Table::Segments => {
            let mut all = snapshot.segments_of(replay.device()).iter();
            all.try_for_each(|segment| {
                let (pool, stream) = (snapshot.pool(segment.pool), snapshot.stream(segment.stream));
                match subject.keeps_segment(pool, stream, segment.total_size) {
                    true => take(&rows.segment(segment)),
                    false => Ok(()),
                }
            })
        }
        Table::Annotations => {
            spans(snapshot, replay.device()).iter().try_for_each(|span| take(&rows.annotation(span)))
        }
        Table::Stacks | Table::Frames => Ok(()),
    }
}

fn stacks(subject: &Subject, take: Take<'_>) -> anyhow::Result<()> {
    let stacks = &subject.snapshot().stacks;
    for id in stacks.ids() {
        for (position, frame) in (0_u32..).zip(stacks.get(id)) {
            take(&[id.0.into(), position.into(), frame.0.into()])?;
        }
    }
    Ok(())
}

fn frames(subject: &Subject, take: Take<'_>) -> anyhow::Result<()> {
    let snapshot = subject.snapshot();
    let mut ids = (0_u32..).take(snapshot.stacks.frame_count()).map(FrameId);
    ids.try_for_each(|id| take(&frame(snapshot, id)))
}
