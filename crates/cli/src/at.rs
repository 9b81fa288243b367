//! `vramscope at`: what was in memory at one moment.

use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;
use vramscope_analysis::{Allocation, Moment, Replay, State, moment_at_time};
use vramscope_files::{Opened, find, open};
use vramscope_snapshot::{DeviceId, EventTable, Snapshot};

use crate::args::{AtArgs, MomentArgs};
use crate::progress::Bar;
use crate::summary::when;
use crate::text;

/// Rows of the table where nobody asked for a number.
const DEFAULT_ROWS: usize = 15;

pub(crate) fn run(args: &AtArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let inputs = find(std::slice::from_ref(&args.path))?;
    let [input] = inputs.as_slice() else {
        let names: Vec<_> =
            inputs.iter().take(8).map(|input| format!("\n  {}", input.path.display())).collect();
        bail!(
            "{} holds {} snapshots; name one of them:{}",
            args.path.display(),
            inputs.len(),
            names.concat()
        );
    };
    let cache = args.output.cache();
    let bar = Bar::new(&inputs);
    let opened = open(input, cache.as_ref(), &bar)?;
    drop(bar);
    for warning in &opened.snapshot.warnings {
        eprintln!("vramscope: warning: {}: {}", opened.path.display(), text::printable(warning));
    }
    if let Some(damage) = &opened.snapshot.damage {
        eprintln!(
            "vramscope: warning: {}: damaged or cut at byte {}: {}; what is intact is shown",
            opened.path.display(),
            damage.offset,
            damage.reason,
        );
    }
    let replay = choose(&opened, args.device)?;
    let none = EventTable::default();
    let events = opened.snapshot.trace(replay.device()).unwrap_or(&none);
    let state = replay.state(moment(&args.moment, replay, events)?);
    let report = Report { snapshot: &opened.snapshot, replay, events, state };
    if args.output.json {
        serde_json::to_writer(&mut *out, &report.json(args.limit.unwrap_or(usize::MAX)))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", text::printable(&opened.path.display().to_string()))?;
        report.print(args.limit.unwrap_or(DEFAULT_ROWS), out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The device that was asked for, or the one with the longest trace.
fn choose(opened: &Opened, device: Option<i32>) -> anyhow::Result<&Replay> {
    let known = || {
        let all: Vec<_> = opened.replays.iter().map(|replay| replay.device().0.to_string()).collect();
        all.join(", ")
    };
    match device {
        Some(device) => opened
            .replays
            .iter()
            .find(|replay| replay.device() == DeviceId(device))
            .with_context(|| format!("there is no device {device}; the snapshot has: {}", known())),
        None => opened
            .replays
            .iter()
            .max_by_key(|replay| (replay.events(), Reverse(replay.device())))
            .context("nothing was allocated on any device while recording"),
    }
}

fn moment(args: &MomentArgs, replay: &Replay, events: &EventTable) -> anyhow::Result<Moment> {
    let last = replay.events();
    if let Some(event) = args.event {
        if event as usize >= last {
            match last {
                0 => bail!("there is no event {event}: the snapshot has no history. Try --end"),
                _ => bail!("there is no event {event}: the trace has events 0 to {}", last - 1),
            }
        }
        return Ok(Moment(event + 1));
    }
    if let Some(time) = args.time_us {
        if last > 0 && (0..last).all(|row| events.time_us(row).is_none()) {
            bail!("the events of this snapshot have no times; use --event");
        }
        return Ok(moment_at_time(events, time));
    }
    if let Some(counter) = args.peak {
        return Ok(replay.peak(counter.into()).at);
    }
    if let Some(number) = args.oom {
        let ooms = replay.ooms();
        let oom = match number.checked_sub(1) {
            None => ooms.last().context("memory never ran out in this snapshot. Try --peak")?,
            Some(row) => ooms
                .get(row)
                .with_context(|| format!("memory ran out {}", text::plural(ooms.len(), "time")))?,
        };
        return Ok(Moment::after(oom.event));
    }
    Ok(if args.start { Moment::START } else { replay.end() })
}

struct Report<'a> {
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
    reserved: i64,
    live_count: usize,
    largest_hole: u64,
    verdict: &'static str,
    live: Vec<Live<'a>>,
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
    stack: Vec<FrameJson<'a>>,
}

#[derive(Serialize)]
struct FrameJson<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
}

impl Report<'_> {
    /// Live allocations, largest first.
    fn largest(&self, limit: usize) -> Vec<Allocation> {
        let mut live: Vec<_> = self.state.live.iter().map(|&index| self.replay.allocation(index)).collect();
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
            reserved: counters.reserved,
            live_count: self.state.live.len(),
            largest_hole: self.state.largest_hole(),
            verdict: self.replay.verdict().status.name(),
            live: self.largest(limit).into_iter().map(|allocation| self.live(&allocation)).collect(),
        }
    }

    fn live(&self, allocation: &Allocation) -> Live<'_> {
        let frame = |frame: vramscope_snapshot::Frame| FrameJson {
            name: self.snapshot.text(frame.name),
            file: self.snapshot.text(frame.file),
            line: frame.line,
        };
        Live {
            addr: allocation.addr,
            requested: allocation.requested,
            allocated: allocation.size,
            alloc_event: allocation.opened.event().map(|event| event.0),
            awaiting_free: allocation.released <= self.state.at,
            stream: self.snapshot.stream(allocation.stream),
            pool: self.snapshot.pool(self.state.pool_of(allocation.addr, allocation.pool)),
            stack: self.snapshot.frames(allocation.stack).map(frame).collect(),
        }
    }

    fn print(&self, limit: usize, out: &mut dyn Write) -> std::io::Result<()> {
        let device = self.replay.device();
        writeln!(out, "device {device} {}", when(self.events, self.state.at.event()))?;
        writeln!(out)?;
        let counters = self.state.counters;
        for (label, bytes) in [
            ("requested", counters.requested),
            ("allocated", counters.allocated),
            ("active", counters.active),
            ("reserved", counters.reserved),
            ("largest hole", self.state.largest_hole() as i64),
        ] {
            writeln!(
                out,
                "  {label:12}{:>12}  {:>18} bytes",
                text::bytes(bytes),
                text::count(bytes.max(0) as u64)
            )?;
        }
        writeln!(out)?;
        let live = self.largest(limit);
        let total = self.state.live.len();
        match (total, live.len()) {
            (0, _) => return writeln!(out, "nothing is live"),
            (all, shown) if shown < all => {
                writeln!(out, "{}, the {} largest:", text::plural(all, "live allocation"), shown)?;
            }
            (all, _) => writeln!(out, "{}:", text::plural(all, "live allocation"))?,
        }
        writeln!(out)?;
        writeln!(out, "  {:>10}  {:>5}  {:>9}  where", "requested", "share", "event")?;
        let room = text::columns().saturating_sub(32).max(20);
        let mut shown = 0;
        for allocation in &live {
            shown += allocation.requested;
            let born = match allocation.opened.event() {
                Some(event) => text::count(event.0),
                None => "before".into(),
            };
            let mut place = text::place(self.snapshot, allocation.stack);
            if allocation.released <= self.state.at {
                place.push_str("  (awaits its free)");
            }
            self.row(out, allocation.requested, &born, &text::fit(&place, room))?;
        }
        let rest = (counters.requested.max(0) as u64).saturating_sub(shown);
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
