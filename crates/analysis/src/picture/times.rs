//! Moments by time.
//!
//! Time is a label that may go backwards; the order of the trace is the truth. So a moment begins at the
//! highest time that any event up to it carries, which never falls.

use vramscope_snapshot::EventTable;

use crate::allocations::Moment;

/// When each moment begins.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The time of the first event, in microseconds since 1970.
    origin: i64,
    /// The highest time up to each event, in microseconds since the first.
    after: Vec<i64>,
}

impl Times {
    /// The times of a trace; empty if its writer had no clock.
    pub fn new(events: &EventTable) -> Self {
        let Some(origin) = (0..events.len()).find_map(|row| events.time_us(row)) else {
            return Self::default();
        };
        let mut highest = 0;
        let after = (0..events.len()).map(|row| {
            let time = events.time_us(row).map_or(highest, |time| time.saturating_sub(origin));
            highest = highest.max(time);
            highest
        });
        Self { origin, after: after.collect() }
    }

    /// Whether there is no clock.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// The time of the first event, in microseconds since 1970.
    pub fn origin(&self) -> i64 {
        self.origin
    }

    /// Microseconds from the first event to the last.
    pub fn span(&self) -> i64 {
        self.after.last().copied().unwrap_or_default()
    }

    /// When a moment begins, in microseconds since the first event.
    pub fn of(&self, at: Moment) -> i64 {
        let row = at.0.saturating_sub(1) as usize;
        self.after.get(row).copied().unwrap_or(self.span())
    }

    /// The last moment that begins at or before a time; the start if there is none.
    pub fn at(&self, time: f64) -> Moment {
        Moment(self.after.partition_point(|&after| after as f64 <= time) as u32)
    }

    /// The first and the last moment of the time from `left` to before `right`.
    pub(super) fn between(&self, left: f64, right: f64) -> Option<(Moment, Moment)> {
        let span = self.span() as f64;
        // The last moment has a width too, or it would never be seen.
        if !(right > 0.0 && left < span.max(1.0) * (1.0 + 1e-9) && left < right) || self.is_empty() {
            return None;
        }
        // Moment m > 0 begins at `after[m - 1]`, and the start with the first event.
        let begun_before = |time: f64| self.after.partition_point(|&after| (after as f64) < time);
        let earlier = begun_before(left);
        let begins_here = left <= 0.0 || self.after.get(earlier).is_some_and(|&after| after as f64 == left);
        let from = if left <= 0.0 { 0 } else { earlier + usize::from(begins_here) };
        let to = begun_before(right).max(from);
        Some((Moment(from as u32), Moment(to as u32)))
    }
}
