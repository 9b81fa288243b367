//! `vramscope summary`: each file on one screen.

mod chart;
mod findings;

use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use vramscope_analysis::{
    Counter, Counters, Gap, Line, Moment, Peak, Replay, Status, Sum, Verdict, Weight, by_line, gap, growth,
    live_weights, spans,
};
use vramscope_files::{Opened, find, open_each};
use vramscope_snapshot::naming::RankKind;
use vramscope_snapshot::{DeviceId, EventIdx, EventTable, Snapshot, StackId};

use crate::args::SummaryArgs;
use crate::progress::Bar;
use crate::style::{self, Role};
use crate::text;

pub(crate) fn run(args: &SummaryArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (inputs, mut errors) = find(&args.paths);
    let cache = args.output.cache.cache();
    let bar = Bar::new(&inputs);
    let results = open_each(&inputs, cache.as_ref(), &bar, |opened| File::new(&opened));
    drop(bar);

    let mut files = Vec::new();
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
    oom: bool,
    group: String,
    from_cache: bool,
    warnings: Vec<String>,
    #[serde(skip)]
    is_damaged: bool,
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
    /// What was live at the peak, by the user's own line; with `rest` it adds up to the peak.
    live_at_peak: Vec<LineJson>,
    rest_at_peak: RestJson,
    gap_at_peak: GapJson,
    phases: Vec<PhaseJson>,
    findings: Vec<String>,
    #[serde(skip)]
    chart: Vec<String>,
}

#[derive(Serialize)]
struct LineJson {
    name: String,
    file: String,
    line: u32,
    bytes: u64,
    count: u64,
    #[serde(skip)]
    label: String,
}

#[derive(Serialize)]
struct RestJson {
    lines: usize,
    bytes: u64,
    count: u64,
}

/// Reserved minus requested, by cause.
#[derive(Serialize)]
struct GapJson {
    total: i64,
    rounding: u64,
    unsplit: u64,
    awaiting_free: u64,
    pinned_holes: u64,
    cached: u64,
    pools: u64,
}

/// All spans of one name.
#[derive(Serialize)]
struct PhaseJson {
    name: String,
    count: usize,
    /// The highest that requested bytes were in any of them.
    peak: i64,
    /// What the last one left behind more than it found.
    last_growth: i64,
}

/// Lines of the table, and phases, that are shown.
const LINES: usize = 8;
const PHASES: usize = 8;

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
    /// Memory held from the driver when it happened.
    reserved: i64,
    largest_hole: u64,
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
            oom: name.oom,
            group: name.group.clone(),
            from_cache: *from_cache,
            warnings: text::warnings(snapshot),
            is_damaged: snapshot.damage.is_some(),
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
        if self.devices.is_empty() && self.is_damaged {
            writeln!(out, "  truncated: the file is cut before its first event or segment is complete")?;
        } else if self.devices.is_empty() {
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
        let events = snapshot.events(device);
        let peak = |counter| {
            let Peak { bytes, at } = replay.peak(counter);
            let event = at.event();
            PeakJson {
                bytes,
                event: event.map(|event| event.0),
                time_us: event.and_then(|event| events.time_us(event.index())),
            }
        };
        let oom = replay.ooms().iter().map(|oom| {
            let state = replay.state(Moment::after(oom.event));
            OomJson {
                event: oom.event.0,
                time_us: events.time_us(oom.event.index()),
                requested: oom.requested,
                device_free: oom.device_free,
                reserved: state.counters.reserved,
                largest_hole: state.largest_hole(),
            }
        });
        let Verdict { status, estimated_bytes, notes } = replay.verdict().clone();
        let state = replay.state(replay.peak(Counter::Requested).at);
        let (live_at_peak, rest_at_peak) = lines(snapshot, &live_weights(replay, &state, |_| true));
        let gap = gap(snapshot, replay, &state);
        let Gap { total, rounding, unsplit, awaiting_free, pinned_holes, cached, pools } = gap;
        let mut findings = findings::out_of_memory(replay);
        findings.extend(growth(snapshot, replay).map(|growth| findings::leak(snapshot, &growth)));
        findings.extend(findings::wide_gap(&gap, state.counters.reserved));
        findings.extend(findings::pools(snapshot, replay, &replay.state(replay.end())));
        Self {
            device: device.0,
            events: replay.events(),
            allocations: replay.allocations().len(),
            segments: snapshot.segments_of(device).len(),
            stacks: stacks(snapshot, device),
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
            live_at_peak,
            rest_at_peak,
            gap_at_peak: GapJson { total, rounding, unsplit, awaiting_free, pinned_holes, cached, pools },
            phases: phases(snapshot, replay),
            findings,
            chart: chart::chart(replay, text::columns().min(110).saturating_sub(14)),
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
        let role = if self.verdict.kind == Status::Exact { Role::Fine } else { Role::Warning };
        let verdict = sentence(self.verdict.kind, self.verdict.estimated_bytes);
        writeln!(out, "  {}", style::paint(role, &verdict))?;
        for note in &self.verdict.notes {
            writeln!(out, "  - {}", text::wrapped(&text::printable(note), 4))?;
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
        if !self.chart.is_empty() {
            writeln!(out)?;
        }
        for line in &self.chart {
            writeln!(out, "  {line}")?;
        }
        if !self.chart.is_empty() {
            writeln!(out, "  {:>10} 0 … {} events; · reserved", "", text::count(self.events as u64))?;
        }
        self.print_lines(out)?;
        self.print_gap(out)?;
        if !self.phases.is_empty() {
            writeln!(out, "\n  {:>10}  {:>6}  phase", "peak", "times")?;
            for PhaseJson { name, count, peak, .. } in &self.phases {
                let count = text::count(*count as u64);
                writeln!(out, "  {:>10}  {count:>6}  {}", text::bytes(*peak), text::printable(name))?;
            }
        }
        if !self.findings.is_empty() {
            writeln!(out)?;
        }
        for finding in &self.findings {
            writeln!(out, "  {} {}", style::paint(Role::Warning, "!"), text::wrapped(finding, 4))?;
        }
        Ok(())
    }

    fn print_lines(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.live_at_peak.is_empty() {
            return Ok(());
        }
        let total = self.peak.requested.bytes.max(1) as f64;
        let room = text::columns().saturating_sub(32).max(20);
        writeln!(out, "\n  {:>10}  {:>5}  {:>7}  live at the peak, by line", "requested", "share", "count")?;
        let mut row = |bytes: u64, count: u64, label: &str| {
            let share = bytes as f64 / total * 100.0;
            let (bytes, count) = (text::bytes(i64::try_from(bytes).unwrap_or(i64::MAX)), text::count(count));
            writeln!(out, "  {bytes:>10}  {share:>4.1}%  {count:>7}  {}", text::fit(label, room))
        };
        for line in &self.live_at_peak {
            row(line.bytes, line.count, &line.label)?;
        }
        let RestJson { lines, bytes, count } = self.rest_at_peak;
        if lines > 0 {
            row(
                bytes,
                count,
                &format!("{} more line{}", text::count(lines as u64), if lines == 1 { "" } else { "s" }),
            )?;
        }
        Ok(())
    }

    fn print_gap(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let GapJson { total, rounding, unsplit, awaiting_free, pinned_holes, cached, pools } =
            self.gap_at_peak;
        if total <= 0 {
            return Ok(());
        }
        let parts = [
            ("holes in segments in use", pinned_holes),
            ("cached segments", cached),
            ("private pools", pools),
            ("rounding", rounding),
            ("unsplit remainders", unsplit),
            ("awaiting free", awaiting_free),
        ];
        let shown: Vec<_> = parts
            .iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(cause, bytes)| {
                format!("{cause} {}", text::bytes(i64::try_from(*bytes).unwrap_or(i64::MAX)))
            })
            .collect();
        writeln!(out, "\n  reserved but not requested at the peak: {}", text::bytes(total))?;
        writeln!(out, "    {}", text::wrapped(&shown.join(" · "), 4))
    }
}

