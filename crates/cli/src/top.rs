//! `vramscope top`: allocations, stacks or lines, ranked.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::shapes::{Clues, Dims, SHOWN, Shapes};
use vramscope_analysis::{AllocIdx, Allocation, Made, Moment, makers, user_frame};
use vramscope_snapshot::{Frame, StackId};

use crate::args::{TopArgs, TopBy, TopOf};
use crate::output::FrameJson;
use crate::style::{self, Role};
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::text;

/// Rows of the table where nobody asked for a number.
const DEFAULT_ROWS: usize = 20;

pub(crate) fn run(args: &TopArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let dims = args.model.dims()?;
    let shapes = (dims != Dims::default()).then(|| Shapes::new(&dims));
    answer(&args.source, Some(&args.moment.spec()), out, &mut |subject, at, out| {
        let mut rows = rows(args.of, subject, at);
        let total = rows.iter().fold(Row::default(), Row::plus);
        rows.sort_by_key(|row| (Reverse(row.rank(args.by)), row.first));
        let all = rows.len();
        let limit = args.limit.unwrap_or(if args.source.output.json { usize::MAX } else { DEFAULT_ROWS });
        let rest = rows.split_off(limit.min(all)).iter().fold(Row::default(), Row::plus);
        if args.source.output.json {
            return write_json(args, subject, at, (all, &rows), (&total, &rest), out);
        }
        subject.print_moment(at, out)?;
        writeln!(out, "  ranked by {}\n", args.by.name())?;
        // On a narrow terminal what explains the ranking least goes; the column that it ranks by stays.
        let columns = [TopBy::Live, TopBy::Size, TopBy::Total, TopBy::Count, TopBy::Lifetime, TopBy::Churn];
        let headings = ["live", "largest", "total", "count", "lifetime", "churn"];
        let mut table = Table::new(match args.of {
            TopOf::Lines => "line",
            TopOf::Stacks => "stack, by its own line",
            TopOf::Allocations => "allocation",
        });
        for (number, (by, heading)) in columns.into_iter().zip(headings).enumerate() {
            let drop = if by == args.by { 0 } else { [1, 2, 3, 1, 5, 4][number] };
            table = table.optional(heading, drop);
        }
        let cells = |row: &Row| {
            [
                text::size(row.live),
                text::size(row.largest),
                text::size(row.total),
                text::count(row.count),
                text::count(row.lifetime),
                text::size(row.churn),
            ]
        };
        for row in &rows {
            table.row(cells(row), label(subject, args.of, row, shapes.as_ref()));
        }
        if rows.len() < all {
            table.row(cells(&rest), format!("{} more", text::count((all - rows.len()) as u64)));
        }
        table.row(cells(&total), "all");
        table.print(out)?;
        let legend = "live: bytes at this moment; lifetime: events lived, summed; churn: bytes allocated and freed again";
        Ok(writeln!(out, "\n  {}", style::paint(Role::Dim, &text::wrapped(legend, 2)))?)
    })
}

fn write_json(
    args: &TopArgs,
    subject: &Subject,
    at: Moment,
    (count, rows): (usize, &[Row]),
    (total, rest): (&Row, &Row),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut tables = Tables::default();
    let rows = rows.iter().map(|row| RowJson::new(subject, args.of, row, &mut tables)).collect();
    let report = Report {
        schema: "vramscope/top/2",
        device: subject.replay().device().0,
        event: at.event().map(|event| event.0),
        of: args.of,
        by: args.by.name(),
        count,
        total: Sums::new(total),
        rest: Sums::new(rest),
        rows,
        stacks: tables.stacks,
        frames: tables.frames.into_iter().map(|frame| FrameJson::new(subject.snapshot(), frame)).collect(),
    };
    Ok(vramscope_files::json(out, &report)?)
}

/// Sums over what is ranked together.
#[derive(Clone, Copy, Default)]
struct Row {
    /// That of the last allocation.
    stack: StackId,
    /// For a single allocation.
    allocation: Option<(u64, Moment, Moment)>,
    /// The first allocation and the last.
    first: AllocIdx,
    last: AllocIdx,
    live: u64,
    largest: u64,
    total: u64,
    count: u64,
    lifetime: u64,
    churn: u64,
}

impl Row {
    fn new(stack: StackId, made: &Made) -> Self {
        Self {
            stack,
            first: made.first,
            last: made.last,
            largest: made.largest,
            total: made.bytes,
            count: made.count,
            lifetime: made.lifetime,
            churn: made.freed,
            ..Self::default()
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            live: self.live.saturating_add(other.live),
            largest: self.largest.max(other.largest),
            total: self.total.saturating_add(other.total),
            count: self.count + other.count,
            lifetime: self.lifetime.saturating_add(other.lifetime),
            churn: self.churn.saturating_add(other.churn),
            ..self
        }
    }

    /// A line of several stacks is shown by the one that allocated last.
    fn about_the_later(self, other: &Self) -> Self {
        let stack = if other.last > self.last { other.stack } else { self.stack };
        Self { stack, first: self.first.min(other.first), last: self.last.max(other.last), ..self }
    }

    /// What `show` takes: of an allocation or a stack. A line is named by itself.
    fn handle(&self, subject: &Subject, of: TopOf) -> Option<String> {
        match of {
            TopOf::Lines => None,
            TopOf::Stacks => Some(subject.handle(Thing::Stack(self.stack))),
            TopOf::Allocations => Some(subject.handle(Thing::Allocation(self.first))),
        }
    }

