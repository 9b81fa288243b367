//! Where a counter is highest or lowest, in one pass over what is kept.

use crate::allocations::Moment;
use crate::counters::{Counter, Counters};
use crate::source::{STRIDE, Source};
use crate::timeline::{GROUP, Timeline};

/// Which end of a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Highest,
    Lowest,
}

impl End {
    /// A number that is greater the nearer a counter is to this end.
    fn rank(self, counters: &Counters, counter: Counter) -> i64 {
        match self {
            Self::Highest => counters[counter],
            // No counter is below zero.
            Self::Lowest => -counters[counter],
        }
    }

    fn of<'a>(self, (min, max): (&'a Counters, &'a Counters)) -> &'a Counters {
        match self {
            Self::Highest => max,
            Self::Lowest => min,
        }
    }
}

impl Timeline {
    /// The first moment from one to another, both included, at which a counter is highest or lowest among them.
    pub(crate) fn first_at(
        &self,
        source: &Source<'_>,
        (end, counter): (End, Counter),
        from: Moment,
        to: Moment,
    ) -> Moment {
        let len = source.links.len();
        let (from, to) = ((from.0 as usize).min(len), (to.0 as usize).min(len));
        let mut best = (end.rank(&self.counters(source, Moment(from as u32)), counter), from..from);
        let stretch = |at: usize| {
            let stretch = &self.stretches[at];
            end.rank(end.of((&stretch.min, &stretch.max)), counter)
        };
        let mut row = from;
        // Whole groups and stretches by what is kept of them; the ends, and then the best, event by event.
        while row < to {
            let step = [STRIDE * GROUP, STRIDE]
                .into_iter()
                .find(|&size| row.is_multiple_of(size) && row + size <= to);
            let next = step.map_or_else(|| (row / STRIDE * STRIDE + STRIDE).min(to), |size| row + size);
            let (rank, rows) = match step {
                Some(STRIDE) => (stretch(row / STRIDE), row..next),
                Some(_) => {
                    let (min, max) = &self.groups[row / (STRIDE * GROUP)];
                    (end.rank(end.of((min, max)), counter), row..next)
                }
                None => self.best_event(source, (end, counter), row..next),
            };
            if rank > best.0 {
                best = (rank, rows);
            }
            row = next;
        }
        let (rank, mut rows) = best;
        if rows.len() > STRIDE {
            let mut stretches = rows.start / STRIDE..rows.end / STRIDE;
            if let Some(found) = stretches.find(|&at| stretch(at) == rank) {
                rows = found * STRIDE..(found + 1) * STRIDE;
            }
        }
        if rows.len() > 1 {
            // A stretch keeps the counters before it too, which are those after the event before it.
            rows = self.best_event(source, (end, counter), rows).1;
        }
        Moment(rows.end as u32)
    }

    /// How near a counter comes to an end after one of these events, and which event does so first.
    fn best_event(
        &self,
        source: &Source<'_>,
        (end, counter): (End, Counter),
        rows: std::ops::Range<usize>,
    ) -> (i64, std::ops::Range<usize>) {
        let mut counters = self.counters(source, Moment(rows.start as u32));
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < rows.start);
        let mut best = (i64::MIN, rows.start..rows.start);
        for row in rows {
            counters = source.step(counters, row, &mut lost);
            let rank = end.rank(&counters, counter);
            if rank > best.0 {
                best = (rank, row..row + 1);
            }
        }
        best
    }
}
