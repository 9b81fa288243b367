//! From a trace to the program's requests.
//!
//! Allocations and frees are in the trace as they were asked for. What is not: to which pool a request went before
//! PyTorch 2.12 ([`pools`]), and whether memory was given back to the device because the program called
//! `empty_cache()` or because the allocator needed room ([`Releases`]).

mod foreign;
mod pools;
mod releases;

use hashbrown::HashMap;
use vramscope_snapshot::{Action as Traced, DeviceId, Event, EventTable, Pool, Snapshot, StackId};

use crate::requests::{Action, DeviceCall, Facts, Kind, Place, Requests, Step};
use crate::settings::{SMALL_SEGMENT, Settings, SettingsError};
use pools::Pools;
use releases::{Bounds, Releases};

/// Pools and streams together.
const MAX_PLACES: usize = 1 << 14;
/// Both halves of a free that does not wait come within this time.
const AT_ONCE_US: i64 = 10;
/// No request is larger: what a damaged file says does not overflow sums.
const MAX_REQUEST: u64 = 1 << 40;
/// No address is higher, for the same reason.
const MAX_ADDRESS: u64 = 1 << 60;

/// Why a recording has no requests that could be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The file has no events.
    #[error("the file has no trace of this device, only its final state: record with history enabled")]
    NoTrace,
    /// The source does not know addresses (a profile).
    #[error("the file is a profile, not a memory snapshot: it does not say which request got which memory")]
    NoAddresses,
    /// Another allocator serves this memory.
    #[error("{0} not managed by PyTorch's CUDA caching allocator, whose rules are simulated")]
    OtherAllocator(&'static str),
    /// The settings in the file cannot be simulated.
    #[error("the recorded settings cannot be simulated: {0}")]
    Settings(SettingsError),
    /// More allocations than fit into the compact form.
    #[error("the recording has more than {} allocations", Step::MAX_ALLOCATIONS)]
    TooLong,
}

/// Not as its source: the sentence has the reason already.
impl From<SettingsError> for ExtractError {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

/// The requests of a device. `limit` is the limit of the recorded run, where it is known: it tells a retry from a
/// call of `empty_cache()`.
pub fn requests(snapshot: &Snapshot, device: DeviceId, limit: Option<u64>) -> Result<Requests, ExtractError> {
    let events = snapshot.events(device);
    if !snapshot.has.addresses && !events.is_empty() {
        return Err(ExtractError::NoAddresses);
    }
    if events.is_empty() {
        return Err(ExtractError::NoTrace);
    }
    if let Some(whose) = foreign::allocator(snapshot, device) {
        return Err(ExtractError::OtherAllocator(whose));
    }
    if events.len() >= Step::MAX_ALLOCATIONS {
        return Err(ExtractError::TooLong);
    }
    let settings = Settings { limit, ..Settings::recorded(&snapshot.settings)? };
    let pools = Pools::new(snapshot, device);
    let bounds = Bounds::of(events, &settings);
    let mut extraction = Extraction {
        snapshot,
        events,
        pools,
        releases: Releases::new(snapshot, settings.clone(), bounds),
        settings,
        open: HashMap::new(),
        place_ids: HashMap::new(),
        before: Vec::new(),
        pending: Vec::new(),
        held: Vec::new(),
        captured: HashMap::new(),
        default_allocs: 0,
        reserved: 0,
        in_use: 0,
        requests: Requests::default(),
    };
    extraction.run();
    Ok(extraction.finish(device))
}

/// Memory in use.
#[derive(Clone, Copy)]
struct Open {
    allocation: u32,
    stack: StackId,
    /// Whether the program let it go.
    released: bool,
}

struct Extraction<'a> {
    snapshot: &'a Snapshot,
    events: &'a EventTable,
    settings: Settings,
    pools: Pools,
    releases: Releases<'a>,
    /// Memory in use by address.
    open: HashMap<u64, Open>,
    place_ids: HashMap<Place, u16>,
    /// Memory from before the first event: address, allocation, and whether it was let go before, too.
    before: Vec<(u64, u32, bool)>,
    /// Calls to the device since the last step: their events.
    pending: Vec<u32>,
    /// Frees that completed in the middle of a request.
    held: Vec<Step>,
    /// For each pool of a graph, how many allocations in the default pool had been made at its last one.
    captured: HashMap<Pool, u64>,
    default_allocs: u64,
    reserved: i64,
    in_use: u64,
    requests: Requests,
}

