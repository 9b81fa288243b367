//! `vramscope pools`: what each memory pool holds, uses and leaves idle.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::pools::{PoolRow, PoolSummary};
use vramscope_analysis::{Known, Moment};
use vramscope_snapshot::Pool;

use crate::args::{MomentArgs, Source};
use crate::subject::{Subject, answer_map};
use crate::table::Table;
use crate::text;

/// Memory pools of CUDA graphs and MemPools: what each holds, uses and leaves idle
///
/// One row per pool and stream. What a private pool holds serves nothing else, used or not. Before PyTorch 2.12
/// events do not name their pool: pool membership is then inferred from addresses, and unknown for memory that was
/// released before the end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope pools snapshot.pickle
  vramscope pools snapshot.pickle --end --json | jq '.pools[] | select(.private) | .idle'")]
pub(crate) struct PoolsArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    moment: MomentArgs,
}

pub(crate) fn run(args: &PoolsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer_map(&args.source, Some(&args.moment.spec()), out, &mut |subject, at, out| {
        let replay = subject.replay();
        let pools = replay.pools();
        let summaries = pools.summaries(replay, at);
        let rows: Vec<PoolJson> = pools
            .rows()
            .iter()
            .zip(&summaries)
            .filter(|(row, summary)| {
                let height = summary.peak.height().max(0) as u64;
                subject.keeps_segment(row.pool, row.stream, height)
            })
            .map(|(row, summary)| PoolJson::new(row, summary))
            .collect();
        let reserved = rows.iter().fold(0_i64, |sum, row| sum.saturating_add(row.reserved));
        if args.source.output.json {
            let report = Report {
                schema: "vramscope/pools/1",
                device: replay.device().0,
                event: at.event().map(|event| event.0),
                reserved,
                pools: rows,
            };
            return Ok(vramscope_files::json(out, &report)?);
        }
        Ok(print(subject, at, reserved, &rows, out)?)
    })
}

fn print(
    subject: &Subject,
    at: Moment,
    reserved: i64,
    rows: &[PoolJson],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    subject.print_moment(at, out)?;
    let private = |number: fn(&PoolJson) -> i64| -> i64 {
        rows.iter().filter(|row| row.private).map(number).fold(0, i64::saturating_add)
    };
    match rows.iter().any(|row| row.private) {
        true => writeln!(
            out,
            "  {} reserved, {} of it in private pools, {} of that idle",
            text::bytes(reserved),
            text::bytes(private(|row| row.reserved)),
            text::bytes(private(|row| row.idle))
        )?,
        false => writeln!(out, "  {} reserved, no private pools", text::bytes(reserved))?,
    }
    writeln!(out)?;
    let mut table = Table::new("pool and stream")
        .column("reserved")
        .column("active")
        .column("idle")
        .optional("segments", 1)
        .column("peak")
        .optional("idle at peak", 2)
        .left("known by", 3);
    for row in rows {
        let [reserved, active, idle, peak, idle_at_peak] =
            [row.reserved, row.active, row.idle, row.peak_reserved, row.idle_at_peak].map(text::bytes);
        let segments = text::count(row.segments as u64);
        let cells = [reserved, active, idle, segments, peak, idle_at_peak, row.known.to_owned()];
        table.row(cells, vramscope_format::pool_and_stream(row.pool, row.stream));
    }
    table.print(out)?;
    if rows.iter().any(|row| row.pool.is_none()) {
        let note = "unknown: released before the snapshot was taken, and this version of PyTorch does not record the \
                    pool of an event";
        writeln!(out, "\n  {}", text::wrapped(note, 2))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    reserved: i64,
    pools: Vec<PoolJson>,
}

#[derive(Serialize)]
struct PoolJson {
    pool: Option<Pool>,
    stream: u64,
    private: bool,
    known: &'static str,
    reserved: i64,
    active: i64,
    idle: i64,
    segments: usize,
    peak_reserved: i64,
    peak_event: Option<u32>,
    peak_active: i64,
    idle_at_peak: i64,
    first_event: Option<u32>,
    last_event: Option<u32>,
}

impl PoolJson {
    fn new(row: &PoolRow, summary: &PoolSummary) -> Self {
        let event = |at: Moment| at.event().map(|event| event.0);
        Self {
            pool: row.pool,
            stream: row.stream,
            private: row.is_private(),
            known: Known::name(row.known),
            reserved: summary.now.reserved,
            active: summary.now.active,
            idle: summary.now.idle(),
            segments: summary.segments,
            peak_reserved: summary.peak.reserved,
            peak_event: event(summary.peak_at),
            peak_active: summary.peak_active,
            idle_at_peak: summary.peak.idle(),
            first_event: summary.first.and_then(event),
            last_event: summary.last.and_then(event),
        }
    }
}
