//! `vramscope at`: what was in memory at one moment.

use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde::{Serialize, Serializer};
use vramscope_analysis::{Allocation, Replay, State, gap};
use vramscope_snapshot::{EventTable, Snapshot};

use crate::args::AtArgs;
use crate::filter::Subject;
use crate::stack::StackJson;
use crate::summary::GapJson;
use crate::{finding, text, tree};

/// Rows of the table where nobody asked for a number.
const DEFAULT_ROWS: usize = 15;

pub(crate) fn run(args: &AtArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let subject = Subject::open(&args.source)?;
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let events = snapshot.events(replay.device());
    if args.nth.is_some() && args.moment.r#in.is_none() {
        bail!("--nth goes with --in");
    }
    let state = replay.state(subject.moment(&args.moment.spec(args.nth))?);
    let report = Report { subject: &subject, snapshot, replay, events, state };
    if args.tree {
        writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
        report.print_totals(out)?;
        tree::print_live(&subject, &subject.live(&report.state), out)?;
    } else if args.source.output.json {
        serde_json::to_writer(&mut *out, &report.json(args.limit.unwrap_or(usize::MAX)))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", text::printable(&subject.opened.path.display().to_string()))?;
        report.print(args.limit.unwrap_or(DEFAULT_ROWS), out)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Report<'a> {
    subject: &'a Subject,
    snapshot: &'a Snapshot,
    replay: &'a Replay,
    events: &'a EventTable,
    state: State,
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
    gap: Option<GapJson>,
    verdict: &'static str,
    estimated_bytes: u64,
    /// Written one by one: stacks repeated for every allocation can be far larger than the file.
    #[serde(serialize_with = "one_by_one")]
    live: LiveList<'a>,
}

struct LiveList<'a> {
    report: &'a Report<'a>,
    allocations: Vec<Allocation>,
}

fn one_by_one<S: Serializer>(list: &LiveList<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.allocations.iter().map(|allocation| list.report.live(allocation)))
}

#[derive(Serialize)]
struct Live<'a> {
    addr: u64,
    requested: u64,
    allocated: u64,
    alloc_event: Option<u32>,
    awaiting_free: bool,
    stream: u64,
    pool: Option<(i64, i64)>,
    stack: StackJson<'a>,
}

impl Report<'_> {
    /// Live allocations that pass the filters, by address.
    fn kept(&self) -> Vec<Allocation> {
        let live = self.state.live.iter().map(|&index| self.replay.allocation(index));
        live.filter(|allocation| self.subject.keeps(allocation, Some(&self.state))).collect()
    }

    /// Live allocations, largest first.
    fn largest(&self, limit: usize) -> Vec<Allocation> {
        let mut live: Vec<_> = self.kept();
        live.sort_by_key(|allocation| (Reverse(allocation.requested), allocation.addr));
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

    fn gap(&self) -> Option<GapJson> {
        self.reserved().map(|_| gap(self.snapshot, self.replay, &self.state).into())
    }

    fn reserved(&self) -> Option<i64> {
        self.snapshot.has_reserved(self.replay.device()).then_some(self.state.counters.reserved)
    }

    fn largest_hole(&self) -> Option<u64> {
        self.snapshot.has.addresses.then(|| self.state.largest_hole())
    }

    fn live(&self, allocation: &Allocation) -> Live<'_> {
        Live {
            addr: allocation.addr,
            requested: allocation.requested,
            allocated: allocation.size,
            alloc_event: allocation.opened.event().map(|event| event.0),
            awaiting_free: allocation.released <= self.state.at,
            stream: self.snapshot.stream(allocation.stream),
            pool: self.snapshot.pool(self.state.pool_of(allocation.addr, allocation.pool)),
            stack: StackJson::Whole(self.snapshot, allocation.stack),
        }
    }

    fn print_totals(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let device = self.replay.device();
        let device = self.snapshot.device_name(device);
        writeln!(out, "{device} {}", text::when(self.events, self.state.at.event()))?;
        if let Some(verdict) = self.subject.verdict() {
            writeln!(out, "  {verdict}")?;
        }
        writeln!(out)?;
        let counters = self.state.counters;
        for (label, bytes) in [
            ("requested", Some(counters.requested)),
            ("allocated", Some(counters.allocated)),
            ("active", Some(counters.active)),
            ("reserved", self.reserved()),
            ("largest hole", self.largest_hole().map(|bytes| bytes as i64)),
        ] {
            let Some(bytes) = bytes else {
                writeln!(out, "  {label:12}  not in this file")?;
                continue;
            };
            writeln!(
                out,
                "  {label:12}{:>12}  {:>18} bytes",
                text::bytes(bytes),
                text::count(bytes.max(0) as u64)
            )?;
        }
        if let Some(gap) = self.gap()
            && gap.is_worth_a_word()
        {
            let gap = format!("  gap {}: {}", finding::bytes(gap.total), gap.in_words());
            writeln!(out, "\n{}", text::wrapped(&gap, 4))?;
        }
        writeln!(out)
    }

    fn print(&self, limit: usize, out: &mut dyn Write) -> std::io::Result<()> {
        self.print_totals(out)?;
        let live = self.largest(limit);
        let kept = self.kept();
        let total = kept.len();
        if self.subject.is_filtered() {
            writeln!(
                out,
                "{} are live; the filters leave:",
                text::plural(self.state.live.len(), "allocation")
            )?;
        }
        match (total, live.len()) {
            (0, _) => return writeln!(out, "nothing"),
            (all, shown) if shown < all => {
                writeln!(out, "{}, the {} largest:", text::plural(all, "live allocation"), shown)?;
            }
            (all, _) => writeln!(out, "{}:", text::plural(all, "live allocation"))?,
        }
        writeln!(out)?;
        writeln!(out, "  {:>10}  {:>5}  {:>9}  where", "requested", "share", "event")?;
        let room = text::columns().saturating_sub(32).max(20);
        let mut shown = 0_u64;
        for allocation in &live {
            shown = allocation.requested.saturating_add(shown);
            let born = match allocation.opened.event() {
                Some(event) => text::count(event.0),
                None => "before".into(),
            };
            let mut place = self.subject.place(allocation.stack);
            if allocation.released <= self.state.at {
                place.push_str("  (awaits its free)");
            }
            self.row(out, allocation.requested, &born, &text::fit(&place, room))?;
        }
        let rest = kept
            .iter()
            .fold(0_u64, |sum, allocation| sum.saturating_add(allocation.requested))
            .saturating_sub(shown);
        if live.len() < total {
            let more = format!("{} more", text::count((total - live.len()) as u64));
            self.row(out, rest, "", &more)?;
        }
        Ok(())
    }

    fn row(&self, out: &mut dyn Write, bytes: u64, born: &str, place: &str) -> std::io::Result<()> {
        let total = self.state.counters.requested.max(1) as f64;
        let share = bytes as f64 / total * 100.0;
        writeln!(out, "  {:>10}  {share:>4.1}%  {born:>9}  {place}", text::bytes(bytes as i64))
    }
}
