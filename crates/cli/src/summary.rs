//! `vramscope summary`: each file in a few lines.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{Counter, Counters, Moment, Peak, Replay, Status, Verdict};
use vramscope_files::{Opened, find, open_each};
use vramscope_snapshot::naming::RankKind;
use vramscope_snapshot::{DeviceId, EventIdx, EventTable, Snapshot};

use crate::args::SummaryArgs;
use crate::progress::Bar;
use crate::text;

pub(crate) fn run(args: &SummaryArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let inputs = find(&args.paths)?;
    let cache = args.output.cache.cache();
    let bar = Bar::new(&inputs);
    let results = open_each(&inputs, cache.as_ref(), &bar, |opened| File::new(&opened));
    drop(bar);

    let mut files = Vec::new();
    let mut errors = Vec::new();
    let mut others = 0;
    for (input, result) in inputs.iter().zip(results) {
        match result {
            Ok(file) => files.push(file),
            // In a folder there may be other things than snapshots.
            Err(error) if !input.named && error.is_another_kind() => others += 1,
            Err(error) => errors.push(error),
        }
    }
    if files.is_empty() && errors.is_empty() {
        anyhow::bail!("no memory snapshot among {} that look like one", text::plural(others, "file"));
    }
    if !files.is_empty() {
        print(&files, args.output.json, out)?;
    }
    out.flush()?;
    for error in &errors {
        text::complain(&error.to_string());
    }
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Prints as JSON or as text, and warnings where people see them.
pub(crate) fn print(files: &[File], json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, &Summary { schema: "vramscope/summary/1", files })?;
        writeln!(out)?;
    } else {
        for (number, file) in files.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            file.print(out)?;
        }
    }
    out.flush()?;
    for file in files {
        for warning in &file.warnings {
            text::complain(&format!("warning: {}: {warning}", file.path));
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    files: &'a [File],
}

/// What is said of a file.
#[derive(Serialize)]
pub(crate) struct File {
    path: String,
    format: String,
    bytes: u64,
    rank: Option<u64>,
    rank_kind: Option<&'static str>,
    step: Option<u64>,
    group: String,
    from_cache: bool,
    warnings: Vec<String>,
    devices: Vec<Device>,
}

#[derive(Serialize)]
struct Device {
    device: i32,
    events: usize,
    allocations: usize,
    segments: usize,
    stacks: usize,
    verdict: VerdictJson,
    start: CountersJson,
    end: CountersJson,
    peak: Peaks,
    oom: Vec<OomJson>,
}

#[derive(Serialize)]
struct VerdictJson {
    status: &'static str,
    estimated_bytes: u64,
    notes: Vec<String>,
    #[serde(skip)]
    kind: Status,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct CountersJson {
    requested: i64,
    allocated: i64,
    active: i64,
    reserved: i64,
}

impl From<Counters> for CountersJson {
    fn from(counters: Counters) -> Self {
        let Counters { requested, allocated, active, reserved } = counters;
        Self { requested, allocated, active, reserved }
    }
}

#[derive(Serialize)]
struct Peaks {
    requested: PeakJson,
    allocated: PeakJson,
    active: PeakJson,
    reserved: PeakJson,
}

#[derive(Serialize)]
struct PeakJson {
    bytes: i64,
    event: Option<u32>,
    time_us: Option<i64>,
}

#[derive(Serialize)]
struct OomJson {
    event: u32,
    time_us: Option<i64>,
    requested: u64,
    device_free: u64,
}

impl File {
    pub(crate) fn new(opened: &Opened) -> Self {
        let Opened { path, name, bytes, snapshot, replays, from_cache } = opened;
        let rank = name.rank.filter(|(kind, _)| *kind != RankKind::Process);
        Self {
            path: path.display().to_string(),
            format: snapshot.format.clone(),
            bytes: *bytes,
            rank: rank.map(|(_, number)| number),
            rank_kind: name.rank.map(|(kind, _)| kind.label()),
            step: name.step,
            group: name.group.clone(),
            from_cache: *from_cache,
            warnings: text::warnings(snapshot),
            devices: replays.iter().map(|replay| Device::new(snapshot, replay)).collect(),
        }
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write!(
            out,
            "{} · {} · {}",
            text::printable(&self.path),
            self.format,
            text::bytes(self.bytes as i64)
        )?;
        if let (Some(kind), Some(rank)) = (self.rank_kind, self.rank) {
            write!(out, " · {kind} {rank}")?;
        }
        if let Some(step) = self.step {
            write!(out, " · step {step}")?;
        }
        writeln!(out)?;
        if self.devices.is_empty() {
            writeln!(out, "  nothing was allocated on any device while recording")?;
        }
        for device in &self.devices {
            device.print(out)?;
        }
        Ok(())
    }
}

impl Device {
    fn new(snapshot: &Snapshot, replay: &Replay) -> Self {
        let device = replay.device();
        let none = EventTable::default();
        let events = snapshot.trace(device).unwrap_or(&none);
        let peak = |counter| {
            let Peak { bytes, at } = replay.peak(counter);
            let event = at.event();
            PeakJson {
                bytes,
                event: event.map(|event| event.0),
                time_us: event.and_then(|event| events.time_us(event.index())),
            }
        };
        let oom = replay.ooms().iter().map(|oom| OomJson {
            event: oom.event.0,
            time_us: events.time_us(oom.event.index()),
            requested: oom.requested,
            device_free: oom.device_free,
        });
        let Verdict { status, estimated_bytes, notes } = replay.verdict().clone();
        Self {
            device: device.0,
            events: replay.events(),
            allocations: replay.allocations().len(),
            segments: snapshot.segments_of(device).len(),
            stacks: snapshot.stacks.len(),
            verdict: VerdictJson { status: status.name(), estimated_bytes, notes, kind: status },
            start: replay.counters(Moment::START).into(),
            end: replay.counters(replay.end()).into(),
            peak: Peaks {
                requested: peak(Counter::Requested),
                allocated: peak(Counter::Allocated),
                active: peak(Counter::Active),
                reserved: peak(Counter::Reserved),
            },
            oom: oom.collect(),
        }
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let name = if self.device == DeviceId::HOST.0 {
            "host memory".into()
        } else {
            format!("device {}", self.device)
        };
        writeln!(
            out,
            "{name} · {} · {} · {} · {}",
            text::plural(self.events, "event"),
            text::plural(self.allocations, "allocation"),
            text::plural(self.segments, "segment"),
            text::plural(self.stacks, "stack"),
        )?;
        writeln!(out, "  {}", sentence(self.verdict.kind, self.verdict.estimated_bytes))?;
        for note in &self.verdict.notes {
            writeln!(out, "  - {}", text::printable(note))?;
        }
        writeln!(out)?;
        writeln!(out, "  {:8}{:>12}{:>12}{:>12}{:>12}", "", "requested", "allocated", "active", "reserved")?;
        let row = |label: &str, counters: CountersJson| {
            let CountersJson { requested, allocated, active, reserved } = counters;
            let cells =
                [requested, allocated, active, reserved].map(|bytes| format!("{:>12}", text::bytes(bytes)));
            format!("  {label:8}{}", cells.concat())
        };
        if self.start.reserved != 0 || self.start.requested != 0 {
            writeln!(out, "{}", row("start", self.start))?;
        }
        let Peaks { requested, allocated, active, reserved } = &self.peak;
        let peaks = CountersJson {
            requested: requested.bytes,
            allocated: allocated.bytes,
            active: active.bytes,
            reserved: reserved.bytes,
        };
        writeln!(out, "{}", row("peak", peaks))?;
        writeln!(out, "{}", row("end", self.end))?;
        writeln!(out)?;
        match (requested.event, requested.time_us) {
            (Some(event), Some(time)) => {
                writeln!(out, "  peak at event {}, {}", text::count(event), text::time(time))?;
            }
            (Some(event), None) => writeln!(out, "  peak at event {}", text::count(event))?,
            (None, _) if self.events > 0 => writeln!(out, "  the peak is at the start")?,
            (None, _) => {}
        }
        for oom in &self.oom {
            writeln!(
                out,
                "  out of memory at event {}: {} requested, {} free on the device, {} reserved by PyTorch",
                text::count(oom.event),
                text::bytes(oom.requested as i64),
                text::bytes(oom.device_free as i64),
                text::bytes(reserved.bytes),
            )?;
        }
        Ok(())
    }
}

/// The verdict in words.
fn sentence(status: Status, estimated: u64) -> String {
    let about = match estimated {
        0 => String::new(),
        bytes => format!("; sizes of {} are inferred", text::bytes(bytes as i64)),
    };
    let what = match status {
        Status::Exact => {
            return "exact: complete from the first allocation on, equal to PyTorch's counters".into();
        }
        Status::LateStart => "late start: recording began when memory was in use",
        Status::RingOverflow => "ring overflow: the beginning of the history is gone",
        Status::EventsSkipped => "events skipped: some were not recorded",
        Status::SettingsChanged => "settings changed while recording",
        Status::Truncated => "truncated: the file is cut or damaged",
        Status::StateOnly => "state only: no history was recorded",
    };
    format!("{what}{about}")
}

/// The moment of an event in words, with its time if it has one.
pub(crate) fn when(events: &EventTable, event: Option<EventIdx>) -> String {
    let Some(event) = event else { return "before the first event".into() };
    match events.time_us(event.index()) {
        Some(time) => format!("after event {}, {}", text::count(event.0), text::time(time)),
        None => format!("after event {}", text::count(event.0)),
    }
}
