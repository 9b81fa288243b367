//! Where a counter is highest, in one pass over what is kept.

use crate::replay::allocations::Moment;
use crate::replay::counters::Counter;
use crate::replay::timeline::{GROUP, STRIDE, Source, Timeline};

impl Timeline {
    /// The first moment from one to another, both included, at which a counter is highest among them.
    pub(crate) fn highest(&self, source: &Source<'_>, counter: Counter, from: Moment, to: Moment) -> Moment {
        let len = source.links.len();
        let (from, to) = ((from.0 as usize).min(len), (to.0 as usize).min(len));
        let mut best = (self.counters(source, Moment(from as u32))[counter], from..from);
        let mut row = from;
        // Whole groups and stretches by what is kept of them; the ends, and then the best, event by event.
        while row < to {
            let step = [STRIDE * GROUP, STRIDE]
                .into_iter()
                .find(|&size| row.is_multiple_of(size) && row + size <= to);
            let next = step.map_or_else(|| (row / STRIDE * STRIDE + STRIDE).min(to), |size| row + size);
            let (most, rows) = match step {
                Some(STRIDE) => (self.stretches[row / STRIDE].max[counter], row..next),
                Some(_) => (self.groups[row / (STRIDE * GROUP)].1[counter], row..next),
                None => self.highest_of_events(source, counter, row..next),
            };
            if most > best.0 {
                best = (most, rows);
            }
            row = next;
        }
        let (most, mut rows) = best;
        if rows.len() > STRIDE {
            let mut stretches = rows.start / STRIDE..rows.end / STRIDE;
            if let Some(found) = stretches.find(|&stretch| self.stretches[stretch].max[counter] == most) {
                rows = found * STRIDE..(found + 1) * STRIDE;
            }
        }
        if rows.len() > 1 {
            // A stretch keeps the counters before it too, which are those after the event before it.
            rows = self.highest_of_events(source, counter, rows).1;
        }
        Moment(rows.end as u32)
    }

    /// The most that a counter reaches after one of these events, and which event does so first.
    fn highest_of_events(
        &self,
        source: &Source<'_>,
        counter: Counter,
        rows: std::ops::Range<usize>,
    ) -> (i64, std::ops::Range<usize>) {
        let mut counters = self.counters(source, Moment(rows.start as u32));
        let mut lost = source.lost_ends.partition_point(|(event, _)| event.index() < rows.start);
        let mut best = (i64::MIN, rows.start..rows.start);
        for row in rows {
            counters = source.step(counters, row, &mut lost);
            if counters[counter] > best.0 {
                best = (counters[counter], row..row + 1);
            }
        }
        best
    }
}
