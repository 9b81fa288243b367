//! `vramscope segments`: the allocator's map at a moment.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Allocation, Hole, Range, State};
use vramscope_snapshot::{Pool, Snapshot};

use crate::args::SegmentsArgs;
use crate::filter::Subject;
use crate::text;

/// Fill of a cell, from free to full.
const FILL: [char; 5] = ['·', '░', '▒', '▓', '█'];

pub(crate) fn run(args: &SegmentsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let subject = Subject::open_map(&args.source)?;
    let state = subject.replay().state(subject.moment(&args.at)?);
    let mut segments = segments(&subject, &state);
    let pools = pools(&segments);
    let all = segments.len();
    // What wastes most comes first; the rest is summed up.
    segments.sort_by_key(|segment| (Reverse(segment.free()), segment.range.addr));
    let limit = args.limit.unwrap_or(if args.source.output.json { usize::MAX } else { 20 });
    segments.truncate(limit);
    if args.source.output.json {
        let report = Report {
            schema: "vramscope/segments/1",
            device: subject.replay().device().0,
            event: state.at.event().map(|event| event.0),
            reserved: state.counters.reserved,
            active: state.counters.active,
            largest_hole: state.largest_hole(),
            count: all,
            segments: segments.iter().map(|segment| SegmentJson::new(&subject, &state, segment)).collect(),
        };
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&subject, &state, &segments, &pools, all, out)?;
    Ok(ExitCode::SUCCESS)
}

/// A range with what lives in it and what is free.
struct Segment {
    range: Range,
    pool: Option<Pool>,
    stream: u64,
    live: Vec<Allocation>,
    holes: Vec<Hole>,
}

impl Segment {
    fn free(&self) -> u64 {
        self.holes.iter().fold(0, |sum, hole| sum.saturating_add(hole.size))
    }

    fn largest_hole(&self) -> u64 {
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

fn segments(subject: &Subject, state: &State) -> Vec<Segment> {
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
    for &index in &state.live {
        let allocation = subject.replay().allocation(index);
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

fn bytes(n: u64) -> String {
    text::bytes(i64::try_from(n).unwrap_or(i64::MAX))
}

fn print(
    subject: &Subject,
    state: &State,
    segments: &[Segment],
    pools: &Pools,
    all: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let device = subject.replay().device();
    let events = subject.snapshot().events(device);
    writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
    writeln!(out, "device {device} {}", text::when(events, state.at.event()))?;
    if let Some(verdict) = subject.verdict() {
        writeln!(out, "  {verdict}")?;
    }
    writeln!(
        out,
        "  {} reserved, {} in use, largest hole {}",
        text::bytes(state.counters.reserved),
        text::bytes(state.counters.active),
        bytes(state.largest_hole())
    )?;
    writeln!(out, "\n  {:>10}  {:>10}  {:>8}  pool · stream", "reserved", "free", "segments")?;
    for ((pool, stream), (count, held, free)) in pools {
        let pool = pool.map_or("unknown".into(), |(a, b)| format!("({a}, {b})"));
        let count = text::count(*count as u64);
        writeln!(out, "  {:>10}  {:>10}  {count:>8}  {pool} · {stream:#x}", bytes(*held), bytes(*free))?;
    }
    let cells = text::columns().saturating_sub(72).clamp(16, 64);
    writeln!(out, "\n  {:>10}  {:>10}  {:>10}  {:cells$}  what pins it", "size", "free", "largest", "")?;
    for segment in segments {
        let pins = match segment.live.iter().max_by_key(|allocation| allocation.requested) {
            None => "nothing: cached".to_owned(),
            Some(largest) => {
                let place = subject.place(largest.stack);
                match segment.live.len() {
                    1 => place,
                    n => format!("{}, largest {place}", text::plural(n, "block")),
                }
            }
        };
        let kind = if segment.range.expandable { " (expandable)" } else { "" };
        let room = text::columns().saturating_sub(cells + 42).max(20);
        writeln!(
            out,
            "  {:>10}  {:>10}  {:>10}  {}  {}",
            bytes(segment.range.size),
            bytes(segment.free()),
            bytes(segment.largest_hole()),
            segment.bar(cells),
            text::fit(&format!("{pins}{kind}"), room)
        )?;
    }
    if segments.len() < all {
        let more = text::count((all - segments.len()) as u64);
        writeln!(out, "  {more} more segments with less free; --limit shows them")?;
    }
    writeln!(out, "\n  █ in use  ▓▒░ in part  · free")
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    reserved: i64,
    active: i64,
    largest_hole: u64,
    count: usize,
    segments: Vec<SegmentJson<'a>>,
}

#[derive(Serialize)]
struct SegmentJson<'a> {
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
    fn new(subject: &'a Subject, state: &State, segment: &Segment) -> Self {
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