    fn rank(&self, by: TopBy) -> u64 {
        match by {
            TopBy::Live => self.live,
            TopBy::Size => self.largest,
            TopBy::Total => self.total,
            TopBy::Count => self.count,
            TopBy::Lifetime => self.lifetime,
            TopBy::Churn => self.churn,
        }
    }
}

fn rows(of: TopOf, subject: &Subject, at: Moment) -> Vec<Row> {
    if of == TopOf::Allocations {
        let end = subject.replay().end();
        let row = |(index, allocation): (AllocIdx, Allocation)| Row {
            allocation: Some((allocation.addr, allocation.opened, allocation.closed)),
            live: if allocation.is_live(at) { allocation.requested } else { 0 },
            ..Row::new(allocation.stack, &Made::one(index, &allocation, end))
        };
        return subject.kept().map(row).collect();
    }
    let made = subject.made();
    let live = subject.live_by_stack(at);
    let of_stack = |(stack, made): (StackId, &Made)| Row {
        live: live.get(&stack).map_or(0, |weight| weight.bytes),
        ..Row::new(stack, made)
    };
    let stacks = makers(&made).map(of_stack);
    if of == TopOf::Stacks {
        return stacks.collect();
    }
    let mut lines: HashMap<Option<Frame>, Row> = HashMap::new();
    for row in stacks {
        let line = lines.entry(user_frame(subject.snapshot(), row.stack)).or_default();
        *line = if line.count == 0 { row } else { line.plus(&row).about_the_later(&row) };
    }
    lines.into_values().collect()
}

fn label(subject: &Subject, of: TopOf, row: &Row, shapes: Option<&Shapes>) -> String {
    let mut place = subject.place(row.stack);
    if let (TopOf::Allocations, Some((_, opened, closed))) = (of, row.allocation) {
        let (born, freed) = (text::event(opened.event(), "before"), text::event(closed.event(), "live"));
        place = format!("{place} · {born} – {freed}");
    }
    if let Some(handle) = row.handle(subject, of) {
        place = format!("{handle}  {place}");
    }
    let hints = shapes.map(|shapes| shapes.hints(row.largest, &Clues::of_text(&place))).unwrap_or_default();
    match hints.first().filter(|hint| hint.confidence >= SHOWN) {
        Some(best) => format!("{place}  {}{:?}?", best.dtype.name(), best.shape),
        None => place,
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    device: i32,
    /// The event of the moment that `live` is about.
    event: Option<u32>,
    of: TopOf,
    by: &'static str,
    count: usize,
    total: Sums,
    rest: Sums,
    rows: Vec<RowJson>,
    /// Each stack once, as numbers of frames, innermost first: a million allocations share a few hundred.
    stacks: Vec<Vec<usize>>,
    /// Each frame once.
    frames: Vec<FrameJson<'a>>,
}

/// Numbers stacks and frames by their first appearance.
#[derive(Default)]
struct Tables {
    stacks: Vec<Vec<usize>>,
    frames: Vec<Frame>,
    number_of_stack: HashMap<Vec<usize>, usize>,
    number_of_id: HashMap<StackId, usize>,
    number_of_frame: HashMap<Frame, usize>,
}

impl Tables {
    fn stack(&mut self, frames: impl Iterator<Item = Frame>) -> usize {
        let mut number = |frame: Frame| {
            // Frames that differ only in what is not shown are one.
            let shown = Frame { name: frame.name, file: frame.file, line: frame.line, ..Frame::default() };
            *self.number_of_frame.entry(shown).or_insert_with(|| {
                self.frames.push(shown);
                self.frames.len() - 1
            })
        };
        let stack: Vec<usize> = frames.map(&mut number).collect();
        *self.number_of_stack.entry(stack).or_insert_with_key(|stack| {
            self.stacks.push(stack.clone());
            self.stacks.len() - 1
        })
    }
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
    live: u64,
    largest: u64,
    total: u64,
    count: u64,
    lifetime_events: u64,
    churn: u64,
}

impl Sums {
    fn new(row: &Row) -> Self {
        let Row { live, largest, total, count, lifetime, churn, .. } = *row;
        Self { live, largest, total, count, lifetime_events: lifetime, churn }
    }
}

#[derive(Serialize)]
struct RowJson {
    #[serde(flatten)]
    sums: Sums,
    /// What `show` takes; none for a line.
    handle: Option<String>,
    addr: Option<u64>,
    alloc_event: Option<u32>,
    free_event: Option<u32>,
    /// The line alone, or the whole stack: a row of `stacks`.
    stack: usize,
}

impl RowJson {
    fn new(subject: &Subject, of: TopOf, row: &Row, tables: &mut Tables) -> Self {
        let snapshot = subject.snapshot();
        let stack = match tables.number_of_id.get(&row.stack) {
            Some(&known) => known,
            None => {
                let number = match of {
                    TopOf::Lines => tables.stack(user_frame(snapshot, row.stack).into_iter()),
                    TopOf::Stacks | TopOf::Allocations => tables.stack(snapshot.frames(row.stack)),
                };
                tables.number_of_id.insert(row.stack, number);
                number
            }
        };
        let (addr, opened, closed) = match row.allocation {
            Some((addr, opened, closed)) => (Some(addr), Some(opened), Some(closed)),
            None => (None, None, None),
        };
        let event = |moment: Option<Moment>| moment.and_then(Moment::event).map(|event| event.0);
        let handle = row.handle(subject, of);
        Self {
            sums: Sums::new(row),
            handle,
            addr,
            alloc_event: event(opened),
            free_event: event(closed),
            stack,
        }
    }
}
