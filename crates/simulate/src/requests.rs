//! What the program asked for: the requests of a recording, without what the allocator made of them.
//!
//! A simulation reads nothing else. Stored compactly, because many simulations run over the same requests: 8 bytes
//! per step and 10 per allocation.

use std::fmt;

use vramscope_snapshot::Pool;

/// One thing that the program did. Packed: the kind in the upper bits, the allocation below.
#[derive(Clone, Copy)]
pub struct Step {
    what: u32,
    /// How many events of the recording have happened when this is done.
    pub moment: u32,
}

/// What a [`Step`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks for memory.
    Alloc,
    /// Lets memory go (`free_requested`).
    Release,
    /// No stream uses the memory any more (`free_completed`).
    Complete,
    /// Calls `empty_cache()`. No allocation belongs to it.
    EmptyCache,
    /// Asked for memory and got none. What the program did afterwards belongs to that.
    Fail,
}

const KINDS: [Kind; 5] = [Kind::Alloc, Kind::Release, Kind::Complete, Kind::EmptyCache, Kind::Fail];
const SHIFT: u32 = 29;
const MASK: u32 = (1 << SHIFT) - 1;

impl Step {
    /// Allocations that a recording can have here.
    pub(crate) const MAX_ALLOCATIONS: usize = MASK as usize;

    pub(crate) fn new(kind: Kind, allocation: u32, moment: u32) -> Self {
        Self { what: (kind as u32) << SHIFT | (allocation & MASK), moment }
    }

    /// What it does.
    #[inline]
    pub fn kind(self) -> Kind {
        KINDS.get((self.what >> SHIFT) as usize).copied().unwrap_or(Kind::EmptyCache)
    }

    /// The allocation that it is about.
    #[inline]
    pub fn allocation(self) -> usize {
        (self.what & MASK) as usize
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} at {}", self.kind(), self.allocation(), self.moment)
    }
}

/// Where requests are served from: blocks move only within a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The pool; `(0, 0)` is the default pool.
    pub pool: Pool,
    /// The raw handle of the stream: free blocks are ordered by it.
    pub stream: u64,
}

impl Place {
    /// Whether the allocator keeps the memory apart from the default pool.
    pub fn is_private(self) -> bool {
        self.pool != (0, 0)
    }
}

/// What the allocator asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A segment was allocated.
    Alloc,
    /// A segment was freed.
    Free,
    /// Pages of an expandable segment got memory.
    Map,
    /// Pages of an expandable segment lost their memory.
    Unmap,
}

impl Action {
    /// As PyTorch writes it in a trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "segment_alloc",
            Self::Free => "segment_free",
            Self::Map => "segment_map",
            Self::Unmap => "segment_unmap",
        }
    }

    /// Whether the process holds more memory afterwards.
    pub fn takes(self) -> bool {
        matches!(self, Self::Alloc | Self::Map)
    }
}

/// One call to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCall {
    /// The step during which it was made.
    pub step: u32,
    /// What was called.
    pub action: Action,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
}

/// The requests of one device, and what the recording says about how they were served.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    pub(crate) steps: Vec<Step>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) places: Vec<u16>,
    pub(crate) place_table: Vec<Place>,
    pub(crate) calls: Vec<DeviceCall>,
    pub(crate) prelude: usize,
    pub(crate) facts: Facts,
}

/// What was noticed while the requests were extracted.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Events in the trace.
    pub events: usize,
    /// Bytes asked for before the first event.
    pub baseline: u64,
    /// Highest sum of bytes in use, as requested.
    pub peak_requested: u64,
    /// Frees of memory that is not in use, allocations at addresses in use.
    pub odd: usize,
    /// The trace has `free_requested` and no `free_completed`, or the other way round.
    pub frees_skipped: bool,
    /// Segments were allocated both whole and expandable.
    pub mixed_segments: bool,
    /// A private pool has whole segments although new ones are expandable: it has an allocator of its own.
    pub custom_pool: Option<Pool>,
    /// A private pool has a block that would have been split in any other (`no_split`).
    pub unsplit_pool: Option<Pool>,
    /// Requests between others of a private pool went to a segment that is gone, so that its pool is not known.
    pub pool_released: bool,
    /// Lowest and highest limit that explains why device memory was refused; `None` if it never was.
    pub limit: Option<(u64, u64)>,
    /// Where allocations failed: how many events had happened.
    pub failures: Vec<u32>,
    /// The device itself was full when an allocation failed.
    pub device_full: bool,
    /// Calls of `empty_cache()` that were seen or inferred.
    pub empty_cache: usize,
    /// Frees that another stream delayed past the next request.
    pub delayed_frees: usize,
}

impl Requests {
    /// The requests of a program that does the same, whether or not what failed before a moment is served. (Under other
    /// settings an earlier request might not have failed, and what the program would have done then is not known.)
    #[must_use]
    pub fn without_failures_before(&self, moment: u32) -> Self {
        let is_earlier = |step: &Step| step.kind() == Kind::Fail && step.moment < moment;
        let steps = self.steps.iter().copied().filter(|step| !is_earlier(step)).collect();
        Self { steps, ..self.clone() }
    }

