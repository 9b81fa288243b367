//! `vramscope top`: allocations, stacks or lines, ranked.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Allocation, Counter, Moment, user_frame};
use vramscope_snapshot::{Frame, StackId};

use crate::args::{TopArgs, TopBy, TopOf};
use crate::filter::Subject;
use crate::stack::StackJson;
use crate::text;

/// Rows of the table where nobody asked for a number.
const DEFAULT_ROWS: usize = 20;

pub(crate) fn run(args: &TopArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let subject = Subject::open(&args.source)?;
    let mut rows = rows(args, &subject);
    let total = rows.iter().fold(Row::default(), Row::plus);
    rows.sort_by_key(|row| (Reverse(row.rank(args.by)), row.order));
    let all = rows.len();
    let limit = args.limit.unwrap_or(if args.source.output.json { usize::MAX } else { DEFAULT_ROWS });
    let rest = rows.get(limit..).unwrap_or_default().iter().fold(Row::default(), Row::plus);
    rows.truncate(limit);
    if args.source.output.json {
        let rows = rows.iter().map(|row| RowJson::new(&subject, args.of, row)).collect();
        let report = Report {
            schema: "vramscope/top/1",
            device: subject.replay().device().0,
            of: args.of,
            by: args.by.name(),
            count: all,
            total: Sums::new(&total),
            rest: Sums::new(&rest),
            rows,
        };
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
    writeln!(out, "device {}, ranked by {}", subject.replay().device(), args.by.name())?;
    if let Some(verdict) = subject.verdict() {
        writeln!(out, "  {verdict}")?;
    }
    let headings = ["at peak", "largest", "total", "count", "lifetime", "churn"];
    // On a narrow screen what explains the ranking least goes.
    let columns = if text::columns() >= 110 { 6 } else { 4 };
    let headings: Vec<_> = headings.iter().take(columns).map(|heading| format!("{heading:>10}")).collect();
    writeln!(out, "\n  {}", headings.join("  "))?;
    let room = text::columns().saturating_sub(12 * columns + 4).max(20);
    let line = |row: &Row| {
        let bytes = |bytes: u64| text::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        let cells = [
            bytes(row.at_peak),
            bytes(row.largest),
            bytes(row.total),
            text::count(row.count),
            text::count(row.lifetime),
            bytes(row.churn),
        ];
        let cells: Vec<_> = cells.iter().take(columns).map(|cell| format!("{cell:>10}")).collect();
        format!("  {}", cells.join("  "))
    };
    for row in &rows {
        writeln!(out, "{}  {}", line(row), text::fit(&label(&subject, args.of, row), room))?;
    }
    if rows.len() < all {
        writeln!(out, "{}  {} more", line(&rest), text::count((all - rows.len()) as u64))?;
    }
    writeln!(out, "{}  all", line(&total))?;
    if columns == 6 {
        writeln!(out, "\n  lifetime: events lived, of all together; churn: bytes that were freed again")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sums over what is ranked together.
#[derive(Clone, Copy, Default)]
struct Row {
    stack: StackId,
    /// For a single allocation.
    allocation: Option<(u64, Moment, Moment)>,
    at_peak: u64,
    largest: u64,
    total: u64,
    count: u64,
    lifetime: u64,
    churn: u64,
    order: usize,
}

impl Row {
    fn plus(self, other: &Self) -> Self {
        Self {
            at_peak: self.at_peak.saturating_add(other.at_peak),
            largest: self.largest.max(other.largest),
            total: self.total.saturating_add(other.total),
            count: self.count + other.count,
            lifetime: self.lifetime.saturating_add(other.lifetime),
            churn: self.churn.saturating_add(other.churn),
            ..self
        }
    }

    fn rank(&self, by: TopBy) -> u64 {
        match by {
            TopBy::Peak => self.at_peak,
            TopBy::Size => self.largest,
            TopBy::Total => self.total,
            TopBy::Count => self.count,
            TopBy::Lifetime => self.lifetime,
            TopBy::Churn => self.churn,
        }
    }
}

/// What makes two allocations one row.
#[derive(PartialEq, Eq, Hash)]
enum Group {
    Line(Option<Frame>),
    Stack(StackId),
    Allocation(usize),
}

fn rows(args: &TopArgs, subject: &Subject) -> Vec<Row> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let peak = replay.peak(Counter::Requested).at;
    let state = replay.state(peak);
    let mut lines: HashMap<StackId, Option<Frame>> = HashMap::new();
    let mut groups: HashMap<Group, usize> = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for (index, allocation) in replay.allocations().iter() {
        if !subject.keeps(&allocation, Some(&state)) {
            continue;
        }
        let group = match args.of {
            TopOf::Lines => {
                let line =
                    lines.entry(allocation.stack).or_insert_with(|| user_frame(snapshot, allocation.stack));
                Group::Line(*line)
            }
            TopOf::Stacks => Group::Stack(allocation.stack),
            TopOf::Allocations => Group::Allocation(index.0 as usize),
        };
        let row = *groups.entry(group).or_insert_with(|| {
            let allocation = (args.of == TopOf::Allocations).then_some((
                allocation.addr,
                allocation.opened,
                allocation.closed,
            ));
            rows.push(Row { allocation, order: rows.len(), ..Row::default() });
            rows.len() - 1
        });
        rows[row] = rows[row].plus(&one(&allocation, peak, replay.end()));
        rows[row].stack = allocation.stack;
    }
    rows
}

fn one(allocation: &Allocation, peak: Moment, end: Moment) -> Row {
    let bytes = allocation.requested;
    let lived = allocation.closed.min(end).0.saturating_sub(allocation.opened.0);
    Row {
        at_peak: if allocation.is_live(peak) { bytes } else { 0 },
        largest: bytes,
        total: bytes,
        count: 1,
        lifetime: lived.into(),
        churn: if allocation.closed == Moment::NEVER { 0 } else { bytes },
        ..Row::default()
    }
}

fn label(subject: &Subject, of: TopOf, row: &Row) -> String {
    let place = subject.place(row.stack);
    match (of, row.allocation) {
        (TopOf::Allocations, Some((_, opened, closed))) => {
            let born = opened.event().map_or("before".into(), |event| text::count(event.0));
            let freed = closed.event().map_or("live".into(), |event| text::count(event.0));
            format!("{place} · {born} – {freed}")
        }
        _ => place,
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    of: TopOf,
    by: &'static str,
    count: usize,
    total: Sums,
    rest: Sums,
    rows: Vec<RowJson<'a>>,
}

impl Serialize for TopOf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Lines => "lines",
            Self::Stacks => "stacks",
            Self::Allocations => "allocations",
        })
    }
}

