//! The four counters at every moment.
//!
//! What each event adds and takes follows from the allocation it concerns, so nothing is stored per
//! event but that link. Every [`STRIDE`] events the counters are kept with their range since the last
//! time: a moment is reached by adding up fewer than that many events, and the extremes of any stretch
//! by looking at the kept ones, in groups where it is long. The live set is kept whenever as many events have passed as
//! allocations are live, so that all copies together are never longer than the trace.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;
use vramscope_snapshot::EventIdx;

use crate::replay::Both;
use crate::replay::allocations::{AllocIdx, Allocations, Moment};
use crate::replay::counters::{Counter, Counters};
use crate::replay::live::LiveSets;
use crate::replay::pairing::Link;
use crate::replay::ranges::Changes;

/// Events between two kept counters.
pub(crate) const STRIDE: usize = 256;

/// Stretches whose extremes are kept together, so that long ranges are quick too.
pub(crate) const GROUP: usize = 64;

/// Events between two kept live sets, at the least.
pub(crate) const LIVE_STRIDE: usize = 4096;

/// The counters before a stretch of [`STRIDE`] events, and their extremes in it, both ends included.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Stretch {
    before: Counters,
    pub(crate) min: Counters,
    pub(crate) max: Counters,
}

/// Where a counter is highest, first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Highest {
    pub(crate) bytes: i64,
    pub(crate) at: Moment,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Timeline {
    pub(crate) start: Counters,
    pub(crate) end: Counters,
    /// The most by which what is in use was above what is held, and when first; zero in a file that makes sense.
    pub(crate) excess: Highest,
    pub(crate) peaks: [Highest; 4],
    #[serde(skip)]
    pub(crate) stretches: Buffer<Stretch>,
    /// The extremes of each [`GROUP`] of stretches.
    pub(crate) groups: Vec<(Counters, Counters)>,
    #[serde(skip)]
    pub(crate) live: LiveSets,
    pub(crate) crowded: Vec<Crowded>,
}

/// An event at which many allocations end that it does not name, e.g. all that a file leaves open at its end.
/// What comes of it is kept, so that no question goes through them again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Crowded {
    row: usize,
    after: Counters,
    /// How many of [`Source::lost_ends`] are done with then.
    lost: usize,
}

/// As many ends at one event are gone through each time.
const CROWD: usize = 16;

/// What [`Source::reserved`] is of a source that states nothing.
pub(crate) static NOTHING_STATED: Buffer<i64> = Buffer::new();

/// What the counters are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) allocations: &'a Allocations,
    pub(crate) links: &'a Buffer<Link>,
    pub(crate) lost_ends: &'a [(EventIdx, AllocIdx)],
    pub(crate) changes: &'a Changes,
    /// Bytes held after every event, where the source states them; otherwise they follow from `changes`.
    pub(crate) reserved: &'a Buffer<i64>,
    pub(crate) crowded: &'a [Crowded],
}

/// What the counters follow from, by rows.
trait Rows {
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
struct Slices<'a> {
    links: &'a [Link],
    moments: [&'a [Moment]; 3],
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
    fn slices(&self) -> Slices<'_> {
        let Allocations { opened, released, closed, requested, size, .. } = self.allocations;
        Slices { links: self.links, moments: [opened, released, closed], bytes: [requested, size] }
    }

    /// The counters after an event, given those before it.
    #[inline(always)]
    pub(crate) fn step(&self, counters: Counters, row: usize, lost: &mut usize) -> Counters {
        self.step_in(self, counters, row, lost)
    }

