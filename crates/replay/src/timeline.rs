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

use crate::allocations::Moment;
use crate::counters::{Counter, Counters};
use crate::live::LiveSets;
use crate::parallel::Both;
use crate::source::{CROWD, Crowded, STRIDE, Slices, Source, start_counters};

/// Stretches whose extremes are kept together, so that long ranges are quick too.
pub(crate) const GROUP: usize = 64;

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
