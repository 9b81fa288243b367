//! One device's trace, replayed: what every later question starts from.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use vramscope_mapped::Buffer;
use vramscope_snapshot::{Action, DeviceId, EventIdx, EventTable, Snapshot, StackId};

use crate::allocations::{AllocIdx, Allocation, Allocations, Moment};
use crate::begun::{Begun, BegunBefore};
use crate::counters::{Counter, Counters};
use crate::extreme::End;
use crate::extremes::{Extremes, Walked};
use crate::made::{Made, MadeOverTime};
use crate::pairing::{self, Link};
use crate::parallel::{Both, IN_TURN};
use crate::ranges::{Range, RangeHistory, RangeSet};
use crate::rounding::Rules;
use crate::source::{NOTHING_STATED, Source};
use crate::state::State;
use crate::timeline::Timeline;
use crate::verdict::{self, Verdict};
use crate::{blocks, totals};

/// The highest value of a counter, and when it was first reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: i64,
    /// The moment.
    pub at: Moment,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oom {
    /// Which event.
    pub event: EventIdx,
    /// Bytes of the request, rounded.
    pub requested: u64,
    /// Bytes that the driver had free.
    pub device_free: u64,
}

/// One device's trace, replayed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    pub(crate) device: DeviceId,
    rules: Rules,
    #[serde(skip)]
    pub(crate) allocations: Allocations,
    #[serde(skip)]
    pub(crate) links: Buffer<Link>,
    lost_ends: Vec<(EventIdx, AllocIdx)>,
    pub(crate) ranges: RangeHistory,
    #[serde(skip)]
    pub(crate) reserved: Buffer<i64>,
    pub(crate) timeline: Timeline,
    ooms: Vec<Oom>,
    /// Addresses of segments that an NPU uses as workspaces: no allocation lies in them, and they are not free.
    workspaces: Vec<u64>,
    verdict: Verdict,
    /// What each stack made, where it comes from a file.
    #[serde(skip)]
    pub(crate) made: Buffer<Made>,
    #[serde(skip)]
    pub(crate) made_over_time: MadeOverTime,
    #[serde(skip)]
    pub(crate) begun_before: BegunBefore,
}

impl Replay {
    /// Replays the trace of a device from its beginning to its end.
    pub fn new(snapshot: &Snapshot, device: DeviceId) -> Self {
        Self::new_with(snapshot, device, IN_TURN)
    }

    /// Replays the trace of a device for a caller that has threads: `both` does two things that do not depend on each
    /// other.
    pub fn new_with(snapshot: &Snapshot, device: DeviceId, both: Both<'_>) -> Self {
        if !snapshot.has.addresses {
            return Self::from_totals(snapshot, device, both);
        }
        let events = snapshot.events(device);
        let complete = snapshot.damage.is_none();
        let rules = if device == DeviceId::HOST { Rules::host() } else { Rules::new(&snapshot.settings) };

        let mut pairing = pairing::pair(snapshot, device, events, complete);
        let ranges = RangeHistory::new(snapshot, device, events, &pairing.segment_events, complete);
        let expandable = snapshot.settings.expandable_segments;
        let (mut failed, mut step_back) = (Vec::new(), None);
        let size_all = &mut || blocks::assign_sizes(&mut pairing, &ranges, events, &rules, expandable);
        both(size_all, &mut || {
            failed = ooms(events);
            step_back = verdict::first_step_back(events);
        });
        pairing.workspaces.sort_unstable();
        for &(index, requested) in &pairing.restated {
            pairing.allocations.requested[index.index()] = requested;
        }
        let source = Source {
            allocations: &pairing.allocations,
            links: &pairing.links,
            lost_ends: &pairing.lost_ends,
            changes: &ranges.changes,
            reserved: &NOTHING_STATED,
            crowded: &[],
        };
        let timeline = Timeline::new(source, ranges.start_bytes, both);
        let verdict = verdict::judge(snapshot, device, step_back, &pairing, &ranges, &timeline);
        Self {
            device,
            rules,
            allocations: pairing.allocations,
            links: pairing.links,
            lost_ends: pairing.lost_ends,
            ranges,
            reserved: Buffer::new(),
            timeline,
            ooms: failed,
            workspaces: pairing.workspaces,
            verdict,
            made: Buffer::new(),
            made_over_time: MadeOverTime::default(),
            begun_before: BegunBefore::default(),
        }
    }

