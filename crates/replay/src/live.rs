//! The allocations that are live, kept at some moments so that none has to be reached from the start.
//!
//! In memory a kept set is a list of numbers. In a file each has its row beside it: what is live is scattered over the
//! whole table, and a question about one moment would touch all of it.

use std::cell::Cell;

use bytemuck::{Pod, Zeroable};
use vramscope_mapped::Buffer;
use vramscope_snapshot::{PoolId, StackId, StreamId};

use crate::allocations::{AllocIdx, Allocation, Allocations, Moment};
use crate::source::{STRIDE, Source};

/// Events between two kept sets, at the least.
const LIVE_STRIDE: usize = 4096;

/// An allocation, as it is stored in a set.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LiveRow {
    addr: u64,
    requested: u64,
    size: u64,
    opened: Moment,
    released: Moment,
    closed: Moment,
    stack: StackId,
    recorded: StackId,
    stream: StreamId,
    pool: PoolId,
    /// 1 if it is.
    estimated: u32,
    index: AllocIdx,
    /// Always 0.
    unused: u32,
}

impl LiveRow {
    fn new(index: AllocIdx, allocation: &Allocation) -> Self {
        let Allocation {
            addr,
            requested,
            size,
            opened,
            released,
            closed,
            stack,
            recorded,
            stream,
            pool,
            estimated,
        } = *allocation;
        let estimated = estimated.into();
        Self {
            addr,
            requested,
            size,
            opened,
            released,
            closed,
            stack,
            recorded,
            stream,
            pool,
            estimated,
            index,
            unused: 0,
        }
    }

    fn allocation(&self) -> Allocation {
        Allocation {
            addr: self.addr,
            requested: self.requested,
            size: self.size,
            opened: self.opened,
            released: self.released,
            closed: self.closed,
            stack: self.stack,
            recorded: self.recorded,
            stream: self.stream,
            pool: self.pool,
            estimated: self.estimated != 0,
        }
    }
}

/// Stored sets are this many times farther apart than those in memory, since a row is that much longer than a number.
const ROW_FACTOR: usize = 16;

/// Events between two stored sets, at the least.
const ROW_STRIDE: usize = ROW_FACTOR * LIVE_STRIDE;

/// The live allocations at some moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSets {
    /// The moment of each set, and where it ends among its members.
    ends: Vec<(Moment, usize)>,
    members: Members,
}

#[derive(Clone, Debug)]
enum Members {
    Numbers(Vec<AllocIdx>),
    Rows(Buffer<LiveRow>),
}

impl Default for Members {
    fn default() -> Self {
        Self::Numbers(Vec::new())
    }
}

impl LiveSets {
    /// Sets that were stored.
    pub(crate) fn stored(ends: Vec<(Moment, usize)>, rows: Buffer<LiveRow>) -> Self {
        Self { ends, members: Members::Rows(rows) }
    }

    /// The sets of a trace, given its number of events and when allocations are opened and closed: at the start, and
    /// whenever as many events have passed as allocations are live.
    pub(crate) fn new(opened: &[Moment], closed: &[Moment], events: usize) -> Self {
        // How many more are live after each stretch than before it.
        let mut more = vec![0_i64; events.div_ceil(STRIDE)];
        let mut live = 0;
        for (opened, closed) in opened.iter().zip(closed) {
            let stretch = |at: &Moment| at.0.checked_sub(1).map(|row| row as usize / STRIDE);
            match stretch(opened) {
                Some(stretch) => more.get_mut(stretch).into_iter().for_each(|more| *more += 1),
                None => live += 1,
            }
            let ended = stretch(closed).and_then(|stretch| more.get_mut(stretch));
            ended.into_iter().for_each(|more| *more -= 1);
        }
        let (mut kept, mut last) = (vec![Moment::START], 0);
        for (stretch, more) in more.into_iter().enumerate() {
            live += more;
            let done = events.min((stretch + 1) * STRIDE);
            if done - last >= LIVE_STRIDE.max(usize::try_from(live).unwrap_or_default()) {
                kept.push(Moment(done as u32));
                last = done;
            }
        }
        Self::at_each(&kept, opened, closed)
    }

