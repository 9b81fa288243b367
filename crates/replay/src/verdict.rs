//! Is this recording complete, and which numbers are estimates?

use serde::{Deserialize, Serialize};
use vramscope_snapshot::{DeviceId, EventTable, Snapshot};

use crate::allocations::Moment;
use crate::counters::{Counter, Counters};
use crate::pairing::Pairing;
use crate::ranges::RangeHistory;
use crate::timeline::{Highest, Timeline};

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
    /// Completeness in one word.
    pub status: Status,
    /// Bytes in blocks whose rounded size or whose end is inferred. In a recording that only lacks its
    /// beginning, `allocated` and `active` are off by no more than this at any moment.
    pub estimated_bytes: u64,
    /// The file lists blocks: it does not say what was requested, so that PyTorch's counters cannot be compared.
    pub of_blocks: bool,
    /// Reasons and limits, the most important first.
    pub notes: Vec<Note>,
}

/// One reason for a verdict, or one limit of the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// The file is cut or damaged.
    Damaged {
        /// Offset of the first byte that could not be read.
        offset: u64,
        /// The reader's reason.
        reason: String,
        /// Number of intact events.
        events: u64,
    },
    /// `reserved` is a lower bound: segments that only the lost part uses are not counted.
    ReservedIsLeast,
    /// Bytes that were live when the snapshot was taken, and that the intact part does not show.
    Unexplained(u64),
    /// There is no history: the numbers are those of the moment when the snapshot was taken.
    NoHistory,
    /// There are frees and no `alloc` events.
    NoAllocs,
    /// There are no `free_completed` events: memory counts as free once it was let go.
    NoCompletedFrees,
    /// There are no free events: a block counts until its memory is used again.
    NoFrees,
    /// There are no `free_requested` events: `allocated` falls when a free completes.
    NoRequestedFrees,
    /// There are no segment events: `reserved`, in bytes, is certain at the end only.
    NoSegmentEvents(u64),
    /// The beginning is gone: memory from before it has stacks, so that recording was on.
    BeginningLost,
    /// The size of the ring changed while recording.
    RingResized,
    /// The beginning is probably gone: the number of events looks like a limit.
    RingLikely(u64),
    /// Recording began when memory was in use.
    BegunLate,
    /// Allocator settings changed while recording, and the file holds the last ones.
    SettingsChanged,
    /// Blocks that are older than the recording.
    Earlier {
        /// Number of blocks.
        blocks: u64,
        /// Their requested bytes.
        bytes: u64,
    },
    /// Number of blocks whose rounded size is inferred.
    Inferred(u64),
    /// Number of blocks that live at the end with another size than the settings give.
    OtherSize(u64),
    /// Blocks that end without a free event.
    LostFrees {
        /// Number of blocks.
        blocks: u64,
        /// Their requested bytes.
        bytes: u64,
    },
    /// Number of events that contradict the ones before them.
    Contradictions(u64),
    /// Bytes by which `reserved` would fall below zero.
    ReservedShort(u64),
    /// More is in use than is held from the driver.
    MoreThanHeld {
        /// Bytes, at most.
        bytes: u64,
        /// First moment.
        at: Moment,
    },
    /// Sizes add up to more than a counter holds.
    CutOff,
    /// The first event whose time is before that of the event before it.
    TimeBackwards(u64),
    /// Number of blocks with another requested size at the end than when they were allocated.
    Restated(u64),
    /// Number of events that describe an NPU workspace as it was at the end.
    Workspace(u64),
    /// The segments add up to another number than the history.
    EndDiffers {
        /// Which counter.
        counter: Counter,
        /// Bytes by the segments.
        segments: i64,
        /// Bytes by the history.
        history: i64,
    },
    /// The file states no totals: the level counts what it lists.
    NoTotals,
    /// Bytes in use before the first event, by the file's totals, that nothing names.
    Unnamed(u64),
    /// Number of times that the totals change by what no event explains.
    UnnamedChanges(u64),
    /// Number of blocks that end without an event, as the totals show.
    EndedByTotals(u64),
    /// The rows add up to more than the totals.
    AboveTotals {
        /// Number of events at which they do.
        events: u64,
        /// Bytes, at most.
        bytes: u64,
    },
    /// Bytes to which totals are rounded.
    RoundedTotals(u64),
    /// Sizes are of blocks: the file does not say what the program asked for.
    OfBlocks,
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
        let reason = damage.reason.clone();
        notes.push(Note::Damaged { offset: damage.offset, reason, events: events.len() as u64 });
        notes.push(Note::ReservedIsLeast);
        if facts.unexplained_bytes > 0 {
            notes.push(Note::Unexplained(facts.unexplained_bytes));
        }
        Status::Truncated
    } else if events.len() <= 1 && !final_segments.is_empty() && facts.segment_events == 0 {
        notes.push(Note::NoHistory);
        Status::StateOnly
    } else if facts.allocs == 0 && facts.frees_requested + facts.frees_completed > 1 {
        notes.push(Note::NoAllocs);
        Status::EventsSkipped
    } else if frees_left_out || (facts.frees_completed == 0 && facts.frees_requested > 0) {
        notes.push(if facts.frees_requested > 0 { Note::NoCompletedFrees } else { Note::NoFrees });
        Status::EventsSkipped
    } else if facts.allocs > 0 && facts.frees_requested == 0 && facts.frees_completed > 0 {
        notes.push(Note::NoRequestedFrees);
        Status::EventsSkipped
    } else if facts.segment_events == 0 && facts.earlier == 0 && earlier_ranges > 0 {
        notes.push(Note::NoSegmentEvents(final_bytes));
        estimated_bytes = estimated_bytes.saturating_add(final_bytes);
        Status::EventsSkipped
    } else if facts.earlier_with_stack + ranges.start_with_stack > 0 {
        notes.push(Note::BeginningLost);
        Status::RingOverflow
    } else if events.is_reordered() {
        notes.push(Note::RingResized);
        Status::RingOverflow
    } else if facts.earlier > 0 && events.len().is_multiple_of(100) {
        notes.push(Note::RingLikely(events.len() as u64));
        Status::RingOverflow
    } else if facts.lost_frees + facts.contradictions + ranges.contradictions > 0
        || ranges.short_bytes > 0
        || timeline.excess.bytes > 0
    {
        Status::EventsSkipped
    } else if facts.earlier > 0 || earlier_ranges > 0 {
        notes.push(Note::BegunLate);
        Status::LateStart
    } else if facts.adjusted + facts.differing > 0 {
        notes.push(Note::SettingsChanged);
        Status::SettingsChanged
    } else {
        Status::Exact
    };

    if facts.earlier > 0 && status != Status::StateOnly {
        notes.push(Note::Earlier { blocks: facts.earlier, bytes: facts.earlier_bytes });
    }
    if estimated_blocks > 0 {
        notes.push(Note::Inferred(estimated_blocks));
    }
    if facts.differing > 0 {
        notes.push(Note::OtherSize(facts.differing));
    }
    if facts.lost_frees > 0 {
        notes.push(Note::LostFrees { blocks: facts.lost_frees, bytes: facts.lost_free_bytes });
    }
    let contradictions = facts.contradictions + ranges.contradictions;
    if contradictions > 0 {
        notes.push(Note::Contradictions(contradictions));
    }
    if ranges.short_bytes > 0 {
        notes.push(Note::ReservedShort(ranges.short_bytes));
    }
    if timeline.excess.bytes > 0 {
        let Highest { bytes, at } = timeline.excess;
        notes.push(Note::MoreThanHeld { bytes: bytes.unsigned_abs(), at });
    }
    if timeline.peaks.iter().any(|peak| peak.bytes == i64::MAX) {
        notes.push(Note::CutOff);
    }
    if let Some(back) = step_back {
        notes.push(Note::TimeBackwards(back as u64));
    }
    if facts.restated > 0 {
        notes.push(Note::Restated(facts.restated));
    }
    if facts.workspace_events > 0 {
        notes.push(Note::Workspace(facts.workspace_events));
    }
    if snapshot.damage.is_none() {
        check_end(snapshot, device, timeline.end, &mut notes);
    }
    Verdict { status, estimated_bytes, of_blocks: false, notes }
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
fn check_end(snapshot: &Snapshot, device: DeviceId, end: Counters, notes: &mut Vec<Note>) {
    let mut stated = Counters::default();
    for segment in snapshot.segments_of(device) {
        let add = |sum: i64, bytes: u64| sum.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        stated.requested = add(stated.requested, segment.requested_size);
        stated.allocated = add(stated.allocated, segment.allocated_size);
        stated.active = add(stated.active, segment.active_size);
        stated.reserved = add(stated.reserved, segment.total_size);
    }
    let has_requested = snapshot.segments_of(device).iter().any(|segment| segment.requested_size > 0);
    for counter in Counter::ALL {
        if counter == Counter::Requested && !has_requested {
            continue;
        }
        if end[counter] != stated[counter] {
            notes.push(Note::EndDiffers { counter, segments: stated[counter], history: end[counter] });
        }
    }
}
