//! The trace: what the allocator did, one row per event.
//!
//! Stored as columns because every question reads a few of them over many rows: a replay touches the
//! action, address and size of a million events and nothing else. 29 bytes per event while one stream
//! is used and no metadata is set; the other columns exist only from their first unusual value on.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use bytemuck::{Pod, Zeroable};
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;

use super::{Column, DeviceId, MetaId, PoolId, StackId, StrId, StreamId, Totals};

/// Largest size in bytes. Larger ones are not memory of any machine: sums of them would overflow.
pub(crate) const MAX_SIZE: u64 = 1 << 48;

/// What an event did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// A block was handed to the program. The size is what was asked for, not rounded.
    Alloc,
    /// The program let a block go.
    FreeRequested,
    /// The block went back to its pool: at once, or when other streams had finished with it.
    FreeCompleted,
    /// Memory was taken from the driver.
    SegmentAlloc,
    /// Memory was given back to the driver.
    SegmentFree,
    /// Part of an expandable segment was backed with memory.
    SegmentMap,
    /// Part of an expandable segment was given back.
    SegmentUnmap,
    /// An earlier snapshot was taken. The size is the active bytes at that time.
    Snapshot,
    /// An allocation failed. The size is the rounded request; the address column holds the bytes
    /// that the driver had free.
    Oom,
    /// The program attached a note to a block.
    Annotate,
    /// A mark of the nightlies of mid-2024; annotations took its place.
    UserDefined,
    /// NPU: the next `segment_alloc` and `alloc` describe a workspace as it was at the end.
    WorkspaceSnapshot,
    /// A profiler states the allocator's totals, not what changed them.
    Total,
    /// An action that this version does not know, or none. Changes no memory.
    #[default]
    Unknown,
}

impl Action {
    /// Every action, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::Oom,
        Self::Annotate,
        Self::UserDefined,
        Self::WorkspaceSnapshot,
        Self::Total,
        Self::Unknown,
    ];

    /// The action of a number; [`Action::Unknown`] of one that is not among them.
    #[inline]
    pub fn numbered(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// The word PyTorch writes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
            Self::Annotate => "annotate",
            Self::UserDefined => "user_defined",
            Self::WorkspaceSnapshot => "workspace_snapshot",
            Self::Total => "total",
            Self::Unknown => "unknown",
        }
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(u32);

impl Actions {
    /// Those that `is_one` holds for.
    pub fn of(is_one: impl Fn(Action) -> bool) -> Self {
        let one = |action: &Action| is_one(*action);
        Self(Action::ALL.into_iter().filter(one).fold(0, |bits, action| bits | (1 << action as u8)))
    }

    /// Whether an action is one of them, by its number.
    fn has(self, number: u8) -> bool {
        self.0 & (1 << Action::numbered(number) as u8) != 0
    }
}

/// The strings that an event may carry beside its numbers. Most events share one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Meta {
    /// The compiled region, e.g. `Torch-Compiled Region: 0/0`. Empty for PyTorch's `N/A`.
    pub compile_context: StrId,
    /// What `_set_memory_metadata` was given, or the text of an `annotate` event.
    pub user_metadata: StrId,
    /// PyTorch's own mark, e.g. `mallocWithAddress`.
    pub internal_metadata: StrId,
    /// What the profiler took the allocation for.
    pub category: StrId,
    /// The forward traceback of anomaly mode, its chunks joined.
    pub forward: StrId,
    /// The word of an action that this version does not know.
    pub unknown_action: StrId,
}

/// One row of an [`EventTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Address of the block or segment; for [`Action::Oom`] the bytes that the driver had free.
    pub addr: u64,
    /// Bytes; what they count depends on the action.
    pub size: u64,
    /// Microseconds since the Unix epoch; [`EventTable::NO_TIME`] where the writer has no clock.
    pub time_us: i64,
    /// Where in the program.
    pub stack: StackId,
    /// Stream of the block.
    pub stream: StreamId,
    /// Pool of the block.
    pub pool: PoolId,
    /// What else was attached.
    pub meta: MetaId,
}

