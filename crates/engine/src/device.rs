//! A file and its devices with the indices that requests need, built when first used.

use std::sync::{Arc, Mutex, OnceLock};

use hashbrown::HashMap;
use vramscope_analysis::categories::Categories;
use vramscope_analysis::pictures::{Clock, Lane, Pile, lanes};
use vramscope_analysis::pools::{Pools, has_private, known_pool};
use vramscope_analysis::tables::Rows;
use vramscope_analysis::whatif::{Simulation, Under};
use vramscope_analysis::{
    AllocIdx, Conclusions, Counter, Device, Line, Moment, Replay, Span, Sum, Times, fx_words, is_internal,
    open_spans, operator, query,
};
use vramscope_simulate::Study;
use vramscope_snapshot::{EventTable, Frame, Pool, PoolId, Snapshot, StackId};

use crate::answers::{LineId, Owner};
use crate::details::{Addresses, FrameInfo};
use crate::protocol::Which;
use crate::rows::NoRows;
use crate::sets::{Group, Set};

/// Lists in order that are kept for the next page.
const KEPT_ORDERS: usize = 6;

/// Annotations that are named at a moment, the outermost of them; more are the work of a file that closes none.
const MOST_PHASES: usize = 32;

/// What a stack is called.
#[derive(Clone, Debug)]
pub(crate) struct StackName {
    /// What its color is made from.
    pub(crate) line: LineId,
    /// The user's own line.
    pub(crate) place: String,
    /// The operator, or the innermost frame.
    pub(crate) operator: String,
}

/// What a stack allocates in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) sum: Sum,
    pub(crate) largest: AllocIdx,
    pub(crate) largest_bytes: u64,
}

/// An opened file.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) rank: String,
    pub(crate) role: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) devices: Vec<DeviceIndex>,
    stacks: OnceLock<Vec<StackName>>,
}

impl File {
    pub(crate) fn new(
        name: String,
        rank: String,
        bytes: u64,
        snapshot: Arc<Snapshot>,
        devices: Vec<Arc<Device>>,
    ) -> Self {
        let by_default = query::devices(&snapshot, &devices, None).unwrap_or_default();
        let devices = devices.into_iter().enumerate();
        let devices =
            devices.map(|(at, replay)| DeviceIndex::new(replay, by_default.contains(&at))).collect();
        let role = snapshot.role.clone();
        Self { name, rank, role, bytes, snapshot, devices, stacks: OnceLock::new() }
    }

    pub(crate) fn stack_name(&self, stack: StackId) -> &StackName {
        static NONE: StackName = StackName { line: LineId(0), place: String::new(), operator: String::new() };
        let names = self.stacks.get_or_init(|| {
            self.snapshot.stacks.ids().map(|stack| stack_name(&self.snapshot, stack)).collect()
        });
        names.get(stack.index()).unwrap_or(&NONE)
    }

    /// What the lines of some owners are called, by number.
    pub(crate) fn lines<'a>(&self, owners: impl Iterator<Item = &'a Owner>) -> Vec<(LineId, String)> {
        let mut named = hashbrown::HashSet::new();
        let mut lines: Vec<_> = owners
            .filter(|owner| named.insert(owner.line))
            .map(|owner| (owner.line, self.stack_name(owner.stack).place.clone()))
            .collect();
        lines.sort_unstable();
        lines
    }

    /// A stack as it is shown, innermost frame first.
    pub(crate) fn frames(&self, stack: StackId) -> Vec<FrameInfo> {
        let info = |frame: Frame| {
            let at = Line::new(&self.snapshot, frame);
            FrameInfo { internal: is_internal(&at.name, &at.file), fx: fx_words(&self.snapshot, frame), at }
        };
        self.snapshot.frames(stack).map(info).collect()
    }

    /// The allocations of a pool, if the file names it.
    pub(crate) fn pool_group(&self, pool: Pool) -> Option<Group> {
        let at = self.snapshot.pools.iter().position(|known| *known == pool)?;
        Some(Group::Pool(PoolId::from_index(at)))
    }

    pub(crate) fn pool_name(&self, pool: PoolId) -> String {
        vramscope_format::pool(known_pool(&self.snapshot, pool))
    }
}

fn stack_name(snapshot: &Snapshot, stack: StackId) -> StackName {
    let line = Line::of(snapshot, stack);
    let place = line.short();
    if line.is_missing() {
        return StackName { line: LineId::default(), operator: place.clone(), place };
    }
    StackName { line: LineId::of(&place), place, operator: operator(snapshot, stack).unwrap_or_default() }
}

/// What each stack has of some allocations.
pub(crate) fn totals(replay: &Replay, some: impl Iterator<Item = AllocIdx>) -> HashMap<StackId, Total> {
    let mut totals: HashMap<StackId, Total> = HashMap::new();
    for index in some {
        let allocation = replay.allocation(index);
        let total = totals.entry(allocation.stack).or_default();
        total.sum.count += 1;
        total.sum.bytes = total.sum.bytes.saturating_add(allocation.requested);
        if total.sum.count == 1 || allocation.requested > total.largest_bytes {
            total.largest = index;
            total.largest_bytes = allocation.requested;
        }
    }
    totals
}

