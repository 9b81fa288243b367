//! The memory held from the driver, at the start and after every event that changes it.
//!
//! What was held at the start is the final state with all events undone. From there the events are
//! applied forwards; every so often the whole set is kept, so that it can be had for any moment
//! without starting over.

use std::collections::BTreeMap;

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;
use vramscope_snapshot::{Action, DeviceId, EventIdx, EventTable, PoolId, Segment, Snapshot, StreamId};

use crate::allocations::Moment;
use crate::rounding::UNIT;

/// A contiguous range held from the driver: a segment, or a mapped part of an expandable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Stream that it serves.
    pub stream: StreamId,
    /// Pool that it belongs to, where the file says so.
    pub pool: PoolId,
    /// Whether it can grow and shrink.
    pub expandable: bool,
}

impl Range {
    /// The address after the last.
    pub fn end(&self) -> u64 {
        self.addr.saturating_add(self.size)
    }
}

/// Ranges by address. They never overlap.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RangeSet(BTreeMap<u64, Range>);

impl RangeSet {
    /// Ranges by address.
    pub fn iter(&self) -> impl Iterator<Item = &Range> {
        self.0.values()
    }

    /// The range that contains an address.
    pub fn find(&self, addr: u64) -> Option<&Range> {
        self.0.range(..=addr).next_back().map(|(_, range)| range).filter(|range| addr < range.end())
    }

    /// Where the first range at or after an address begins.
    fn first_from(&self, addr: u64) -> Option<u64> {
        self.0.range(addr..).next().map(|(&start, _)| start)
    }

    /// Adds a range; an expandable one joins its neighbours. Says whether the place was free.
    pub fn insert(&mut self, mut range: Range) -> bool {
        if range.size == 0 {
            return true;
        }
        if range.addr.checked_add(range.size).is_none() {
            return false;
        }
        let before = self.0.range(..range.end()).next_back().map(|(_, found)| *found);
        if before.is_some_and(|found| found.end() > range.addr) {
            return false;
        }
        let added = range;
        let agrees = |a: PoolId, b: PoolId| a == b || a == PoolId::UNKNOWN || b == PoolId::UNKNOWN;
        let joins = |found: &Range| {
            found.expandable
                && added.expandable
                && found.stream == added.stream
                && agrees(found.pool, added.pool)
        };
        // A pool that is known is that of the whole: one expandable segment is in one pool.
        let known = |a: PoolId, b: PoolId| if a == PoolId::UNKNOWN { b } else { a };
        if let Some(left) = before.filter(|left| left.end() == range.addr && joins(left)) {
            self.0.remove(&left.addr);
            let pool = known(left.pool, range.pool);
            range = Range { addr: left.addr, size: left.size + range.size, pool, ..range };
        }
        let right = self.0.get(&range.end()).copied();
        if let Some(right) = right.filter(|right| joins(right) && agrees(right.pool, range.pool)) {
            self.0.remove(&right.addr);
            range = Range { size: range.size + right.size, pool: known(range.pool, right.pool), ..range };
        }
        self.0.insert(range.addr, range);
        true
    }

    /// Removes a range, which may be a part of a longer one. Returns the range that it was part of.
    pub fn remove(&mut self, addr: u64, size: u64) -> Option<Range> {
        let found = *self.find(addr)?;
        let end = addr.saturating_add(size);
        if end > found.end() {
            return None;
        }
        self.0.remove(&found.addr);
        if found.addr < addr {
            self.0.insert(found.addr, Range { size: addr - found.addr, ..found });
        }
        if end < found.end() {
            self.0.insert(end, Range { addr: end, size: found.end() - end, ..found });
        }
        Some(found)
    }

    /// Applies an event. Says whether it fits what was there.
    fn apply(&mut self, change: &Change) -> bool {
        match change.held {
            true => self.insert(change.range),
            false => self.remove(change.range.addr, change.range.size).is_some(),
        }
    }

    /// Takes an event back.
    fn undo(&mut self, change: &Change) -> bool {
        match change.held {
            true => self.remove(change.range.addr, change.range.size).is_some(),
            false => self.insert(change.range),
        }
    }
}

