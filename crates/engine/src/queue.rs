//! Requests that wait for their answer: the most urgent first, of those the newest.
//!
//! Every request has a slot, the place on the screen that its answer goes to. A new request for a slot replaces the
//! old one, so however fast a user moves, no more wait than there are slots.

use std::ops::RangeInclusive;

use crate::protocol::Request;

/// A request with the slot that its answer goes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked<Slot> {
    /// Counts up: a later request has a higher number.
    pub ticket: u64,
    /// Where the answer goes.
    pub slot: Slot,
    /// The request.
    pub request: Request,
}

/// Requests in order of asking.
#[derive(Clone, Debug)]
pub struct Queue<Slot> {
    waiting: Vec<Asked<Slot>>,
    /// The latest ticket of each slot that was ever asked for.
    latest: Vec<(Slot, u64)>,
    tickets: u64,
}

impl<Slot> Default for Queue<Slot> {
    fn default() -> Self {
        Self { waiting: Vec::new(), latest: Vec::new(), tickets: 0 }
    }
}

impl<Slot: Clone + PartialEq> Queue<Slot> {
    /// Adds a request and returns its ticket.
    pub fn push(&mut self, slot: Slot, request: Request) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.waiting.retain(|ask| ask.slot != slot);
        match self.latest.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, latest)) => *latest = ticket,
            None => self.latest.push((slot.clone(), ticket)),
        }
        self.waiting.push(Asked { ticket, slot, request });
        ticket
    }

    /// Takes the most urgent request, of those the newest.
    pub fn pop(&mut self, urgency: impl Fn(&Slot) -> u8) -> Option<Asked<Slot>> {
        self.pop_urgent(urgency, &(0..=u8::MAX))
    }

    /// The same among those that are this urgent.
    pub fn pop_urgent(
        &mut self,
        urgency: impl Fn(&Slot) -> u8,
        urgent: &RangeInclusive<u8>,
    ) -> Option<Asked<Slot>> {
        let key = |at: &usize| (urgency(&self.waiting[*at].slot), self.waiting[*at].ticket);
        let next = (0..self.waiting.len()).filter(|at| urgent.contains(&key(at).0)).max_by_key(key)?;
        Some(self.waiting.remove(next))
    }

    /// Whether there is no later request for the same slot.
    pub fn is_current(&self, slot: &Slot, ticket: u64) -> bool {
        self.latest.iter().any(|(known, latest)| known == slot && *latest == ticket)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{AskSummary, Source};

    #[test]
    fn the_urgent_and_then_the_newest_come_first_and_elders_are_replaced() {
        let request = |file| Request::from(AskSummary { of: Source { file, device: 0 } });
        let mut queue = Queue::default();
        let old = queue.push("timeline", request(1));
        queue.push("flame", request(2));
        let new = queue.push("timeline", request(3));
        assert!(!queue.is_current(&"timeline", old) && queue.is_current(&"timeline", new));
        queue.push("status", request(4));
        let urgency = |slot: &&str| u8::from(*slot == "flame");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(urgency)).map(|ask| ask.request).collect();
        assert_eq!(order, [request(2), request(4), request(3)]);
        assert!(queue.is_current(&"timeline", new), "an answer that is on its way counts");
    }
}