#[derive(Serialize)]
struct Sums {
    at_peak: u64,
    largest: u64,
    total: u64,
    count: u64,
    lifetime_events: u64,
    churn: u64,
}

impl Sums {
    fn new(row: &Row) -> Self {
        let Row { at_peak, largest, total, count, lifetime, churn, .. } = *row;
        Self { at_peak, largest, total, count, lifetime_events: lifetime, churn }
    }
}

#[derive(Serialize)]
struct RowJson<'a> {
    #[serde(flatten)]
    sums: Sums,
    addr: Option<u64>,
    alloc_event: Option<u32>,
    free_event: Option<u32>,
    /// The line alone, or the whole stack, innermost first.
    stack: StackJson<'a>,
}

impl<'a> RowJson<'a> {
    fn new(subject: &'a Subject, of: TopOf, row: &Row) -> Self {
        let snapshot = subject.snapshot();
        let stack = match of {
            TopOf::Lines => StackJson::Line(snapshot, row.stack),
            TopOf::Stacks | TopOf::Allocations => StackJson::Whole(snapshot, row.stack),
        };
        let (addr, opened, closed) = match row.allocation {
            Some((addr, opened, closed)) => (Some(addr), Some(opened), Some(closed)),
            None => (None, None, None),
        };
        let event = |moment: Option<Moment>| moment.and_then(Moment::event).map(|event| event.0);
        Self { sums: Sums::new(row), addr, alloc_event: event(opened), free_event: event(closed), stack }
    }
}
