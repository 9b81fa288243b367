//! Device calls: segments acquired from the driver and released to it, by step and by the line that caused them.
//!
//! PyTorch notes an acquisition after the call returns and the release of a segment before the call begins, so the call
//! lies between that event and its neighbor. The time between the two is the most that the call can have taken:
//! the program may have done something else meanwhile.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_snapshot::{Action, Event, EventIdx, EventTable, Snapshot, StackId};

use super::insight::DriverCalls;
use super::steps::{Step, Steps};
use crate::questions::compare::Line;
use crate::replay::Replay;
use crate::replay::allocations::Moment;

/// Segments, or parts of expandable ones, that went from the driver and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Acquired.
    pub acquired: u64,
    /// Bytes of those.
    pub acquired_bytes: u64,
    /// Released.
    pub released: u64,
    /// Bytes of those.
    pub released_bytes: u64,
    /// The most that the calls can have taken, in microseconds; 0 where events have no times.
    pub micros: u64,
}

impl Calls {
    /// Acquisitions and releases.
    pub fn count(&self) -> u64 {
        self.acquired.saturating_add(self.released)
    }

    fn add(&mut self, takes: bool, bytes: u64, micros: u64) {
        let (count, sum) = match takes {
            true => (&mut self.acquired, &mut self.acquired_bytes),
            false => (&mut self.released, &mut self.released_bytes),
        };
        *count += 1;
        *sum = sum.saturating_add(bytes);
        self.micros = self.micros.saturating_add(micros);
    }
}

/// All device calls of a recording.
#[derive(Clone, Debug, Default)]
pub struct DeviceCalls {
    /// Of all.
    pub total: Calls,
    /// By step, in order; `None` is what lies before the first and after the last.
    pub steps: Vec<(Option<Step>, Calls)>,
    /// By the line that caused them, with one of its stacks; most calls first.
    pub lines: Vec<(Line, StackId, Calls)>,
    /// How often segments were released by the program itself and acquired again.
    pub cycles: u64,
    /// How often an allocation failed at first and made the allocator release what it could.
    pub retries: u64,
    /// Whether events have times.
    pub has_times: bool,
}

impl DeviceCalls {
    /// The device calls among the events that `keep` keeps.
    pub fn new(
        snapshot: &Snapshot,
        replay: &Replay,
        steps: &Steps,
        keep: impl Fn(EventIdx, &Event) -> bool,
    ) -> Self {
        let events = snapshot.events(replay.device());
        let mut found = Self { has_times: events.time_us(0).is_some(), ..Self::default() };
        let mut by_stack: HashMap<StackId, Calls> = HashMap::new();
        let mut causes = causes(events, replay);
        for (row, action) in events.actions().enumerate() {
            let takes = match action {
                Action::SegmentAlloc | Action::SegmentMap => true,
                Action::SegmentFree | Action::SegmentUnmap => false,
                _ => continue,
            };
            let (index, event) = (EventIdx::from_index(row), events.get(row));
            let cause = causes.pop().unwrap_or(event.stack);
            if !keep(index, &event) {
                continue;
            }
            let micros = longest(events, row).unwrap_or(0);
            found.total.add(takes, event.size, micros);
            by_stack.entry(cause).or_default().add(takes, event.size, micros);
            let step = steps.at(Moment::after(index));
            match found.steps.last_mut() {
                Some((last, calls)) if *last == step => calls.add(takes, event.size, micros),
                _ => {
                    let mut calls = Calls::default();
                    calls.add(takes, event.size, micros);
                    found.steps.push((step, calls));
                }
            }
        }
        found.lines = by_line(snapshot, by_stack);
        let calls = DriverCalls::new(snapshot, replay);
        (found.cycles, found.retries) = (calls.cycles, calls.retries);
        found
    }
}

/// The stack behind each device call, the last call first. A call for an allocation has its stack; in the backward pass
/// that is the forward line's.
fn causes(events: &EventTable, replay: &Replay) -> Vec<StackId> {
    let mut served = None;
    let mut causes = Vec::new();
    for (row, action) in events.actions().enumerate().rev() {
        match action {
            Action::SegmentAlloc | Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap => {
                let own = events.get(row).stack;
                let of_served = served.map(|index| replay.allocation(index));
                let is_same = of_served.filter(|allocation| allocation.recorded == own);
                causes.push(is_same.map_or(own, |allocation| allocation.stack));
            }
            Action::Alloc => served = replay.allocation_of(EventIdx::from_index(row)),
            _ => served = None,
        }
    }
    causes
}

fn by_line(snapshot: &Snapshot, by_stack: HashMap<StackId, Calls>) -> Vec<(Line, StackId, Calls)> {
    let mut stacks: Vec<_> = by_stack.into_iter().collect();
    stacks.sort_unstable_by_key(|(stack, calls)| (Reverse(calls.count()), *stack));
    let mut numbers: HashMap<Line, usize> = HashMap::new();
    let mut lines: Vec<(Line, StackId, Calls)> = Vec::new();
    for (stack, calls) in stacks {
        let line = Line::of(snapshot, stack);
        let number = *numbers.entry(line.clone()).or_insert_with(|| {
            lines.push((line, stack, Calls::default()));
            lines.len() - 1
        });
        if let Some((_, _, sum)) = lines.get_mut(number) {
            sum.acquired += calls.acquired;
            sum.acquired_bytes = sum.acquired_bytes.saturating_add(calls.acquired_bytes);
            sum.released += calls.released;
            sum.released_bytes = sum.released_bytes.saturating_add(calls.released_bytes);
            sum.micros = sum.micros.saturating_add(calls.micros);
        }
    }
    lines.sort_by(|a, b| b.2.count().cmp(&a.2.count()).then_with(|| a.0.cmp(&b.0)));
    lines
}

/// The most that a call can have taken. Time between a release and the acquisition that follows it counts once.
fn longest(events: &EventTable, row: usize) -> Option<u64> {
    let action = |row: usize| events.action(row);
    let (from, to) = match action(row)? {
        Action::SegmentFree => (row, row + 1),
        _ => (row.checked_sub(1)?, row),
    };
    if from + 1 == row && action(from) == Some(Action::SegmentFree) {
        return None;
    }
    if to >= events.len() {
        return None;
    }
    u64::try_from(events.time_us(to)?.saturating_sub(events.time_us(from)?)).ok()
}