/// What an event changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Event that makes the change.
    pub event: EventIdx,
    /// Memory that is taken or given back.
    pub range: Range,
    /// Whether the range was added; otherwise it was given back.
    pub held: bool,
}

impl Change {
    /// Bytes by which the change raises what is held.
    pub fn bytes(&self) -> i64 {
        let size = i64::try_from(self.range.size).unwrap_or(i64::MAX);
        if self.held { size } else { -size }
    }
}

/// A change as it is stored.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct StoredChange {
    addr: u64,
    size: u64,
    stream: StreamId,
    pool: PoolId,
    event: EventIdx,
    /// [`EXPANDABLE`] and [`HELD`].
    flags: u32,
}

const EXPANDABLE: u32 = 1;
const HELD: u32 = 2;

impl From<Change> for StoredChange {
    fn from(Change { event, range, held }: Change) -> Self {
        let Range { addr, size, stream, pool, expandable } = range;
        let flags = (u32::from(expandable) * EXPANDABLE) | (u32::from(held) * HELD);
        Self { addr, size, stream, pool, event, flags }
    }
}

impl From<StoredChange> for Change {
    fn from(StoredChange { addr, size, stream, pool, event, flags }: StoredChange) -> Self {
        let range = Range { addr, size, stream, pool, expandable: flags & EXPANDABLE != 0 };
        Self { event, range, held: flags & HELD != 0 }
    }
}

/// Changes in order. Looking at some of them touches only these.
#[derive(Clone, Debug, Default)]
pub struct Changes(Buffer<StoredChange>);

/// Those of a source that has no map of memory.
pub(crate) static NO_CHANGES: Changes = Changes(Buffer::new());

impl Changes {
    /// One change.
    pub fn get(&self, row: usize) -> Option<Change> {
        self.0.get(row).map(|&stored| stored.into())
    }

    /// Changes in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Change> + '_ {
        self.0.iter().map(|&stored| stored.into())
    }

    fn slice(&self, rows: std::ops::Range<usize>) -> impl Iterator<Item = Change> + '_ {
        self.0.slice(rows).unwrap_or_default().iter().map(|&stored| stored.into())
    }

    /// How many are of events before one.
    fn before(&self, event: u32) -> usize {
        self.0.partition_point(|change| change.event.0 < event)
    }

    fn push(&mut self, change: Change) {
        self.0.push(change.into());
    }
}

/// The history of what was held.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RangeHistory {
    pub(crate) start: RangeSet,
    #[serde(skip)]
    pub(crate) changes: Changes,
    /// Bytes held at the start, by the counts alone: the least that keeps the level above zero.
    pub(crate) start_bytes: i64,
    /// By how many bytes the level would have fallen below zero: more is given back, or less is left at the
    /// end, than the events have taken.
    pub(crate) short_bytes: u64,
    /// Number of changes, and where what was held after them ends in `kept`.
    checkpoints: Vec<(usize, usize)>,
    /// What was held, as if it had been taken at once.
    #[serde(skip)]
    kept: Changes,
    /// Changes that do not fit the state before them.
    pub(crate) contradictions: u64,
    /// Ranges from before the first event whose stack is known: recording was on when they were taken.
    pub(crate) start_with_stack: u64,
}

/// Checkpoints are this many changes apart, or as many as there are ranges.
const CHECKPOINT_CHANGES: usize = 256;

