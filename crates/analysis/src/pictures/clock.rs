//! The time axis: when moments begin, and which lie in a stretch of time.
//!
//! Time is a label that may go backwards; the order of the trace is the truth. So a moment begins at the
//! highest time that any event up to it carries, which never falls.

use vramscope_replay::{Moment, Times};
use vramscope_snapshot::EventTable;

/// Microseconds since the first event.
#[derive(Clone, Copy, Debug)]
pub struct Clock<'a> {
    events: &'a EventTable,
    times: &'a Times,
    origin: i64,
    span: i64,
}

impl<'a> Clock<'a> {
    /// The clock of a trace; `None` if its writer had none.
    pub fn new(events: &'a EventTable, times: &'a Times) -> Option<Self> {
        let (origin, last) = times.range()?;
        Some(Self { events, times, origin, span: last.saturating_sub(origin) })
    }

    /// The time of the first event, in microseconds since 1970.
    pub fn origin(&self) -> i64 {
        self.origin
    }

    /// Microseconds from the first event to the last.
    pub fn span(&self) -> i64 {
        self.span
    }

    /// When a moment begins.
    pub fn of(&self, at: Moment) -> i64 {
        self.times.highest(self.events, at).map_or(0, |time| time.saturating_sub(self.origin))
    }

    /// The last moment that begins at or before a time; the start if there is none.
    pub fn at(&self, time: f64) -> Moment {
        self.times.at(self.events, self.origin.saturating_add(time.floor() as i64))
    }

    /// The last moment that begins before a time.
    fn before(&self, time: f64) -> Moment {
        self.times.before(self.events, self.origin.saturating_add(time.ceil() as i64))
    }

    /// The first and the last moment of the time from `left` to before `right`.
    pub(super) fn between(&self, left: f64, right: f64) -> Option<(Moment, Moment)> {
        // The last moment has a width too, or it would never be seen.
        if !(right > 0.0 && left < (self.span as f64).max(1.0) * (1.0 + 1e-9) && left < right) {
            return None;
        }
        let from = match self.before(left) {
            _ if left <= 0.0 => Moment::START,
            // What lasts through the left edge, unless it ends right there.
            earlier if left.fract() == 0.0 && self.at(left) > earlier => Moment(earlier.0 + 1),
            earlier => earlier,
        };
        Some((from, self.before(right).max(from)))
    }
}
