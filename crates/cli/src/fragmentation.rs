//! `vramscope fragmentation`: how free memory lies, over time.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Fragmentation, IdleSegment, Sample, fragmentation};

use crate::args::FragmentationArgs;
use crate::filter::Subject;
use crate::finding::bytes;
use crate::stack::StackJson;
use crate::style::{self, Role};
use crate::text;

/// Idle segments that are shown.
const SEGMENTS: usize = 8;

pub(crate) fn run(args: &FragmentationArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let subject = Subject::open_map(&args.source)?;
    let found = fragmentation(subject.replay(), subject.range(), args.samples.max(1), args.request);
    if args.source.output.json {
        let report = Report {
            schema: "vramscope/fragmentation/1",
            device: subject.replay().device().0,
            request: found.request,
            samples: found.samples.iter().map(SampleJson::from).collect(),
            segments: found.segments.iter().map(|segment| SegmentJson::new(&subject, segment)).collect(),
        };
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        print(&subject, &found, out)?;
    }
    Ok(ExitCode::SUCCESS)
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
        let event = |moment: vramscope_analysis::Moment| moment.event().map(|event| event.0);
        let stack = subject.replay().allocation(pin).stack;
        Self {
            addr,
            size,
            used,
            samples,
            first_event: event(when.0),
            last_event: event(when.1),
            stack: StackJson::Whole(snapshot, stack),
        }
    }
}

fn print(subject: &Subject, found: &Fragmentation, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
    let heading = format!(
        "  {:>11}  {:>10}  {:>10}  {:>10}  {:>10}  {:>4}",
        "event", "reserved", "free", "largest", "unusable", "idle"
    );
    writeln!(out, "\n{}", style::paint(Role::Dim, &heading))?;
    let cells = text::columns().saturating_sub(72).clamp(0, 30);
    for sample in &found.samples {
        let event = sample.at.event().map_or_else(|| "start".into(), |event| text::count(event.0));
        // Holes come from the map and `reserved` from the counts; in a file that contradicts itself the map may
        // show more.
        let share = (sample.unusable as f64 / sample.reserved.max(1) as f64).clamp(0.0, 1.0);
        let bar = "▒".repeat((share * cells as f64).round() as usize);
        writeln!(
            out,
            "  {event:>11}  {:>10}  {:>10}  {:>10}  {:>10}  {:>4}  {:>4.0} % {}",
            text::bytes(sample.reserved),
            bytes(sample.free),
            bytes(sample.largest_hole),
            bytes(sample.unusable),
            sample.idle_segments,
            share * 100.0,
            style::paint(style::heat(share), &bar)
        )?;
    }
    let legend = format!(
        "  unusable: free in holes too small for {}, and its share of reserved; idle: segments at most half used",
        bytes(found.request)
    );
    writeln!(out, "\n{}", style::paint(Role::Dim, &legend))?;
    if found.segments.is_empty() {
        return Ok(());
    }
    let heading =
        format!("  {:>10}  {:>10}  {:>7}  longest idle, and what pins it", "size", "used", "samples");
    writeln!(out, "\n{}", style::paint(Role::Dim, &heading))?;
    let room = text::columns().saturating_sub(36).max(20);
    for segment in found.segments.iter().take(SEGMENTS) {
        let pin = subject.replay().allocation(segment.pin);
        let place = format!("{:#x} · {} {}", segment.addr, bytes(pin.size), subject.place(pin.stack));
        writeln!(
            out,
            "  {:>10}  {:>10}  {:>7}  {}",
            bytes(segment.size),
            bytes(segment.used),
            segment.samples,
            text::fit(&place, room)
        )?;
    }
    let more = found.segments.len().saturating_sub(SEGMENTS);
    if more > 0 {
        writeln!(out, "  {} more", text::count(more as u64))?;
    }
    Ok(())
}