/// The events of one device in trace order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTable {
    /// The number of each action.
    pub(crate) action: Buffer<u8>,
    pub(crate) addr: Buffer<u64>,
    pub(crate) size: Buffer<u64>,
    pub(crate) time_us: Buffer<i64>,
    pub(crate) stack: Buffer<StackId>,
    pub(crate) stream: Column<StreamId>,
    pub(crate) pool: Column<PoolId>,
    pub(crate) meta: Column<MetaId>,
    pub(crate) nanos: Buffer<u16>,
    pub(crate) time_bounds: Kept<TimeBounds>,
    pub(crate) kinds: Kept<Kinds>,
    pub(crate) distinct_stacks: Kept<StackId>,
    pub(crate) reordered: bool,
}

/// The least and the greatest time of [`EventTable::STRIDE`] events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TimeBounds {
    /// [`i64::MAX`] if none of them has a time.
    pub least: i64,
    /// [`EventTable::NO_TIME`] if none of them has a time.
    pub greatest: i64,
}

/// What kinds of events are among [`EventTable::STRIDE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Kinds {
    /// The smallest and the largest size.
    least: u64,
    most: u64,
    /// Their actions, a bit each.
    actions: u32,
    /// Always 0.
    unused: u32,
}

/// Something about the events of a trace, where it comes from a file. It follows from the events: traces that are the
/// same may differ in whether they have it.
#[derive(Clone, Debug)]
pub(crate) struct Kept<T: Pod>(pub(crate) Buffer<T>);

impl<T: Pod> Default for Kept<T> {
    fn default() -> Self {
        Self(Buffer::new())
    }
}

impl<T: Pod> PartialEq for Kept<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T: Pod> Eq for Kept<T> {}

impl EventTable {
    /// A table without events.
    pub(crate) const EMPTY: Self = Self {
        action: Buffer::new(),
        addr: Buffer::new(),
        size: Buffer::new(),
        time_us: Buffer::new(),
        stack: Buffer::new(),
        stream: Column::EMPTY,
        pool: Column::EMPTY,
        meta: Column::EMPTY,
        nanos: Buffer::new(),
        time_bounds: Kept(Buffer::new()),
        kinds: Kept(Buffer::new()),
        distinct_stacks: Kept(Buffer::new()),
        reordered: false,
    };

    /// Events of which something is kept together.
    pub const STRIDE: usize = 256;

    /// The time of an event whose writer has no clock (NPU, PyTorch before 2.2).
    pub const NO_TIME: i64 = i64::MIN;

    /// Number of events.
    pub fn len(&self) -> usize {
        self.action.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
    }

    /// One event; a default one past the end. Inlined, so that a loop looks only at the columns that it uses.
    #[inline(always)]
    pub fn get(&self, row: usize) -> Event {
        let Some(action) = self.action(row) else {
            return Event { time_us: Self::NO_TIME, ..Event::default() };
        };
        Event {
            action,
            addr: self.addr[row],
            size: self.size[row],
            time_us: self.time_us[row],
            stack: self.stack[row],
            stream: self.stream.get(row),
            pool: self.pool.get(row),
            meta: self.meta.get(row),
        }
    }

    /// All events in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The action of one event.
    #[inline]
    pub fn action(&self, row: usize) -> Option<Action> {
        self.action.get(row).map(|&number| Action::numbered(number))
    }