impl RangeHistory {
    /// `complete` is false for a damaged file, whose final state belongs to events that are not
    /// there: then what was held at the start is what the events themselves imply.
    pub(crate) fn new(
        snapshot: &Snapshot,
        device: DeviceId,
        events: &EventTable,
        segment_events: &[EventIdx],
        complete: bool,
    ) -> Self {
        let mut history = Self::default();
        let mut changes = changes(events, segment_events);
        let mut contradictions = 0;
        if complete {
            for segment in snapshot.segments_of(device) {
                history.start_bytes =
                    history.start_bytes.saturating_add(i64::try_from(segment.total_size).unwrap_or(i64::MAX));
                let fits = history.start.insert(Range {
                    addr: segment.addr,
                    size: segment.total_size,
                    stream: segment.stream,
                    pool: segment.pool,
                    expandable: segment.expandable,
                });
                contradictions += u64::from(!fits);
            }
        }
        for change in changes.iter_mut().rev() {
            history.start_bytes = history.start_bytes.saturating_sub(change.bytes());
            if complete {
                if change.held
                    && change.range.pool == PoolId::UNKNOWN
                    && let Some(found) = history.start.find(change.range.addr)
                {
                    change.range.pool = found.pool;
                }
                contradictions += u64::from(!history.start.undo(change));
            } else if !change.held {
                history.start.insert(change.range);
            } else {
                history.start.remove(change.range.addr, change.range.size);
            }
        }
        history.changes = Changes(changes.into_iter().map(StoredChange::from).collect());
        if !complete {
            history.hold_what_is_used(snapshot, device, events);
            history.start_bytes =
                history.start.iter().fold(0, |sum, range| sum.saturating_add(range.size as i64));
        }
        let mut taken: Vec<u64> =
            history.changes.iter().filter(|change| change.held).map(|c| c.range.addr).collect();
        taken.sort_unstable();
        let is_earlier = |segment: &Segment| {
            let next = taken.partition_point(|&addr| addr < segment.addr);
            taken.get(next).is_none_or(|&addr| addr >= segment.addr.saturating_add(segment.total_size))
        };
        let segments = snapshot.segments_of(device).iter();
        history.start_with_stack =
            segments.filter(|segment| segment.stack.has_frames() && is_earlier(segment)).count() as u64;
        history.contradictions = contradictions;
        history.raise_start();
        history.keep_checkpoints();
        history
    }

    /// Nothing holds less than nothing. Where the final state and the events contradict each other, the events
    /// are believed: what they give back was there before.
    fn raise_start(&mut self) {
        let mut level = i128::from(self.start_bytes);
        let mut lowest = level;
        for change in self.changes.iter() {
            level += i128::from(change.bytes());
            lowest = lowest.min(level);
        }
        if lowest < 0 {
            self.short_bytes = u64::try_from(-lowest).unwrap_or(u64::MAX);
            self.start_bytes = self.start_bytes.saturating_add_unsigned(self.short_bytes);
        }
    }

    /// In a damaged file: segments of the final state that no intact event takes, but that intact events
    /// use, were there all along. So was whatever else is used outside any segment that is known; of that
    /// only the part in use is counted.
    fn hold_what_is_used(&mut self, snapshot: &Snapshot, device: DeviceId, events: &EventTable) {
        let uses = |action| matches!(action, Action::Alloc | Action::FreeRequested | Action::FreeCompleted);
        let used = (0..events.len()).map(|row| events.get(row)).filter(|event| uses(event.action));
        let mut blocks: Vec<Range> = used
            .map(|event| Range {
                addr: event.addr,
                size: event.size.max(1).next_multiple_of(UNIT),
                stream: event.stream,
                pool: event.pool,
                expandable: false,
            })
            .collect();
        blocks.sort_unstable_by_key(|block| (block.addr, std::cmp::Reverse(block.size)));
        blocks.dedup_by_key(|block| block.addr);
        let used: Vec<u64> = blocks.iter().map(|block| block.addr).collect();
        let mut taken: Vec<u64> = self.changes.iter().map(|change| change.range.addr).collect();
        taken.sort_unstable();
        for segment in snapshot.segments_of(device) {
            let range = Range {
                addr: segment.addr,
                size: segment.total_size,
                stream: segment.stream,
                pool: segment.pool,
                expandable: segment.expandable,
            };
            let any_in = |addrs: &[u64]| {
                let first = addrs.partition_point(|&addr| addr < range.addr);
                addrs.get(first).is_some_and(|&addr| addr < range.end())
            };
            if any_in(&used) && !any_in(&taken) {
                self.start.insert(range);
            }
        }
        let mut known = self.start.clone();
        for change in self.changes.iter().filter(|change| change.held) {
            known.insert(change.range);
        }
        for mut block in blocks {
            if known.find(block.addr).is_some() {
                continue;
            }
            // Up to whatever begins next.
            if let Some(next) = known.first_from(block.addr) {
                block.size = block.size.min(next - block.addr);
            }
            known.insert(block);
            self.start.insert(block);
        }
    }

