//! Growth from step to step: memory that is still there when a phase ends, more each time.
//!
//! The live sets at the ends of a phase that comes again and again are compared. A line whose bytes grow
//! in nearly every repetition, after the first two in which caches fill, is a leak or a cache without a
//! limit. The classic case keeps a loss, and with it the whole graph, in a list.

use std::collections::HashMap;

use vramscope_snapshot::{Frame, Snapshot, StrId};

use crate::allocations::Moment;
use crate::frames::{is_internal, user_frame};
use crate::replay::Replay;
use crate::spans::spans;

/// Memory that grows with every repetition of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The phase.
    pub phase: StrId,
    /// How often it ended.
    pub repetitions: usize,
    /// Bytes that each repetition adds.
    pub bytes_per_step: u64,
    /// Bytes that have come together.
    pub bytes: u64,
    /// The line of the user's own program, outside installed packages, that most of it comes through, with
    /// bytes per step.
    pub through: Option<(Frame, u64)>,
    /// The lines that allocate it, most bytes first, with bytes per step.
    pub lines: Vec<(Frame, u64)>,
}

/// Fewer repetitions prove nothing.
const LEAST_STEPS: usize = 4;
/// Repetitions at the beginning in which caches and optimizer state are made.
const WARM_UP: usize = 2;
/// So many live sets are compared at the most.
const MOST_STEPS: usize = 64;
/// What is smaller than this share of the peak, or than a megabyte, troubles nobody.
const LEAST_SHARE: f64 = 0.01;
const LEAST_BYTES: u64 = 1 << 20;

/// The growth of a device's memory, if there is any to speak of.
pub fn growth(snapshot: &Snapshot, replay: &Replay) -> Option<Growth> {
    let (phase, ends) = repeated_phase(snapshot, replay)?;
    let steps = ends.len();
    // Bytes of each stack at each end.
    let mut by_stack: HashMap<_, Vec<u64>> = HashMap::new();
    for (step, &at) in ends.iter().enumerate() {
        for &index in &replay.state(at).live {
            let allocation = replay.allocation(index);
            by_stack.entry(allocation.stack).or_insert_with(|| vec![0; steps])[step] += allocation.requested;
        }
    }
    let grown = |bytes: &[u64]| bytes[steps - 1].saturating_sub(bytes[WARM_UP - 1]);
    let grows = |bytes: &[u64]| {
        let ups = bytes[WARM_UP - 1..].windows(2).filter(|pair| pair[1] > pair[0]).count();
        ups * 5 >= (steps - WARM_UP) * 4
    };
    let growing: Vec<_> = by_stack.into_iter().filter(|(_, bytes)| grows(bytes)).collect();
    let bytes: u64 = growing.iter().map(|(_, bytes)| grown(bytes)).sum();
    let peak = replay.peak(crate::Counter::Requested).bytes.max(0) as f64;
    if bytes < LEAST_BYTES || (bytes as f64) < peak * LEAST_SHARE {
        return None;
    }
    let per_step = |bytes: u64| bytes / (steps - WARM_UP) as u64;
    let is_own = |frame: &Frame| {
        let file = snapshot.text(frame.file);
        !is_internal(snapshot.text(frame.name), file) && !file.contains("-packages/")
    };
    let mut lines: HashMap<Frame, u64> = HashMap::new();
    let mut through: HashMap<Frame, u64> = HashMap::new();
    for (stack, bytes) in &growing {
        if let Some(frame) = user_frame(snapshot, *stack) {
            *lines.entry(frame).or_default() += grown(bytes);
        }
        if let Some(frame) = snapshot.frames(*stack).find(is_own) {
            *through.entry(frame).or_default() += grown(bytes);
        }
    }
    let ranked = |sums: HashMap<Frame, u64>| {
        let mut ranked: Vec<_> = sums.into_iter().map(|(frame, bytes)| (frame, per_step(bytes))).collect();
        ranked.sort_by_key(|&(frame, bytes)| (std::cmp::Reverse(bytes), frame.file, frame.line));
        ranked
    };
    let through = ranked(through).first().copied();
    Some(Growth {
        phase,
        repetitions: steps,
        bytes_per_step: per_step(bytes),
        bytes,
        through,
        lines: ranked(lines),
    })
}

/// The phase that comes most often, of those the one that ends last, and the moments at its ends.
fn repeated_phase(snapshot: &Snapshot, replay: &Replay) -> Option<(StrId, Vec<Moment>)> {
    let mut ends: HashMap<StrId, Vec<Moment>> = HashMap::new();
    for span in spans(snapshot, replay.device()) {
        if span.end_us.is_some() && span.depth == 0 {
            ends.entry(span.name).or_default().push(span.to);
        }
    }
    let (phase, mut ends) = ends
        .into_iter()
        .filter(|(_, ends)| ends.len() >= LEAST_STEPS)
        .max_by_key(|(name, ends)| (ends.len(), ends.last().copied(), std::cmp::Reverse(*name)))?;
    if ends.len() > MOST_STEPS {
        let all = ends.len();
        ends = (0..MOST_STEPS).map(|step| ends[step * (all - 1) / (MOST_STEPS - 1)]).collect();
    }
    Some((phase, ends))
}
