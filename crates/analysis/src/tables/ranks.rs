//! Tables of a run of many ranks: what is asked about thousands of files without reading their events again.

use std::collections::BTreeMap;

use vramscope_format::table::{Column, Value};
use vramscope_replay::{Counter, Moment, Replay};
use vramscope_snapshot::Segment;

use super::{DEVICE, FILE, FINDINGS, LINE, NAME, bytes, flag, id, level, number, text, time};
use crate::conclusions::each::Conclusions;
use crate::conclusions::insight::Finding;
use crate::conclusions::stepwise::StepRow;
use crate::device::Device;
use crate::questions::capacity::Capacity;
use crate::questions::frames::user_frame;

/// Totals of each rank.
pub const RANKS: [Column; 21] = [
    text("path", "The file."),
    text("role", "What the process was for; empty if not known."),
    text("verdict", "Whether the recording is complete; `exact` if it is."),
    number("events", "Events of the trace."),
    number("allocations", "Allocations, those that predate the recording included."),
    time("first_time_us", "When the first event happened."),
    time("last_time_us", "When the last event happened."),
    id("peak_event", "The event after which requested bytes were highest.")
        .or_null("that was before the first event"),
    level("peak_requested", "Highest requested bytes."),
    level("peak_allocated", "Highest allocated bytes."),
    level("peak_active", "Highest active bytes."),
    level("peak_reserved", "Highest reserved bytes.").or_null("the file does not state it"),
    level("start_requested", "Requested bytes before the first event."),
    level("end_requested", "Requested bytes after the last event."),
    level("end_reserved", "Reserved bytes after the last event.").or_null("the file does not state it"),
    level("gap", "Reserved minus requested bytes when requested bytes were highest.")
        .or_null("the file does not state reserved bytes"),
    level("capacity", "What the process could hold at most.").or_null("not known"),
    number("ooms", "Failed allocations."),
    bytes("free_reserved", "Free in segments after the last event."),
    number("segments", "Segments after the last event."),
    DEVICE,
];

/// What was live when requested bytes were highest, by line, category, phase and module.
pub const AT_PEAK: [Column; 9] = [
    FILE,
    LINE,
    NAME,
    text("category", "What it is for."),
    text("phase", "The phase that it was made in; empty if none."),
    text("module", "The module that it belongs to; empty if not known."),
    bytes("requested", "What the program asked for."),
    number("allocations", "How many allocations."),
    DEVICE,
];

/// Steps of each rank.
pub const STEPS: [Column; 9] = [
    number("in_step", "Number of the step, as in `allocations`."),
    id("first_event", "Its first event."),
    id("last_event", "Its last event.").or_null("it has none"),
    flag("complete", "Whether the trace shows its end."),
    level("peak_requested", "Highest requested bytes in it."),
    level("end_requested", "Requested bytes when it ended."),
    level("growth", "How much that is more than when it began."),
    bytes("kept", "What was allocated in it and is live when it ends."),
    DEVICE,
];

/// Files that could not be read, or only in part.
pub const PROBLEMS: [Column; 3] = [
    text("path", "The file."),
    text("severity", "`error` if nothing of it could be read, else `warning`."),
    text("problem", "What is wrong with it."),
];

/// What a table of ranks says of a file that the file itself does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct File<'a> {
    /// Where it is.
    pub path: &'a str,
    /// What the process was for.
    pub role: &'a str,
}

/// Totals of a rank on one device.
pub fn rank<'a>(device: &'a Device, file: File<'a>) -> [Value<'a>; RANKS.len()] {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let events = device.event_table();
    let (peak, start, end) =
        (replay.peak(Counter::Requested), replay.counters(Moment::START), replay.counters(replay.end()));
    let at_peak = replay.counters(peak.at);
    let reserved = |level: i64| snapshot.has_reserved(replay.device()).then_some(level);
    let time = |row: Option<usize>| row.and_then(|row| events.time_us(row));
    let segments = snapshot.segments_of(replay.device());
    let free = |segment: &Segment| segment.total_size.saturating_sub(segment.active_size);
    [
        file.path.into(),
        file.role.into(),
        replay.verdict().status.name().into(),
        (replay.events() as u64).into(),
        (replay.allocations().len() as u64).into(),
        time((!events.is_empty()).then_some(0)).into(),
        time(events.len().checked_sub(1)).into(),
        peak.at.event().map(|event| event.0).into(),
        peak.bytes.into(),
        replay.peak(Counter::Allocated).bytes.into(),
        replay.peak(Counter::Active).bytes.into(),
        reserved(replay.peak(Counter::Reserved).bytes).into(),
        start.requested.into(),
        end.requested.into(),
        reserved(end.reserved).into(),
        reserved(at_peak.reserved.saturating_sub(at_peak.requested)).into(),
        Capacity::of(device).map(|capacity| capacity.bytes).into(),
        (replay.ooms().len() as u64).into(),
        segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(free(segment))).into(),
        (segments.len() as u64).into(),
        replay.device().0.into(),
    ]
}

/// What was live at the peak, in the order of the names.
pub fn at_peak<'a>(device: &'a Device, conclusions: &'a Conclusions) -> Vec<[Value<'a>; AT_PEAK.len()]> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for index in replay.live(replay.peak(Counter::Requested).at) {
        let allocation = replay.allocation(index);
        let concluded = conclusions.of(device, index);
        let frame = user_frame(snapshot, allocation.stack).unwrap_or_default();
        let line = (snapshot.text(frame.file), frame.line, snapshot.text(frame.name));
        let (phase, module) = (concluded.phase.unwrap_or_default(), concluded.module.unwrap_or_default());
        let sum = sums.entry((line, concluded.category, phase, module)).or_default();
        *sum = (sum.0.saturating_add(allocation.requested), sum.1 + 1);
    }
    let row = |(((file, line, name), category, phase, module), (requested, count))| {
        let device = replay.device().0;
        [
            Value::from(file),
            Value::from(line),
            Value::from(name),
            Value::from(category),
            Value::from(phase),
            Value::from(module),
            Value::from(requested),
            Value::from(count),
            Value::from(device),
        ]
    };
    sums.into_iter().map(row).collect()
}

/// A step.
pub fn step<'a>(replay: &Replay, row: &StepRow) -> [Value<'a>; STEPS.len()] {
    [
        row.step.number.into(),
        row.step.from.0.into(),
        row.step.to.event().map(|event| event.0).into(),
        row.step.is_complete.into(),
        row.peak.bytes.into(),
        row.end.into(),
        row.growth.into(),
        row.kept.into(),
        replay.device().0.into(),
    ]
}

/// What looks wrong.
pub fn finding(finding: &Finding) -> [Value<'_>; FINDINGS.len()] {
    [
        finding.kind.name().into(),
        finding.severity.name().into(),
        finding.bytes.into(),
        finding.what.as_str().into(),
        finding.advice.as_str().into(),
        finding.when.0.event().map(|event| event.0).into(),
    ]
}
