//! A file and its devices with the indices that questions need, built when first asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use vramscope_analysis::categories::{Categories, Rules, classify};
use vramscope_analysis::picture::{Clock, Lane, Stack, lanes};
use vramscope_analysis::pools::{Pools, has_private};
use vramscope_analysis::{AllocIdx, Counter, Line, Moment, Replay, Span, Times, no_frame, spans, user_frame};
use vramscope_snapshot::{EventTable, Frame, PoolId, Snapshot, StackId};

use crate::answers::{FrameInfo, Owner};

/// Lists in order that are kept for the next page.
const KEPT_ORDERS: usize = 6;

/// Annotations that are named at a moment, the outermost of them; more are the work of a file that closes none.
const MOST_PHASES: usize = 32;

/// What a stack is called.
#[derive(Clone, Debug)]
pub(crate) struct StackName {
    /// The same number for the same line in every file.
    pub(crate) line: u32,
    /// The user's own line.
    pub(crate) place: String,
    /// The innermost function.
    pub(crate) operator: String,
}

/// What a stack allocates in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) largest: u32,
    pub(crate) largest_bytes: u64,
}

/// An opened file.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) rank: String,
    pub(crate) role: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) devices: Vec<Device>,
    stacks: OnceLock<Vec<StackName>>,
}

impl File {
    pub(crate) fn new(
        name: String,
        rank: String,
        bytes: u64,
        snapshot: Arc<Snapshot>,
        replays: Vec<Replay>,
    ) -> Self {
        let devices = replays.into_iter().map(|replay| Device::new(&snapshot, replay)).collect();
        let role = snapshot.role.clone();
        Self { name, rank, role, bytes, snapshot, devices, stacks: OnceLock::new() }
    }

    pub(crate) fn stack_name(&self, stack: StackId) -> &StackName {
        static NONE: StackName = StackName { line: 0, place: String::new(), operator: String::new() };
        let names = self.stacks.get_or_init(|| {
            self.snapshot.stacks.ids().map(|stack| stack_name(&self.snapshot, stack)).collect()
        });
        names.get(stack.index()).unwrap_or(&NONE)
    }

    /// A stack as it is shown, innermost frame first.
    pub(crate) fn frames(&self, stack: StackId) -> Vec<FrameInfo> {
        self.snapshot.frames(stack).map(|frame| frame_info(&self.snapshot, frame)).collect()
    }

    pub(crate) fn pool_name(&self, pool: PoolId) -> String {
        vramscope_format::pool(self.snapshot.pool(pool))
    }
}

pub(crate) fn frame_info(snapshot: &Snapshot, frame: Frame) -> FrameInfo {
    let Line { file, line, name } = Line::new(snapshot, frame);
    FrameInfo { internal: vramscope_analysis::is_internal(&name, &file), name, file, line }
}

fn stack_name(snapshot: &Snapshot, stack: StackId) -> StackName {
    let text = |frame: Frame| Line::new(snapshot, frame).short();
    let innermost = snapshot.frames(stack).next();
    let operator = innermost.map_or_else(String::new, |frame| snapshot.text(frame.name).to_owned());
    match user_frame(snapshot, stack) {
        Some(frame) => {
            let place = text(frame);
            StackName { line: line_number(&place), place, operator }
        }
        None => {
            let place = no_frame(snapshot, stack);
            StackName { line: 0, place: place.into(), operator: place.into() }
        }
    }
}

/// A number for a line that is the same in every file. Never 0.
pub(crate) fn line_number(place: &str) -> u32 {
    vramscope_format::color::number(place).max(1)
}

/// What a kept order is for, in words.
type OrderKey = String;

/// A list that pages are cut from.
pub(crate) type Order<T> = Arc<Vec<T>>;

/// A device of a file.
pub(crate) struct Device {
    pub(crate) replay: Replay,
    pub(crate) times: Times,
    pub(crate) spans: Vec<Span>,
    /// Of each counter, first without and then with private pools together.
    stacks: [OnceLock<Stack>; 6],
    pools: OnceLock<Pools>,
    categories: OnceLock<Categories>,
    lanes: OnceLock<Vec<Lane>>,
    totals: OnceLock<HashMap<StackId, Total>>,
    orders: Mutex<Vec<(OrderKey, Order<u32>)>>,
}

