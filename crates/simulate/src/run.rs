//! One simulation: the requests, in order, on an allocator with other settings.

use crate::addresses::{Addresses, Lessons, Order};
use crate::allocator::{Allocator, BlockId, Counters, SimulatedSegment};
use crate::requests::{Action, Kind, Requests, Step};
use crate::settings::Settings;

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

/// A request that got no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// How many allocations had succeeded.
    pub allocation: usize,
    /// How many events of the recording had happened when it was done there.
    pub moment: u32,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes that it would have taken from the device.
    pub wanted: u64,
}

/// How a simulation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All requests were served, or failed as they did in the recording.
    Complete,
    /// A request failed that had succeeded in the recording. The program would have ended there.
    OutOfMemory(OutOfMemory),
    /// A request succeeded that had failed in the recording: what the program would have done then is not known.
    /// How many events had happened.
    PastFailure(u32),
    /// The observer cancelled.
    Cancelled,
}

/// What the allocator did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The counters at the end, with their peaks.
    pub counters: Counters,
    /// How it ended.
    pub end: End,
    /// The first request that failed, whether or not it had failed in the recording, too.
    pub out_of_memory: Option<OutOfMemory>,
    /// Allocations that succeeded.
    pub allocations: usize,
    /// The largest gap between what was held and what was asked for.
    pub largest_gap: u64,
    /// The largest block that was free at the end.
    pub largest_free: u64,
    /// What was held at the end.
    pub segments: Vec<SimulatedSegment>,
}

/// The requests of a recording, ready to be simulated any number of times.
#[derive(Clone, Debug)]
pub struct Simulator {
    requests: Requests,
    lessons: Lessons,
}

impl Simulator {
    /// Prepares the requests of a recording.
    pub fn new(requests: Requests) -> Self {
        let lessons = Lessons::of(&requests);
        Self { requests, lessons }
    }

    /// What is simulated.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Other requests of the same program on the same device.
    #[must_use]
    pub fn with(&self, requests: Requests) -> Self {
        Self { requests, lessons: self.lessons.clone() }
    }

    /// Runs the requests under these settings.
    pub fn run<O: Observer>(&self, settings: &Settings, order: Order, observer: &mut O) -> Outcome {
        let requests = &self.requests;
        let addresses = Addresses::new(order, requests, &self.lessons);
        let mut allocator = Allocator::new(settings, &requests.place_table, addresses);
        if O::CALLS {
            allocator.calls = Some(Vec::new());
        }
        const NO_BLOCK: BlockId = BlockId::MAX;
        let mut slots: Vec<BlockId> = vec![NO_BLOCK; requests.sizes.len()];
        let (mut allocations, mut largest_gap, mut failed, mut end) = (0, 0, None, End::Complete);
        for (index, &step) in requests.steps.iter().enumerate() {
            allocator.begin_step(index as u32);
            let allocation = step.allocation();
            let size = requests.sizes.get(allocation).copied().unwrap_or_default();
            let place = requests.places.get(allocation).copied().unwrap_or_default();
            match step.kind() {
                kind @ (Kind::Alloc | Kind::Fail) => {
                    let served = allocator.malloc(size, place);
                    if served.is_none() && failed.is_none() {
                        let wanted = settings.segment_size(settings.round(size));
                        failed = Some(OutOfMemory {
                            allocation: allocations,
                            moment: step.moment,
                            requested: size,
                            wanted,
                        });
                    }
                    match (kind, served) {
                        (Kind::Alloc, Some(block)) => {
                            slots[allocation] = block;
                            allocations += usize::from(index >= requests.prelude);
                        }
                        (Kind::Alloc, None) => {
                            end = failed.map_or(End::Complete, End::OutOfMemory);
                        }
                        (_, Some(_)) => end = End::PastFailure(step.moment),
                        (_, None) => {}
                    }
                    let counters = &allocator.counters;
                    largest_gap = counters.reserved.saturating_sub(counters.requested).max(largest_gap);
                }
                Kind::Release if slots[allocation] != NO_BLOCK => allocator.release(slots[allocation], size),
                Kind::Complete if slots[allocation] != NO_BLOCK => {
                    allocator.complete(slots[allocation], size);
                    slots[allocation] = NO_BLOCK;
                }
                Kind::EmptyCache => allocator.empty_cache(),
                Kind::Release | Kind::Complete => {}
            }
            let calls = allocator.calls.as_deref().unwrap_or_default();
            if !observer.step(index, step, &allocator.counters, calls) {
                end = End::Cancelled;
            }
            if let Some(calls) = &mut allocator.calls {
                calls.clear();
            }
            if end != End::Complete {
                break;
            }
        }
        Outcome {
            counters: allocator.counters,
            end,
            out_of_memory: failed,
            allocations,
            largest_gap,
            largest_free: allocator.largest_free(),
            segments: allocator.segments(),
        }
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
    /// A curve of so many stretches over a recording of so many events.
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