    /// Replays a source that states totals and has no map of memory.
    fn from_totals(snapshot: &Snapshot, device: DeviceId, both: Both<'_>) -> Self {
        let settled = totals::settle(snapshot, device);
        let verdict = totals::judge(snapshot, device, &settled);
        let totals::Settled { pairing, reserved, start_reserved, .. } = settled;
        let mut replay = Self {
            device,
            rules: Rules::default(),
            allocations: pairing.allocations,
            links: pairing.links,
            lost_ends: pairing.lost_ends,
            ranges: RangeHistory::default(),
            reserved: reserved.into(),
            timeline: Timeline::default(),
            ooms: ooms(snapshot.events(device)),
            workspaces: pairing.workspaces,
            verdict,
            made: Buffer::new(),
            made_over_time: MadeOverTime::default(),
            begun_before: BegunBefore::default(),
        };
        replay.timeline = Timeline::new(replay.source(), start_reserved, both);
        replay
    }

    /// Sets for each allocation the stack that it is shown with.
    pub fn set_stacks(&mut self, attributed: Buffer<StackId>) {
        self.allocations.attributed = attributed;
        self.made = Buffer::new();
        self.made_over_time = MadeOverTime::default();
    }

    /// What each stack made, if that is known without looking at allocations.
    pub(crate) fn kept_made(&self) -> Option<&[Made]> {
        (!self.made.is_empty()).then_some(&*self.made)
    }

    /// What each stack made and when, where it comes from a file.
    pub(crate) fn made_over_time(&self) -> &MadeOverTime {
        &self.made_over_time
    }

