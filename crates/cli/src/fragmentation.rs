//! `vramscope fragmentation`: how fragmented free memory is, over time.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Fragmentation, IdleSegment, Moment, SAMPLES, Sample, fragmentation};

use crate::args::FragmentationArgs;
use crate::layout;
use crate::stack::StackJson;
use crate::style::{self, Role};
use crate::subject::{Subject, answer_map};
use crate::table::Table;
use crate::text;

/// Idle segments that are shown.
const SEGMENTS: usize = 8;

pub(crate) fn run(args: &FragmentationArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer_map(&args.source, None, out, &mut |subject, _, out| {
        let (replay, range, samples) = (subject.replay(), subject.range(), args.samples.max(1));
        let is_whole = range == (Moment::START, replay.end()) && !subject.is_filtered();
        let found = if is_whole && samples == SAMPLES {
            let found = replay.fragmentation();
            let request = args.request.unwrap_or(found.request);
            Fragmentation::clone(&found).for_request(replay, request)
        } else {
            fragmentation(replay, range, samples, args.request, |range| subject.keeps_range(range))
        };
        if args.source.output.json {
            let report = Report {
                schema: "vramscope/fragmentation/1",
                device: subject.replay().device().0,
                request: found.request,
                samples: found.samples.iter().map(SampleJson::from).collect(),
                segments: found.segments.iter().map(|segment| SegmentJson::new(subject, segment)).collect(),
            };
            return Ok(vramscope_files::json(out, &report)?);
        }
        Ok(print(subject, &found, out)?)
    })
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    /// The request that `unusable` is about.
    request: u64,
    samples: Vec<SampleJson>,
    segments: Vec<SegmentJson<'a>>,
}

#[derive(Serialize)]
struct SampleJson {
    event: Option<u32>,
    reserved: i64,
    free: u64,
    largest_hole: u64,
    unusable: u64,
    idle_segments: u32,
}

impl From<&Sample> for SampleJson {
    fn from(sample: &Sample) -> Self {
        let Sample { at, reserved, free, largest_hole, unusable, idle_segments } = *sample;
        Self { event: at.event().map(|event| event.0), reserved, free, largest_hole, unusable, idle_segments }
    }
}

#[derive(Serialize)]
struct SegmentJson<'a> {
    addr: u64,
    size: u64,
    used: u64,
    samples: u32,
    first_event: Option<u32>,
    last_event: Option<u32>,
    /// Where the oldest block that pins it was allocated.
    stack: StackJson<'a>,
}

impl<'a> SegmentJson<'a> {
    fn new(subject: &'a Subject, segment: &IdleSegment) -> Self {
        let snapshot = subject.snapshot();
        let IdleSegment { addr, size, samples, when, used, pin } = *segment;
        let event = |moment: Moment| moment.event().map(|event| event.0);
        let stack = subject.replay().allocation(pin).stack;
        Self {
            addr,
            size,
            used,
            samples,
            first_event: event(when.0),
            last_event: event(when.1),
            stack: StackJson(snapshot, stack),
        }
    }
}

fn print(subject: &Subject, found: &Fragmentation, out: &mut dyn Write) -> std::io::Result<()> {
    subject.print_heading(
        &format!("how fragmented free memory is, for a request of {}", text::size(found.request)),
        out,
    )?;
    writeln!(out)?;
    let samples = layout::choose(&[88, 100, 110], |columns| samples(found, columns - 80).text());
    out.write_all(samples.as_bytes())?;
    let legend = format!(
        "unusable: free in partly used segments, in holes too small for {}; idle: segments at most half used",
        text::size(found.request)
    );
    writeln!(out, "\n  {}", style::paint(Role::Dim, &text::wrapped(&legend, 2)))?;
    if found.segments.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new("idle longest, pinned by").column("size").column("used").column("samples");
    for segment in found.segments.iter().take(SEGMENTS) {
        let pin = subject.replay().allocation(segment.pin);
        let label =
            format!("{}  ({} at {:#x})", subject.place(pin.stack), text::size(pin.size), segment.addr);
        table.row([text::size(segment.size), text::size(segment.used), text::count(segment.samples)], label);
    }
    table.print(out)?;
    let more = found.segments.len().saturating_sub(SEGMENTS);
    if more > 0 {
        writeln!(out, "  {} more", text::count(more as u64))?;
    }
    Ok(())
}

/// The samples, with bars of at most `cells`.
fn samples(found: &Fragmentation, cells: usize) -> Table {
    let mut table = Table::new("share of reserved")
        .column("event")
        .column("reserved")
        .column("free")
        .optional("largest hole", 1)
        .column("unusable")
        .optional("idle", 2);
    for sample in &found.samples {
        // Holes come from the map and `reserved` from the counts; in a file that contradicts itself the map may show
        // more.
        let share = (sample.unusable as f64 / sample.reserved.max(1) as f64).clamp(0.0, 1.0);
        let row = [
            text::event(sample.at.event(), "start"),
            text::bytes(sample.reserved.max(0)),
            text::size(sample.free),
            text::size(sample.largest_hole),
            text::size(sample.unusable),
            text::count(sample.idle_segments),
        ];
        let bar = text::cells("▒", share, cells);
        table.painted(style::heat(share), row, format!("{:>5} {bar}", text::percent(share)));
    }
    table
}