impl Device {
    fn new(snapshot: &Snapshot, replay: Replay) -> Self {
        let times = Times::new(snapshot.events(replay.device()));
        let spans = spans(snapshot, replay.device());
        Self {
            replay,
            times,
            spans,
            stacks: Default::default(),
            pools: OnceLock::new(),
            categories: OnceLock::new(),
            lanes: OnceLock::new(),
            totals: OnceLock::new(),
            orders: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn events<'a>(&self, snapshot: &'a Snapshot) -> &'a EventTable {
        snapshot.events(self.replay.device())
    }

    pub(crate) fn clock<'a>(&'a self, snapshot: &'a Snapshot) -> Option<Clock<'a>> {
        Clock::new(self.events(snapshot), &self.times)
    }

    /// The stack of a counter. Without any private pool it is the same either way.
    pub(crate) fn stack(&self, snapshot: &Snapshot, counter: Counter, with_pools: bool) -> &Stack {
        let with_pools = with_pools && has_private(snapshot);
        let slot = match counter {
            Counter::Requested => 0,
            Counter::Allocated => 1,
            Counter::Active | Counter::Reserved => 2,
        };
        self.stacks[slot + if with_pools { 3 } else { 0 }].get_or_init(|| match with_pools {
            true => Stack::with_pools(&self.replay, counter, self.pools(snapshot)),
            false => Stack::new(&self.replay, counter),
        })
    }

    /// The envelopes of private pools.
    pub(crate) fn pools(&self, snapshot: &Snapshot) -> &Pools {
        self.pools.get_or_init(|| Pools::private(snapshot, &self.replay))
    }

    /// What each allocation is for.
    pub(crate) fn categories(&self, snapshot: &Snapshot) -> &Categories {
        self.categories.get_or_init(|| classify(&self.replay, snapshot, &Rules::default()))
    }

    pub(crate) fn lanes(&self) -> &[Lane] {
        self.lanes.get_or_init(|| lanes(&self.replay))
    }

    /// What each stack allocates in all.
    pub(crate) fn totals(&self) -> &HashMap<StackId, Total> {
        self.totals.get_or_init(|| {
            let mut totals: HashMap<StackId, Total> = HashMap::new();
            for (index, allocation) in self.replay.allocations().iter() {
                let total = totals.entry(allocation.stack).or_default();
                total.count += 1;
                total.bytes = total.bytes.saturating_add(allocation.requested);
                if total.count == 1 || allocation.requested > total.largest_bytes {
                    total.largest = index.0;
                    total.largest_bytes = allocation.requested;
                }
            }
            totals
        })
    }

    /// A list that is made once and kept for a while.
    pub(crate) fn order(&self, key: OrderKey, make: impl FnOnce() -> Option<Vec<u32>>) -> Option<Order<u32>> {
        if let Ok(orders) = self.orders.lock()
            && let Some((_, order)) = orders.iter().find(|(known, _)| *known == key)
        {
            return Some(Arc::clone(order));
        }
        let order = Arc::new(make()?);
        if let Ok(mut orders) = self.orders.lock() {
            if orders.len() >= KEPT_ORDERS {
                orders.remove(0);
            }
            orders.push((key, Arc::clone(&order)));
        }
        Some(order)
    }

    /// An allocation by a number from outside.
    pub(crate) fn index(&self, alloc: u32) -> Option<AllocIdx> {
        ((alloc as usize) < self.replay.allocations().len()).then_some(AllocIdx(alloc))
    }

    pub(crate) fn owner(&self, file: &File, index: AllocIdx, awaiting: bool) -> Owner {
        let allocation = self.replay.allocation(index);
        Owner {
            alloc: index.0,
            awaiting,
            stack: allocation.stack.0,
            line: file.stack_name(allocation.stack).line,
            requested: allocation.requested,
            opened: allocation.opened.0,
            closed: allocation.closed.0,
            stream: allocation.stream.0,
            pool: allocation.pool.0,
            category: self.categories.get().map_or(0, |known| known.of(index) as u8),
            ..Owner::default()
        }
    }

    /// Names of the annotations that are open at a moment, outermost first; no more than a screen has room for.
    pub(crate) fn phases(&self, snapshot: &Snapshot, at: Moment) -> Vec<String> {
        let begun = self.spans.partition_point(|span| span.from <= at);
        let open =
            self.spans[..begun].iter().filter(|span| span.from <= at && at <= span.to && span.from < span.to);
        let mut names: Vec<_> = open
            .map(|span| (span.depth, vramscope_format::phase(snapshot.text(span.name)).to_owned()))
            .collect();
        names.sort_by_key(|(depth, _)| *depth);
        names.truncate(MOST_PHASES);
        names.into_iter().map(|(_, name)| name).collect()
    }
}
