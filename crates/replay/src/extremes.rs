//! The extremes of many stretches in one pass, e.g. of the columns of a chart: neighbors meet in a stretch of kept
//! counters, which is gone through once for both.

use std::ops::Range;

use crate::allocations::Moment;
use crate::counters::{Counter, Counters};
use crate::source::{STRIDE, Source};
use crate::timeline::{GROUP, Timeline};

/// What the counters do from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The least of each counter.
    pub min: Counters,
    /// The greatest of each counter.
    pub max: Counters,
    /// The first moment at which the counter that was asked for is highest.
    pub highest: Moment,
    /// The counters at the first moment and at the last.
    pub ends: [Counters; 2],
}

impl Extremes {
    /// Of no moment.
    const NONE: Self =
        Self { min: all(i64::MAX), max: all(i64::MIN), highest: Moment::START, ends: [all(0); 2] };

    /// Adds what is known of some moments, and says whether the counter is higher there than before.
    fn add(&mut self, min: Counters, max: Counters, counter: Counter, at: usize) -> bool {
        let is_higher = max[counter] > self.max[counter];
        if is_higher {
            self.highest = Moment(at as u32);
        }
        (self.min, self.max) = (self.min.min(min), self.max.max(max));
        is_higher
    }
}

const fn all(bytes: i64) -> Counters {
    Counters { requested: bytes, allocated: bytes, active: bytes, reserved: bytes }
}

/// The counters at each moment of the two stretches that were gone through last, both ends included: those in which what
/// is asked for begins and ends.
#[derive(Default)]
pub(crate) struct Walked([OneWalk; 2]);

#[derive(Default)]
struct OneWalk {
    stretch: Option<usize>,
    counters: Vec<Counters>,
}

impl Walked {
    fn of(&mut self, timeline: &Timeline, source: &Source<'_>, stretch: usize) -> &[Counters] {
        if self.0[0].stretch != Some(stretch) {
            self.0.swap(0, 1);
        }
        self.0[0].of(timeline, source, stretch)
    }

    /// The counters at a moment.
    fn at(&mut self, timeline: &Timeline, source: &Source<'_>, at: usize) -> Counters {
        match at % STRIDE {
            0 => timeline.counters(source, Moment(at as u32)),
            since => self.of(timeline, source, at / STRIDE).get(since).copied().unwrap_or(timeline.end),
        }
    }
}

impl OneWalk {
    fn of(&mut self, timeline: &Timeline, source: &Source<'_>, stretch: usize) -> &[Counters] {
        if self.stretch != Some(stretch) {
            let rows = stretch * STRIDE..((stretch + 1) * STRIDE).min(source.links.len());
            let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < rows.start);
            let mut counters = timeline.counters(source, Moment(rows.start as u32));
            self.counters.clear();
            self.counters.push(counters);
            self.counters.extend(rows.map(|row| {
                counters = source.step(counters, row, &mut lost);
                counters
            }));
            self.stretch = Some(stretch);
        }
        &self.counters
    }
}

impl Timeline {
    /// The extremes from one moment to another, both included. `ends` is kept between neighbors.
    pub(crate) fn extremes_and_highest(
        &self,
        source: &Source<'_>,
        counter: Counter,
        (from, to): (Moment, Moment),
        ends: &mut Walked,
    ) -> Extremes {
        let len = source.links.len();
        let from = (from.0 as usize).min(len);
        let to = (to.0 as usize).clamp(from, len);
        let mut found = Extremes::NONE;
        // Where the highest moment is, as long as only its stretches are known.
        let mut inside: Option<Range<usize>> = None;
        let mut at = from;
        loop {
            let stretch = at / STRIDE;
            let is_whole =
                |stretches: &usize| at.is_multiple_of(STRIDE * stretches) && at + STRIDE * stretches <= to;
            if let Some(stretches) = [GROUP, 1].into_iter().find(is_whole) {
                let (min, max) = match stretches {
                    1 => (self.stretches[stretch].min, self.stretches[stretch].max),
                    _ => self.groups[stretch / GROUP],
                };
                if found.add(min, max, counter, at) {
                    inside = Some(stretch..stretch + stretches);
                }
                at += STRIDE * stretches;
            } else {
                // What is walked begins with the counters before the stretch.
                let (first, last) = (stretch * STRIDE, to.min((stretch + 1) * STRIDE));
                let walked =
                    ends.of(self, source, stretch).get(at - first..=last - first).unwrap_or_default();
                for (row, &counters) in walked.iter().enumerate() {
                    if found.add(counters, counters, counter, at + row) {
                        inside = None;
                    }
                }
                at = last;
            }
            if at >= to {
                break;
            }
        }
        let most = found.max[counter];
        let holds = |stretch: &usize| self.stretches[*stretch].max[counter] == most;
        if let Some(stretch) = inside.and_then(|mut stretches| stretches.find(holds)) {
            found.highest = self.first_with(source, counter, most, stretch);
        }
        found.ends = [from, to].map(|at| ends.at(self, source, at));
        found
    }

    /// The first moment of a stretch at which a counter is as high as its highest.
    fn first_with(&self, source: &Source<'_>, counter: Counter, most: i64, stretch: usize) -> Moment {
        let mut row = stretch * STRIDE;
        let mut counters = self.counters(source, Moment(row as u32));
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < row);
        while counters[counter] != most && row < source.links.len() {
            counters = source.step(counters, row, &mut lost);
            row += 1;
        }
        Moment(row as u32)
    }
}
