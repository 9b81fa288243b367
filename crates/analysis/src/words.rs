//! Verdicts in words.

use vramscope_format::{count, plural};
use vramscope_replay::{Note, Status, Verdict};

use crate::conclusions::insight::ShowBytes;

/// Returns the verdict as a sentence.
pub fn verdict_sentence(verdict: &Verdict, bytes: ShowBytes<'_>) -> String {
    let what = match verdict.status {
        Status::Exact if verdict.of_blocks => {
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
    match verdict.estimated_bytes {
        0 => what.to_owned(),
        n => format!("{what}; sizes of blocks totaling {} are inferred", bytes(n)),
    }
}

/// Returns the reasons and limits of a verdict, a sentence each.
pub fn verdict_notes(verdict: &Verdict, bytes: ShowBytes<'_>) -> Vec<String> {
    verdict.notes.iter().map(|note| sentence(note, bytes)).collect()
}

fn sentence(note: &Note, bytes: ShowBytes<'_>) -> String {
    let blocks = |n: u64| plural(n, "block");
    match *note {
        Note::Damaged { offset, ref reason, events } => {
            format!("cut or damaged at byte {}: {reason}. {} events are intact", count(offset), count(events))
        }
        Note::ReservedIsLeast => {
            "`reserved` is a lower bound: segments that only the lost part uses are not counted".into()
        }
        Note::Unexplained(n) => format!(
            "{} that were live when the snapshot was taken were allocated before recording or in the lost part, and are \
             not counted",
            bytes(n)
        ),
        Note::NoHistory => {
            "there is no history: the numbers are those of the moment when the snapshot was taken".into()
        }
        Note::NoAllocs => "there are frees but no `alloc` events: recorded with skip_actions?".into(),
        Note::NoCompletedFrees => {
            "there are no `free_completed` events (skip_actions?): memory counts as free once the program let it go"
                .into()
        }
        Note::NoFrees => {
            "there are no free events (skip_actions?): a block counts as live until its memory is used again".into()
        }
        Note::NoRequestedFrees => {
            "there are no `free_requested` events (skip_actions?): `allocated` falls only when a free completes".into()
        }
        Note::NoSegmentEvents(n) => format!(
            "there are no segment events although nothing was live before the first event (skip_actions?): `reserved` is \
             certain at the end only, {}",
            bytes(n)
        ),
        Note::BeginningLost => "the beginning of the history is gone (memory from before it has stacks, so recording was \
                                on): it was longer than max_entries, or it was cleared"
            .into(),
        Note::RingResized => {
            "the size of the ring (max_entries) changed while recording: events are lost".into()
        }
        Note::RingLikely(events) => format!(
            "the beginning of the history is probably gone: there are exactly {} events, which looks like max_entries",
            count(events)
        ),
        Note::BegunLate => "recording began when memory was already in use".into(),
        Note::SettingsChanged => {
            "allocator settings changed while recording, and the file holds only the last ones".into()
        }
        Note::Earlier { blocks: n, bytes: total } => {
            let verb = if n == 1 { "predates" } else { "predate" };
            format!("{} ({}) {verb} the recording", blocks(n), bytes(total))
        }
        Note::Inferred(n) => format!(
            "the rounded size of {} is inferred: `allocated` and `active` are estimates while these live",
            blocks(n)
        ),
        Note::OtherSize(n) => {
            format!("{} live at the end with another size than the allocator settings give", blocks(n))
        }
        Note::LostFrees { blocks: n, bytes: total } => format!(
            "{} of {} as requested end without a free event; they count until their memory is used again, or to the end",
            blocks(n),
            bytes(total)
        ),
        Note::Contradictions(n) => format!("events contradict the ones before them, {} times", count(n)),
        Note::ReservedShort(n) => format!(
            "events and segments contradict each other: `reserved` would fall to {} below zero; it is shown as if that \
             much more had been held from the start",
            bytes(n)
        ),
        Note::MoreThanHeld { bytes: n, at } => format!(
            "up to {} more is in use than is held from the driver, first at {}: events and segments contradict each other",
            bytes(n),
            at.event().map_or_else(|| "the start".into(), |event| format!("event {}", count(event.0)))
        ),
        Note::CutOff => "sizes add up to more than 8 EiB: levels are cut off there".into(),
        Note::TimeBackwards(event) => {
            format!("time goes backwards at event {event}; the order of the trace is kept")
        }
        Note::Restated(n) => format!(
            "{} with another requested size at the end than when allocated; the one at the end counts",
            blocks(n)
        ),
        Note::Workspace(n) => format!(
            "{n} events describe an NPU workspace as it was at the end; they are not counted as history"
        ),
        Note::EndDiffers { counter, segments, history } => {
            format!("the segments add up to {segments} bytes {}, the history to {history}", counter.name())
        }
        Note::NoTotals => "the file states no totals: the level counts only what it lists".into(),
        Note::Unnamed(n) => format!(
            "{} were in use before the first event, by the file's own totals; nothing names them",
            bytes(n)
        ),
        Note::UnnamedChanges(n) => format!(
            "{} times the totals change by what no event explains; the level is that of the totals",
            count(n)
        ),
        Note::EndedByTotals(n) => format!("{} blocks end without an event, as the totals show", count(n)),
        Note::AboveTotals { events, bytes: n } => format!(
            "at {} events the rows add up to more than the totals, by {} at most; the rows are shown",
            count(events),
            bytes(n)
        ),
        Note::RoundedTotals(n) => format!("totals are written rounded, to within {}", bytes(n)),
        Note::OfBlocks => "sizes are of blocks: what the program asked for is not in this file".into(),
    }
}
