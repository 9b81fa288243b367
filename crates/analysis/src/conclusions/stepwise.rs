//! What each step of a run needs and leaves behind, and what the next one will need.

use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_replay::{AllocIdx, Allocation, Counter, Moment, Peak, Replay};
use vramscope_snapshot::{Snapshot, StackId};

use super::steps::{Step, Steps};
use super::trend::Trend;
use crate::device::Device;
use crate::questions::capacity::Capacity;
use crate::questions::compare::{Line, Sum};
use crate::shelf::Small;

/// Says which allocations count.
pub type Keep<'a> = &'a dyn Fn(AllocIdx, &Allocation) -> bool;

/// What one step does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    /// Which step.
    pub step: Step,
    /// The highest that requested bytes were in it.
    pub peak: Peak,
    /// Requested bytes when it ended.
    pub end: i64,
    /// How much that is more than when it began.
    pub growth: i64,
    /// Allocations that began in it.
    pub allocations: u64,
    /// Bytes of those that are live when it ends.
    pub kept: u64,
}

/// All steps of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stepwise {
    /// Where they begin and end, and how that is known.
    pub steps: Steps,
    /// One row each.
    pub rows: Vec<StepRow>,
    /// Where the peaks of the complete steps lead.
    pub trend: Option<Trend>,
    /// What the process may hold, where the file tells.
    pub capacity: Option<Capacity>,
    /// What was allocated in a step and is live when the next one ends, by line, most bytes per step first. The first
    /// step is left out: it makes caches and optimizer state.
    pub outliving: Vec<Outliving>,
    /// Steps that `outliving` is a sum over.
    pub outlived: u64,
}

/// What one line allocates in a step and keeps beyond the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outliving {
    /// Which line.
    pub line: Line,
    /// Of all steps.
    pub bytes: u64,
    /// Allocations of all steps.
    pub count: u64,
    /// The median of the steps: none where fewer than half of them keep anything.
    pub per_step: u64,
}

impl Stepwise {
    /// The steps of a device. `keep` says which allocations count; `None` if all do.
    pub fn new(device: &Device, steps: Steps, keep: Option<Keep<'_>>) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let levels = keep.map(|keep| levels(replay, keep));
        let level = |at: Moment| match &levels {
            Some(levels) => levels.get(at.0 as usize).copied().unwrap_or_default(),
            None => replay.counters(at).requested,
        };
        let peak = |from: Moment, to: Moment| match &levels {
            Some(levels) => highest(levels, from, to),
            None => {
                let at = replay.highest(Counter::Requested, from, to);
                Peak { bytes: replay.counters(at).requested, at }
            }
        };
        let row = |step: &Step| {
            let end = level(step.to);
            StepRow {
                step: *step,
                peak: peak(step.from, step.to),
                end,
                growth: end.saturating_sub(level(step.from)),
                allocations: 0,
                kept: 0,
            }
        };
        let mut rows: Vec<StepRow> = steps.list.iter().map(row).collect();
        let mut by_stack: HashMap<(StackId, usize), Sum> = HashMap::new();
        for (index, allocation) in replay.allocations().iter() {
            if allocation.opened == Moment::START || keep.is_some_and(|keep| !keep(index, &allocation)) {
                continue;
            }
            let at = steps.list.partition_point(|step| step.to < allocation.opened);
            let Some(row) = rows.get_mut(at).filter(|row| row.step.from < allocation.opened) else {
                continue;
            };
            row.allocations += 1;
            if allocation.closed <= row.step.to {
                continue;
            }
            row.kept = row.kept.saturating_add(allocation.requested);
            let next = steps.list.get(at + 1).filter(|next| next.is_complete && at > 0);
            if next.is_some_and(|next| allocation.closed > next.to) {
                let sum = by_stack.entry((allocation.stack, at)).or_default();
                sum.bytes = sum.bytes.saturating_add(allocation.requested);
                sum.count += 1;
            }
        }
        let complete = steps.list.iter().filter(|step| step.is_complete).count();
        // The first one is left out, and the last one has none after it.
        let outlived = complete.saturating_sub(2);
        let peaks: Vec<u64> = rows
            .iter()
            .filter(|row| row.step.is_complete)
            .map(|row| row.peak.bytes.max(0).unsigned_abs())
            .collect();
        Self {
            trend: Trend::of(&peaks),
            capacity: Capacity::of(device),
            steps,
            rows,
            outliving: outliving(snapshot, by_stack, outlived),
            outlived: outlived as u64,
        }
    }

