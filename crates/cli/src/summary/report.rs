//! What a summary says of a file.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use vramscope_analysis::{
    Capacity, Counter, Counters, Finding, Gap, Line, Moment, Peak, Phase, Status, Sum, Verdict, Weight,
    by_line, gap, is_internal_phase, phase_name, recorded, verdict_notes, verdict_sentence, versions,
};
use vramscope_files::Opened;
use vramscope_snapshot::{DeviceId, DeviceMemory, EventTable, Pinned, Sidecar, Snapshot, StackId};

use crate::args::FilterArgs;
use crate::finding::FindingJson;
use crate::subject::Subject;
use crate::summary::chart::chart;
use crate::{batch, text};

/// Lines of the table, and phases, that are shown.
const LINES: usize = 8;
const PHASES: usize = 8;
/// Out-of-memory errors for which free memory is examined; a loop that catches them can produce thousands.
const OOMS: usize = 64;

#[derive(Serialize)]
pub(crate) struct File {
    pub(super) path: String,
    pub(super) format: String,
    pub(super) bytes: u64,
    pub(super) rank: Option<u64>,
    pub(super) rank_kind: Option<&'static str>,
    pub(super) step: Option<u64>,
    /// What the process was for.
    pub(super) role: Option<String>,
    oom: bool,
    group: String,
    from_cache: bool,
    pub(super) warnings: Vec<String>,
    /// What a recorder wrote beside the file.
    pub(super) recorder: Option<RecorderJson>,
    #[serde(skip)]
    pub(super) is_damaged: bool,
    pub(super) devices: Vec<Device>,
}

#[derive(Serialize)]
pub(super) struct Device {
    pub(super) device: i32,
    pub(super) name: String,
    pub(super) events: usize,
    pub(super) allocations: usize,
    /// None where the file does not say.
    pub(super) segments: Option<usize>,
    pub(super) stacks: usize,
    pub(super) verdict: VerdictJson,
    pub(super) start: CountersJson,
    pub(super) end: CountersJson,
    /// Whether the file says what was requested, not only how large blocks are.
    #[serde(skip)]
    has_requested: bool,
    pub(super) peak: Peaks,
    /// The highest that what passes the filters was; none if all allocations pass.
    pub(super) kept_peak: Option<PeakJson>,
    /// Whether the filters leave no allocation.
    pub(super) no_match: bool,
    oom: Vec<OomJson>,
    /// What was live at the peak, by the user's own line; with `rest` it adds up to the peak.
    pub(super) live_at_peak: Vec<LineJson>,
    pub(super) rest_at_peak: RestJson,
    pub(super) gap_at_peak: Option<Gap>,
    /// Memory that the framework's allocator does not manage, by who holds it: the last that is known.
    pub(super) outside: Vec<OutsideJson>,
    /// Memory of the device as a whole, where a recorder asked the driver.
    pub(super) memory: Option<MemoryJson>,
    #[serde(skip)]
    capacity: Option<i64>,
    /// What a recorder says of the device, in words.
    #[serde(skip)]
    pub(super) recorded: Vec<(&'static str, String)>,
    pub(super) phases: Vec<PhaseJson>,
    findings: Vec<FindingJson>,
    #[serde(skip)]
    pub(super) found: Vec<Finding>,
    #[serde(skip)]
    pub(super) chart: Option<String>,
}

#[derive(Serialize)]
pub(super) struct LineJson {
    name: String,
    file: String,
    line: u32,
    pub(super) bytes: u64,
    pub(super) count: u64,
    #[serde(skip)]
    pub(super) label: String,
}

#[derive(Serialize)]
pub(super) struct RestJson {
    pub(super) lines: usize,
    pub(super) bytes: u64,
    pub(super) count: u64,
}

/// Memory that the framework's allocator does not manage.
#[derive(Serialize)]
pub(super) struct OutsideJson {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) peak: u64,
}

