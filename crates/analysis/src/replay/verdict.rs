//! Is this recording complete, and which numbers are estimates?

use serde::{Deserialize, Serialize};
use vramscope_snapshot::{DeviceId, EventTable, Snapshot};

use crate::replay::counters::Counters;
use crate::replay::pairing::Pairing;
use crate::replay::ranges::RangeHistory;
use crate::replay::timeline::Timeline;
use vramscope_format::{count, plural, size as bytes};

/// How much of the history a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// From the first allocation on: every number is PyTorch's own.
    Exact,
    /// Recording began when memory was already in use.
    LateStart,
    /// The history was longer than the ring that holds it, or was cleared: its beginning is gone.
    RingOverflow,
    /// Events are missing in between, or of some kinds.
    EventsSkipped,
    /// Nothing is missing, but settings that sizes depend on changed while recording.
    SettingsChanged,
    /// The file is cut or damaged.
    Truncated,
    /// There is no history, only the state at the end.
    StateOnly,
}

impl Status {
    /// The word for it, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::LateStart => "late_start",
            Self::RingOverflow => "ring_overflow",
            Self::EventsSkipped => "events_skipped",
            Self::SettingsChanged => "settings_changed",
            Self::Truncated => "truncated",
            Self::StateOnly => "state_only",
        }
    }
}

/// What a file can tell, and what it cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// In one word.
    pub status: Status,
    /// Bytes in blocks whose rounded size or whose end is inferred. In a recording that only lacks its
    /// beginning, `allocated` and `active` are off by no more than this at any moment.
    pub estimated_bytes: u64,
    /// The file lists blocks: it does not say what was requested, so that PyTorch's counters cannot be compared.
    pub of_blocks: bool,
    /// What that means, in sentences.
    pub notes: Vec<String>,
}

impl Verdict {
    /// The verdict in words.
    pub fn sentence(&self) -> String {
        let what = match self.status {
            Status::Exact if self.of_blocks => {
                "exact: complete from the first allocation on, in sizes of blocks"
            }
            Status::Exact => {
                return "exact: complete from the first allocation on, equal to PyTorch's counters".into();
            }
            Status::LateStart => "late start: recording began when memory was already in use",
            Status::RingOverflow => "ring overflow: the beginning of the history is lost",
            Status::EventsSkipped => "events skipped: some were not recorded",
            Status::SettingsChanged => "settings changed while recording",
            Status::Truncated => "truncated: the file is cut or damaged",
            Status::StateOnly => "state only: no history was recorded",
        };
        match self.estimated_bytes {
            0 => what.to_owned(),
            n => format!("{what}; sizes of blocks totaling {} are inferred", bytes(n)),
        }
    }
}

