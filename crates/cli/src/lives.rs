//! `vramscope lives`: who frees blocks, which outlive their siblings, and what is there twice.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vramscope_analysis::{Freed, Lives, Twins, lives};

use crate::args::Source;
use crate::stack::StackJson;
use crate::style::{self, Role};
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

/// Who frees blocks and how long they live, which outlive their siblings, and what is there twice
///
/// Siblings are the blocks that one stack allocates in one step. The last of them is held alone from the release of the
/// one before it to its own. Twins have the same size and stack, and lives that begin and end together.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope lives snapshot.pickle
  vramscope lives snapshot.pickle --min-size 20MiB --stack attention
  vramscope lives snapshot.pickle --json | jq '.twins[] | {size, pairs}'")]
pub(crate) struct LivesArgs {
    #[command(flatten)]
    source: Source,
    /// Show at most N rows of each table (default: 12 as text, 1000 as JSON)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Rows that are shown where nobody asked for a number.
const DEFAULT_ROWS: usize = 12;

/// The same as JSON: each has two whole stacks, and there may be as many as pairs of stacks.
const JSON_ROWS: usize = 1000;

pub(crate) fn run(args: &LivesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    answer(&args.source, None, out, &mut |subject, _, out| {
        let replay = subject.replay();
        let mut found = match subject.is_filtered() {
            false => Lives::clone(&replay.lives()),
            true => lives(replay, replay.steps(), subject.kept()),
        };
        if args.source.output.json {
            let counts = (found.freed.len(), found.twins.len());
            found.freed.truncate(args.limit.unwrap_or(JSON_ROWS));
            found.twins.truncate(args.limit.unwrap_or(JSON_ROWS));
            return Ok(vramscope_files::json(out, &Report::new(subject, &found, counts))?);
        }
        Ok(print(subject, &found, args.limit.unwrap_or(DEFAULT_ROWS), out)?)
    })
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    /// Rows there are, shown or not.
    freed_count: usize,
    freed: Vec<FreedJson<'a>>,
    twins_count: usize,
    twins: Vec<TwinsJson<'a>>,
}

#[derive(Serialize)]
struct FreedJson<'a> {
    count: u64,
    bytes: u64,
    /// Events that they lived, on average.
    mean_events: u64,
    alone_bytes: u64,
    alone_events: u64,
    allocated_by: StackJson<'a>,
    freed_by: StackJson<'a>,
}

#[derive(Serialize)]
struct TwinsJson<'a> {
    size: u64,
    pairs: u64,
    bytes: u64,
    first_event: Option<u32>,
    stack: StackJson<'a>,
}

impl<'a> Report<'a> {
    fn new(subject: &'a Subject, found: &Lives, (freed_count, twins_count): (usize, usize)) -> Self {
        let snapshot = subject.snapshot();
        let freed = |group: &Freed| FreedJson {
            count: group.count,
            bytes: group.bytes,
            mean_events: group.events / group.count.max(1),
            alone_bytes: group.alone_bytes,
            alone_events: group.alone_events,
            allocated_by: StackJson(snapshot, group.stack),
            freed_by: StackJson(snapshot, group.freed),
        };
        let twins = |twins: &Twins| TwinsJson {
            size: twins.size,
            pairs: twins.pairs,
            bytes: twins.bytes,
            first_event: twins.first.event().map(|event| event.0),
            stack: StackJson(snapshot, twins.stack),
        };
        Self {
            schema: "vramscope/lives/1",
            device: subject.replay().device().0,
            freed_count,
            freed: found.freed.iter().map(freed).collect(),
            twins_count,
            twins: found.twins.iter().map(twins).collect(),
        }
    }
}

fn print(subject: &Subject, found: &Lives, limit: usize, out: &mut dyn Write) -> std::io::Result<()> {
    subject.print_heading("who frees blocks, and when", out)?;
    if found.freed.is_empty() {
        return writeln!(out, "\n  nothing was freed");
    }
    writeln!(out)?;
    let mut table = Table::new("freed by, allocated by")
        .column("bytes")
        .column("count")
        .column("events")
        .optional("alone", 1)
        .optional("for events", 2);
    let rows = by_place(subject, &found.freed);
    for (label, group) in rows.iter().take(limit) {
        let cells = [
            text::size(group.bytes),
            text::count(group.count),
            text::count(group.events / group.count.max(1)),
            text::size(group.alone_bytes),
            text::count(group.alone_events),
        ];
        table.row(cells, label);
    }
    table.print(out)?;
    more(rows.len(), limit, out)?;
    let legend = "events: how long they lived on average; alone: bytes of those that outlived their siblings, and the most \
                  events that one was held after the one before it was freed";
    writeln!(out, "\n  {}", style::paint(Role::Dim, &text::wrapped(legend, 2)))?;
    if found.twins.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table =
        Table::new("there twice: same size, stack and life").column("bytes").column("each").column("pairs");
    for twins in found.twins.iter().take(limit) {
        let cells = [text::size(twins.bytes), text::size(twins.size), text::count(twins.pairs)];
        table.row(cells, subject.place(twins.stack));
    }
    table.print(out)?;
    more(found.twins.len(), limit, out)
}

/// The groups of all stacks with the same lines together, most bytes first.
fn by_place(subject: &Subject, freed: &[Freed]) -> Vec<(String, Freed)> {
    let mut places: BTreeMap<String, Freed> = BTreeMap::new();
    for group in freed {
        let label = format!("{} ‹ {}", subject.place(group.freed), subject.place(group.stack));
        let sum = places.entry(label).or_default();
        sum.count += group.count;
        sum.events += group.events;
        sum.bytes = sum.bytes.saturating_add(group.bytes);
        sum.alone_bytes = sum.alone_bytes.saturating_add(group.alone_bytes);
        sum.alone_events = sum.alone_events.max(group.alone_events);
    }
    let mut rows: Vec<_> = places.into_iter().collect();
    rows.sort_by_key(|(_, group)| std::cmp::Reverse(group.bytes));
    rows
}

fn more(all: usize, limit: usize, out: &mut dyn Write) -> std::io::Result<()> {
    match all.saturating_sub(limit) {
        0 => Ok(()),
        hidden => writeln!(out, "  {} more; --limit shows them", text::count(hidden as u64)),
    }
}