    /// The action of every event.
    pub fn actions(&self) -> impl ExactSizeIterator<Item = Action> + DoubleEndedIterator + Clone + '_ {
        self.action.iter().map(|&number| Action::numbered(number))
    }

    /// The address of every event.
    pub fn addrs(&self) -> &[u64] {
        &self.addr
    }

    /// The size of every event.
    pub fn sizes(&self) -> &[u64] {
        &self.size
    }

    /// The stack of every event.
    pub fn stacks(&self) -> &[StackId] {
        &self.stack
    }

    /// The stack of one event.
    pub fn stack(&self, row: usize) -> Option<StackId> {
        self.stack.get(row).copied()
    }

    /// The stacks of all events, each once, in order.
    pub fn distinct_stacks(&self) -> Cow<'_, [StackId]> {
        if !self.distinct_stacks.0.is_empty() {
            return Cow::Borrowed(&self.distinct_stacks.0);
        }
        let mut found: Vec<StackId> =
            self.stack.iter().copied().collect::<HashSet<_>>().into_iter().collect();
        found.sort_unstable();
        Cow::Owned(found)
    }

    /// The stacks of all events, each at least once: without a walk over the events where a file has them at hand.
    pub fn any_stacks(&self) -> &[StackId] {
        if self.distinct_stacks.0.is_empty() { &self.stack } else { &self.distinct_stacks.0 }
    }

    /// The time of an event, if its writer had a clock.
    #[inline]
    pub fn time_us(&self, row: usize) -> Option<i64> {
        self.time_us.get(row).copied().filter(|&time| time != Self::NO_TIME)
    }

    /// The bounds of the times of each [`EventTable::STRIDE`] events: a search by time looks at few events.
    pub fn time_bounds(&self) -> Cow<'_, [TimeBounds]> {
        if self.time_bounds.0.len() == self.len().div_ceil(Self::STRIDE) {
            return Cow::Borrowed(&self.time_bounds.0);
        }
        let bounds = |times: &[i64]| {
            let mut bounds = TimeBounds { least: i64::MAX, greatest: Self::NO_TIME };
            for &time in times {
                // No time at all is the least number there is, so it raises nothing.
                bounds.greatest = bounds.greatest.max(time);
                bounds.least = bounds.least.min(if time == Self::NO_TIME { i64::MAX } else { time });
            }
            bounds
        };
        self.time_us.chunks(Self::STRIDE).map(bounds).collect()
    }

    /// What kinds of events are among each [`EventTable::STRIDE`].
    pub(crate) fn kinds(&self) -> Vec<Kinds> {
        let stretches = self.action.chunks(Self::STRIDE).zip(self.size.chunks(Self::STRIDE));
        let kinds = |(actions, sizes): (&[u8], &[u64])| Kinds {
            least: sizes.iter().copied().min().unwrap_or_default(),
            most: sizes.iter().copied().max().unwrap_or_default(),
            actions: actions.iter().fold(0, |bits, &number| bits | (1 << Action::numbered(number) as u8)),
            unused: 0,
        };
        stretches.map(kinds).collect()
    }

    /// The rows in a range of events with one of some actions and of some sizes. Of a trace in the cache, only stretches
    /// that may have any are looked at.
    pub fn rows_like(
        &self,
        rows: Range<usize>,
        actions: Actions,
        sizes: RangeInclusive<u64>,
    ) -> impl Iterator<Item = usize> + '_ {
        let end = rows.end.min(self.len());
        let kept = &self.kinds.0;
        let has_kinds = kept.len() == self.len().div_ceil(Self::STRIDE);
        (rows.start / Self::STRIDE..end.div_ceil(Self::STRIDE)).flat_map(move |stretch| {
            let may_have = |kinds: &Kinds| {
                kinds.actions & actions.0 != 0 && kinds.least <= *sizes.end() && kinds.most >= *sizes.start()
            };
            let kinds = kept.get(stretch).filter(|_| has_kinds);
            let first = (stretch * Self::STRIDE).max(rows.start);
            let part = match kinds.is_none_or(may_have) {
                true => first..((stretch + 1) * Self::STRIDE).min(end),
                false => first..first,
            };
            let found = self.action.slice(part.clone()).unwrap_or_default().iter();
            let found = found.zip(self.size.slice(part.clone()).unwrap_or_default()).zip(part);
            let sizes = sizes.clone();
            found
                .filter(move |((action, size), _)| actions.has(**action) && sizes.contains(size))
                .map(|(_, row)| row)
        })
    }

    /// The time of an event in nanoseconds: profilers have a finer clock than snapshots.
    pub fn time_ns(&self, row: usize) -> Option<i64> {
        let nanos = self.nanos.get(row).copied().unwrap_or_default();
        Some(self.time_us(row)?.saturating_mul(1000).saturating_add(nanos.into()))
    }

    /// Adds an event at the end that happened at a time in nanoseconds.
    pub(crate) fn push_at(&mut self, event: &Event, time_ns: Option<i64>) {
        let time_us = time_ns.map_or(Self::NO_TIME, |time| time.div_euclid(1000));
        self.push(&Event { time_us, ..*event });
        self.nanos.push(time_ns.map_or(0, |time| time.rem_euclid(1000) as u16));
    }

    /// Whether the next event needs more room.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.action.len() == self.action.capacity()
    }

    /// Reserves room for `more` events, if there is any.
    pub(crate) fn reserve(&mut self, more: usize) {
        let _ = self.action.to_mut().try_reserve_exact(more);
        let _ = self.addr.to_mut().try_reserve_exact(more);
        let _ = self.size.to_mut().try_reserve_exact(more);
        let _ = self.time_us.to_mut().try_reserve_exact(more);
        let _ = self.stack.to_mut().try_reserve_exact(more);
    }

    /// Adds an event at the end.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        let row = self.action.len();
        self.action.push(event.action as u8);
        self.addr.push(event.addr);
        self.size.push(event.size);
        self.time_us.push(event.time_us);
        self.stack.push(event.stack);
        self.stream.set(row, event.stream);
        self.pool.set(row, event.pool);
        self.meta.set(row, event.meta);
    }

    /// Where time first goes back by more than `least` microseconds, and by how much.
    pub(crate) fn first_jump_back(&self, least: i64) -> Option<(usize, i64)> {
        let steps = self.time_us.windows(2).enumerate();
        let mut back = steps.map(|(row, pair)| (row + 1, pair[0].saturating_sub(pair[1])));
        back.find(|&(_, back)| back > least)
            .filter(|_| self.time_us.iter().all(|&time| time != Self::NO_TIME))
    }

    /// Puts the events in the order of their times, if that makes more sense than the order they have;
    /// those of the same time stay as they are. Says whether it did.
    pub(crate) fn sort_by_time_if_better(&mut self) -> bool {
        let order: Vec<u32> = (0..self.len() as u32).collect();
        let mut by_time = order.clone();
        by_time.sort_by_key(|&row| self.time_us[row as usize]);
        if self.oddities_in_order(&by_time) >= self.oddities_in_order(&order) {
            return false;
        }
        self.reorder(&by_time);
        true
    }

    /// How often an order of the events allocates what is in use, or frees what is not.
    fn oddities_in_order(&self, order: &[u32]) -> usize {
        let mut open = HashSet::new();
        let mut odd = 0;
        for &row in order {
            let addr = self.addr[row as usize];
            let fits = match Action::numbered(self.action[row as usize]) {
                Action::Alloc => open.insert(addr),
                Action::FreeRequested => open.contains(&addr),
                Action::FreeCompleted => open.remove(&addr),
                _ => true,
            };
            odd += usize::from(!fits);
        }
        odd
    }

    fn reorder(&mut self, order: &[u32]) {
        let mut sorted = Self::default();
        for &row in order {
            sorted.push(&self.get(row as usize));
        }
        *self = Self { reordered: true, ..sorted };
    }

    /// Whether the file has the events in another order: the ring was resized while recording.
    pub fn is_reordered(&self) -> bool {
        self.reordered
    }

    /// Takes off the rows from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        Self {
            action: self.action.split_off(at),
            addr: self.addr.split_off(at),
            size: self.size.split_off(at),
            time_us: self.time_us.split_off(at),
            stack: self.stack.split_off(at),
            stream: self.stream.split_off(at),
            pool: self.pool.split_off(at),
            meta: self.meta.split_off(at),
            nanos: self.nanos.split_off(at.min(self.nanos.len())),
            time_bounds: Kept::default(),
            kinds: Kept::default(),
            distinct_stacks: Kept::default(),
            reordered: self.reordered,
        }
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.action.to_mut().shrink_to_fit();
        self.addr.to_mut().shrink_to_fit();
        self.size.to_mut().shrink_to_fit();
        self.time_us.to_mut().shrink_to_fit();
        self.stack.to_mut().shrink_to_fit();
        self.stream.shrink_to_fit();
        self.pool.shrink_to_fit();
        self.meta.shrink_to_fit();
        self.nanos.to_mut().shrink_to_fit();
    }
}

/// The trace of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Which device.
    pub device: DeviceId,
    /// What happened on it.
    pub events: EventTable,
    /// What the source states beside its events; empty for snapshots, whose replay needs no help.
    pub totals: Totals,
}