    /// Number of allocations that begin up to any moment. Of a file in the cache that costs nothing.
    pub fn begun(&self) -> Begun<'_> {
        let kept = &self.begun_before.0;
        let before = match kept.is_empty() {
            false => Cow::Borrowed(&**kept),
            true => Cow::Owned(BegunBefore::new(&self.allocations, self.links.len()).0.to_vec()),
        };
        Begun { source: self.source(), before }
    }

    /// Which device.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The rules of rounding and splitting that it was recorded under.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Number of events.
    pub fn events(&self) -> usize {
        self.links.len()
    }

    /// The moment after the last event.
    pub fn end(&self) -> Moment {
        Moment(self.links.len() as u32)
    }

    /// All allocations, those from before the first event included.
    #[inline]
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// One allocation.
    #[inline]
    pub fn allocation(&self, index: AllocIdx) -> Allocation {
        self.allocations.get(index)
    }

    /// Failed allocations in order.
    pub fn ooms(&self) -> &[Oom] {
        &self.ooms
    }

    /// Whether the numbers can be trusted, and if not, by how much.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The highest value of a counter over all moments, the start included. That of reserved bytes is after the
    /// allocation that needed them.
    pub fn peak(&self, counter: Counter) -> Peak {
        let highest = self.timeline.peaks[counter as usize];
        Peak { bytes: highest.bytes, at: self.when_served(counter, highest.at, self.end()) }
    }

    /// A segment is acquired by one event and used by the next: in between it looks cached, which it is not.
    fn when_served(&self, counter: Counter, at: Moment, to: Moment) -> Moment {
        let is_acquired = |event: EventIdx| self.segment_of(event).is_some();
        if counter != Counter::Reserved || at >= to || !at.event().is_some_and(is_acquired) {
            return at;
        }
        let next = Moment(at.0 + 1);
        let serves = self.links[at.0 as usize]
            .as_allocation()
            .is_some_and(|index| self.allocations.opened[index.index()] == next);
        if serves { next } else { at }
    }

    /// The four counters at a moment.
    pub fn counters(&self, at: Moment) -> Counters {
        self.timeline.counters(&self.source(), at)
    }

    /// The four counters after every event, in order.
    pub fn all_counters(&self) -> impl Iterator<Item = Counters> + '_ {
        self.timeline.all(self.source())
    }

    /// The four counters at a moment and at every later one, in order.
    pub fn counters_from(&self, at: Moment) -> impl Iterator<Item = Counters> + '_ {
        self.timeline.onwards(self.source(), at)
    }

    /// The least and the greatest of each counter from one moment to another, both included.
    pub fn extremes(&self, from: Moment, to: Moment) -> (Counters, Counters) {
        self.timeline.extremes(&self.source(), from, to)
    }

    /// The extremes of stretches, both ends of each included, and where a counter is highest in them. For stretches in
    /// order, it costs less than [`Replay::extremes`] and [`Replay::highest`] of each.
    pub fn extremes_of(
        &self,
        counter: Counter,
        stretches: impl IntoIterator<Item = (Moment, Moment)>,
    ) -> impl Iterator<Item = Extremes> {
        let (source, mut ends) = (self.source(), Walked::default());
        stretches.into_iter().map(move |(from, to)| {
            let mut found = self.timeline.extremes_and_highest(&source, counter, (from, to), &mut ends);
            found.highest = self.when_served(counter, found.highest, to.min(self.end()));
            found
        })
    }

    /// The first moment in a stretch, both ends included, at which a counter is highest in it. Reserved bytes count as
    /// those of [`Replay::peak`].
    pub fn highest(&self, counter: Counter, from: Moment, to: Moment) -> Moment {
        let at = self.timeline.first_at(&self.source(), (End::Highest, counter), from, to);
        self.when_served(counter, at, to.min(self.end()))
    }

    /// The first moment in a stretch, both ends included, at which a counter is lowest in it.
    pub fn lowest(&self, counter: Counter, from: Moment, to: Moment) -> Moment {
        self.timeline.first_at(&self.source(), (End::Lowest, counter), from, to)
    }

    /// What is held from the driver at a moment, by address.
    pub fn held(&self, at: Moment) -> Vec<Range> {
        self.ranges.at(at.0).iter().copied().collect()
    }

    /// What is held at each of some moments in order: `None` where it is the same as before.
    pub fn held_at_each(&self, moments: &[Moment], visit: impl FnMut(usize, Option<&RangeSet>)) {
        self.ranges.at_each(moments, visit);
    }

    /// Every range that was held at the start or taken later, in no particular order.
    pub fn ever_held(&self) -> impl Iterator<Item = Range> + '_ {
        let taken = self.ranges.changes.iter().filter(|change| change.held).map(|change| change.range);
        self.ranges.start.iter().copied().chain(taken)
    }

    /// The allocations live at a moment, those that await their free included, in no particular order.
    pub fn live(&self, at: Moment) -> Vec<AllocIdx> {
        self.timeline.live.at(&self.source(), at)
    }

    /// The same with what is known of each.
    pub fn live_rows(&self, at: Moment) -> Vec<(AllocIdx, Allocation)> {
        self.timeline.live.rows_at(&self.source(), at)
    }

    /// The allocations that live at any moment from one to another, both included, in no particular order.
    pub fn overlapping(&self, from: Moment, to: Moment) -> Vec<AllocIdx> {
        let mut found = self.live(from);
        found.extend(self.source().opened_between(from, to));
        found
    }

    /// The same with what is known of each.
    pub fn overlapping_rows(&self, from: Moment, to: Moment) -> Vec<(AllocIdx, Allocation)> {
        let mut found = self.live_rows(from);
        found.extend(self.source().opened_between(from, to).map(|index| (index, self.allocation(index))));
        found
    }

    /// The complete map of memory at a moment.
    pub fn state(&self, at: Moment) -> State {
        let parts = (&self.ranges.at(at.0), self.workspaces.as_slice());
        State::new(at, self.counters(at), self.live_rows(at), parts)
    }

    /// Whether a range is a workspace of an NPU: no allocation lies in it, and it is not free.
    pub fn is_workspace(&self, range: &Range) -> bool {
        self.workspaces.binary_search(&range.addr).is_ok()
    }

    /// The allocation that an event opens, releases or closes.
    pub fn allocation_of(&self, event: EventIdx) -> Option<AllocIdx> {
        self.links.get(event.index())?.as_allocation()
    }

    /// The memory that an event takes from the driver or gives back to it.
    pub fn segment_of(&self, event: EventIdx) -> Option<Range> {
        let row = self.links.get(event.index())?.as_segment()?;
        self.ranges.changes.get(row).map(|change| change.range)
    }

    /// What is held from the driver at a moment.
    pub fn ranges_at(&self, at: Moment) -> RangeSet {
        self.ranges.at(at.0)
    }

    /// The columns that counters and live sets are computed from.
    #[inline]
    pub fn source(&self) -> Source<'_> {
        Source {
            allocations: &self.allocations,
            links: &self.links,
            lost_ends: &self.lost_ends,
            changes: &self.ranges.changes,
            reserved: &self.reserved,
            crowded: &self.timeline.crowded,
        }
    }
}

impl AsRef<Self> for Replay {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Failed allocations in order.
fn ooms(events: &EventTable) -> Vec<Oom> {
    let failed = events.actions().enumerate().filter(|(_, action)| *action == Action::Oom);
    failed
        .map(|(row, _)| Oom {
            event: EventIdx::from_index(row),
            requested: events.sizes()[row],
            device_free: events.addrs()[row],
        })
        .collect()
}

/// The moment after the last event at or before a time, or the start if there is none.
///
/// Trace order is the truth and time is a label that may go backwards, so the last such event counts.
pub fn moment_at_time(events: &EventTable, time_us: i64) -> Moment {
    let bounds = events.time_bounds();
    let Some(stretch) = bounds.iter().rposition(|bounds| bounds.least <= time_us) else {
        return Moment::START;
    };
    let rows = stretch * EventTable::STRIDE..events.len().min((stretch + 1) * EventTable::STRIDE);
    let last = rows.rev().find(|&row| events.time_us(row).is_some_and(|time| time <= time_us));
    last.map_or(Moment::START, |row| Moment(row as u32 + 1))
}
