//! `vramscope at`: what was in memory at one moment.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use serde::{Serialize, Serializer};
use vramscope_analysis::query::{MomentSpec, Thing};
use vramscope_analysis::shapes::{Clues, Dims, RecordedShapes, SHOWN, Shapes};
use vramscope_analysis::{AllocIdx, Allocation, Conclusions, Device, Gap, KnownBy, State, gap};
use vramscope_snapshot::{EventTable, Snapshot, StackId};

use crate::args::AtArgs;
use crate::stack::StackJson;
use crate::subject::{Subject, answer};
use crate::table::Table;
use crate::{text, tree};

/// Rows of the table where nobody asked for a number.
const DEFAULT_ROWS: usize = 15;

pub(crate) fn run(args: &AtArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut spec = args.moment.spec();
    if let (MomentSpec::In { nth, .. }, Some(_)) = (&mut spec, args.nth) {
        *nth = args.nth;
    }
    let dims = args.model.dims()?;
    let shapes = (dims != Dims::default()).then(|| Shapes::new(&dims));
    answer(&args.source, Some(&spec), out, &mut |subject, at, out| {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let events = snapshot.events(replay.device());
        let report = Report {
            subject,
            snapshot,
            replay,
            events,
            state: replay.state(at),
            shapes: shapes.as_ref(),
            conclusions: OnceCell::new(),
            recorded: RecordedShapes::new(replay),
        };
        if args.source.output.json {
            vramscope_files::json(&mut *out, &report.json(args.limit.unwrap_or(usize::MAX)))?;
            return Ok(());
        }
        report.print_totals(out)?;
        match args.tree {
            true => tree::print_live(subject, &subject.live(&report.state), out)?,
            false => report.print(args.limit.unwrap_or(DEFAULT_ROWS), out)?,
        }
        Ok(())
    })
}

struct Report<'a> {
    subject: &'a Subject,
    snapshot: &'a Snapshot,
    replay: &'a Device,
    events: &'a EventTable,
    state: State,
    shapes: Option<&'a Shapes>,
    /// Worked out from the whole trace, where it is asked for.
    conclusions: OnceCell<Conclusions>,
    recorded: RecordedShapes,
}

#[derive(Serialize)]
struct At<'a> {
    schema: &'static str,
    device: i32,
    event: Option<u32>,
    time_us: Option<i64>,
    requested: i64,
    allocated: i64,
    active: i64,
    /// None where the file does not say.
    reserved: Option<i64>,
    live_count: usize,
    shown_count: usize,
    largest_hole: Option<u64>,
    /// Reserved minus requested, by cause.
    gap: Option<Gap>,
    verdict: &'static str,
    estimated_bytes: u64,
    /// Written one by one: stacks repeated for every allocation can be far larger than the file.
    #[serde(serialize_with = "one_by_one")]
    live: LiveList<'a>,
}

struct LiveList<'a> {
    report: &'a Report<'a>,
    allocations: Vec<(AllocIdx, Allocation)>,
}

fn one_by_one<S: Serializer>(list: &LiveList<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    let live = |(index, allocation): &(AllocIdx, Allocation)| list.report.live(*index, allocation);
    serializer.collect_seq(list.allocations.iter().map(live))
}

#[derive(Serialize)]
struct Live<'a> {
    handle: String,
    stack_handle: String,
    addr: u64,
    requested: u64,
    allocated: u64,
    alloc_event: Option<u32>,
    awaiting_free: bool,
    stream: u64,
    pool: Option<(i64, i64)>,
    /// What it is for, and how that is known.
    category: &'a str,
    known_by: KnownBy,
    /// The annotation that it was made in, else the part of a step.
    phase: Option<&'a str>,
    module: Option<&'a str>,
    step: Option<u64>,
    /// The forward line that memory of a backward pass belongs to.
    backward_of: Option<String>,
    /// The shape that the recorder logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<ShapeJson<'a>>,
    stack: StackJson<'a>,
}

#[derive(Serialize)]
struct ShapeJson<'a> {
    operator: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
}

