//! What was made between two moments, by stack.

use std::borrow::Cow;

use crate::allocations::{AllocIdx, Moment};
use crate::made::{Made, STRIDE};
use crate::replay::Replay;

impl Replay {
    /// What each stack made of what begins or lives between two moments, both included. Of a file in the cache few
    /// allocations are looked at.
    pub fn made_between(&self, from: Moment, to: Moment) -> Vec<Made> {
        let source = self.source();
        let to = to.min(self.end());
        let row = |index: AllocIdx| (index, self.allocation(index));
        let mut allocations = self.live_rows(from);
        let whole = (from.0 as usize).div_ceil(STRIDE)..to.0 as usize / STRIDE;
        let known = self.made_over_time();
        if known.ends.len() < whole.end || whole.is_empty() {
            allocations.extend(source.opened_between(from, to).map(row));
            return Made::by_stack(self.end(), allocations.into_iter());
        }
        let moment = |stretch: usize| Moment((stretch * STRIDE) as u32);
        allocations.extend(source.opened_between(from, moment(whole.start)).map(row));
        allocations.extend(source.opened_between(moment(whole.end), to).map(row));
        let mut by_stack = Made::by_stack(self.end(), allocations.into_iter());
        for row in known.between(whole) {
            let stack = row.stack.index();
            if by_stack.len() <= stack {
                by_stack.resize(stack + 1, Made::default());
            }
            by_stack[stack] = by_stack[stack].plus(&row.made);
        }
        by_stack
    }

    /// What each stack made, by the number of the stack. A file in the cache knows it without looking at allocations.
    pub fn made(&self) -> Cow<'_, [Made]> {
        match self.kept_made() {
            Some(kept) => Cow::Borrowed(kept),
            None => Cow::Owned(Made::by_stack(self.end(), self.allocations().iter())),
        }
    }

    /// The allocations that begin or live between two moments, both included, in order.
    pub fn in_stretch(&self, from: Moment, to: Moment) -> Vec<AllocIdx> {
        let mut found = self.overlapping(from, to);
        found.sort_unstable();
        found
    }
}