/// Live bytes by the user's own line, heaviest first, and what is left out.
fn lines(snapshot: &Snapshot, weights: &[Weight]) -> (Vec<LineJson>, RestJson) {
    let line = |(line, sum): (Option<Line>, Sum)| {
        let label = text::line(line.as_ref());
        let Line { file, line, name } =
            line.unwrap_or(Line { file: String::new(), line: 0, name: String::new() });
        LineJson { name, file, line, bytes: sum.bytes, count: sum.count, label }
    };
    let mut lines: Vec<LineJson> = by_line(snapshot, weights).into_iter().map(line).collect();
    lines.sort_by_key(|line| Reverse(line.bytes));
    let rest = lines.split_off(lines.len().min(LINES));
    let rest = RestJson {
        lines: rest.len(),
        bytes: rest.iter().map(|line| line.bytes).sum(),
        count: rest.iter().map(|line| line.count).sum(),
    };
    (lines, rest)
}

/// Annotations by name, with their peaks, those of PyTorch itself left out.
fn phases(snapshot: &Snapshot, replay: &Replay) -> Vec<PhaseJson> {
    let mut phases: Vec<PhaseJson> = Vec::new();
    for span in spans(snapshot, replay.device()) {
        let name = snapshot.text(span.name);
        if name.starts_with("Optimizer.") || name.ends_with("(dynamo_timed)") {
            continue;
        }
        let peak = replay.extremes(span.from, span.to).1.requested;
        let growth = replay.counters(span.to).requested - replay.counters(span.from).requested;
        match phases.iter().position(|phase| phase.name == name) {
            Some(at) => {
                let phase = &mut phases[at];
                phase.count += 1;
                phase.peak = phase.peak.max(peak);
                phase.last_growth = growth;
            }
            None if phases.len() < PHASES => {
                phases.push(PhaseJson { name: name.to_owned(), count: 1, peak, last_growth: growth });
            }
            None => {}
        }
    }
    phases
}

/// Distinct stacks that a device's events, segments and blocks have.
fn stacks(snapshot: &Snapshot, device: DeviceId) -> usize {
    let mut seen = vec![false; snapshot.stacks.ids().len()];
    let mut see = |stack: StackId| {
        if stack.has_frames()
            && let Some(seen) = seen.get_mut(stack.index())
        {
            *seen = true;
        }
    };
    snapshot.events(device).iter().for_each(|event| see(event.stack));
    for segment in snapshot.segments_of(device) {
        see(segment.stack);
        snapshot.blocks.of(segment).for_each(|block| see(block.stack));
    }
    seen.into_iter().filter(|seen| *seen).count()
}

/// The verdict in words.
pub(crate) fn sentence(status: Status, estimated: u64) -> String {
    let about = match estimated {
        0 => String::new(),
        bytes => format!("; sizes of blocks of {} in all are inferred", text::bytes(bytes as i64)),
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