/// What a recorder says of the process.
#[derive(Serialize)]
pub(super) struct RecorderJson {
    reason: String,
    versions: BTreeMap<String, String>,
    allocator: Option<String>,
    alloc_conf: Option<String>,
    pinned: Option<PinnedJson>,
    /// Storages of models and optimizers that have a role.
    roles: usize,
    #[serde(skip)]
    pub(super) words: String,
}

/// Pinned host memory.
#[derive(Serialize)]
struct PinnedJson {
    blocks: u64,
    held: u64,
    peak: u64,
    active: u64,
    /// Bytes of the tensors in it, and of the blocks that these need; null where the recorder did not look.
    tensors: Option<u64>,
    rounded: Option<u64>,
}

impl RecorderJson {
    fn new(sidecar: &Sidecar) -> Self {
        let pinned = |pinned: Pinned| PinnedJson {
            blocks: pinned.blocks,
            held: pinned.held,
            peak: pinned.peak,
            active: pinned.active,
            tensors: pinned.tensors.map(|(tensors, _)| tensors),
            rounded: pinned.tensors.map(|(_, rounded)| rounded),
        };
        Self {
            reason: sidecar.reason.clone(),
            versions: sidecar.versions.iter().cloned().collect(),
            allocator: sidecar.backend.clone(),
            alloc_conf: sidecar.alloc_conf.clone(),
            pinned: sidecar.pinned.map(pinned),
            roles: sidecar.storages.len(),
            words: versions(sidecar),
        }
    }
}

/// Memory of a device as a whole.
#[derive(Serialize)]
pub(super) struct MemoryJson {
    model: Option<String>,
    pub(super) capacity: u64,
    pub(super) free: u64,
    pub(super) reserved: u64,
    outside: u64,
    limit: Option<u64>,
}

impl MemoryJson {
    fn new(memory: &DeviceMemory) -> Self {
        let DeviceMemory { model, capacity, free, reserved, limit, .. } = memory.clone();
        Self { model, capacity, free, reserved, outside: memory.outside(), limit }
    }
}

/// Who else holds memory of a device: the last of each, and the most, in the order of their names.
fn outside(snapshot: &Snapshot, device: DeviceId) -> Vec<OutsideJson> {
    let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for outside in snapshot.outside.iter().filter(|outside| outside.device == device) {
        let (last, peak) = by_name.entry(snapshot.text(outside.name)).or_default();
        *last = outside.bytes;
        *peak = outside.peak.max(*peak);
    }
    by_name.into_iter().map(|(name, (bytes, peak))| OutsideJson { name: name.into(), bytes, peak }).collect()
}

/// All spans of one name.
#[derive(Serialize)]
pub(super) struct PhaseJson {
    pub(super) name: String,
    pub(super) count: u32,
    /// The highest that requested bytes were in any of them.
    pub(super) peak: i64,
    /// What the last one left behind more than it found.
    last_growth: i64,
    pub(super) allocations: u64,
}

