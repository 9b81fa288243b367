//! The replay of a source that states the allocator's totals instead of showing all of its work.
//!
//! A profile begins in the middle of a program, and rows of it may be missing. The totals beside the rows
//! are the truth about the level. What they say beyond the rows is memory that nothing names: it is put
//! down as allocations without a stack, so that what lives always adds up to the counters and every view
//! shows the right level. Where the totals say less than the rows, a block whose end no row shows has
//! ended.

use std::collections::VecDeque;

use vramscope_snapshot::{DeviceId, EventIdx, EventTable, PoolId, Snapshot, StackId, StreamId, Totals};

use crate::allocations::{AllocIdx, Allocation, Moment};
use crate::counters::Counters;
use crate::pairing::{self, Pairing};
use crate::ranges::NO_CHANGES;
use crate::source::{NOTHING_STATED, Source, signed, start_counters};
use crate::verdict::{Note, Status, Verdict};

/// Blocks without an end that are compared with what has vanished.
const LOOK_BACK: usize = 256;

/// What the totals say beyond the rows.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) pairing: Pairing,
    /// Bytes held from the driver after every event; empty if the source does not say.
    pub(crate) reserved: Vec<i64>,
    pub(crate) start_reserved: i64,
    facts: Facts,
}

#[derive(Debug, Default)]
struct Facts {
    /// Bytes from before the first event that no row names.
    base: u64,
    /// Changes that no row explains, and the most bytes that were there because of them.
    unnamed: u64,
    /// Blocks whose end no row shows but the totals do.
    ended: u64,
    /// Events at which the rows add up to more than the totals, and by how much at most.
    excess: u64,
    excess_bytes: u64,
}

/// Pairs the events of a device and brings them together with its totals.
pub(crate) fn settle(snapshot: &Snapshot, device: DeviceId) -> Settled {
    let events = snapshot.events(device);
    // There is no final state that could say what lives at the end.
    let mut pairing = pairing::pair(snapshot, device, events, false);
    let table = &mut pairing.allocations;
    table.size.clone_from(&table.requested);
    table.estimated = vramscope_snapshot::Column::default();

    let totals = snapshot.totals(device);
    let mut settled = Settled { pairing, ..Settled::default() };
    if totals.has_reserved() {
        settled.hold_reserved(totals, events.len());
    }
    if !totals.is_empty() {
        settled.explain(totals, events);
    }
    settled
}

/// Bytes that nothing names, as a stack of what came when: what came last goes first.
#[derive(Default)]
struct Unnamed {
    open: Vec<(Moment, u64)>,
    bytes: u64,
    /// What came and went, or stayed.
    found: Vec<(Moment, Moment, u64)>,
}

impl Unnamed {
    fn set(&mut self, bytes: u64, now: Moment) {
        if let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) {
            self.open.push((now, more));
        }
        let mut less = self.bytes.saturating_sub(bytes);
        while less > 0
            && let Some((opened, part)) = self.open.pop()
        {
            let gone = part.min(less);
            self.found.push((opened, now, gone));
            if gone < part {
                self.open.push((opened, part - gone));
            }
            less -= gone;
        }
        self.bytes = bytes;
    }

    fn finish(mut self) -> Vec<(Moment, Moment, u64)> {
        self.found.extend(self.open.into_iter().map(|(opened, bytes)| (opened, Moment::NEVER, bytes)));
        self.found.sort_unstable();
        self.found
    }
}

impl Settled {
    fn hold_reserved(&mut self, totals: &Totals, events: usize) {
        let mut stated = (0..events).filter_map(|row| totals.get(row).reserved);
        self.start_reserved = signed(stated.next().unwrap_or_default());
        let mut reserved = self.start_reserved;
        self.reserved = (0..events)
            .map(|row| {
                reserved = totals.get(row).reserved.map_or(reserved, signed);
                reserved
            })
            .collect();
    }

