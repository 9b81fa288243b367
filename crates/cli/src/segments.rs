//! `vramscope segments`: the allocator's map at a moment.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::{Allocation, Hole, Range, State};
use vramscope_snapshot::{Pool, Snapshot};

use crate::args::SegmentsArgs;
use crate::layout;
use crate::subject::{Subject, answer_map};
use crate::table::Table;
use crate::text;

/// Fill of a cell, from free to full.
const FILL: [char; 5] = ['·', '░', '▒', '▓', '█'];

pub(crate) fn run(args: &SegmentsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer_map(&args.source, Some(&args.moment.spec()), out, &mut |subject, at, out| {
        let state = subject.replay().state(at);
        let mut segments = segments(subject, &state);
        let pools = pools(&segments);
        let totals = Totals::new(subject, &state, &segments);
        // What wastes most comes first; the rest is summed up.
        segments.sort_by_key(|segment| (Reverse(segment.free()), segment.range.addr));
        let limit = args.limit.unwrap_or(if args.source.output.json { usize::MAX } else { 16 });
        segments.truncate(limit);
        if args.source.output.json {
            let report = Report {
                schema: "vramscope/segments/1",
                device: subject.replay().device().0,
                event: state.at.event().map(|event| event.0),
                reserved: totals.reserved,
                active: totals.active,
                largest_hole: totals.largest_hole,
                count: totals.count,
                segments: segments.iter().map(|segment| SegmentJson::new(subject, &state, segment)).collect(),
            };
            return Ok(vramscope_files::json(out, &report)?);
        }
        Ok(print(subject, &state, &segments, &pools, &totals, out)?)
    })
}

/// Sums over the segments that pass the filters.
struct Totals {
    count: usize,
    reserved: u64,
    active: u64,
    largest_hole: u64,
}

impl Totals {
    fn new(subject: &Subject, state: &State, segments: &[Segment]) -> Self {
        let sum = |of: fn(&Segment) -> u64| segments.iter().map(of).fold(0_u64, u64::saturating_add);
        let (reserved, free) = (sum(|segment| segment.range.size), sum(Segment::free));
        let counted = |bytes: i64| bytes.max(0).unsigned_abs();
        let (reserved, active) = match subject.is_filtered() {
            true => (reserved, reserved.saturating_sub(free)),
            false => (counted(state.counters.reserved), counted(state.counters.active)),
        };
        Self {
            count: segments.len(),
            reserved,
            active,
            largest_hole: segments.iter().map(Segment::largest_hole).max().unwrap_or(0),
        }
    }
}

/// A range with what lives in it and what is free.
pub(crate) struct Segment {
    pub(crate) range: Range,
    pub(crate) pool: Option<Pool>,
    pub(crate) stream: u64,
    pub(crate) live: Vec<Allocation>,
    pub(crate) holes: Vec<Hole>,
}

impl Segment {
    pub(crate) fn free(&self) -> u64 {
        self.holes.iter().fold(0, |sum, hole| sum.saturating_add(hole.size))
    }

    pub(crate) fn largest_hole(&self) -> u64 {
        self.holes.iter().map(|hole| hole.size).max().unwrap_or(0)
    }

    /// The segment as a bar: how full each cell is.
    fn bar(&self, cells: usize) -> String {
        let mut free = vec![0_u64; cells];
        let width = (self.range.size as f64 / cells as f64).max(1.0);
        for hole in &self.holes {
            let (start, end) = (hole.addr - self.range.addr, hole.addr - self.range.addr + hole.size);
            let (first, last) = ((start as f64 / width) as usize, (end as f64 / width).ceil() as usize);
            for (cell, free) in free.iter_mut().enumerate().take(last).skip(first) {
                let from = (cell as f64 * width).max(start as f64);
                let to = ((cell + 1) as f64 * width).min(end as f64);
                *free += (to - from).max(0.0) as u64;
            }
        }
        let fill = |free: u64| {
            let used = 1.0 - (free as f64 / width).min(1.0);
            // Only a cell that is quite free or quite full shows as such.
            FILL[if used <= 0.001 {
                0
            } else if used >= 0.999 {
                4
            } else {
                1 + (used * 3.0) as usize
            }
            .min(4)]
        };
        free.into_iter().map(fill).collect()
    }
}

/// The segments at a moment that pass the filters.
pub(crate) fn segments(subject: &Subject, state: &State) -> Vec<Segment> {
    let snapshot = subject.snapshot();
    let mut segments: Vec<Segment> = state
        .ranges
        .iter()
        .map(|range| Segment {
            range: *range,
            pool: snapshot.pool(range.pool),
            stream: snapshot.stream(range.stream),
            live: Vec::new(),
            holes: Vec::new(),
        })
        .collect();
    for hole in &state.holes {
        segments[hole.range].holes.push(*hole);
    }
    for (_, allocation) in state.allocations() {
        let after = state.ranges.partition_point(|range| range.addr <= allocation.addr);
        if let Some(segment) = after.checked_sub(1).and_then(|at| segments.get_mut(at)) {
            segment.live.push(allocation);
        }
    }
    segments.retain(|segment| subject.keeps_segment(segment.pool, segment.stream, segment.range.size));
    segments
}