pub(crate) fn judge(
    snapshot: &Snapshot,
    device: DeviceId,
    step_back: Option<usize>,
    pairing: &Pairing,
    ranges: &RangeHistory,
    timeline: &Timeline,
) -> Verdict {
    let events = snapshot.events(device);
    let facts = &pairing.facts;
    let allocations = &pairing.allocations;
    let mut notes = Vec::new();

    let estimated = allocations.estimated.stored().iter().zip(allocations.size.iter());
    let (estimated_blocks, mut estimated_bytes) = estimated
        .filter(|&(&estimated, _)| estimated != 0)
        .fold((0_u64, 0_u64), |(n, bytes), (_, size)| (n + 1, bytes.saturating_add(*size)));
    estimated_bytes =
        estimated_bytes.saturating_add(facts.differing_bytes).saturating_add(facts.lost_free_bytes);

    let final_segments = snapshot.segments_of(device);
    let final_bytes: u64 =
        final_segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.total_size));
    let earlier_ranges = (ranges.start.iter().count() as u64).saturating_sub(facts.workspaces);
    let frees_left_out = facts.allocs > 0 && facts.frees_completed == 0 && facts.lost_frees > 0;

    let status = if let Some(damage) = &snapshot.damage {
        notes.push(format!(
            "cut or damaged at byte {}: {}. {} events are intact",
            count(damage.offset),
            damage.reason,
            count(events.len() as u64)
        ));
        notes.push(
            "`reserved` is a lower bound: segments that only the lost part uses are not counted".into(),
        );
        if facts.unexplained_bytes > 0 {
            notes.push(format!(
                "{} that were live when the snapshot was taken were allocated before recording or in the lost part, and \
                 are not counted",
                bytes(facts.unexplained_bytes)
            ));
        }
        Status::Truncated
    } else if events.len() <= 1 && !final_segments.is_empty() && facts.segment_events == 0 {
        notes.push(
            "there is no history: the numbers are those of the moment when the snapshot was taken".into(),
        );
        Status::StateOnly
    } else if facts.allocs == 0 && facts.frees_requested + facts.frees_completed > 1 {
        notes.push("there are frees but no `alloc` events: recorded with skip_actions?".into());
        Status::EventsSkipped
    } else if frees_left_out || (facts.frees_completed == 0 && facts.frees_requested > 0) {
        notes.push(if facts.frees_requested > 0 {
            "there are no `free_completed` events (skip_actions?): memory counts as free once the program let it go".into()
        } else {
            "there are no free events (skip_actions?): a block counts as live until its memory is used again".into()
        });
        Status::EventsSkipped
    } else if facts.allocs > 0 && facts.frees_requested == 0 && facts.frees_completed > 0 {
        notes.push(
            "there are no `free_requested` events (skip_actions?): `allocated` falls only when a free completes".into(),
        );
        Status::EventsSkipped
    } else if facts.segment_events == 0 && facts.earlier == 0 && earlier_ranges > 0 {
        notes.push(format!(
            "there are no segment events although nothing was live before the first event (skip_actions?): `reserved` is \
             certain at the end only, {}",
            bytes(final_bytes)
        ));
        estimated_bytes = estimated_bytes.saturating_add(final_bytes);
        Status::EventsSkipped
    } else if facts.earlier_with_stack + ranges.start_with_stack > 0 {
        notes.push(
            "the beginning of the history is gone (memory from before it has stacks, so recording was on): it was longer \
             than max_entries, or it was cleared"
                .into(),
        );
        Status::RingOverflow
    } else if events.is_reordered() {
        notes.push("the size of the ring (max_entries) changed while recording: events are lost".into());
        Status::RingOverflow
    } else if facts.earlier > 0 && events.len().is_multiple_of(100) {
        notes.push(format!(
            "the beginning of the history is probably gone: there are exactly {} events, which looks like max_entries",
            count(events.len() as u64)
        ));
        Status::RingOverflow
    } else if facts.lost_frees + facts.contradictions + ranges.contradictions > 0
        || ranges.short_bytes > 0
        || timeline.excess.bytes > 0
    {
        Status::EventsSkipped
    } else if facts.earlier > 0 || earlier_ranges > 0 {
        notes.push("recording began when memory was already in use".into());
        Status::LateStart
    } else if facts.adjusted + facts.differing > 0 {
        notes
            .push("allocator settings changed while recording, and the file holds only the last ones".into());
        Status::SettingsChanged
    } else {
        Status::Exact
    };

    if facts.earlier > 0 && status != Status::StateOnly {
        notes.push(format!(
            "{} ({}) {} the recording",
            blocks(facts.earlier),
            bytes(facts.earlier_bytes),
            if facts.earlier == 1 { "predates" } else { "predate" }
        ));
    }
    if estimated_blocks > 0 {
        notes.push(format!(
            "the rounded size of {} is inferred: `allocated` and `active` are estimates while these live",
            blocks(estimated_blocks)
        ));
    }
    if facts.differing > 0 {
        notes.push(format!(
            "{} live at the end with another size than the allocator settings give",
            blocks(facts.differing)
        ));
    }
    if facts.lost_frees > 0 {
        notes.push(format!(
            "{} of {} as requested end without a free event; they count until their memory is used again, or to the end",
            blocks(facts.lost_frees),
            bytes(facts.lost_free_bytes)
        ));
    }
    let contradictions = facts.contradictions + ranges.contradictions;
    if contradictions > 0 {
        notes.push(format!("events contradict the ones before them, {} times", count(contradictions)));
    }
    if ranges.short_bytes > 0 {
        notes.push(format!(
            "events and segments contradict each other: `reserved` would fall to {} below zero; it is shown as if that \
             much more had been held from the start",
            bytes(ranges.short_bytes)
        ));
    }
    if timeline.excess.bytes > 0 {
        notes.push(format!(
            "up to {} more is in use than is held from the driver, first at {}: events and segments contradict each \
             other",
            vramscope_format::bytes(timeline.excess.bytes),
            timeline.excess.at.event().map_or_else(|| "the start".into(), |event| format!("event {}", count(event.0)))
        ));
    }
    if timeline.peaks.iter().any(|peak| peak.bytes == i64::MAX) {
        notes.push("sizes add up to more than 8 EiB: levels are cut off there".into());
    }
    if let Some(back) = step_back {
        notes.push(format!("time goes backwards at event {back}; the order of the trace is kept"));
    }
    if facts.restated > 0 {
        notes.push(format!(
            "{} with another requested size at the end than when allocated; the one at the end counts",
            blocks(facts.restated)
        ));
    }
    if facts.workspace_events > 0 {
        notes.push(format!(
            "{} events describe an NPU workspace as it was at the end; they are not counted as history",
            facts.workspace_events
        ));
    }
    if snapshot.damage.is_none() {
        check_end(snapshot, device, timeline.end, &mut notes);
    }
    Verdict { status, estimated_bytes, of_blocks: false, notes }
}

fn blocks(n: u64) -> String {
    plural(n, "block")
}

/// The first event whose time is before that of the one before it.
pub(crate) fn first_step_back(events: &EventTable) -> Option<usize> {
    let mut last = i64::MIN;
    (0..events.len()).find(|&row| {
        let time = events.time_us(row).unwrap_or(last);
        let back = time < last;
        last = time;
        back
    })
}

/// The replay must end where the file says it ends.
fn check_end(snapshot: &Snapshot, device: DeviceId, end: Counters, notes: &mut Vec<String>) {
    let mut stated = Counters::default();
    for segment in snapshot.segments_of(device) {
        let add = |sum: i64, bytes: u64| sum.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        stated.requested = add(stated.requested, segment.requested_size);
        stated.allocated = add(stated.allocated, segment.allocated_size);
        stated.active = add(stated.active, segment.active_size);
        stated.reserved = add(stated.reserved, segment.total_size);
    }
    let has_requested = snapshot.segments_of(device).iter().any(|segment| segment.requested_size > 0);
    for counter in crate::Counter::ALL {
        if counter == crate::Counter::Requested && !has_requested {
            continue;
        }
        if end[counter] != stated[counter] {
            notes.push(format!(
                "the segments add up to {} bytes {}, the history to {}",
                stated[counter],
                counter.name(),
                end[counter]
            ));
        }
    }
}
