//! One simulation: the requests, in order, on an allocator with other settings.

use crate::addresses::{Addresses, Lessons, Order};
use crate::allocator::{Allocator, BlockId, Counters, SimulatedSegment};
use crate::requests::{Kind, Requests, Step};
use crate::settings::Settings;
use crate::watch::{Observer, WhileWanted};

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
        self.run_part(settings, order, &self.requests.steps, observer)
    }

    /// Runs the requests up to a moment: the outcome is the state there, or where a request failed before.
    /// `None` if `go_on` said to stop.
    pub fn state(&self, settings: &Settings, moment: u32, go_on: &dyn Fn() -> bool) -> Option<Outcome> {
        let steps = &self.requests.steps;
        let later = steps.iter().position(|step| step.moment > moment).unwrap_or(steps.len());
        let outcome = self.run_part(settings, Order::Predicted, &steps[..later], &mut WhileWanted(go_on));
        (outcome.end != End::Cancelled).then_some(outcome)
    }

    fn run_part<O: Observer>(
        &self,
        settings: &Settings,
        order: Order,
        steps: &[Step],
        observer: &mut O,
    ) -> Outcome {
        let requests = &self.requests;
        let addresses = Addresses::new(order, requests, &self.lessons);
        let mut allocator = Allocator::new(settings, &requests.place_table, addresses);
        if O::CALLS {
            allocator.calls = Some(Vec::new());
        }
        const NO_BLOCK: BlockId = BlockId::MAX;
        let mut slots: Vec<BlockId> = vec![NO_BLOCK; requests.sizes.len()];
        let (mut allocations, mut largest_gap, mut failed, mut end) = (0, 0, None, End::Complete);
        for (index, &step) in steps.iter().enumerate() {
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
                Kind::Release if slots[allocation] != NO_BLOCK => {
                    // The block may be another's before the free completes.
                    let block = std::mem::replace(&mut slots[allocation], NO_BLOCK);
                    allocator.release(block, size, allocation);
                }
                Kind::Release => {}
                Kind::Complete => allocator.complete(allocation),
                Kind::EmptyCache => allocator.empty_cache(),
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