/// Segments, bytes held and bytes free by pool and stream.
type Pools = BTreeMap<(Option<Pool>, u64), (usize, u64, u64)>;

fn pools(segments: &[Segment]) -> Pools {
    let mut pools = Pools::new();
    for segment in segments {
        let sums = pools.entry((segment.pool, segment.stream)).or_default();
        sums.0 += 1;
        sums.1 = sums.1.saturating_add(segment.range.size);
        sums.2 = sums.2.saturating_add(segment.free());
    }
    pools
}

fn print(
    subject: &Subject,
    state: &State,
    segments: &[Segment],
    pools: &Pools,
    totals: &Totals,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    subject.print_moment(state.at, out)?;
    writeln!(
        out,
        "  {} reserved, {} in use, largest hole {}\n",
        text::size(totals.reserved),
        text::size(totals.active),
        text::size(totals.largest_hole)
    )?;
    let mut table = Table::new("pool and stream").column("reserved").column("free").column("segments");
    for ((pool, stream), (count, held, free)) in pools {
        let called = vramscope_format::pool_and_stream(*pool, *stream);
        table.row([text::size(*held), text::size(*free), text::count(*count as u64)], called);
    }
    table.print(out)?;
    writeln!(out)?;
    let table = layout::choose(&[88, 104, 136], |columns| bars(subject, segments, columns - 72).text());
    out.write_all(table.as_bytes())?;
    if segments.len() < totals.count {
        let more = text::count((totals.count - segments.len()) as u64);
        writeln!(out, "  {more} more segments with less free; --limit shows them")?;
    }
    writeln!(out, "\n  █ in use  ▓▒░ in part  · free")
}

/// A row for each segment, with a bar of some cells.
fn bars(subject: &Subject, segments: &[Segment], cells: usize) -> Table {
    let mut table =
        Table::new("pinned by").column("size").column("free").optional("largest", 2).left("in use", 1);
    for segment in segments {
        let pins = match segment.live.iter().max_by_key(|allocation| allocation.requested) {
            None => "nothing: cached".to_owned(),
            Some(largest) => {
                let place = subject.place(largest.stack);
                match segment.live.len() {
                    1 => place,
                    n => format!("{place}  (largest of {})", text::plural(n, "block")),
                }
            }
        };
        let kind = if segment.range.expandable { "  (expandable)" } else { "" };
        let row = [
            text::size(segment.range.size),
            text::size(segment.free()),
            text::size(segment.largest_hole()),
            segment.bar(cells),
        ];
        let handle = subject.handle(Thing::Segment(segment.range.addr));
        table.row(row, format!("{handle}  {pins}{kind}"));
    }
    table
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    reserved: u64,
    active: u64,
    largest_hole: u64,
    count: usize,
    segments: Vec<SegmentJson<'a>>,
}

#[derive(Serialize)]
pub(crate) struct SegmentJson<'a> {
    handle: String,
    addr: u64,
    size: u64,
    free: u64,
    largest_hole: u64,
    expandable: bool,
    pool: Option<Pool>,
    stream: u64,
    blocks: Vec<BlockJson<'a>>,
    holes: Vec<HoleJson>,
}

#[derive(Serialize)]
struct BlockJson<'a> {
    addr: u64,
    size: u64,
    requested: u64,
    awaiting_free: bool,
    /// The user's own line.
    name: &'a str,
    file: &'a str,
    line: u32,
}

#[derive(Serialize)]
struct HoleJson {
    addr: u64,
    size: u64,
}

impl<'a> SegmentJson<'a> {
    pub(crate) fn new(subject: &'a Subject, state: &State, segment: &Segment) -> Self {
        let snapshot: &'a Snapshot = subject.snapshot();
        let block = |allocation: &Allocation| {
            let frame = vramscope_analysis::user_frame(snapshot, allocation.stack).unwrap_or_default();
            BlockJson {
                addr: allocation.addr,
                size: allocation.size,
                requested: allocation.requested,
                awaiting_free: allocation.released <= state.at,
                name: snapshot.text(frame.name),
                file: snapshot.text(frame.file),
                line: frame.line,
            }
        };
        Self {
            handle: subject.handle(Thing::Segment(segment.range.addr)),
            addr: segment.range.addr,
            size: segment.range.size,
            free: segment.free(),
            largest_hole: segment.largest_hole(),
            expandable: segment.range.expandable,
            pool: segment.pool,
            stream: segment.stream,
            blocks: segment.live.iter().map(block).collect(),
            holes: segment.holes.iter().map(|hole| HoleJson { addr: hole.addr, size: hole.size }).collect(),
        }
    }
}
