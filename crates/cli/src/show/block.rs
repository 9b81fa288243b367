//! An allocation with its whole life, and a segment with everything in it.

use std::io::Write;

use anyhow::bail;
use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::shapes::RecordedShapes;
use vramscope_analysis::{AllocIdx, Allocation, KnownBy, Moment};
use vramscope_snapshot::{Pool, StackId};

use super::{event_words, fact, print_stack};
use crate::segments::{self, SegmentJson};
use crate::stack::StackJson;
use crate::subject::Subject;
use crate::table::Table;
use crate::text;

#[derive(Serialize)]
pub(super) struct Block<'a> {
    addr: u64,
    requested: u64,
    allocated: u64,
    /// None where it is older than the recording.
    alloc_event: Option<u32>,
    /// When the program let it go; none if it never did.
    free_requested_event: Option<u32>,
    free_completed_event: Option<u32>,
    lived_us: Option<i64>,
    stream: u64,
    pool: Option<Pool>,
    category: String,
    known_by: KnownBy,
    phase: Option<String>,
    module: Option<String>,
    step: Option<u64>,
    backward_of: Option<String>,
    shape: Option<String>,
    stack_handle: String,
    stack: StackJson<'a>,
    /// Where it was freed, if the recording says.
    free_stack_handle: Option<String>,
    free_stack: Option<StackJson<'a>>,
    #[serde(skip)]
    index: AllocIdx,
    #[serde(skip)]
    row: Allocation,
    #[serde(skip)]
    freed: Option<StackId>,
}

impl<'a> Block<'a> {
    pub(super) fn new(subject: &'a Subject, index: AllocIdx) -> anyhow::Result<Self> {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let count = replay.allocations().len();
        if index.0 as usize >= count {
            bail!(
                "{}: there is no allocation a:{}: there are {}",
                subject.device(),
                index.0,
                text::count(count as u64)
            );
        }
        let row = replay.allocation(index);
        let events = snapshot.events(replay.device());
        let conclusions = subject.conclusions();
        let of = conclusions.of(replay, index);
        let time = |at: Moment| events.time_us(at.event()?.index());
        let event = |at: Moment| at.event().map(|event| event.0);
        let freed = row.released.event().map(|event| events.get(event.index()).stack);
        let state = replay.state(if row.opened == Moment::START { Moment::START } else { row.opened });
        let logged = RecordedShapes::new(replay);
        Ok(Self {
            addr: row.addr,
            requested: row.requested,
            allocated: row.size,
            alloc_event: event(row.opened),
            free_requested_event: event(row.released),
            free_completed_event: event(row.closed),
            lived_us: time(row.opened).zip(time(row.closed)).map(|(from, to)| to.saturating_sub(from)),
            stream: snapshot.stream(row.stream),
            pool: snapshot.pool(state.pool_of(row.addr, row.pool)),
            category: of.category.to_owned(),
            known_by: of.known_by,
            phase: of.phase.map(str::to_owned),
            module: of.module.map(str::to_owned),
            step: of.step,
            backward_of: conclusions.backward_of(replay, index).map(|(line, _)| line),
            shape: logged.of(snapshot, index).map(|shape| format!("{}{:?}", shape.dtype, shape.shape)),
            stack_handle: subject.handle(Thing::Stack(row.stack)),
            stack: StackJson(snapshot, row.stack),
            free_stack_handle: freed.map(|stack| subject.handle(Thing::Stack(stack))),
            free_stack: freed.map(|stack| StackJson(snapshot, stack)),
            index,
            row,
            freed,
        })
    }

    pub(super) fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        subject.print_heading(&subject.handle(Thing::Allocation(self.index)), out)?;
        let sizes = format!(
            "{} requested ({} bytes), in a block of {}",
            text::size(self.requested),
            text::count(self.requested),
            text::size(self.allocated)
        );
        fact(out, "size", &sizes)?;
        let life = format!(
            "allocated {}, freed {}{}",
            event_words(subject, self.row.opened, "before recording began"),
            event_words(subject, self.row.released, "never"),
            self.lived_us
                .map_or_else(String::new, |us| format!(", after {}", vramscope_format::duration(us)))
        );
        fact(out, "life", &life)?;
        let segment = subject.handle(Thing::Segment(self.addr));
        let pool = vramscope_format::pool_and_stream(self.pool, self.stream);
        fact(out, "memory", &format!("{:#x} in {segment} · pool {pool}", self.addr))?;
        fact(out, "category", &format!("{} ({})", self.category, self.known_by.name()))?;
        let step = self.step.map(|step| step.to_string());
        for (name, words) in [
            ("phase", &self.phase),
            ("step", &step),
            ("module", &self.module),
            ("backward of", &self.backward_of),
            ("shape", &self.shape),
        ] {
            if let Some(words) = words {
                fact(out, name, words)?;
            }
        }
        print_stack(subject, "allocated at", self.row.stack, out)?;
        match self.freed {
            Some(stack) if stack != self.row.stack => print_stack(subject, "freed at", stack, out),
            _ => Ok(()),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Segment<'a> {
    event: Option<u32>,
    #[serde(flatten)]
    json: SegmentJson<'a>,
    #[serde(skip)]
    at: Moment,
    #[serde(skip)]
    segment: segments::Segment,
}

impl<'a> Segment<'a> {
    pub(super) fn new(subject: &'a Subject, addr: u64, at: Moment) -> anyhow::Result<Self> {
        let state = subject.replay().state(at);
        let found = segments::segments(subject, &state);
        let around = |segment: &segments::Segment| segment.range.addr <= addr && addr < segment.range.end();
        match found.into_iter().find(around) {
            Some(segment) => Ok(Self {
                event: at.event().map(|event| event.0),
                json: SegmentJson::new(subject, &state, &segment),
                at,
                segment,
            }),
            None => bail!(
                "{}: no segment is around {addr:#x} {}; --at MOMENT names another moment, vramscope segments {} lists \
                 segments",
                subject.device(),
                at.words(),
                subject.path()
            ),
        }
    }

    pub(super) fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        let segment = &self.segment;
        let handle = subject.handle(Thing::Segment(segment.range.addr));
        subject.print_heading(&format!("{handle}, {}", self.at.words()), out)?;
        let kind = if segment.range.expandable { ", expandable" } else { "" };
        fact(out, "size", &format!("{}{kind}", text::size(segment.range.size)))?;
        let free = format!(
            "{} in {}, the largest {}",
            text::size(segment.free()),
            text::plural(segment.holes.len(), "hole"),
            text::size(segment.largest_hole())
        );
        fact(out, "free", &free)?;
        fact(out, "pool", &vramscope_format::pool_and_stream(segment.pool, segment.stream))?;
        writeln!(out)?;
        let mut rows: Vec<(u64, u64, String)> =
            segment.holes.iter().map(|hole| (hole.addr, hole.size, "free".to_owned())).collect();
        rows.extend(segment.live.iter().map(|block| (block.addr, block.size, subject.place(block.stack))));
        rows.sort_unstable();
        let mut table = Table::new("block").column("offset").column("size");
        for (addr, size, place) in rows {
            table.row([text::size(addr.saturating_sub(segment.range.addr)), text::size(size)], place);
        }
        table.print(out)
    }
}
