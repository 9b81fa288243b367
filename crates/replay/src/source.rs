//! What an event adds to the four counters and takes from them.
//!
//! Nothing is stored per event but which allocation or segment it concerns: everything else follows from that.

use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;
use vramscope_snapshot::EventIdx;

use crate::allocations::{AllocIdx, Allocations, Moment};
use crate::counters::Counters;
use crate::pairing::Link;
use crate::ranges::Changes;

/// Number of events between two kept counters, and between two kept numbers of beginnings.
pub(crate) const STRIDE: usize = 256;

/// An event at which many allocations end that it does not name, e.g. all that a file leaves open at its end.
/// What comes of it is kept, so that no question goes through them again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Crowded {
    pub(crate) row: usize,
    pub(crate) after: Counters,
    /// How many of [`Source::lost_ends`] are done with then.
    pub(crate) lost: usize,
}

/// As many ends at one event are gone through each time.
pub(crate) const CROWD: usize = 16;

/// What [`Source::reserved`] is of a source that states nothing.
pub(crate) static NOTHING_STATED: Buffer<i64> = Buffer::new();

/// What the counters are computed from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Allocations by number.
    pub allocations: &'a Allocations,
    /// For each event what it concerns.
    pub links: &'a Buffer<Link>,
    /// Ends that no event shows, with the event by which they must have come.
    pub lost_ends: &'a [(EventIdx, AllocIdx)],
    /// Changes of the memory held.
    pub changes: &'a Changes,
    /// Bytes held after every event, where the source states them; otherwise they follow from `changes`.
    pub(crate) reserved: &'a Buffer<i64>,
    pub(crate) crowded: &'a [Crowded],
}

/// What the counters follow from, by rows.
pub(crate) trait Rows {
    fn link(&self, row: usize) -> Link;
    /// When an allocation is opened, released and closed.
    fn moments(&self, index: AllocIdx) -> [Moment; 3];
    /// What it asked for, and the size of its block.
    fn bytes(&self, index: AllocIdx) -> [i64; 2];
}

/// Of a file only what is asked for is looked at.
impl Rows for Source<'_> {
    #[inline(always)]
    fn link(&self, row: usize) -> Link {
        self.links[row]
    }

    #[inline(always)]
    fn moments(&self, index: AllocIdx) -> [Moment; 3] {
        let Allocations { opened, released, closed, .. } = self.allocations;
        let row = index.index();
        [opened[row], released[row], closed[row]]
    }

    #[inline(always)]
    fn bytes(&self, index: AllocIdx) -> [i64; 2] {
        let Allocations { requested, size, .. } = self.allocations;
        [signed(requested[index.index()]), signed(size[index.index()])]
    }
}

/// The same for a walk over all of it, which need not ask of each row whether it was read.
pub(crate) struct Slices<'a> {
    pub(crate) links: &'a [Link],
    pub(crate) moments: [&'a [Moment]; 3],
    bytes: [&'a [u64]; 2],
}

impl Rows for Slices<'_> {
    #[inline(always)]
    fn link(&self, row: usize) -> Link {
        self.links[row]
    }

    #[inline(always)]
    fn moments(&self, index: AllocIdx) -> [Moment; 3] {
        let ([opened, released, closed], row) = (self.moments, index.index());
        [opened[row], released[row], closed[row]]
    }

    #[inline(always)]
    fn bytes(&self, index: AllocIdx) -> [i64; 2] {
        let [requested, size] = self.bytes;
        [signed(requested[index.index()]), signed(size[index.index()])]
    }
}