    fn keep_checkpoints(&mut self) {
        let mut set = self.start.clone();
        let mut last = 0;
        for (applied, change) in self.changes.iter().enumerate() {
            if applied - last >= CHECKPOINT_CHANGES.max(set.0.len()) {
                for &range in set.iter() {
                    self.kept.push(Change { event: EventIdx(0), range, held: true });
                }
                self.checkpoints.push((applied, self.kept.0.len()));
                last = applied;
            }
            set.apply(&change);
        }
    }

    /// What is held at each of some moments in order: `None` where it is the same as before.
    pub(crate) fn at_each(&self, moments: &[Moment], mut visit: impl FnMut(usize, Option<&RangeSet>)) {
        let Some(first) = moments.first() else { return };
        let mut set = self.at(first.0);
        let before = |at: &Moment| self.changes.before(at.0);
        let mut applied = before(first);
        visit(0, Some(&set));
        for (n, at) in moments.iter().enumerate().skip(1) {
            let wanted = before(at);
            self.changes.slice(applied..wanted.max(applied)).for_each(|change| {
                set.apply(&change);
            });
            visit(n, (applied < wanted).then_some(&set));
            applied = wanted.max(applied);
        }
    }

    /// What is held after the changes of all events before `events`.
    pub(crate) fn at(&self, events: u32) -> RangeSet {
        let wanted = self.changes.before(events);
        let reached = self.checkpoints.partition_point(|(applied, _)| *applied <= wanted);
        let end_of = |count: usize| count.checked_sub(1).and_then(|row| self.checkpoints.get(row)).copied();
        let (applied, mut set) = match end_of(reached) {
            Some((applied, end)) => {
                let start = end_of(reached - 1).map_or(0, |(_, end)| end);
                let ranges = self.kept.slice(start..end).map(|kept| (kept.range.addr, kept.range));
                (applied, RangeSet(ranges.collect()))
            }
            None => (0, self.start.clone()),
        };
        for change in self.changes.slice(applied..wanted) {
            set.apply(&change);
        }
        set
    }

    /// The columns, to be stored.
    pub(crate) fn columns(&self) -> (&Buffer<StoredChange>, &Buffer<StoredChange>) {
        (&self.changes.0, &self.kept.0)
    }

    /// Takes the columns that were stored.
    pub(crate) fn set_columns(&mut self, changes: Buffer<StoredChange>, kept: Buffer<StoredChange>) {
        (self.changes, self.kept) = (Changes(changes), Changes(kept));
    }
}

fn changes(events: &EventTable, segment_events: &[EventIdx]) -> Vec<Change> {
    let change = |&event: &EventIdx| {
        let row = events.get(event.index());
        Change {
            event,
            range: Range {
                addr: row.addr,
                size: row.size,
                stream: row.stream,
                pool: row.pool,
                expandable: matches!(row.action, Action::SegmentMap | Action::SegmentUnmap),
            },
            held: matches!(row.action, Action::SegmentAlloc | Action::SegmentMap),
        }
    };
    segment_events.iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(addr: u64, size: u64, expandable: bool) -> Range {
        Range { addr, size, stream: StreamId(0), pool: PoolId::DEFAULT, expandable }
    }

    fn spans(set: &RangeSet) -> Vec<(u64, u64)> {
        set.iter().map(|range| (range.addr, range.size)).collect()
    }

    #[test]
    fn mapped_ranges_join_and_split_but_segments_stay_apart() {
        let mut set = RangeSet::default();
        assert!(set.insert(range(0, 10, true)));
        assert!(set.insert(range(20, 10, true)));
        assert!(set.insert(range(10, 10, true)));
        assert_eq!(spans(&set), [(0, 30)]);
        assert!(set.remove(5, 5).is_some());
        assert_eq!(spans(&set), [(0, 5), (10, 20)]);
        assert!(set.insert(range(30, 10, false)));
        assert_eq!(spans(&set), [(0, 5), (10, 20), (30, 10)]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut set = RangeSet::default();
        set.insert(range(10, 10, false));
        assert!(!set.insert(range(15, 10, false)), "overlap");
        assert!(set.remove(15, 10).is_none(), "reaches past the end");
        assert!(set.remove(5, 1).is_none(), "nothing there");
        assert_eq!(spans(&set), [(10, 10)]);
    }
}
