//! Addresses of new segments: the one thing that the device decides.
//!
//! They matter because best fit takes the lowest address among free blocks of the same size. A simulation is run
//! under several [`Order`]s: where all agree, the answer does not depend on what the device would have done.

mod driver;
mod learn;

use std::collections::BTreeMap;

use crate::requests::{Action, DeviceCall, Requests};
use driver::Driver;
use learn::Lesson;

pub(crate) use learn::Lessons;

/// How the device places new segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As in the recording where the simulation asks for the same at the same time, otherwise as predicted. For
    /// the recorded settings.
    Recorded,
    /// As a model of the driver would, corrected by what the recording shows of the device's memory.
    Predicted,
    /// As a model of the driver would on an empty device.
    Driver,
    /// Each segment above all others.
    Ascending,
    /// Each segment below all others.
    Descending,
    /// Anywhere.
    Random(u64),
}

impl Order {
    /// The orders that an answer is checked with; the first one is the answer.
    pub const ALL: [Self; 7] = [
        Self::Predicted,
        Self::Driver,
        Self::Ascending,
        Self::Descending,
        Self::Random(1),
        Self::Random(2),
        Self::Random(3),
    ];

    /// The name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Predicted => "predicted",
            Self::Driver => "driver model",
            Self::Ascending => "ascending",
            Self::Descending => "descending",
            Self::Random(_) => "random",
        }
    }
}

/// In the middle of the addresses, with room on both sides for any recording.
const MIDDLE: u64 = 1 << 62;
/// Where reservations of expandable segments are that the recording does not have.
const RESERVATIONS: u64 = 1 << 63;

/// The addresses of one simulation.
pub(crate) struct Addresses<'a> {
    order: Order,
    driver: Driver,
    lessons: &'a [Lesson],
    calls: &'a [DeviceCall],
    /// The recorded calls of the current step.
    now: &'a [DeviceCall],
    /// Segments of the simulation: first address and end. Kept for [`Order::Recorded`].
    live: BTreeMap<u64, u64>,
    next: u64,
    reserved: u64,
    random: u64,
}

impl<'a> Addresses<'a> {
    pub(crate) fn new(order: Order, requests: &'a Requests, lessons: &'a Lessons) -> Self {
        let learned = matches!(order, Order::Recorded | Order::Predicted);
        Self {
            order,
            driver: Driver::new(),
            lessons: if learned { &lessons.0 } else { &[] },
            calls: if learned { &requests.calls } else { &[] },
            now: &[],
            live: BTreeMap::new(),
            next: MIDDLE,
            reserved: RESERVATIONS,
            random: match order {
                Order::Random(seed) => seed,
                _ => 0,
            },
        }
    }

    #[inline]
    pub(crate) fn begin_step(&mut self, step: u32) {
        if self.calls.first().is_none_or(|call| call.step > step) {
            self.now = &[];
            return;
        }
        let skipped = self.calls.iter().take_while(|call| call.step < step).count();
        let (_, calls) = self.calls.split_at(skipped);
        let (now, later) = calls.split_at(calls.iter().take_while(|call| call.step == step).count());
        (self.now, self.calls) = (now, later);
        let known = self.lessons.iter().take_while(|lesson| lesson.step <= step).count();
        let (learned, later) = self.lessons.split_at(known);
        self.lessons = later;
        for lesson in learned {
            lesson.apply(&mut self.driver);
        }
    }

    /// The address of a new segment.
    pub(crate) fn segment(&mut self, size: u64) -> u64 {
        match self.order {
            Order::Recorded => {
                let addr = self.recorded(size).unwrap_or_else(|| self.driver.predict(size));
                self.driver.place(addr, size);
                self.live.insert(addr, addr.saturating_add(size));
                addr
            }
            Order::Predicted | Order::Driver => self.driver.alloc(size),
            Order::Ascending => {
                let addr = self.next;
                self.next = self.next.saturating_add(size);
                addr
            }
            Order::Descending => {
                self.next = self.next.saturating_sub(size);
                self.next
            }
            Order::Random(_) => {
                // Anything but the low bits, which tell segments apart. (SplitMix64.)
                self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.random;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (z ^ (z >> 31)) >> 3 << 2
            }
        }
    }

    /// The address that the recording got for the same at the same time, if the simulation does not use it.
    fn recorded(&mut self, size: u64) -> Option<u64> {
        let same = |call: &DeviceCall| call.action == Action::Alloc && call.size == size;
        let at = self.now.iter().position(same)?;
        let addr = self.now.get(at)?.addr;
        let below = self.live.range(..addr.saturating_add(size)).next_back();
        if below.is_some_and(|(_, &end)| end > addr) {
            return None;
        }
        self.now = self.now.get(at + 1..).unwrap_or_default();
        Some(addr)
    }

    pub(crate) fn release_segment(&mut self, addr: u64, size: u64) {
        self.live.remove(&addr);
        if matches!(self.order, Order::Recorded | Order::Predicted | Order::Driver) {
            self.driver.free(addr, size);
        }
    }

    /// The address of a new reservation for an expandable segment.
    pub(crate) fn reservation(&mut self, size: u64) -> u64 {
        if let Some(call) = self.now.first().filter(|call| call.action.takes()) {
            return call.addr;
        }
        let addr = self.reserved;
        self.reserved = self.reserved.saturating_add(size);
        addr
    }
}
