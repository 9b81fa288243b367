//! `vramscope overlap`: what lived at the same time.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::Serialize;
use vramscope_analysis::query::MomentSpec;
use vramscope_analysis::{AllocIdx, GroupBy, Moment, Overlap, no_frame, overlap};
use vramscope_snapshot::StackId;

use crate::args::{MomentArgs, Source};
use crate::layout::{Cut, Keep, Piece};
use crate::subject::{Subject, answer};
use crate::text;

/// What lived at the same time, by operator: at a moment, or at any time between two
///
/// Groups are in the order of their bytes, and so are the allocations in each, with the time that they began
/// and ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope overlap worker0_4100_20261115064500000_ascend_pt --at peak:allocated
  vramscope overlap trace.json.gz --at in:ProfilerStep#2:start --to in:ProfilerStep#2:end --by line
  vramscope overlap snapshot.pickle --at @1794725346326863 --json")]
pub(crate) struct OverlapArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    moment: MomentArgs,
    /// Up to this moment: whatever lived at any time between the two
    #[arg(long, value_name = "MOMENT")]
    to: Option<MomentSpec>,
    /// Group by
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
    let by = match args.by {
        By::Operator => GroupBy::Operator,
        By::Line => GroupBy::Line,
        By::Stack => GroupBy::Stack,
    };
    answer(&args.source, Some(&args.moment.spec()), out, &mut |subject, from, out| {
        let to = args.to.as_ref().map_or(Ok(from), |to| subject.moment(to))?;
        if to < from {
            bail!("--to is before --at");
        }
        let keep = |index, allocation: &_| subject.keeps(index, allocation);
        let found = overlap(subject.replay(), (from, to), by, keep);
        if args.source.output.json {
            let report = report(subject, (from, to), &found, args.limit.unwrap_or(usize::MAX));
            return Ok(vramscope_files::json(out, &report)?);
        }
        Ok(print(subject, (from, to), &found, args, out)?)
    })
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
    args: &OverlapArgs,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    subject.print_moment(from, out)?;
    let limit = args.limit;
    if to > from {
        let events = subject.snapshot().events(subject.replay().device());
        writeln!(out, "  to {}", text::when(events, to.event()))?;
    }
    if found.is_empty() {
        return writeln!(out, "\n  nothing is live");
    }
    let by = match args.by {
        By::Operator => "operator",
        By::Line => "line",
        By::Stack => "stack",
    };
    writeln!(out, "\n  {:>10}  {:>7}  by {by}, and the largest of each: size, start, end", "bytes", "count")?;
    // Times are relative to the moment that is asked for.
    let asked = when(subject, from).time_ns;
    let time = |at: When, nothing: &str| match (at.event, at.time_ns.zip(asked)) {
        (Some(_), Some((time, asked))) => relative(time.saturating_sub(asked)),
        (Some(event), None) => format!("event {}", text::count(event)),
        (None, _) => nothing.to_owned(),
    };
    for group in found.iter().take(limit.unwrap_or(GROUPS)) {
        let label = if group.name.is_empty() {
            no_frame(subject.snapshot(), StackId::ABSENT)
        } else {
            group.name.as_str()
        };
        let count = text::count(group.allocations.len() as u64);
        let bytes = text::size(group.bytes);
        let text = text::printable(label).into();
        let name = Piece::Cut(Cut { text, taken: 24, least: 20, depth: 0, keep: Keep::Place });
        writeln!(out, "  {bytes:>10}  {count:>7}  {}", name.print())?;
        for &index in group.allocations.iter().take(limit.unwrap_or(LIVES)) {
            let allocation = subject.replay().allocation(index);
            let size = text::size(allocation.requested);
            let began = time(when(subject, allocation.opened), "before the first event");
            let ended = time(when(subject, allocation.closed), "live at the end");
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
