//! Watching a simulation: what is kept of it while it runs, and when it stops early.

use crate::allocator::Counters;
use crate::requests::{Action, Step};

/// Watches a simulation.
pub trait Observer {
    /// Whether [`Observer::step`] needs the calls to the device.
    const CALLS: bool = false;

    /// A step is done; `calls` are those to the device during it: what, address, bytes. `false` cancels.
    fn step(&mut self, index: usize, step: Step, counters: &Counters, calls: &[(Action, u64, u64)]) -> bool;
}

/// Nobody watches.
impl Observer for () {
    fn step(&mut self, _: usize, _: Step, _: &Counters, _: &[(Action, u64, u64)]) -> bool {
        true
    }
}

/// The counters at chosen moments: the state when all that the program had asked for up to there was done.
#[derive(Clone, Debug)]
pub struct Moments {
    wanted: Vec<u32>,
    found: Vec<Counters>,
    last: Counters,
}

impl Moments {
    /// Collects at these moments, which are in order: how many events have happened.
    pub fn new(wanted: Vec<u32>) -> Self {
        debug_assert!(wanted.is_sorted());
        Self { wanted, found: Vec::new(), last: Counters::default() }
    }

    /// The counters at each moment; those after the end have the last ones.
    pub fn finish(mut self) -> Vec<Counters> {
        self.found.resize(self.wanted.len(), self.last);
        self.found
    }
}

impl Observer for Moments {
    fn step(&mut self, _: usize, step: Step, counters: &Counters, _: &[(Action, u64, u64)]) -> bool {
        while self.wanted.get(self.found.len()).is_some_and(|&wanted| wanted < step.moment) {
            self.found.push(self.last);
        }
        self.last = *counters;
        true
    }
}

/// The highest reserved and allocated bytes in each of a number of equal stretches of the recording.
#[derive(Clone, Debug)]
pub struct Curve {
    events: u64,
    reserved: Vec<u64>,
    requested: Vec<u64>,
    last: Counters,
    at: usize,
}

impl Curve {
    /// A curve of `stretches` stretches over a recording of `events` events.
    pub fn new(events: usize, stretches: usize) -> Self {
        let stretches = stretches.max(1);
        Self {
            events: events.max(1) as u64,
            reserved: vec![0; stretches],
            requested: vec![0; stretches],
            last: Counters::default(),
            at: 0,
        }
    }

    /// Reserved and requested bytes of each stretch; up to where the simulation ended.
    pub fn finish(mut self) -> (Vec<u64>, Vec<u64>) {
        self.reserved.truncate(self.at + 1);
        self.requested.truncate(self.at + 1);
        (self.reserved, self.requested)
    }
}

impl Observer for Curve {
    fn step(&mut self, _: usize, step: Step, counters: &Counters, _: &[(Action, u64, u64)]) -> bool {
        let last = self.reserved.len() - 1;
        let moment = u64::from(step.moment.saturating_sub(1));
        let at = ((moment * self.reserved.len() as u64 / self.events) as usize).min(last);
        while self.at < at {
            self.at += 1;
            // What was held before the stretch is held at its beginning.
            self.reserved[self.at] = self.last.reserved;
            self.requested[self.at] = self.last.requested;
        }
        self.reserved[self.at] = self.reserved[self.at].max(counters.reserved);
        self.requested[self.at] = self.requested[self.at].max(counters.requested);
        self.last = *counters;
        true
    }
}

/// Two observers at once.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const CALLS: bool = A::CALLS || B::CALLS;

    fn step(&mut self, index: usize, step: Step, counters: &Counters, calls: &[(Action, u64, u64)]) -> bool {
        self.0.step(index, step, counters, calls) & self.1.step(index, step, counters, calls)
    }
}

/// Steps between two questions whether to go on.
const PATIENCE: usize = 1 << 12;

/// Cancels a simulation on request.
pub struct WhileWanted<'a>(pub &'a dyn Fn() -> bool);

impl Observer for WhileWanted<'_> {
    fn step(&mut self, index: usize, _: Step, _: &Counters, _: &[(Action, u64, u64)]) -> bool {
        !index.is_multiple_of(PATIENCE) || (self.0)()
    }
}

/// Reserved bytes at every moment: only changes are kept, and those are as few as the calls to the device.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// How many events had happened, and what was held from then on.
    changes: Vec<(u32, u64)>,
    end: u32,
}

impl Levels {
    /// The moment at which the simulation ended.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The highest level from one moment to before another, or at the first; `None` after the end.
    pub fn highest(&self, from: u32, to: u32) -> Option<u64> {
        if from > self.end {
            return None;
        }
        let first = self.changes.partition_point(|&(moment, _)| moment <= from);
        let rest = self.changes.get(first..).unwrap_or_default();
        let inside = rest.iter().take_while(|&&(moment, _)| moment < to).map(|&(_, level)| level).max();
        let before = first.checked_sub(1).and_then(|at| self.changes.get(at)).map_or(0, |&(_, level)| level);
        Some(inside.map_or(before, |inside| inside.max(before)))
    }
}

impl Observer for Levels {
    fn step(&mut self, _: usize, step: Step, counters: &Counters, _: &[(Action, u64, u64)]) -> bool {
        // Frees that completed during a request come after it, with earlier moments.
        self.end = self.end.max(step.moment);
        let level = counters.reserved;
        match self.changes.last_mut() {
            Some((_, last)) if *last == level => {}
            Some((moment, last)) if *moment == self.end => *last = level,
            _ => self.changes.push((self.end, level)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::Kind;

    #[test]
    fn levels_are_those_after_each_event() {
        let mut levels = Levels::default();
        for (moment, reserved) in [(1, 20), (2, 20), (4, 60), (4, 40), (7, 0)] {
            let counters = Counters { reserved, ..Counters::default() };
            levels.step(0, Step::new(Kind::Alloc, 0, moment), &counters, &[]);
        }
        assert_eq!([0, 1, 3, 4, 6, 7].map(|at| levels.highest(at, at + 1)), [0, 20, 20, 40, 40, 0].map(Some));
        assert_eq!(levels.highest(0, 8), Some(40));
        assert_eq!((levels.highest(8, 9), levels.end()), (None, 7), "the simulation ended before");
    }
}