#[derive(Serialize)]
pub(super) struct VerdictJson {
    status: &'static str,
    /// In words.
    pub(super) sentence: String,
    pub(super) estimated_bytes: u64,
    pub(super) notes: Vec<String>,
    #[serde(skip)]
    pub(super) kind: Status,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct CountersJson {
    pub(super) requested: i64,
    pub(super) allocated: i64,
    pub(super) active: i64,
    /// None where the file does not say.
    pub(super) reserved: Option<i64>,
}

impl CountersJson {
    fn new(subject: &Subject, at: Moment) -> Self {
        let Counters { requested, allocated, active, reserved } = subject.replay().counters(at);
        let reserved = subject.has_reserved().then_some(reserved);
        Self { requested, allocated, active, reserved }
    }
}

#[derive(Serialize)]
pub(super) struct Peaks {
    pub(super) requested: PeakJson,
    pub(super) allocated: PeakJson,
    pub(super) active: PeakJson,
    pub(super) reserved: Option<PeakJson>,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct PeakJson {
    pub(super) bytes: i64,
    pub(super) event: Option<u32>,
    pub(super) time_us: Option<i64>,
}

impl PeakJson {
    fn new(events: &EventTable, Peak { bytes, at }: Peak) -> Self {
        let event = at.event();
        let time_us = event.and_then(|event| events.time_us(event.index()));
        Self { bytes, event: event.map(|event| event.0), time_us }
    }
}

#[derive(Serialize)]
struct OomJson {
    event: u32,
    time_us: Option<i64>,
    requested: u64,
    device_free: u64,
    /// Memory held from the driver when it happened.
    reserved: i64,
    /// Not looked at where there are very many.
    largest_hole: Option<u64>,
}

impl File {
    pub(crate) fn new(opened: Opened, filter: &FilterArgs) -> anyhow::Result<Self> {
        let mut file = Self {
            path: opened.path.display().to_string(),
            format: opened.snapshot.format.clone(),
            bytes: opened.bytes,
            rank: batch::rank(&opened),
            rank_kind: opened.name.rank.map(|(kind, _)| kind.label()),
            step: opened.name.step,
            role: opened.name.role.clone(),
            oom: opened.name.oom,
            group: opened.name.group.clone(),
            from_cache: opened.from_cache,
            warnings: text::warnings(&opened.snapshot),
            recorder: opened.snapshot.sidecar.as_deref().map(RecorderJson::new),
            is_damaged: opened.snapshot.damage.is_some(),
            devices: Vec::new(),
        };
        if !opened.devices.is_empty() {
            file.devices = Subject::each(opened, filter)?.iter().map(Device::new).collect();
        }
        Ok(file)
    }
}

impl Device {
    /// Failed allocations.
    pub(super) fn failed(&self) -> usize {
        self.oom.len()
    }

    /// The counters at their peaks and at the end, in the order of [`Counter::ALL`]; none where the file does not say.
    pub(super) fn totals(&self) -> ([Option<i64>; 4], [Option<i64>; 4]) {
        let Peaks { requested, allocated, active, reserved } = &self.peak;
        let bytes = |peak: &PeakJson| Some(peak.bytes);
        let end = self.end;
        (
            [bytes(requested), bytes(allocated), bytes(active), reserved.as_ref().and_then(bytes)],
            [Some(end.requested), Some(end.allocated), Some(end.active), end.reserved],
        )
    }

    /// Counters as they are shown; what the file does not say is not shown as a number.
    pub(super) fn cells(&self, counters: CountersJson) -> [String; 4] {
        let CountersJson { requested, allocated, active, reserved } = counters;
        let requested = text::stated(self.has_requested.then_some(requested));
        [requested, text::bytes(allocated), text::bytes(active), text::stated(reserved)]
    }

    /// What the sizes of allocations are called.
    pub(super) fn sizes(&self) -> &'static str {
        if self.has_requested { "requested" } else { "allocated" }
    }

    /// What the process could hold of the device, where the file tells.
    pub(super) fn capacity(&self) -> Option<i64> {
        self.capacity
    }