impl Source<'_> {
    pub(crate) fn slices(&self) -> Slices<'_> {
        let Allocations { opened, released, closed, requested, size, .. } = self.allocations;
        Slices { links: self.links, moments: [opened, released, closed], bytes: [requested, size] }
    }

    /// The counters after an event, given those before it.
    #[inline(always)]
    pub(crate) fn step(&self, counters: Counters, row: usize, lost: &mut usize) -> Counters {
        self.step_in(self, counters, row, lost)
    }

    #[inline(always)]
    pub(crate) fn step_in(
        &self,
        rows: &impl Rows,
        mut counters: Counters,
        row: usize,
        lost: &mut usize,
    ) -> Counters {
        let now = Moment(row as u32 + 1);
        let link = rows.link(row);
        let own = link.as_allocation();
        while let Some(&(event, index)) = self.lost_ends.get(*lost)
            && event.index() <= row
        {
            if let Some(known) = self.crowded_at(row, *lost) {
                *lost = known.lost;
                return known.after;
            }
            *lost += 1;
            if Some(index) != own {
                count(rows, &mut counters, index, now);
            }
        }
        if let Some(index) = own {
            count(rows, &mut counters, index, now);
        } else if let Some(change) = link.as_segment().and_then(|row| self.changes.get(row)) {
            counters.reserved = counters.reserved.saturating_add(change.bytes()).max(0);
        }
        if let Some(&stated) = self.reserved.get(row) {
            counters.reserved = stated;
        }
        counters
    }

    /// What is kept of an event, if many ends from this one on are its.
    #[inline(never)]
    fn crowded_at(&self, row: usize, lost: usize) -> Option<&Crowded> {
        self.lost_ends.get(lost + CROWD).filter(|(event, _)| event.index() <= row)?;
        let found = self.crowded.binary_search_by_key(&row, |crowded| crowded.row).ok()?;
        self.crowded.get(found)
    }

    /// What begins after one moment and up to another.
    pub fn opened_between(&self, from: Moment, to: Moment) -> impl Iterator<Item = AllocIdx> {
        let rows = from.0 as usize..(to.0 as usize).min(self.links.len());
        let opened = |index: AllocIdx| self.allocations.opened[index.index()];
        let own = rows.filter_map(move |row| {
            let index = self.links[row].as_allocation()?;
            (opened(index).0 as usize == row + 1).then_some(index)
        });
        // What begins at an event that is another's.
        let lost = |moment: Moment| self.lost_ends.partition_point(|(event, _)| event.0 < moment.0);
        let beside = self.lost_ends.get(lost(from)..lost(to)).unwrap_or_default().iter();
        let beside = beside
            .filter(move |(event, index)| opened(*index) == Moment::after(*event))
            .filter(|(event, index)| self.links[event.index()].as_allocation() != Some(*index))
            .map(|&(_, index)| index);
        own.chain(beside)
    }
}

/// Adds an allocation that begins at this moment, and takes it off where it is released or closed. What was added has been
/// cut off at the largest number that there is, so what is taken off is cut off at zero.
#[inline(always)]
fn count(rows: &impl Rows, counters: &mut Counters, index: AllocIdx, now: Moment) {
    let [opened, released, closed] = rows.moments(index);
    let [requested, size] = rows.bytes(index);
    if opened == now {
        counters.requested = counters.requested.saturating_add(requested);
        counters.allocated = counters.allocated.saturating_add(size);
        counters.active = counters.active.saturating_add(size);
    }
    if released == now {
        counters.allocated = counters.allocated.saturating_sub(size).max(0);
    }
    if closed == now {
        counters.active = counters.active.saturating_sub(size).max(0);
        counters.requested = counters.requested.saturating_sub(requested).max(0);
    }
}

/// A number of bytes as counters count them, cut off at the largest.
#[inline]
pub fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The counters before the first event.
pub(crate) fn start_counters(allocations: &Allocations, reserved: i64) -> Counters {
    let mut counters = Counters { reserved, ..Counters::default() };
    for row in 0..allocations.len() {
        if allocations.opened[row] == Moment::START {
            let size = signed(allocations.size[row]);
            counters.requested = counters.requested.saturating_add(signed(allocations.requested[row]));
            counters.active = counters.active.saturating_add(size);
            if allocations.released[row] > Moment::START {
                counters.allocated = counters.allocated.saturating_add(size);
            }
        }
    }
    counters
}
