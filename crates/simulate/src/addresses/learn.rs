//! What a recording shows of the device's memory beside PyTorch's segments.
//!
//! The model of the driver is run over the recorded segments. Where it is wrong, memory must be in use that it did
//! not know of, or free where it expected none: a lesson, which a simulation applies at the same step.

use super::driver::{Driver, REGION};
use crate::requests::{Action, Requests};

/// One thing that was learned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lesson {
    pub(super) step: u32,
    start: u64,
    end: u64,
    /// Whether the addresses can be had; otherwise they are the driver's own.
    free: bool,
}

impl Lesson {
    pub(super) fn apply(&self, driver: &mut Driver) {
        if self.free { driver.open(self.start, self.end) } else { driver.block(self.start, self.end) }
    }
}

/// Everything that was learned from a recording, by step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lessons(pub(super) Vec<Lesson>);

impl Lessons {
    pub(crate) fn of(requests: &Requests) -> Self {
        // Twice: holes in the driver's own memory are known in full only at the end.
        let first = Self::with(requests, &[]);
        let mut holes: Vec<(u64, u64)> =
            first.0.iter().filter(|lesson| lesson.free).map(|lesson| (lesson.start, lesson.end)).collect();
        holes.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in holes {
            match merged.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => merged.push((start, end)),
            }
        }
        Self::with(requests, &merged)
    }

    fn with(requests: &Requests, holes: &[(u64, u64)]) -> Self {
        let mut driver = Driver::new();
        let mut lessons = Vec::new();
        for call in &requests.calls {
            let (addr, size) = (call.addr, call.size);
            let end = addr.saturating_add(size);
            match call.action {
                Action::Free => driver.free(addr, size),
                Action::Alloc if driver.predict(size) == addr => {
                    driver.place(addr, size);
                }
                Action::Alloc => {
                    let mut learned = |start, end, free, driver: &mut Driver| {
                        let lesson = Lesson { step: call.step, start, end, free };
                        lesson.apply(driver);
                        lessons.push(lesson);
                    };
                    let bytes = size.checked_next_multiple_of(REGION).unwrap_or(size);
                    let known = holes.iter().copied().find(|&(start, stop)| start <= addr && end <= stop);
                    if let Some((start, stop)) = known
                        && driver.is_in_gap(start, stop)
                    {
                        learned(start, stop, true, &mut driver);
                    } else if addr.is_multiple_of(REGION)
                        && driver.is_in_gap(addr, addr.saturating_add(bytes))
                    {
                        for (start, stop) in driver.passed_over(addr, bytes) {
                            learned(start, stop, false, &mut driver);
                        }
                    } else if let Some((start, stop)) = driver.hole_before(addr) {
                        learned(start, stop, false, &mut driver);
                    } else {
                        learned(addr, end, true, &mut driver);
                    }
                    driver.place(addr, size);
                }
                Action::Map | Action::Unmap => {}
            }
        }
        Self(lessons)
    }
}