    #[inline(always)]
    fn step_in(&self, rows: &impl Rows, mut counters: Counters, row: usize, lost: &mut usize) -> Counters {
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
    pub(crate) fn opened_between(&self, from: Moment, to: Moment) -> impl Iterator<Item = AllocIdx> {
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

pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Timeline {
    pub(crate) fn new(source: Source<'_>, start_reserved: i64, both: Both<'_>) -> Self {
        let slices = source.slices();
        let [opened, _, closed] = slices.moments;
        let (mut timeline, mut live) = (Self::default(), LiveSets::default());
        both(&mut || timeline = Self::of_counters(&source, &slices, start_reserved), &mut || {
            live = LiveSets::new(opened, closed, slices.links.len());
        });
        Self { live, ..timeline }
    }

    /// All of it but what is live.
    fn of_counters(source: &Source<'_>, slices: &Slices<'_>, start_reserved: i64) -> Self {
        let mut timeline =
            Self { start: start_counters(source.allocations, start_reserved), ..Self::default() };
        let mut counters = timeline.start;
        for (peak, counter) in timeline.peaks.iter_mut().zip(Counter::ALL) {
            *peak = Highest { bytes: counters[counter], at: Moment::START };
        }
        let excess = counters.active.max(counters.requested) - counters.reserved;
        timeline.excess = Highest { bytes: excess.max(0), at: Moment::START };
        let mut lost = 0;
        for (stretch, rows) in slices.links.chunks(STRIDE).enumerate() {
            let before = counters;
            let (mut min, mut max) = (counters, counters);
            let first = stretch * STRIDE;
            for row in first..first + rows.len() {
                let lost_before = lost;
                counters = source.step_in(slices, counters, row, &mut lost);
                if lost - lost_before > CROWD {
                    timeline.crowded.push(Crowded { row, after: counters, lost });
                }
                min = min.min(counters);
                max = max.max(counters);
                let excess = counters.active.max(counters.requested) - counters.reserved;
                if excess > timeline.excess.bytes {
                    timeline.excess = Highest { bytes: excess, at: Moment(row as u32 + 1) };
                }
            }
            timeline.note_peaks(source, before, max, first, rows.len(), lost);
            timeline.stretches.push(Stretch { before, min, max });
        }
        timeline.groups = timeline
            .stretches
            .chunks(GROUP)
            .map(|group| {
                let first = (group[0].min, group[0].max);
                group.iter().fold(first, |(min, max), stretch| (min.min(stretch.min), max.max(stretch.max)))
            })
            .collect();
        timeline.end = counters;
        timeline
    }

    /// Looks for the exact moment only in stretches that beat the peak so far.
    fn note_peaks(
        &mut self,
        source: &Source<'_>,
        before: Counters,
        max: Counters,
        first: usize,
        len: usize,
        lost_after: usize,
    ) {
        if Counter::ALL.into_iter().zip(&self.peaks).all(|(counter, peak)| max[counter] <= peak.bytes) {
            return;
        }
        let mut counters = before;
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < first).min(lost_after);
        for row in first..first + len {
            counters = source.step(counters, row, &mut lost);
            for (peak, counter) in self.peaks.iter_mut().zip(Counter::ALL) {
                if counters[counter] > peak.bytes {
                    *peak = Highest { bytes: counters[counter], at: Moment(row as u32 + 1) };
                }
            }
        }
    }

    /// The counters after every event, in order.
    pub(crate) fn all(&self, source: Source<'_>) -> impl Iterator<Item = Counters> {
        let mut counters = self.start;
        let mut lost = 0;
        (0..source.links.len()).map(move |row| {
            counters = source.step(counters, row, &mut lost);
            counters
        })
    }

    /// The counters at a moment.
    pub(crate) fn counters(&self, source: &Source<'_>, at: Moment) -> Counters {
        let row = at.0 as usize;
        let Some(stretch) = self.stretches.get(row / STRIDE) else { return self.end };
        let first = row / STRIDE * STRIDE;
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < first);
        (first..row.min(source.links.len()))
            .fold(stretch.before, |counters, row| source.step(counters, row, &mut lost))
    }

    /// The counters at a moment and at every later one, in order.
    pub(crate) fn onwards(&self, source: Source<'_>, at: Moment) -> impl Iterator<Item = Counters> {
        let first = (at.0 as usize).min(source.links.len());
        let mut counters = self.counters(&source, Moment(first as u32));
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < first);
        std::iter::once(counters).chain((first..source.links.len()).map(move |row| {
            counters = source.step(counters, row, &mut lost);
            counters
        }))
    }

    /// The least and the greatest of each counter from one moment to another, both included.
    pub(crate) fn extremes(&self, source: &Source<'_>, from: Moment, to: Moment) -> (Counters, Counters) {
        let len = source.links.len();
        let (from, to) = ((from.0 as usize).min(len), (to.0 as usize).min(len));
        let mut counters = self.counters(source, Moment(from as u32));
        let (mut min, mut max) = (counters, counters);
        let mut row = from;
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < from);
        let skip = |row: usize| {
            let counters = self.stretches.get(row / STRIDE).map_or(self.end, |next| next.before);
            (counters, source.lost_ends.partition_point(|(event, _)| event.index() < row))
        };
        while row < to {
            if row.is_multiple_of(STRIDE * GROUP)
                && row + STRIDE * GROUP <= to
                && let Some(group) = self.groups.get(row / (STRIDE * GROUP))
            {
                min = min.min(group.0);
                max = max.max(group.1);
                row += STRIDE * GROUP;
                (counters, lost) = skip(row);
            } else if row.is_multiple_of(STRIDE)
                && row + STRIDE <= to
                && let Some(stretch) = self.stretches.get(row / STRIDE)
            {
                min = min.min(stretch.min);
                max = max.max(stretch.max);
                row += STRIDE;
                (counters, lost) = skip(row);
            } else {
                counters = source.step(counters, row, &mut lost);
                min = min.min(counters);
                max = max.max(counters);
                row += 1;
            }
        }
        (min, max)
    }
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
