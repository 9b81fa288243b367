//! What every event does, in order: for whatever is to be added up over the whole trace in one pass.

use crate::allocations::{AllocIdx, Moment};
use crate::ranges::Change;
use crate::replay::Replay;
use crate::source::signed;

/// One thing that an event does.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// An allocation begins to be live.
    Opened(AllocIdx),
    /// An allocation stops being live.
    Closed(AllocIdx),
    /// Memory held from the driver changes.
    Held(Change),
}

impl Effect {
    /// Whose requested bytes begin or end to count, and by how much they change the sum.
    #[inline]
    pub fn requested(&self, replay: &Replay) -> Option<(AllocIdx, i64)> {
        let (index, sign) = match *self {
            Self::Opened(index) => (index, 1),
            Self::Closed(index) => (index, -1),
            Self::Held(_) => return None,
        };
        Some((index, signed(replay.allocations.requested[index.index()]) * sign))
    }
}

impl Replay {
    /// Calls for every moment from the start on, with what its event does; the start opens all that was there
    /// before.
    pub fn each_moment(&self, mut each: impl FnMut(Moment, &[Effect])) {
        let mut effects = Vec::new();
        for row in 0..self.allocations().len() as u32 {
            self.touch(&mut effects, AllocIdx(row), Moment::START);
        }
        each(Moment::START, &effects);
        self.each_moment_between(Moment::START, self.end(), each);
    }

    /// The same for the moments after one, up to another.
    pub fn each_moment_between(&self, from: Moment, to: Moment, mut each: impl FnMut(Moment, &[Effect])) {
        let source = self.source();
        let from = from.0 as usize;
        let to = (to.0 as usize).min(source.links.len()).max(from);
        let Some(links) = source.links.slice(from..to) else { return };
        let lost = source.lost_ends.partition_point(|(event, _)| event.index() < from);
        let mut lost = source.lost_ends.get(lost..).unwrap_or_default().iter().peekable();
        let mut effects = Vec::new();
        for (row, link) in (from..).zip(links) {
            effects.clear();
            let now = Moment(row as u32 + 1);
            let own = link.as_allocation();
            while let Some((_, index)) = lost.next_if(|(event, _)| event.index() <= row) {
                if Some(*index) != own {
                    self.touch(&mut effects, *index, now);
                }
            }
            if let Some(index) = own {
                self.touch(&mut effects, index, now);
            } else if let Some(change) = link.as_segment().and_then(|row| source.changes.get(row)) {
                effects.push(Effect::Held(change));
            }
            each(now, &effects);
        }
    }

    /// Notes whether an allocation begins or ends at a moment.
    #[inline]
    fn touch(&self, effects: &mut Vec<Effect>, index: AllocIdx, now: Moment) {
        if self.allocations.opened[index.index()] == now {
            effects.push(Effect::Opened(index));
        }
        if self.allocations.closed[index.index()] == now {
            effects.push(Effect::Closed(index));
        }
    }
}