    fn new(subject: &Subject) -> Self {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let device = replay.device();
        let events = snapshot.events(device);
        let (from, to) = subject.range();
        let peak = |counter| PeakJson::new(events, subject.peak(counter));
        let sentence = verdict_sentence(replay.verdict(), &text::size);
        let notes = verdict_notes(replay.verdict(), &text::size);
        let Verdict { status, estimated_bytes, of_blocks, .. } = *replay.verdict();
        // Without a history the one moment that counts is when the snapshot was taken.
        let at_end = Peak { bytes: replay.counters(to).requested, at: to };
        let is_state = status == Status::StateOnly;
        let kept_peak = if is_state { at_end } else { subject.kept_peak() };
        let state = || {
            let state = replay.state(kept_peak.at);
            let live = lines(snapshot, &subject.live(&state));
            match subject.leaves_out_allocations() {
                true if !is_state => (replay.state(subject.peak(Counter::Requested).at), live),
                _ => (state, live),
            }
        };
        // Findings take as long as everything else.
        let (mut found, ((peak_state, (live_at_peak, rest_at_peak)), phases, stacks, chart)) = rayon::join(
            || subject.findings(),
            || (state(), phase_rows(subject), stacks(snapshot, device), chart(subject)),
        );
        found.retain(|finding| subject.keeps_finding(finding));
        Self {
            device: device.0,
            name: snapshot.device_name(device),
            events: (to.0 - from.0) as usize,
            allocations: replay.allocations().len(),
            segments: snapshot.has.addresses.then(|| snapshot.segments_of(device).len()),
            stacks,
            verdict: VerdictJson { status: status.name(), sentence, estimated_bytes, notes, kind: status },
            has_requested: !of_blocks,
            start: CountersJson::new(subject, from),
            end: CountersJson::new(subject, to),
            peak: Peaks {
                requested: peak(Counter::Requested),
                allocated: peak(Counter::Allocated),
                active: peak(Counter::Active),
                reserved: subject.has_reserved().then(|| peak(Counter::Reserved)),
            },
            kept_peak: subject.leaves_out_allocations().then(|| PeakJson::new(events, kept_peak)),
            no_match: subject.is_empty(),
            oom: ooms(subject),
            live_at_peak,
            rest_at_peak,
            gap_at_peak: subject.has_reserved().then(|| gap(replay, &peak_state)),
            outside: outside(snapshot, device),
            memory: snapshot.device_memory(device).map(MemoryJson::new),
            capacity: Capacity::of(replay).map(|capacity| capacity.bytes),
            recorded: recorded(snapshot, device, &text::size),
            phases,
            findings: found.iter().map(|finding| FindingJson::new(Some(subject), finding)).collect(),
            found,
            chart,
        }
    }
}

fn ooms(subject: &Subject) -> Vec<OomJson> {
    let (replay, (from, to)) = (subject.replay(), subject.range());
    let events = subject.snapshot().events(replay.device());
    let in_range = replay.ooms().iter().filter(|oom| (from..=to).contains(&Moment::after(oom.event)));
    in_range
        .enumerate()
        .map(|(number, oom)| {
            let at = Moment::after(oom.event);
            OomJson {
                event: oom.event.0,
                time_us: events.time_us(oom.event.index()),
                requested: oom.requested,
                device_free: oom.device_free,
                reserved: replay.counters(at).reserved,
                largest_hole: (number < OOMS).then(|| replay.state(at).largest_hole()),
            }
        })
        .collect()
}

/// Live bytes by the user's own line, heaviest first, and what is left out.
fn lines(snapshot: &Snapshot, weights: &[Weight]) -> (Vec<LineJson>, RestJson) {
    let line = |(line, sum): (Line, Sum)| {
        let label = text::line(&line);
        let Line { file, line, name } = line;
        LineJson { name, file, line, bytes: sum.bytes, count: sum.count, label }
    };
    let mut lines: Vec<LineJson> = by_line(snapshot, weights).into_iter().map(line).collect();
    lines.sort_by_key(|line| Reverse(line.bytes));
    let rest = lines.split_off(lines.len().min(LINES));
    let rest = RestJson {
        lines: rest.len(),
        bytes: rest.iter().fold(0, |sum, line| sum.saturating_add(line.bytes)),
        count: rest.iter().map(|line| line.count).sum(),
    };
    (lines, rest)
}

/// Annotations by name, with their peaks, those of PyTorch itself left out.
fn phase_rows(subject: &Subject) -> Vec<PhaseJson> {
    let snapshot = subject.snapshot();
    let (phases, _) = subject.phases(|span| !is_internal_phase(snapshot.text(span.name)));
    let row = |phase: Phase| PhaseJson {
        name: phase_name(snapshot.text(phase.name)).to_owned(),
        count: phase.count,
        peak: phase.peak.bytes,
        last_growth: phase.last_growth,
        allocations: phase.allocations,
    };
    phases.into_iter().take(PHASES).map(row).collect()
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
    snapshot.events(device).any_stacks().iter().for_each(|&stack| see(stack));
    for segment in snapshot.segments_of(device) {
        see(segment.stack);
        snapshot.blocks.of(segment).for_each(|block| see(block.stack));
    }
    seen.into_iter().filter(|seen| *seen).count()
}