impl Report<'_> {
    /// Live allocations that pass the filters, by address.
    fn kept(&self) -> Vec<(AllocIdx, Allocation)> {
        let live = self.state.allocations();
        live.filter(|(index, allocation)| self.subject.keeps(*index, allocation)).collect()
    }

    /// Live allocations, largest first.
    fn largest(&self, limit: usize) -> Vec<(AllocIdx, Allocation)> {
        let mut live = self.kept();
        live.sort_by_key(|(_, allocation)| (Reverse(allocation.requested), allocation.addr));
        live.truncate(limit);
        live
    }

    fn json(&self, limit: usize) -> At<'_> {
        let counters = self.state.counters;
        let event = self.state.at.event();
        At {
            schema: "vramscope/at/1",
            device: self.replay.device().0,
            event: event.map(|event| event.0),
            time_us: event.and_then(|event| self.events.time_us(event.index())),
            requested: counters.requested,
            allocated: counters.allocated,
            active: counters.active,
            reserved: self.reserved(),
            live_count: self.state.live.len(),
            shown_count: self.kept().len(),
            largest_hole: self.largest_hole(),
            gap: self.gap(),
            verdict: self.replay.verdict().status.name(),
            estimated_bytes: self.replay.verdict().estimated_bytes,
            live: LiveList { report: self, allocations: self.largest(limit) },
        }
    }

    fn gap(&self) -> Option<Gap> {
        self.reserved().map(|_| gap(self.replay, &self.state))
    }

    fn reserved(&self) -> Option<i64> {
        self.snapshot.has_reserved(self.replay.device()).then_some(self.state.counters.reserved)
    }

    fn largest_hole(&self) -> Option<u64> {
        self.snapshot.has.addresses.then(|| self.state.largest_hole())
    }

    fn live(&self, index: AllocIdx, allocation: &Allocation) -> Live<'_> {
        let concluded = self.conclusions().of(self.replay, index);
        Live {
            handle: self.subject.handle(Thing::Allocation(index)),
            stack_handle: self.subject.handle(Thing::Stack(allocation.stack)),
            addr: allocation.addr,
            requested: allocation.requested,
            allocated: allocation.size,
            alloc_event: allocation.opened.event().map(|event| event.0),
            awaiting_free: allocation.released <= self.state.at,
            stream: self.snapshot.stream(allocation.stream),
            pool: self.snapshot.pool(self.state.pool_of(allocation.addr, allocation.pool)),
            category: concluded.category,
            known_by: concluded.known_by,
            phase: concluded.phase,
            module: concluded.module,
            step: concluded.step,
            backward_of: self.backward_of(index),
            shape: self.recorded.of(self.snapshot, index).map(|logged| ShapeJson {
                operator: &logged.operator,
                dtype: &logged.dtype,
                shape: &logged.shape,
            }),
            stack: StackJson(self.snapshot, allocation.recorded),
        }
    }

    fn conclusions(&self) -> &Conclusions {
        self.conclusions.get_or_init(|| self.subject.conclusions())
    }

    /// The forward line that memory of a backward pass belongs to.
    fn backward_of(&self, index: AllocIdx) -> Option<String> {
        self.conclusions().backward_of(self.replay, index).map(|(line, _)| line)
    }

    fn print_totals(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.subject.print_moment(self.state.at, out)?;
        writeln!(out)?;
        let counters = self.state.counters;
        let mut table = Table::new("").left("", 0).column("").optional("", 1);
        for (label, bytes) in [
            ("requested", Some(counters.requested)),
            ("allocated", Some(counters.allocated)),
            ("active", Some(counters.active)),
            ("reserved", self.reserved()),
            ("largest hole", self.largest_hole().map(|bytes| bytes as i64)),
        ] {
            let exact =
                bytes.map_or_else(String::new, |bytes| format!("{} bytes", text::count(bytes.max(0) as u64)));
            let shown = bytes.map_or_else(|| "not in this file".to_owned(), text::bytes);
            table.row([label.to_owned(), shown, exact], "");
        }
        table.print_rows(out)?;
        if let Some(gap) = self.gap()
            && gap.is_worth_a_word()
        {
            let gap = format!("gap {}: {}", text::size(gap.total), gap.sentence(&text::size));
            writeln!(out, "\n  {}", text::wrapped(&gap, 4))?;
        }
        if let Some(waiting) = self.gap().and_then(|gap| gap.waiting_sentence(&text::size)) {
            writeln!(out, "  {}", text::wrapped(&waiting, 4))?;
        }
        writeln!(out)
    }

    fn print(&self, limit: usize, out: &mut dyn Write) -> std::io::Result<()> {
        let kept = self.kept();
        let groups = self.groups(&kept);
        if self.subject.is_filtered() {
            let all = text::plural(self.state.live.len(), "allocation");
            writeln!(out, "  {} of {all} in memory pass the filters", text::count(kept.len() as u64))?;
        }
        if kept.is_empty() {
            return writeln!(out, "  nothing is live");
        }
        let mut table =
            Table::new("where").column("requested").column("share").column("count").column("event");
        let row = |bytes: u64, count: usize, event: String| {
            let share = text::share(bytes, self.state.counters.requested.max(1) as u64);
            [text::size(bytes), share, text::count(count as u64), event]
        };
        for group in groups.iter().take(limit) {
            let born = text::event(group.first.opened.event(), "before");
            let born = if group.count > 1 && group.first.opened.event().is_some() {
                format!("{born} …")
            } else {
                born
            };
            let handle = self.subject.handle(Thing::Allocation(group.index));
            let mut place = format!("{handle}  {}", self.subject.place(group.first.stack));
            if group.is_awaiting {
                place.push_str("  (awaiting free)");
            }
            if group.count > 1 {
                place = format!("{place}  ({} each)", text::size(group.first.requested));
            }
            if let Some(shape) = group.shape.clone().or_else(|| self.shape(&group.first)) {
                place = format!("{place}  {shape}");
            }
            table.row(row(group.bytes, group.count, born), place);
        }
        let rest = groups.get(limit..).unwrap_or_default();
        if !rest.is_empty() {
            let bytes = rest.iter().fold(0_u64, |sum, group| sum.saturating_add(group.bytes));
            let count = rest.iter().map(|group| group.count).sum();
            table.row(row(bytes, count, String::new()), format!("{} more", text::count(rest.len() as u64)));
        }
        table.print(out)
    }

    /// The shape that fits a size best, if the model's dimensions are known.
    fn shape(&self, allocation: &Allocation) -> Option<String> {
        let names: Vec<_> =
            self.snapshot.frames(allocation.stack).map(|frame| self.snapshot.text(frame.name)).collect();
        let hints = self.shapes?.hints(allocation.requested, &Clues::of_text(&names.join(" ")));
        let best = hints.first().filter(|hint| hint.confidence >= SHOWN)?;
        Some(format!("{}{:?}?", best.dtype.name(), best.shape))
    }

    /// Live allocations of the same size and stack as one row, most bytes first.
    fn groups(&self, kept: &[(AllocIdx, Allocation)]) -> Vec<Group> {
        let mut numbers: HashMap<(u64, StackId, bool), usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for (index, allocation) in kept {
            let is_awaiting = allocation.released <= self.state.at;
            let key = (allocation.requested, allocation.stack, is_awaiting);
            let number = *numbers.entry(key).or_insert_with(|| {
                let logged = self.recorded.of(self.snapshot, *index);
                let shape =
                    logged.map(|logged| format!("{}{:?}", text::printable(&logged.dtype), logged.shape));
                groups.push(Group {
                    first: *allocation,
                    index: *index,
                    count: 0,
                    bytes: 0,
                    is_awaiting,
                    shape,
                });
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(number) {
                group.count += 1;
                group.bytes = group.bytes.saturating_add(allocation.requested);
                if allocation.opened < group.first.opened {
                    (group.first, group.index) = (*allocation, *index);
                }
            }
        }
        groups.sort_by_key(|group| (Reverse(group.bytes), group.first.addr));
        groups
    }
}

/// Live allocations of the same size and stack.
struct Group {
    /// The one that began first.
    first: Allocation,
    index: AllocIdx,
    count: usize,
    bytes: u64,
    is_awaiting: bool,
    /// As the recorder logged it for the first.
    shape: Option<String>,
}