impl Extraction<'_> {
    fn run(&mut self) {
        let mut capture_from = usize::MAX;
        for row in 0..self.events.len() {
            let mut event = self.events.get(row);
            event.size = event.size.min(MAX_REQUEST);
            let moment = row as u32 + 1;
            match event.action {
                Traced::SegmentAlloc | Traced::SegmentMap | Traced::SegmentFree | Traced::SegmentUnmap => {
                    self.pending.push(row as u32);
                }
                Traced::Alloc | Traced::Oom => {
                    let place = self.place(&event, row);
                    if event.action == Traced::Alloc
                        && self.starts_capture(place, &event, row, &mut capture_from)
                    {
                        self.empty_cache(moment);
                    }
                    self.serve(&event, place, row);
                }
                Traced::FreeRequested => {
                    self.flush();
                    let allocation = self.freed(&event, row, false);
                    self.push(Kind::Release, allocation, moment);
                }
                Traced::FreeCompleted => {
                    let allocation = self.freed(&event, row, true);
                    if self.releases_pending() {
                        // empty_cache() waits before it releases: a request did, and waited after a first release.
                        self.held.push(Step::new(Kind::Complete, allocation, moment));
                    } else {
                        self.push(Kind::Complete, allocation, moment);
                    }
                    self.in_use = self.in_use.saturating_sub(event.size);
                }
                _ => {}
            }
        }
        self.flush();
    }

    /// An allocation, or one that failed, with the calls to the device that led to it.
    fn serve(&mut self, event: &Event, place: u16, row: usize) {
        let moment = row as u32 + 1;
        let failed = event.action == Traced::Oom;
        let size = self.settings.segment_size(self.settings.round(event.size));
        let releases = self.releases_pending();
        let explicit = self.releases.explicit(self.events, &self.pending, self.reserved, event, size);
        let explicit = explicit && self.held.is_empty();
        if explicit {
            self.empty_cache(moment);
        }
        // Releasing a part of the cache does not wait: oversize blocks, or old blocks of the large pool.
        let Settings { max_split, gc_threshold, expandable, .. } = self.settings;
        let part_from = if gc_threshold > 0.0 { SMALL_SEGMENT + 1 } else { max_split.unwrap_or(u64::MAX) };
        let released = self.pending.iter().filter(|&&row| !is_taking(self.events, row));
        let mut released = released.map(|&row| self.events.get(row as usize).size);
        let partial = !expandable && released.all(|size| size >= part_from);
        let waited = if failed || releases && !explicit && !partial {
            self.completed_by_waiting(row)
        } else {
            Vec::new()
        };
        let Ok(allocation) = u32::try_from(self.requests.sizes.len()) else { return };
        self.requests.sizes.push(event.size);
        self.requests.places.push(place);
        if self.requests.place(allocation as usize).is_private() {
            let pool = self.requests.place(allocation as usize).pool;
            self.captured.insert(pool, self.default_allocs);
        } else {
            self.default_allocs += 1;
        }
        self.take_pending();
        if failed {
            self.requests.facts.failures.push(moment);
            self.requests.facts.device_full |= event.addr < size;
            self.push(Kind::Fail, allocation, moment);
            self.requests.steps.extend(waited);
            self.requests.steps.append(&mut self.held);
            return;
        }
        if self.open.insert(event.addr, Open { allocation, stack: event.stack, released: false }).is_some() {
            self.requests.facts.odd += 1;
        }
        self.in_use += event.size;
        self.requests.facts.peak_requested = self.requests.facts.peak_requested.max(self.in_use);
        self.push(Kind::Alloc, allocation, moment);
        self.requests.steps.extend(waited);
        self.requests.steps.append(&mut self.held);
    }

    /// Takes back the frees that completed because the allocator, about to release everything for the request at
    /// `row`, waited for all streams: when it looked for a block, theirs were not free yet.
    fn completed_by_waiting(&mut self, row: usize) -> Vec<Step> {
        let mut next = self.pending.first().map_or(row, |&first| first as usize);
        let mut waited = Vec::new();
        while let [.., before, last] = self.requests.steps.as_slice() {
            let completed = last.moment.checked_sub(1).map(|row| row as usize);
            let Some(at) = completed.filter(|&at| last.kind() == Kind::Complete && at + 1 == next) else {
                break;
            };
            let pair = before.kind() == Kind::Release && before.allocation() == last.allocation();
            if pair && before.moment + 1 == last.moment && !self.is_delayed(at) {
                break;
            }
            waited.extend(self.requests.steps.pop());
            next = at;
        }
        waited.reverse();
        waited
    }

    /// Whether the free that completed at `row`, right after it was requested, had to wait all the same: then it
    /// has the stack of the next request, and comes later.
    fn is_delayed(&self, row: usize) -> bool {
        let (completed, requested) = (self.events.get(row), self.events.get(row.saturating_sub(1)));
        let gap = completed.time_us.saturating_sub(requested.time_us);
        completed.stack != requested.stack || completed.time_us != EventTable::NO_TIME && gap >= AT_ONCE_US
    }

    /// The allocation that an event frees; one from before the first event where none is known.
    fn freed(&mut self, event: &Event, row: usize, completed: bool) -> u32 {
        let known =
            if completed { self.open.remove(&event.addr) } else { self.open.get(&event.addr).copied() };
        let open = known.unwrap_or_else(|| {
            let place = self.place(event, row);
            let allocation = self.requests.sizes.len() as u32;
            self.requests.sizes.push(event.size);
            self.requests.places.push(place);
            self.before.push((event.addr, allocation, completed));
            Open { allocation, stack: event.stack, released: false }
        });
        if completed && !open.released && known.is_some() {
            // Its request is missing: it is made now.
            self.push(Kind::Release, open.allocation, row as u32 + 1);
        }
        if !completed {
            // A free that has a stack of its own: then releases have one, too.
            self.releases.has_own_stacks |= open.stack != event.stack;
            self.requests.facts.odd += usize::from(open.released);
            self.open.insert(event.addr, Open { released: true, ..open });
        }
        open.allocation
    }

    fn place(&mut self, event: &Event, row: usize) -> u16 {
        let pool = self.snapshot.pool(event.pool).unwrap_or_else(|| self.pools.of(row));
        self.place_id(Place { pool, stream: self.snapshot.stream(event.stream) })
    }

    fn place_id(&mut self, place: Place) -> u16 {
        let table = &mut self.requests.place_table;
        *self.place_ids.entry(place).or_insert_with(|| {
            // Real recordings have a handful; past the bound they share one.
            if table.len() < MAX_PLACES {
                table.push(place);
            }
            table.len() as u16 - 1
        })
    }

    /// Whether `torch.cuda.graph()` begins before this allocation. It empties the cache first, which leaves no
    /// event where nothing was free. Its own two allocations of 8 bytes come before the first one in its pool.
    fn starts_capture(&self, place: u16, event: &Event, row: usize, from: &mut usize) -> bool {
        let Some(&place) = self.requests.place_table.get(place as usize) else { return false };
        if is_graph(place.pool) {
            let new = self.captured.get(&place.pool).is_none_or(|&then| then != self.default_allocs);
            return new && *from != row;
        }
        if event.size != 8 || place.is_private() || place.stream == 0 || *from == row {
            return false;
        }
        let mut own = 1;
        for next in row + 1..self.events.len().min(row + 12) {
            let other = self.events.get(next);
            match other.action {
                Traced::SegmentAlloc | Traced::SegmentMap => {}
                Traced::Alloc if other.stream == event.stream => {
                    let pool = self.snapshot.pool(other.pool).unwrap_or_else(|| self.pools.of(next));
                    if is_graph(pool) {
                        // The allocation in the pool does not begin another capture.
                        *from = next;
                        return true;
                    }
                    own += 1;
                    if other.size != 8 || own > 2 {
                        return false;
                    }
                    // Nor does the second one.
                    *from = next;
                }
                _ => return false,
            }
        }
        false
    }

    /// `empty_cache()`, with the releases that lie before it in the trace.
    fn empty_cache(&mut self, moment: u32) {
        let releases = self.pending.iter().take_while(|&&row| !is_taking(self.events, row)).count();
        let later = self.pending.split_off(releases);
        let moment = self.pending.first().map_or(moment, |&row| row + 1);
        self.take_pending();
        self.pending = later;
        self.requests.facts.empty_cache += 1;
        self.push(Kind::EmptyCache, 0, moment);
    }

    /// Releases that no allocation follows: the program called `empty_cache()`.
    fn flush(&mut self) {
        if self.releases_pending() {
            self.empty_cache(0);
            self.requests.steps.append(&mut self.held);
        }
    }

    /// Whether memory was given back to the device since the last step.
    fn releases_pending(&self) -> bool {
        self.pending.first().is_some_and(|&row| !is_taking(self.events, row))
    }

    /// Puts the pending calls to the device down for the step that comes next.
    fn take_pending(&mut self) {
        let step = self.requests.steps.len() as u32;
        for row in std::mem::take(&mut self.pending) {
            let event = self.events.get(row as usize);
            let action = match event.action {
                Traced::SegmentAlloc => Action::Alloc,
                Traced::SegmentMap => Action::Map,
                Traced::SegmentUnmap => Action::Unmap,
                _ => Action::Free,
            };
            let bytes = i64::try_from(event.size).unwrap_or(i64::MAX);
            let change = if action.takes() { bytes } else { -bytes };
            self.reserved = self.reserved.saturating_add(change);
            let (addr, size) = (event.addr.min(MAX_ADDRESS), event.size.min(MAX_REQUEST));
            self.requests.calls.push(DeviceCall { step, action, addr, size });
        }
    }

    fn push(&mut self, kind: Kind, allocation: u32, moment: u32) {
        self.requests.steps.push(Step::new(kind, allocation, moment));
    }

    fn finish(mut self, device: DeviceId) -> Requests {
        self.blocks_from_before(device);
        let own_rules = foreign::OwnRules::of(self.snapshot, device, &self.settings);
        let Self { mut requests, mut before, events, releases, settings, pools, .. } = self;
        before.sort_unstable();
        let mut steps = Vec::with_capacity(before.len() + requests.steps.len());
        for &(_, allocation, released) in &before {
            requests.facts.baseline += requests.sizes[allocation as usize];
            steps.push(Step::new(Kind::Alloc, allocation, 0));
            if released {
                steps.push(Step::new(Kind::Release, allocation, 0));
            }
        }
        requests.facts.peak_requested += requests.facts.baseline;
        requests.prelude = steps.len();
        for call in &mut requests.calls {
            call.step += steps.len() as u32;
        }
        steps.append(&mut requests.steps);
        requests.steps = steps;
        requests.facts.notice(events, &settings);
        requests.facts.pool_released = pools.released;
        requests.facts.custom_pool = own_rules.custom;
        requests.facts.unsplit_pool = own_rules.unsplit;
        requests.facts.limit = releases.limit();
        requests.facts.delayed_frees = delayed(&requests.steps);
        requests
    }

    /// Blocks that live at the end and that no event allocated.
    fn blocks_from_before(&mut self, device: DeviceId) {
        for segment in self.snapshot.segments_of(device) {
            let pool = self.snapshot.pool(segment.pool).unwrap_or((0, 0));
            for block in self.snapshot.blocks.of(segment) {
                let used = block.state != vramscope_snapshot::BlockState::Inactive;
                if !used || self.open.contains_key(&block.addr) {
                    continue;
                }
                let place = self.place_id(Place { pool, stream: self.snapshot.stream(segment.stream) });
                let allocation = self.requests.sizes.len() as u32;
                let size = if block.requested == 0 { block.size } else { block.requested };
                self.requests.sizes.push(size);
                self.requests.places.push(place);
                let released = block.state == vramscope_snapshot::BlockState::PendingFree;
                self.before.push((block.addr, allocation, released));
            }
        }
    }
}

fn is_graph(pool: Pool) -> bool {
    pool.0 != 0
}

fn is_taking(events: &EventTable, row: u32) -> bool {
    matches!(events.action(row as usize), Some(Traced::SegmentAlloc | Traced::SegmentMap))
}

/// Frees between whose two halves another request was made.
fn delayed(steps: &[Step]) -> usize {
    let pairs = steps.windows(2);
    let completed = steps.iter().filter(|step| step.kind() == Kind::Complete).count();
    let at_once = pairs.filter(|pair| {
        pair[0].kind() == Kind::Release
            && pair[1].kind() == Kind::Complete
            && pair[0].allocation() == pair[1].allocation()
    });
    completed - at_once.count()
}

impl Facts {
    fn notice(&mut self, events: &EventTable, settings: &Settings) {
        self.events = events.len();
        let count = |action| events.actions().filter(|&other| other == action).count();
        let (requested, completed) = (count(Traced::FreeRequested), count(Traced::FreeCompleted));
        self.frees_skipped = (requested == 0) != (completed == 0);
        let (whole, mapped) = (count(Traced::SegmentAlloc), count(Traced::SegmentMap));
        self.mixed_segments = if settings.expandable { whole > 0 } else { mapped > 0 };
    }
}