    /// Finds what the totals say beyond the rows.
    fn explain(&mut self, totals: &Totals, events: &EventTable) {
        let (mut allocated, mut waiting) = (Unnamed::default(), Unnamed::default());
        let mut ends: Vec<(EventIdx, AllocIdx)> = Vec::new();
        let mut endless: VecDeque<AllocIdx> = VecDeque::new();
        let mut counters = start_counters(&self.pairing.allocations, 0);
        let mut lost = 0;
        let mut is_first = true;
        for row in 0..events.len() {
            let event = EventIdx::from_index(row);
            let mut now = Moment::after(event);
            let source = self.source();
            counters = source.step(counters, row, &mut lost);
            if let Some(index) = self.pairing.links[row].as_allocation()
                && self.pairing.allocations.opened[index.index()] == now
                && self.pairing.allocations.closed[index.index()] == Moment::NEVER
            {
                endless.push_back(index);
            }
            let total = totals.get(row);
            let Some(stated) = total.allocated.map(signed) else { continue };
            let mut beyond = stated.saturating_sub(counters.allocated);
            while beyond < -signed(totals.resolution())
                && let Some(index) = take(&mut endless, beyond.unsigned_abs(), &self.pairing.allocations.size)
            {
                self.pairing.allocations.end(index, now);
                ends.push((event, index));
                let size = signed(self.pairing.allocations.size[index.index()]);
                counters = lower(counters, size);
                beyond = beyond.saturating_add(size);
                self.facts.ended += 1;
            }
            if beyond < -signed(totals.resolution()) {
                self.facts.excess += 1;
                self.facts.excess_bytes = self.facts.excess_bytes.max(beyond.unsigned_abs());
            }
            if is_first {
                // What is there at the first row and not of it was there before.
                (now, is_first) = (Moment::START, false);
                self.facts.base = u64::try_from(beyond).unwrap_or_default();
            }
            let beyond = u64::try_from(beyond).unwrap_or_default();
            if beyond.abs_diff(allocated.bytes) > totals.resolution() {
                self.facts.unnamed += u64::from(now != Moment::START);
                allocated.set(beyond, now);
            }
            let active = total.active.map_or(0, signed).saturating_sub(counters.active);
            let awaiting = u64::try_from(active.saturating_sub(signed(allocated.bytes))).unwrap_or_default();
            if awaiting.abs_diff(waiting.bytes) > totals.resolution() {
                waiting.set(awaiting, now);
            }
        }
        for (opened, closed, bytes) in allocated.finish() {
            self.add(opened, closed, closed, bytes, &mut ends);
        }
        for (opened, closed, bytes) in waiting.finish() {
            self.add(opened, opened, closed, bytes, &mut ends);
        }
        self.pairing.lost_ends.extend(ends);
        self.pairing.lost_ends.sort_by_key(|(event, _)| *event);
    }

    fn source(&self) -> Source<'_> {
        Source {
            allocations: &self.pairing.allocations,
            links: &self.pairing.links,
            lost_ends: &self.pairing.lost_ends,
            changes: &NO_CHANGES,
            reserved: &NOTHING_STATED,
            crowded: &[],
        }
    }

    /// Adds an allocation that nothing names.
    fn add(
        &mut self,
        opened: Moment,
        released: Moment,
        closed: Moment,
        bytes: u64,
        ends: &mut Vec<(EventIdx, AllocIdx)>,
    ) {
        let index = self.pairing.allocations.push(&Allocation {
            addr: 0,
            requested: bytes,
            size: bytes,
            opened,
            released,
            closed,
            stack: StackId::ABSENT,
            recorded: StackId::ABSENT,
            stream: StreamId::default(),
            pool: PoolId::UNKNOWN,
            estimated: false,
        });
        ends.extend([opened, closed].into_iter().filter_map(Moment::event).map(|event| (event, index)));
    }
}

/// A block without an end that explains what has vanished: one of that size, else the oldest.
fn take(endless: &mut VecDeque<AllocIdx>, bytes: u64, sizes: &[u64]) -> Option<AllocIdx> {
    let same = |index: &AllocIdx| sizes.get(index.index()) == Some(&bytes);
    let recent = endless.len().saturating_sub(LOOK_BACK);
    match endless.iter().skip(recent).position(same) {
        Some(at) => endless.remove(recent + at),
        None => endless.pop_front(),
    }
}

fn lower(counters: Counters, bytes: i64) -> Counters {
    Counters {
        requested: counters.requested.saturating_sub(bytes).max(0),
        allocated: counters.allocated.saturating_sub(bytes).max(0),
        active: counters.active.saturating_sub(bytes).max(0),
        reserved: counters.reserved,
    }
}

/// What such a source can tell, and what it cannot.
pub(crate) fn judge(snapshot: &Snapshot, device: DeviceId, settled: &Settled) -> Verdict {
    let Facts { base, unnamed, ended, excess, excess_bytes } = settled.facts;
    let totals = snapshot.totals(device);
    let mut notes = Vec::new();
    if let Some(damage) = &snapshot.damage {
        let (offset, reason) = (damage.offset, damage.reason.clone());
        notes.push(Note::Damaged { offset, reason, events: snapshot.events(device).len() as u64 });
    }
    if totals.is_empty() {
        notes.push(Note::NoTotals);
    } else if base > 0 {
        notes.push(Note::Unnamed(base));
    }
    if unnamed > 0 {
        notes.push(Note::UnnamedChanges(unnamed));
    }
    if ended > 0 {
        notes.push(Note::EndedByTotals(ended));
    }
    if excess > 0 {
        notes.push(Note::AboveTotals { events: excess, bytes: excess_bytes });
    }
    if totals.resolution() > 0 {
        notes.push(Note::RoundedTotals(totals.resolution()));
    }
    if !snapshot.has.requested {
        notes.push(Note::OfBlocks);
    }
    let status = if snapshot.damage.is_some() {
        Status::Truncated
    } else if unnamed + ended + excess + settled.pairing.facts.contradictions > 0 {
        Status::EventsSkipped
    } else if base > 0 || totals.is_empty() {
        Status::LateStart
    } else {
        Status::Exact
    };
    Verdict { status, estimated_bytes: excess_bytes, of_blocks: !snapshot.has.requested, notes }
}