    /// Whether the next step fits; `None` where that cannot be told.
    pub fn fits(&self) -> Option<bool> {
        let (trend, capacity) = (self.trend.as_ref()?, self.capacity?);
        let next = i64::try_from(trend.next).unwrap_or(i64::MAX);
        // Between what was granted and what was refused it is open.
        match (next <= capacity.at_least, next > capacity.bytes) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// Sums of stacks in steps, by line.
fn outliving(snapshot: &Snapshot, by_stack: HashMap<(StackId, usize), Sum>, steps: usize) -> Vec<Outliving> {
    let mut lines: HashMap<Line, (Sum, HashMap<usize, u64>)> = HashMap::new();
    for ((stack, step), Sum { bytes, count }) in by_stack {
        let (sum, in_steps) = lines.entry(Line::of(snapshot, stack)).or_default();
        sum.bytes = sum.bytes.saturating_add(bytes);
        sum.count += count;
        let in_step = in_steps.entry(step).or_default();
        *in_step = in_step.saturating_add(bytes);
    }
    let line = |(line, (sum, in_steps)): (Line, (Sum, HashMap<usize, u64>))| {
        let mut in_steps: Vec<u64> = in_steps.into_values().collect();
        in_steps.sort_unstable();
        // Steps that keep nothing come first; of two in the middle, the smaller one counts.
        let middle = (steps.saturating_sub(1) / 2 + in_steps.len()).checked_sub(steps);
        let per_step = middle.and_then(|middle| in_steps.get(middle)).copied().unwrap_or_default();
        Outliving { line, bytes: sum.bytes, count: sum.count, per_step }
    };
    let mut lines: Vec<_> = lines.into_iter().map(line).collect();
    lines.sort_unstable_by(|a, b| {
        (b.per_step, b.bytes).cmp(&(a.per_step, a.bytes)).then_with(|| a.line.cmp(&b.line))
    });
    lines
}

/// Requested bytes of some allocations at every moment.
fn levels(replay: &Replay, keep: Keep<'_>) -> Vec<i64> {
    let mut levels = vec![0_i64; replay.events() + 1];
    let mut change = |at: Moment, bytes: i64| {
        if let Some(level) = levels.get_mut(at.0 as usize) {
            *level = level.saturating_add(bytes);
        }
    };
    for (_, allocation) in replay.allocations().iter().filter(|(index, found)| keep(*index, found)) {
        let bytes = i64::try_from(allocation.requested).unwrap_or(i64::MAX);
        change(allocation.opened, bytes);
        change(allocation.closed, -bytes);
    }
    let mut sum = 0_i64;
    for level in &mut levels {
        sum = sum.saturating_add(*level);
        *level = sum;
    }
    levels
}

fn highest(levels: &[i64], from: Moment, to: Moment) -> Peak {
    let mut peak = Peak { bytes: i64::MIN, at: from };
    for at in from.0..=to.0 {
        let bytes = levels.get(at as usize).copied().unwrap_or_default();
        if bytes > peak.bytes {
            peak = Peak { bytes, at: Moment(at) };
        }
    }
    peak
}

impl Small for Stepwise {
    const NAME: &'static str = "steps_table";
}

impl Device {
    /// What each step needs and keeps, of all allocations.
    pub fn stepwise(&self) -> Arc<Stepwise> {
        self.once(|| Stepwise::new(self, self.steps().clone(), None))
    }
}
