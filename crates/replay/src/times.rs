//! Moments by time, in a few steps each.
//!
//! Trace order is the truth and times may go backwards, so what is searched is the highest time so far,
//! which never falls. It is kept for every [`STRIDE`]th event only: a search ends with a walk over fewer
//! events than that.

use vramscope_snapshot::EventTable;

use crate::allocations::Moment;

/// Events between two kept times.
const STRIDE: usize = EventTable::STRIDE;

/// An index of a trace by time. Questions take the events that it was made from.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The highest time before each stretch of events.
    before: Vec<i64>,
    first: Option<i64>,
    last: i64,
}

impl Times {
    /// Goes through the bounds of the times.
    pub fn new(events: &EventTable) -> Self {
        let mut last = i64::MIN;
        let bounds = events.time_bounds();
        let before = bounds.iter().map(|bounds| {
            let before = last;
            last = last.max(bounds.greatest);
            before
        });
        let before = before.collect();
        let has_times = last != i64::MIN;
        let first = has_times.then(|| (0..events.len()).find_map(|row| events.time_us(row))).flatten();
        Self { before, first, last }
    }

    /// The first time and the highest, in microseconds; `None` if no event has a time.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.first.map(|first| (first.min(self.last), self.last))
    }

    /// The highest time that an event before a moment carries, or the first time at all if there is none.
    pub fn highest(&self, events: &EventTable, at: Moment) -> Option<i64> {
        let row = (at.0 as usize).min(events.len());
        let stretch = (row / STRIDE).min(self.before.len().saturating_sub(1));
        let kept = self.before.get(stretch).copied()?;
        let since = (stretch * STRIDE..row).filter_map(|row| events.time_us(row)).max();
        Some(since.unwrap_or(i64::MIN).max(kept)).filter(|&time| time != i64::MIN).or(self.first)
    }

    /// The moment before the first event at or after a time.
    pub fn before(&self, events: &EventTable, time_us: i64) -> Moment {
        self.search(events, |highest| highest < time_us)
    }

    /// The moment after the last event at or before a time.
    pub fn at(&self, events: &EventTable, time_us: i64) -> Moment {
        self.search(events, |highest| highest <= time_us)
    }

    /// The number of events whose highest time so far is on the near side.
    fn search(&self, events: &EventTable, is_near: impl Fn(i64) -> bool) -> Moment {
        let stretch = self.before.partition_point(|&highest| is_near(highest)).saturating_sub(1);
        let mut highest = self.before.get(stretch).copied().unwrap_or(i64::MIN);
        let first = stretch * STRIDE;
        let near = (first..events.len().min(first + STRIDE)).take_while(|&row| {
            highest = highest.max(events.time_us(row).unwrap_or(highest));
            is_near(highest)
        });
        Moment((first + near.count()) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_snapshot::Event;

    #[test]
    fn times_that_go_back_and_events_without_one() {
        let mut events = EventTable::default();
        for time_us in [10, 20, 15, EventTable::NO_TIME, 30] {
            events.push(&Event { time_us, ..Event::default() });
        }
        let times = Times::new(&events);
        // The highest so far is 10, 20, 20, 20, 30.
        assert_eq!(times.range(), Some((10, 30)));
        assert_eq!([9, 10, 15, 20, 29, 30].map(|time| times.at(&events, time).0), [0, 1, 1, 4, 4, 5]);
        let highest = [0, 1, 2, 3, 4, 5, 99].map(|at| times.highest(&events, Moment(at)));
        assert_eq!(highest, [10, 10, 20, 20, 20, 30, 30].map(Some));
        assert_eq!([9, 10, 11, 20, 21, 31].map(|time| times.before(&events, time).0), [0, 0, 1, 1, 4, 5]);
    }

    #[test]
    fn long_traces_are_searched_in_stretches() {
        let mut events = EventTable::default();
        for row in 0..2000_i64 {
            events.push(&Event { time_us: row * 10, ..Event::default() });
        }
        let times = Times::new(&events);
        for row in [0, 255, 256, 257, 1999] {
            assert_eq!(times.at(&events, row * 10), Moment(row as u32 + 1));
            assert_eq!(times.before(&events, row * 10), Moment(row as u32));
        }
        assert_eq!(Times::new(&EventTable::default()).at(&EventTable::default(), 5), Moment::START);
    }
}
