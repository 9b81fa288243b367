//! `vramscope overlap`: what lived at the same time.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::Serialize;
use vramscope_analysis::{AllocIdx, GroupBy, Moment, Overlap, Place, overlap};
use vramscope_snapshot::StackId;

use crate::args::Source;
use crate::filter::Subject;
use crate::moment::{GRAMMAR, MomentSpec};
use crate::text;

/// What lived at the same time, by operator: at a moment, or at any time between two
///
/// Groups are in the order of their bytes, and so are the allocations in each, with the time that they began
/// and ended.
#[derive(Debug, Args)]
#[command(after_help = format!("{GRAMMAR}

Examples:
  vramscope overlap worker0_4100_20261115064500000_ascend_pt --at peak:allocated
  vramscope overlap trace.json.gz --at in:ProfilerStep#2:start --to in:ProfilerStep#2:end --by line
  vramscope overlap snapshot.pickle --at @1794725346326863 --json"))]
pub(crate) struct OverlapArgs {
    #[command(flatten)]
    source: Source,
    /// The moment
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    at: MomentSpec,
    /// Up to this moment: whatever lived at any time between the two
    #[arg(long, value_name = "MOMENT")]
    to: Option<MomentSpec>,
    /// What allocations are put together by
    #[arg(long, value_enum, default_value_t = By::Operator)]
    by: By,
    /// Show at most N groups, and N allocations of each (default: 15 and 4 as text, all as JSON)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Operator,
    Line,
    Stack,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    device: i32,
    from: When,
    to: When,
    /// Allocations that the filters leave, and their bytes.
    count: usize,
    bytes: u64,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct When {
    event: Option<u32>,
    time_ns: Option<i64>,
}

#[derive(Serialize)]
struct Group {
    name: String,
    bytes: u64,
    count: usize,
    allocations: Vec<Life>,
}

#[derive(Serialize)]
struct Life {
    bytes: u64,
    alloc_event: Option<u32>,
    free_event: Option<u32>,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
}

pub(crate) fn run(args: &OverlapArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let subject = Subject::open(&args.source)?;
    let from = subject.moment(&args.at)?;
    let to = args.to.as_ref().map_or(Ok(from), |to| subject.moment(to))?;
    if to < from {
        bail!("--to is before --at");
    }
    let by = match args.by {
        By::Operator => GroupBy::Operator,
        By::Line => GroupBy::Line,
        By::Stack => GroupBy::Stack,
    };
    // Where the trace does not name pools, the map at the moment does.
    let state = subject.replay().state(from);
    let found = overlap(subject.snapshot(), subject.replay(), (from, to), by, |allocation| {
        subject.keeps(allocation, Some(&state))
    });
    if args.source.output.json {
        vramscope_files::json(
            &mut *out,
            &report(&subject, (from, to), &found, args.limit.unwrap_or(usize::MAX)),
        )?;
        writeln!(out)?;
    } else {
        print(&subject, (from, to), &found, args.limit, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn when(subject: &Subject, at: Moment) -> When {
    let event = at.event().filter(|event| event.index() < subject.replay().events());
    let events = subject.snapshot().events(subject.replay().device());
    When { event: event.map(|event| event.0), time_ns: event.and_then(|event| events.time_ns(event.index())) }
}

fn life(subject: &Subject, index: AllocIdx) -> Life {
    let allocation = subject.replay().allocation(index);
    let (start, end) = (when(subject, allocation.opened), when(subject, allocation.closed));
    Life {
        bytes: allocation.requested,
        alloc_event: start.event,
        free_event: end.event,
        start_ns: start.time_ns,
        end_ns: end.time_ns,
    }
}

fn report(subject: &Subject, (from, to): (Moment, Moment), found: &[Overlap], limit: usize) -> Report {
    let group = |group: &Overlap| Group {
        name: group.name.clone(),
        bytes: group.bytes,
        count: group.allocations.len(),
        allocations: group.allocations.iter().take(limit).map(|&index| life(subject, index)).collect(),
    };
    Report {
        schema: "vramscope/overlap/1",
        device: subject.replay().device().0,
        from: when(subject, from),
        to: when(subject, to),
        count: found.iter().map(|group| group.allocations.len()).sum(),
        bytes: found.iter().fold(0, |sum, group| sum.saturating_add(group.bytes)),
        groups: found.iter().take(limit).map(group).collect(),
    }
}

const GROUPS: usize = 15;
const LIVES: usize = 4;

fn print(
    subject: &Subject,
    (from, to): (Moment, Moment),
    found: &[Overlap],
    limit: Option<usize>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let device = subject.replay().device();
    let events = subject.snapshot().events(device);
    writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
    let name = subject.snapshot().device_name(device);
    writeln!(out, "{name} {}", text::when(events, from.event()))?;
    if to > from {
        writeln!(out, "  to {}", text::when(events, to.event()))?;
    }
    if let Some(verdict) = subject.verdict() {
        writeln!(out, "  {verdict}")?;
    }
    if found.is_empty() {
        return writeln!(out, "\nnothing lives");
    }
    writeln!(
        out,
        "\n  {:>10}  {:>7}  by operator, and the largest of each: size, began, ended",
        "bytes", "count"
    )?;
    let room = text::columns().saturating_sub(24).max(20);
    // Times are relative to the moment that is asked for.
    let asked = when(subject, from).time_ns;
    let time = |at: When, nothing: &str| match (at.event, at.time_ns.zip(asked)) {
        (Some(_), Some((time, asked))) => relative(time.saturating_sub(asked)),
        (Some(event), None) => format!("event {}", text::count(event)),
        (None, _) => nothing.to_owned(),
    };
    for group in found.iter().take(limit.unwrap_or(GROUPS)) {
        let label = if group.name.is_empty() {
            Place::words_of(subject.snapshot(), StackId::ABSENT)
        } else {
            group.name.as_str()
        };
        let count = text::count(group.allocations.len() as u64);
        let bytes = text::bytes(i64::try_from(group.bytes).unwrap_or(i64::MAX));
        writeln!(out, "  {bytes:>10}  {count:>7}  {}", text::fit(&text::printable(label), room))?;
        for &index in group.allocations.iter().take(limit.unwrap_or(LIVES)) {
            let allocation = subject.replay().allocation(index);
            let size = text::bytes(i64::try_from(allocation.requested).unwrap_or(i64::MAX));
            let began = time(when(subject, allocation.opened), "before the first event");
            let ended = time(when(subject, allocation.closed), "lives at the end");
            writeln!(out, "  {:>10}  {:>7}    {size:>10}  {began} … {ended}", "", "")?;
        }
    }
    let more = found.len().saturating_sub(limit.unwrap_or(GROUPS));
    if more > 0 {
        writeln!(out, "  {more} more groups: --limit")?;
    }
    Ok(())
}

/// Nanoseconds before or after, as people read them.
fn relative(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    match ns.unsigned_abs() {
        ns @ 0..1_000 => format!("{sign}{ns} ns"),
        ns @ 1_000..1_000_000 => format!("{sign}{:.3} µs", ns as f64 / 1e3),
        ns @ 1_000_000..1_000_000_000 => format!("{sign}{:.3} ms", ns as f64 / 1e6),
        ns => format!("{sign}{:.3} s", ns as f64 / 1e9),
    }
}