    /// What is live at each of some moments in order.
    fn at_each(moments: &[Moment], opened: &[Moment], closed: &[Moment]) -> Self {
        // Which sets an allocation is in; most live between two of them. Allocations come nearly in order.
        let first = Cell::new(0);
        let sets = |(&opened, &closed): (&Moment, &Moment)| {
            let is_before = |at: usize| moments.get(at).is_some_and(|moment| *moment < opened);
            if is_before(first.get()) || first.get().checked_sub(1).is_some_and(|at| !is_before(at)) {
                first.set(moments.partition_point(|moment| *moment < opened));
            }
            let rest = moments.get(first.get()..).unwrap_or_default();
            first.get()..first.get() + rest.iter().take_while(|moment| **moment < closed).count()
        };
        let mut counts = vec![0; moments.len()];
        for set in opened.iter().zip(closed).flat_map(sets) {
            counts[set] += 1;
        }
        let mut sum = 0;
        let mut next: Vec<usize> = Vec::with_capacity(counts.len());
        for count in counts {
            next.push(sum);
            sum += count;
        }
        let mut members = vec![AllocIdx(0); sum];
        for (row, sets) in opened.iter().zip(closed).map(sets).enumerate() {
            for set in sets {
                members[next[set]] = AllocIdx(row as u32);
                next[set] += 1;
            }
        }
        Self { ends: moments.iter().copied().zip(next).collect(), members: Members::Numbers(members) }
    }

    /// What is to be stored. Beside the set of the start, all rows together are four bytes for each event at most.
    pub(crate) fn to_rows(&self, allocations: &Allocations) -> (Vec<(Moment, usize)>, Buffer<LiveRow>) {
        let members = match &self.members {
            Members::Rows(rows) => return (self.ends.clone(), rows.clone()),
            Members::Numbers(members) => members,
        };
        let (mut ends, mut rows) = (Vec::new(), Vec::new());
        let mut from = 0;
        let mut last: Option<Moment> = None;
        for &(at, to) in &self.ends {
            let set = members.get(from..to).unwrap_or_default();
            let apart = last.map_or(usize::MAX, |last| at.0.saturating_sub(last.0) as usize);
            if apart >= ROW_STRIDE.max(ROW_FACTOR * set.len()) {
                rows.extend(set.iter().map(|&index| LiveRow::new(index, &allocations.get(index))));
                ends.push((at, rows.len()));
                last = Some(at);
            }
            from = to;
        }
        (ends, rows.into())
    }

    /// The last set at a moment or before it: where it is among the members, and of which moment.
    fn before(&self, at: Moment) -> Option<(Moment, std::ops::Range<usize>)> {
        let kept = self.ends.partition_point(|(moment, _)| *moment <= at).checked_sub(1)?;
        let &(moment, end) = self.ends.get(kept)?;
        let start = kept.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(_, end)| *end);
        Some((moment, start..end))
    }

    /// The allocations live at a moment, in no particular order.
    pub(crate) fn at(&self, source: &Source<'_>, at: Moment) -> Vec<AllocIdx> {
        let Some((moment, set)) = self.before(at) else { return Vec::new() };
        let closed = &source.allocations.closed;
        let since = source.opened_between(moment, at).filter(|index| at < closed[index.index()]);
        match &self.members {
            Members::Numbers(members) => {
                let set = members.get(set).unwrap_or_default().iter().copied();
                set.filter(|index| at < closed[index.index()]).chain(since).collect()
            }
            Members::Rows(rows) => {
                let set = rows.slice(set).unwrap_or_default().iter();
                set.filter(|row| at < row.closed).map(|row| row.index).chain(since).collect()
            }
        }
    }

    /// The same with their rows.
    pub(crate) fn rows_at(&self, source: &Source<'_>, at: Moment) -> Vec<(AllocIdx, Allocation)> {
        let allocations = source.allocations;
        let row = |index: AllocIdx| (index, allocations.get(index));
        match (&self.members, self.before(at)) {
            (Members::Rows(rows), Some((moment, set))) => {
                let set = rows.slice(set).unwrap_or_default().iter();
                let set = set.filter(|row| at < row.closed).map(|row| (row.index, row.allocation()));
                let since = source.opened_between(moment, at);
                let since = since.filter(|index| at < allocations.closed[index.index()]);
                set.chain(since.map(row)).collect()
            }
            _ => self.at(source, at).into_iter().map(row).collect(),
        }
    }
}
