//! `vramscope churn`: segments acquired from the driver and released to it, by step and by line.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::{Calls, DeviceCalls, Line};

use crate::args::Source;
use crate::subject::{Subject, answer_map};
use crate::table::Table;
use crate::text;

/// Segments acquired from the driver and released, by step and by the line that caused it
///
/// Each call may wait for the device. A run that acquires in every step what it released in the step before loses
/// time to it. Times are the most that the calls can have taken.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope churn snapshot.pickle
  vramscope churn snapshot.pickle --since in:step#3:start --limit 50
  vramscope churn snapshot.pickle --json | jq '.lines[] | {line, acquired, released}'")]
pub(crate) struct ChurnArgs {
    #[command(flatten)]
    source: Source,
    /// Show at most N steps and N lines (default: 12 as text, all as JSON)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

const DEFAULT_ROWS: usize = 12;

pub(crate) fn run(args: &ChurnArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer_map(&args.source, None, out, &mut |subject, _, out| {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let steps = replay.steps();
        let (from, to) = subject.range();
        let table = replay.calls();
        let calls = DeviceCalls::new(snapshot, &table, steps, |row, event| {
            (from.0..to.0).contains(&row.0) && subject.keeps_event(row, event)
        });
        let limit = args.limit.unwrap_or(if args.source.output.json { usize::MAX } else { DEFAULT_ROWS });
        match args.source.output.json {
            true => Ok(vramscope_files::json(out, &Report::new(subject, &calls, limit))?),
            false => Ok(print(subject, &calls, steps.by.words(), limit, out)?),
        }
    })
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    device: i32,
    total: CallsJson,
    /// Releases by the program itself that were followed by acquisitions.
    cycles: u64,
    /// Allocations that failed at first.
    retries: u64,
    step_count: usize,
    steps: Vec<StepJson>,
    line_count: usize,
    lines: Vec<LineJson>,
}

#[derive(Serialize)]
struct CallsJson {
    acquired: u64,
    acquired_bytes: u64,
    released: u64,
    released_bytes: u64,
    /// None where events have no times.
    at_most_us: Option<u64>,
}

#[derive(Serialize)]
struct StepJson {
    /// None before the first and after the last.
    number: Option<u64>,
    first_event: Option<u32>,
    #[serde(flatten)]
    calls: CallsJson,
}

#[derive(Serialize)]
struct LineJson {
    line: Line,
    stack: String,
    #[serde(flatten)]
    calls: CallsJson,
}

impl CallsJson {
    fn new(found: &DeviceCalls, calls: &Calls) -> Self {
        Self {
            acquired: calls.acquired,
            acquired_bytes: calls.acquired_bytes,
            released: calls.released,
            released_bytes: calls.released_bytes,
            at_most_us: found.has_times.then_some(calls.micros),
        }
    }
}

impl Report {
    fn new(subject: &Subject, found: &DeviceCalls, limit: usize) -> Self {
        let step = |(step, calls): &(Option<vramscope_analysis::Step>, Calls)| StepJson {
            number: step.map(|step| step.number),
            first_event: step.map(|step| step.from.0),
            calls: CallsJson::new(found, calls),
        };
        let line = |(line, stack, calls): &(Line, vramscope_snapshot::StackId, Calls)| LineJson {
            line: line.clone(),
            stack: subject.handle(Thing::Stack(*stack)),
            calls: CallsJson::new(found, calls),
        };
        Self {
            schema: "vramscope/churn/1",
            device: subject.replay().device().0,
            total: CallsJson::new(found, &found.total),
            cycles: found.cycles,
            retries: found.retries,
            step_count: found.steps.len(),
            steps: found.steps.iter().take(limit).map(step).collect(),
            line_count: found.lines.len(),
            lines: found.lines.iter().take(limit).map(line).collect(),
        }
    }
}

fn print(
    subject: &Subject,
    found: &DeviceCalls,
    by: &str,
    limit: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let total = &found.total;
    let heading = format!(
        "{} acquired ({}), {} released ({})",
        text::plural(total.acquired, "segment"),
        text::size(total.acquired_bytes),
        text::count(total.released),
        text::size(total.released_bytes)
    );
    subject.print_heading(&heading, out)?;
    if total.count() == 0 {
        return writeln!(out, "  no segment is acquired or released while recording");
    }
    let time = match found.has_times {
        true => format!("; driver calls took at most {}", text::duration(total.micros)),
        false => "; this file has no times".to_owned(),
    };
    let cycles = text::plural(found.cycles, "release");
    let retries = text::plural(found.retries, "time");
    writeln!(
        out,
        "  {cycles} by the program, each followed by acquisitions; memory ran short {retries}{time}\n"
    )?;
    let cells = |calls: &Calls| {
        let time = if found.has_times { text::duration(calls.micros) } else { String::new() };
        let bytes = [text::size(calls.acquired_bytes), text::size(calls.released_bytes)];
        let [acquired, released] = bytes;
        [text::count(calls.acquired), acquired, text::count(calls.released), released, time]
    };
    let table = |label| {
        Table::new(label)
            .column("acquired")
            .column("bytes")
            .column("released")
            .column("bytes")
            .optional("driver, at most", 1)
    };
    let mut lines = table("line that caused it");
    for (line, stack, calls) in found.lines.iter().take(limit) {
        let stack = subject.handle(Thing::Stack(*stack));
        lines.row(cells(calls), format!("{}  {stack}", text::line(line)));
    }
    lines.print(out)?;
    more(found.lines.len(), limit, "line", out)?;
    writeln!(out)?;
    let mut steps = table("step");
    for (step, calls) in found.steps.iter().take(limit) {
        let name = step.map_or_else(|| "outside of steps".to_owned(), |step| step.number.to_string());
        steps.row(cells(calls), name);
    }
    steps.print(out)?;
    more(found.steps.len(), limit, "step", out)?;
    writeln!(out, "\n  steps found by {by}")
}

fn more(all: usize, shown: usize, what: &str, out: &mut dyn Write) -> std::io::Result<()> {
    match all.checked_sub(shown) {
        None | Some(0) => Ok(()),
        Some(more) => {
            writeln!(out, "  {}; --limit N shows them", text::plural(more, &format!("more {what}")))
        }
    }
}