    /// Every step in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Number of allocations, with those from before the first event and those that failed.
    pub fn allocations(&self) -> usize {
        self.sizes.len()
    }

    /// Bytes that an allocation asked for.
    pub fn size(&self, allocation: usize) -> u64 {
        self.sizes.get(allocation).copied().unwrap_or_default()
    }

    /// Where an allocation is served from.
    pub fn place(&self, allocation: usize) -> Place {
        let place = self.places.get(allocation).copied().unwrap_or_default();
        self.place_table.get(place as usize).copied().unwrap_or(Place { pool: (0, 0), stream: 0 })
    }

    /// The calls to the device that were recorded.
    pub fn device_calls(&self) -> &[DeviceCall] {
        &self.calls
    }

    /// Steps that stand for memory in use before the first event.
    pub fn prelude(&self) -> usize {
        self.prelude
    }

    /// What was noticed in the recording.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Bytes of memory that the requests take.
    pub fn bytes(&self) -> usize {
        self.steps.len() * size_of::<Step>() + self.sizes.len() * (size_of::<u64>() + size_of::<u16>())
    }

    /// The requests with the first `count` frees that completed during the request at `moment` done before it; `None` if
    /// there are not as many.
    pub(crate) fn completed_before(&self, moment: u32, count: usize) -> Option<Self> {
        let is_it = |step: &Step| step.moment == moment && matches!(step.kind(), Kind::Alloc | Kind::Fail);
        let at = self.steps.iter().position(is_it)?;
        let moved = self.steps.get(at + 1..=at + count)?;
        if !moved.iter().all(|step| step.kind() == Kind::Complete && step.moment < moment) {
            return None;
        }
        let mut changed = self.clone();
        changed.steps.get_mut(at..=at + count)?.rotate_left(1);
        for call in changed.calls.iter_mut().filter(|call| call.step as usize == at) {
            call.step += count as u32;
        }
        Some(changed)
    }

    /// The requests with some allocations changed: `size` gives the new size of each, `None` leaves it out.
    #[must_use]
    pub fn changed(&self, size: impl Fn(usize, u64) -> Option<u64>) -> Self {
        let sizes: Vec<Option<u64>> = self.sizes.iter().enumerate().map(|(i, &old)| size(i, old)).collect();
        let kept = |step: &Step| {
            step.kind() == Kind::EmptyCache || sizes.get(step.allocation()).is_some_and(Option::is_some)
        };
        let mut facts = self.facts.clone();
        facts.baseline = 0;
        let mut prelude = 0;
        for step in self.steps.iter().take(self.prelude).filter(|step| kept(step)) {
            prelude += 1;
            facts.baseline += sizes.get(step.allocation()).copied().flatten().unwrap_or_default();
        }
        Self {
            steps: self.steps.iter().filter(|step| kept(step)).copied().collect(),
            sizes: sizes.into_iter().map(Option::unwrap_or_default).collect(),
            places: self.places.clone(),
            place_table: self.place_table.clone(),
            // The recording's calls belong to other requests now.
            calls: Vec::new(),
            prelude,
            facts,
        }
    }

    /// The requests with some allocations freed earlier: `at` gives the moment, if it is before the recorded one.
    #[must_use]
    pub fn freed_early(&self, at: impl Fn(usize) -> Option<u32>) -> Self {
        let mut early: Vec<(u32, u32)> = Vec::new();
        let mut moved = vec![false; self.sizes.len()];
        for step in &self.steps {
            let allocation = step.allocation();
            match step.kind() {
                Kind::Alloc => {
                    if let Some(at) = at(allocation).filter(|&at| at >= step.moment) {
                        early.push((at, allocation as u32));
                        moved[allocation] = true;
                    }
                }
                // Freed before that anyway: stays as it is.
                Kind::Release if moved.get(allocation) == Some(&true) => {
                    let wanted = at(allocation).unwrap_or(u32::MAX);
                    if step.moment <= wanted {
                        moved[allocation] = false;
                    }
                }
                _ => {}
            }
        }
        early.retain(|&(_, allocation)| moved[allocation as usize]);
        early.sort_unstable();
        let mut steps = Vec::with_capacity(self.steps.len() + 2 * early.len());
        let mut early = early.into_iter().peekable();
        for &step in &self.steps {
            while let Some((at, allocation)) = early.next_if(|&(at, _)| at < step.moment) {
                steps.push(Step::new(Kind::Release, allocation, at));
                steps.push(Step::new(Kind::Complete, allocation, at));
            }
            let gone = matches!(step.kind(), Kind::Release | Kind::Complete)
                && moved.get(step.allocation()) == Some(&true);
            if !gone {
                steps.push(step);
            }
        }
        for (at, allocation) in early {
            steps.push(Step::new(Kind::Release, allocation, at));
            steps.push(Step::new(Kind::Complete, allocation, at));
        }
        Self { steps, calls: Vec::new(), ..self.clone() }
    }
}
