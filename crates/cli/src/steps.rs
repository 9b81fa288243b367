//! `vramscope steps`: what each step of a run needs and leaves behind, and what the next one will need.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::{AllocIdx, Allocation, Keep, Shape, StepRow, Stepwise};

use crate::args::Source;
use crate::style::{self, Role};
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

/// Each step: its peak, what it leaves behind, what outlives it; and what the next one will need
///
/// Steps are those that the program marks, or else end with the optimizer, the backward pass or a forward pass.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope steps snapshot.pickle
  vramscope steps snapshot.pickle --category activations      # only what is of that kind
  vramscope steps snapshot.pickle --json | jq '.steps[] | {number, peak}'")]
pub(crate) struct StepsArgs {
    #[command(flatten)]
    source: Source,
    /// Show at most N steps, the last ones (default: 20 as text, all as JSON)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Steps that are shown where nobody asked for a number, and lines that outlive them.
const DEFAULT_ROWS: usize = 20;
const LINES: usize = 8;

pub(crate) fn run(args: &StepsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer(&args.source, None, out, &mut |subject, _, out| {
        let replay = subject.replay();
        let found = match subject.is_filtered() {
            false => Stepwise::clone(&replay.stepwise()),
            true => {
                let mut steps = replay.steps().clone();
                let (from, to) = subject.range();
                steps.list.retain(|step| step.to > from && step.from < to);
                let keep = |index: AllocIdx, allocation: &Allocation| subject.keeps(index, allocation);
                let keep = subject.leaves_out_allocations().then_some(&keep as Keep<'_>);
                Stepwise::new(replay, steps, keep)
            }
        };
        let shown = args.limit.unwrap_or(if args.source.output.json { usize::MAX } else { DEFAULT_ROWS });
        if args.source.output.json {
            return Ok(vramscope_files::json(out, &Report::new(subject, &found, shown))?);
        }
        Ok(print(subject, &found, shown, out)?)
    })
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    device: i32,
    /// What steps were found by.
    by: &'static str,
    known_by: &'static str,
    count: usize,
    steps: Vec<StepJson>,
    /// None where the peaks have no trend.
    trend: Option<TrendJson>,
    capacity: Option<i64>,
    /// None where that cannot be told.
    next_fits: Option<bool>,
    /// What was allocated in a step and is live when the next one ends, by line.
    outliving: Vec<LineJson>,
    outliving_steps: u64,
}

#[derive(Serialize)]
struct StepJson {
    number: u64,
    first_event: u32,
    last_event: Option<u32>,
    is_complete: bool,
    peak: i64,
    peak_event: Option<u32>,
    end: i64,
    growth: i64,
    allocations: u64,
    kept: u64,
}

impl From<&StepRow> for StepJson {
    fn from(row: &StepRow) -> Self {
        Self {
            number: row.step.number,
            first_event: row.step.from.0,
            last_event: row.step.to.event().map(|event| event.0),
            is_complete: row.step.is_complete,
            peak: row.peak.bytes,
            peak_event: row.peak.at.event().map(|event| event.0),
            end: row.end,
            growth: row.growth,
            allocations: row.allocations,
            kept: row.kept,
        }
    }
}

#[derive(Serialize)]
struct TrendJson {
    shape: Shape,
    next: u64,
    added: u64,
    factor: f64,
}

#[derive(Serialize)]
struct LineJson {
    name: String,
    file: String,
    line: u32,
    bytes: u64,
    count: u64,
    per_step: u64,
}

/// The last of the rows.
fn last(rows: &[StepRow], shown: usize) -> &[StepRow] {
    rows.get(rows.len().saturating_sub(shown)..).unwrap_or_default()
}

impl Report {
    fn new(subject: &Subject, found: &Stepwise, shown: usize) -> Self {
        let outliving = found.outliving.iter().map(|found| LineJson {
            name: found.line.name.clone(),
            file: found.line.file.clone(),
            line: found.line.line,
            bytes: found.bytes,
            count: found.count,
            per_step: found.per_step,
        });
        Self {
            schema: "vramscope/steps/1",
            device: subject.replay().device().0,
            by: found.steps.by.words(),
            known_by: found.steps.known_by.name(),
            count: found.rows.len(),
            steps: last(&found.rows, shown).iter().map(StepJson::from).collect(),
            trend: found.trend.as_ref().map(|trend| TrendJson {
                shape: trend.shape,
                next: trend.next,
                added: trend.added,
                factor: trend.factor,
            }),
            capacity: found.capacity.map(|capacity| capacity.bytes),
            next_fits: found.fits(),
            outliving: outliving.collect(),
            outliving_steps: found.outlived,
        }
    }
}

fn print(subject: &Subject, found: &Stepwise, shown: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let count = text::plural(found.rows.len(), "step");
    let known = found.steps.known_by.name();
    let heading = match found.rows.is_empty() {
        true => "no steps were found".to_owned(),
        false => format!("{count}, found by {} ({known})", found.steps.by.words()),
    };
    subject.print_heading(&heading, out)?;
    if found.rows.is_empty() {
        return writeln!(
            out,
            "\n  mark them: with torch.profiler.record_function(\"step\"): ... around each iteration"
        );
    }
    writeln!(out)?;
    let mut table = Table::new("events")
        .column("step")
        .column("peak")
        .column("end")
        .column("growth")
        .optional("kept", 1)
        .optional("allocations", 2);
    let highest = found.rows.iter().map(|row| row.peak.bytes).max().unwrap_or(0);
    let rows = last(&found.rows, shown);
    for row in rows {
        let role = if row.peak.bytes == highest { Role::Warning } else { Role::Plain };
        let cells = [
            text::count(row.step.number),
            text::bytes(row.peak.bytes),
            text::bytes(row.end),
            text::signed(row.growth),
            text::size(row.kept),
            text::count(row.allocations),
        ];
        let unfinished = if row.step.is_complete { "" } else { ", not finished" };
        let to = text::event(row.step.to.event(), "start");
        table.painted(role, cells, format!("{} to {to}{unfinished}", text::count(row.step.from.0)));
    }
    table.print(out)?;
    let hidden = found.rows.len() - rows.len();
    if hidden > 0 {
        writeln!(out, "  {} before; --limit shows them", text::plural(hidden, "step"))?;
    }
    let legend = "peak: highest requested bytes; growth: more live at its end than at its beginning; kept: allocated in \
                  it and live at its end";
    writeln!(out, "\n  {}", style::paint(Role::Dim, &text::wrapped(legend, 2)))?;
    if let Some(forecast) = forecast(found) {
        writeln!(out, "\n  {}", text::wrapped(&forecast, 2))?;
    }
    print_outliving(found, out)
}

/// Where the peaks lead, in a sentence.
fn forecast(found: &Stepwise) -> Option<String> {
    let trend = found.trend.as_ref()?;
    let fits = match (found.fits(), found.capacity) {
        (Some(true), _) => ", which fits".to_owned(),
        (Some(false), Some(capacity)) => {
            format!(", which does not fit: more than {}", capacity.words(&text::size))
        }
        _ => String::new(),
    };
    Some(format!("{}: the next step needs about {}{fits}", trend.words(&text::size), text::size(trend.next)))
}

fn print_outliving(found: &Stepwise, out: &mut dyn Write) -> std::io::Result<()> {
    if found.outlived == 0 || found.outliving.is_empty() {
        return Ok(());
    }
    let lines = &found.outliving;
    writeln!(out)?;
    let mut table = Table::new("live longer than the step after its own, by line")
        .column("per step")
        .column("bytes")
        .column("count");
    for kept in lines.iter().take(LINES) {
        let cells = [text::size(kept.per_step), text::size(kept.bytes), text::count(kept.count)];
        table.row(cells, text::line(&kept.line));
    }
    table.print(out)?;
    if lines.len() > LINES {
        writeln!(out, "  {} more", text::count((lines.len() - LINES) as u64))?;
    }
    Ok(())
}