/// A device of a file.
pub(crate) struct DeviceIndex {
    pub(crate) replay: Arc<Device>,
    /// Whether questions about all devices are about this one.
    pub(crate) by_default: bool,
    pub(crate) times: Times,
    /// Of each counter, first without and then with private pools together.
    piles: [OnceLock<Pile>; 6],
    pools: OnceLock<Pools>,
    all_pools: OnceLock<Pools>,
    conclusions: OnceLock<Conclusions>,
    lanes: OnceLock<Vec<Lane>>,
    addresses: OnceLock<Addresses>,
    totals: OnceLock<HashMap<StackId, Total>>,
    orders: Mutex<Vec<(String, Arc<Vec<u32>>)>>,
    /// Sets of allocations that were looked at last.
    pub(crate) sets: Mutex<Vec<(Which, Arc<Set>)>>,
    /// The requests, to be simulated under other settings; or why they cannot be.
    pub(crate) study: OnceLock<Result<Study, String>>,
    pub(crate) simulations: Mutex<Vec<(Under, Simulation)>>,
}

impl DeviceIndex {
    fn new(replay: Arc<Device>, by_default: bool) -> Self {
        let times = Times::new(replay.event_table());
        Self {
            replay,
            by_default,
            times,
            piles: Default::default(),
            pools: OnceLock::new(),
            all_pools: OnceLock::new(),
            conclusions: OnceLock::new(),
            lanes: OnceLock::new(),
            addresses: OnceLock::new(),
            totals: OnceLock::new(),
            orders: Mutex::new(Vec::new()),
            sets: Mutex::new(Vec::new()),
            study: OnceLock::new(),
            simulations: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn events<'a>(&self, snapshot: &'a Snapshot) -> &'a EventTable {
        snapshot.events(self.replay.device())
    }

    pub(crate) fn clock<'a>(&'a self, snapshot: &'a Snapshot) -> Option<Clock<'a>> {
        Clock::new(self.events(snapshot), &self.times)
    }

    /// The pile of a counter. Without any private pool it is the same either way.
    pub(crate) fn pile(&self, snapshot: &Snapshot, counter: Counter, with_pools: bool) -> &Pile {
        let with_pools = with_pools && has_private(snapshot);
        let slot = Self::pile_slot(counter);
        self.piles[slot + if with_pools { 3 } else { 0 }].get_or_init(|| match with_pools {
            true => Pile::with_pools(&self.replay, counter, self.pools()),
            false => Pile::new(&self.replay, counter),
        })
    }

    /// Where the pile of a counter is kept.
    pub(crate) fn pile_slot(counter: Counter) -> usize {
        match counter {
            Counter::Requested => 0,
            Counter::Allocated => 1,
            Counter::Active | Counter::Reserved => 2,
        }
    }

    /// The module of the model that an allocation belongs to.
    pub(crate) fn module(&self, index: AllocIdx) -> Option<&str> {
        self.conclusions().of(&self.replay, index).module
    }

    /// The envelopes of private pools.
    pub(crate) fn pools(&self) -> &Pools {
        self.pools.get_or_init(|| Pools::private(&self.replay))
    }

    /// Rows of tables that leave.
    pub(crate) fn table_rows(&self) -> Rows<'_> {
        let pools = self.all_pools.get_or_init(|| Pools::all(&self.replay));
        Rows::new(&self.replay, pools)
    }

    /// What each allocation is for.
    pub(crate) fn categories(&self) -> &Categories {
        &self.conclusions().categories
    }

    /// What is concluded about each allocation.
    pub(crate) fn conclusions(&self) -> &Conclusions {
        self.conclusions.get_or_init(|| self.replay.conclusions())
    }

    pub(crate) fn lanes(&self) -> &[Lane] {
        self.lanes.get_or_init(|| lanes(&self.replay))
    }

    /// Allocations by address.
    pub(crate) fn addresses(&self) -> &Addresses {
        self.addresses.get_or_init(|| Addresses::new(&self.replay))
    }

    /// What each stack allocates in all.
    pub(crate) fn totals(&self) -> &HashMap<StackId, Total> {
        let all = || self.replay.allocations().iter().map(|(index, _)| index);
        self.totals.get_or_init(|| totals(&self.replay, all()))
    }

    /// A list that is made once and kept for a while.
    pub(crate) fn order(
        &self,
        key: String,
        make: impl FnOnce() -> Result<Vec<u32>, NoRows>,
    ) -> Result<Arc<Vec<u32>>, NoRows> {
        if let Ok(orders) = self.orders.lock()
            && let Some((_, order)) = orders.iter().find(|(known, _)| *known == key)
        {
            return Ok(Arc::clone(order));
        }
        let order = Arc::new(make()?);
        if let Ok(mut orders) = self.orders.lock() {
            if orders.len() >= KEPT_ORDERS {
                orders.remove(0);
            }
            orders.push((key, Arc::clone(&order)));
        }
        Ok(order)
    }

    /// An allocation by a number from outside.
    pub(crate) fn index(&self, alloc: AllocIdx) -> Option<AllocIdx> {
        ((alloc.0 as usize) < self.replay.allocations().len()).then_some(alloc)
    }

    pub(crate) fn owner(&self, file: &File, index: AllocIdx, awaiting: bool) -> Owner {
        let allocation = self.replay.allocation(index);
        Owner {
            alloc: index,
            awaiting,
            stack: allocation.stack,
            line: file.stack_name(allocation.stack).line,
            requested: allocation.requested,
            opened: allocation.opened,
            closed: allocation.closed.known(),
            stream: allocation.stream,
            pool: allocation.pool,
            category: self
                .conclusions
                .get()
                .map_or(Owner::NOT_ASKED, |known| known.categories.of(index) as u8),
        }
    }

    /// Names of the annotations that are open at a moment, outermost first; no more than a screen has room for.
    pub(crate) fn phases(&self, snapshot: &Snapshot, at: Moment) -> Vec<String> {
        let name = |span: Span| vramscope_format::phase(snapshot.text(span.name)).to_owned();
        open_spans(self.replay.spans(), at).into_iter().take(MOST_PHASES).map(name).collect()
    }
}
