//! Who gave memory back to the device: the program by `empty_cache()`, or the allocator to make room.
//!
//! Both leave the same events. Stacks decide where they were recorded. Otherwise a release that no allocation of
//! device memory follows was the program's. If one follows, the allocator released only if it had been refused,
//! which needs a limit below what it would have held; memory that was held at another time contradicts such a limit.

use hashbrown::HashMap;
use vramscope_snapshot::{Action, Event, EventTable, Snapshot, StackId};

use crate::settings::Settings;

/// What the whole trace says about a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Most that was held; a limit cannot be lower.
    most: u64,
    /// An allocation failed, so that there is a limit.
    failed: bool,
}

impl Bounds {
    pub(super) fn of(events: &EventTable, settings: &Settings) -> Self {
        let (mut bounds, mut held) = (Self::default(), 0_i64);
        for event in events.iter() {
            let size = i64::try_from(event.size).unwrap_or(i64::MAX);
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => held = held.saturating_add(size),
                Action::SegmentFree | Action::SegmentUnmap => held = held.saturating_sub(size),
                Action::Oom => bounds.failed = true,
                _ => {}
            }
            // Expandable segments may grow past a limit by what their last page is larger than the request.
            let slack = if settings.expandable { settings.large_segment } else { 0 };
            bounds.most = bounds.most.max(u64::try_from(held).unwrap_or(0).saturating_sub(slack));
        }
        bounds
    }
}

pub(super) struct Releases<'a> {
    snapshot: &'a Snapshot,
    settings: Settings,
    bounds: Bounds,
    /// Whether a stack goes through `empty_cache`.
    named: HashMap<StackId, bool>,
    /// Frees have stacks of their own, not those of the allocation (`context="all"`).
    pub(super) has_own_stacks: bool,
    /// The limit is not below this, which was granted.
    at_least: u64,
    /// The limit is below this.
    below: Option<u64>,
}

impl<'a> Releases<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, settings: Settings, bounds: Bounds) -> Self {
        Self {
            snapshot,
            settings,
            bounds,
            named: HashMap::new(),
            has_own_stacks: false,
            at_least: 0,
            below: None,
        }
    }

    /// Whether the pending calls to the device begin with an `empty_cache()` of the program. An allocation (or one
    /// that failed) that takes `size` bytes from the device comes next (`request`); `reserved` is held before these calls.
    pub(super) fn explicit(
        &mut self,
        events: &EventTable,
        pending: &[u32],
        reserved: i64,
        request: &Event,
        size: u64,
    ) -> bool {
        let failed = request.action == Action::Oom;
        let released: i64 = pending
            .iter()
            .map(|&row| events.get(row as usize))
            .filter(|event| matches!(event.action, Action::SegmentFree | Action::SegmentUnmap))
            .map(|event| i64::try_from(event.size).unwrap_or(i64::MAX))
            .fold(0, i64::saturating_add);
        let reserved_now = u64::try_from(reserved.saturating_sub(released)).unwrap_or(0);
        let reserved = u64::try_from(reserved).unwrap_or(0);
        let taken = pending.iter().any(|&row| super::is_taking(events, row));
        if failed {
            self.refused(reserved_now.saturating_add(size));
        } else if taken {
            self.at_least = self.at_least.max(reserved_now.saturating_add(size));
        }
        let first = pending.first().map(|&row| events.get(row as usize));
        let Some(first) =
            first.filter(|event| matches!(event.action, Action::SegmentFree | Action::SegmentUnmap))
        else {
            return false;
        };
        let wanted = reserved.saturating_add(size);
        let explicit = if self.is_named(first.stack) {
            true
        } else if first.stack.has_frames() && first.stack == request.stack {
            // The allocation itself released.
            false
        } else if first.stack.has_frames() && self.has_own_stacks || !taken && !failed {
            true
        } else if let Some(limit) = self.settings.limit {
            let threshold = self.settings.gc_threshold;
            let collects = threshold > 0.0 && reserved > (threshold * limit as f64) as u64;
            wanted <= limit && !collects
        } else if failed {
            false
        } else if wanted <= self.bounds.most && self.settings.gc_threshold == 0.0 {
            true
        } else {
            !self.bounds.failed && self.settings.max_split.is_none() && self.settings.gc_threshold == 0.0
        };
        if !explicit {
            // Garbage collection releases earlier: when more than its part of the limit is held.
            let threshold = self.settings.gc_threshold;
            let collects = threshold > 0.0 && !self.settings.expandable;
            let collected = if collects { (reserved as f64 / threshold) as u64 } else { 0 };
            self.refused(wanted.max(collected));
        }
        explicit
    }

    fn refused(&mut self, wanted: u64) {
        self.below = Some(self.below.map_or(wanted, |below| below.min(wanted)));
    }

    /// The lowest and the highest limit that explain every refusal.
    pub(super) fn limit(&self) -> Option<(u64, u64)> {
        let below = self.below?;
        let highest = below.saturating_sub(1);
        Some((self.at_least.min(highest), highest))
    }

    fn is_named(&mut self, stack: StackId) -> bool {
        let snapshot = self.snapshot;
        *self.named.entry(stack).or_insert_with(|| {
            snapshot.frames(stack).any(|frame| {
                let name = snapshot.text(frame.name);
                name == "empty_cache" || name.contains("emptyCache")
            })
        })
    }
}
