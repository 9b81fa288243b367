//! Growth from step to step: memory that is still there when a step ends, more each time.
//!
//! Steps are the repetitions of a phase, if the program marks phases; otherwise the stretches between troughs
//! of the curve. The live sets at their ends are compared. A stack whose bytes grow in nearly every step,
//! after the first two in which caches fill, is a leak or a cache without a limit.
//!
//! *Kept graph* is the classic case: a loss or an output is put into a list with its autograd graph, and with
//! it everything that the forward pass saved. It shows as many lines inside `nn.Module` calls that grow
//! together.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{Counter, Moment};
use vramscope_snapshot::{Frame, Snapshot, StackId, StrId};

use crate::conclusions::troughs::troughs;
use crate::device::Device;
use crate::questions::frames::{is_internal, user_frame};
use crate::questions::spans::phase_name;
use crate::questions::spans::{Span, is_internal_phase};

/// Memory that grows with every step.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The phase whose ends were compared; `None` if they were troughs.
    pub phase: Option<StrId>,
    /// The moments at which steps ended, evenly chosen if there were many.
    pub ends: Vec<Moment>,
    /// How many steps there were.
    pub steps: usize,
    /// How many of them `bytes` have come with: all but the first ones, in which caches fill.
    pub counted: usize,
    /// Bytes that each step adds.
    pub bytes_per_step: u64,
    /// Bytes that have come with the steps that are counted.
    pub bytes: u64,
    /// How many blocks more are live.
    pub blocks: u64,
    /// The share of the steps that are counted in which it grew.
    pub grew: f64,
    /// How sure it is, from 0 to 1: how alike the steps are in what they add, or that every one of them grows.
    pub confidence: f64,
    /// Whether it looks like autograd graphs that are kept.
    pub is_kept_graph: bool,
    /// The stack that grows most.
    pub stack: StackId,
    /// The line of the user's own program, outside installed packages, that most of it comes through, with
    /// bytes per step.
    pub through: Option<(Frame, u64)>,
    /// The lines that allocate it, most bytes first, with bytes per step.
    pub lines: Vec<(Frame, u64)>,
}

/// Fewer steps prove nothing.
const LEAST_STEPS: usize = 4;
/// Then each has to add about the same: a program that allocates this and that wanders up, too.
const LEAST_CONFIDENCE: f64 = 0.8;
/// Steps at the beginning in which caches and optimizer state are made.
const WARM_UP: usize = 2;
/// Most live sets that are compared.
const MOST_STEPS: usize = 64;
/// What is smaller than this share of the peak, or than a megabyte, troubles nobody.
const LEAST_SHARE: f64 = 0.01;
const LEAST_BYTES: u64 = 1 << 20;
/// Lines that grow together before it is called a graph.
const GRAPH_LINES: usize = 3;

/// The growth of a device's memory, if there is any to speak of.
pub fn growth(device: &Device) -> Option<Growth> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let (phase, ends, between) = match repeated_phase(snapshot, device.spans()) {
        Some((phase, ends)) => (Some(phase), ends.0, ends.1),
        None => {
            let (ends, between) = chosen(troughs(replay))?;
            (None, ends, between)
        }
    };
    let compared = ends.len();
    // Bytes of each stack at each end, and its blocks at the ends between which bytes are counted.
    let mut by_stack: HashMap<StackId, Vec<u64>> = HashMap::new();
    let mut blocks: HashMap<StackId, i64> = HashMap::new();
    for (step, &at) in ends.iter().enumerate() {
        for index in replay.live(at) {
            let allocation = replay.allocation(index);
            let bytes = by_stack.entry(allocation.stack).or_insert_with(|| vec![0; compared]);
            bytes[step] = bytes[step].saturating_add(allocation.requested);
            let counted = i64::from(step == compared - 1) - i64::from(step == WARM_UP - 1);
            *blocks.entry(allocation.stack).or_default() += counted;
        }
    }
    let grown = |bytes: &[u64]| bytes[compared - 1].saturating_sub(bytes[WARM_UP - 1]);
    let grows = |bytes: &[u64]| {
        let ups = bytes[WARM_UP - 1..].windows(2).filter(|pair| pair[1] > pair[0]).count();
        ups * 5 >= (compared - WARM_UP) * 4 && grown(bytes) > 0
    };
    let mut growing: Vec<_> = by_stack.into_iter().filter(|(_, bytes)| grows(bytes)).collect();
    growing.sort_unstable_by_key(|(stack, bytes)| (Reverse(grown(bytes)), *stack));
    let bytes = growing.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(grown(bytes)));
    let peak = replay.peak(Counter::Requested).bytes.max(0) as f64;
    if bytes < LEAST_BYTES || (bytes as f64) < peak * LEAST_SHARE {
        return None;
    }
    let totals: Vec<f64> = (WARM_UP - 1..compared)
        .map(|step| growing.iter().map(|(_, bytes)| bytes[step] as f64).sum())
        .collect();
    let confidence = confidence(&totals, phase.is_some());
    if phase.is_none() && confidence < LEAST_CONFIDENCE {
        return None;
    }
    let ups = totals.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let blocks: i64 = growing.iter().filter_map(|(stack, _)| blocks.get(stack)).sum();
    let steps_between = (compared - WARM_UP) as f64 * between;
    let per_step = |bytes: u64| (bytes as f64 / steps_between).round() as u64;
    let sums = |frame_of: &dyn Fn(StackId) -> Option<Frame>| {
        let mut sums: HashMap<Frame, u64> = HashMap::new();
        for (stack, bytes) in &growing {
            if let Some(frame) = frame_of(*stack) {
                let sum = sums.entry(frame).or_default();
                *sum = sum.saturating_add(grown(bytes));
            }
        }
        let mut ranked: Vec<_> = sums.into_iter().map(|(frame, bytes)| (frame, per_step(bytes))).collect();
        ranked.sort_by_key(|&(frame, bytes)| (Reverse(bytes), frame.file, frame.line));
        ranked
    };
    let is_own = |frame: &Frame| {
        let file = snapshot.text(frame.file);
        !is_internal(snapshot.text(frame.name), file) && !file.contains("-packages/")
    };
    let through = sums(&|stack| snapshot.frames(stack).find(is_own)).first().copied();
    let stacks: Vec<(StackId, u64)> = growing.iter().map(|(stack, bytes)| (*stack, grown(bytes))).collect();
    Some(Growth {
        phase,
        steps: 1 + ((compared - 1) as f64 * between).round() as usize,
        counted: steps_between.round() as usize,
        ends,
        bytes_per_step: per_step(bytes),
        bytes,
        blocks: u64::try_from(blocks).unwrap_or_default(),
        grew: ups as f64 / (compared - WARM_UP) as f64,
        confidence,
        is_kept_graph: is_kept_graph(snapshot, &stacks),
        stack: stacks.first().map_or(StackId::ABSENT, |(stack, _)| *stack),
        through,
        lines: sums(&|stack| user_frame(snapshot, stack)),
    })
}

/// Whether most of the growth is inside calls of modules, in several lines of them.
fn is_kept_graph(snapshot: &Snapshot, growing: &[(StackId, u64)]) -> bool {
    let is_module_call = |frame: &Frame| {
        snapshot.text(frame.name).ends_with("_call_impl")
            && snapshot.text(frame.file).replace('\\', "/").ends_with("torch/nn/modules/module.py")
    };
    let (mut all, mut inside) = (0_u64, 0_u64);
    let mut lines = HashSet::new();
    for &(stack, bytes) in growing {
        all = all.saturating_add(bytes);
        if snapshot.frames(stack).any(|frame| is_module_call(&frame)) {
            inside = inside.saturating_add(bytes);
            lines.extend(user_frame(snapshot, stack));
        }
    }
    inside > all / 2 && lines.len() >= GRAPH_LINES
}

/// How sure the growth is: how alike the steps are in what they add. If the steps are those of the program, and
/// not guessed, growth in every one of n is as sure as n tosses of a coin that all show heads are no chance.
fn confidence(totals: &[f64], is_marked: bool) -> f64 {
    let always = is_marked && totals.windows(2).all(|pair| pair[1] > pair[0]);
    let chance = 0.5_f64.powi(i32::try_from(totals.len()).unwrap_or(i32::MAX) - 1);
    evenness(totals).max(if always { 1.0 - chance } else { 0.0 })
}

/// One less the relative standard deviation of what each step adds.
fn evenness(totals: &[f64]) -> f64 {
    let steps: Vec<f64> = totals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let n = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / n;
    let variance = steps.iter().map(|step| (step - mean).powi(2)).sum::<f64>() / n;
    if mean > 0.0 { (1.0 - variance.sqrt() / mean).clamp(0.0, 1.0) } else { 0.0 }
}

/// The phase that comes most often, of those the one that ends last, and the moments at its ends.
fn repeated_phase(snapshot: &Snapshot, spans: &[Span]) -> Option<(StrId, (Vec<Moment>, f64))> {
    let mut ends: HashMap<&str, (StrId, Vec<Moment>)> = HashMap::new();
    for span in spans {
        let name = snapshot.text(span.name);
        if span.end_us.is_some() && span.depth == 0 && !is_internal_phase(name) {
            ends.entry(phase_name(name)).or_insert_with(|| (span.name, Vec::new())).1.push(span.to);
        }
    }
    let (phase, ends) = ends
        .into_values()
        .filter(|(_, ends)| ends.len() >= LEAST_STEPS)
        .max_by_key(|(name, ends)| (ends.len(), ends.last().copied(), Reverse(*name)))?;
    Some((phase, chosen(ends)?))
}

/// Not too many ends, evenly chosen, and how many steps lie between two of them.
fn chosen(ends: Vec<Moment>) -> Option<(Vec<Moment>, f64)> {
    let all = ends.len();
    if all < LEAST_STEPS {
        return None;
    }
    if all <= MOST_STEPS {
        return Some((ends, 1.0));
    }
    let ends = (0..MOST_STEPS).map(|step| ends[step * (all - 1) / (MOST_STEPS - 1)]).collect();
    Some((ends, (all - 1) as f64 / (MOST_STEPS - 1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_steps_are_sure_and_noise_is_not() {
        assert!((evenness(&[10.0, 20.0, 30.0, 40.0]) - 1.0).abs() < 1e-9);
        // Steps of 10 and 30: 20 in the mean, 10 off.
        assert!((evenness(&[0.0, 10.0, 40.0, 50.0, 80.0]) - 0.5).abs() < 1e-9);
        assert!(evenness(&[10.0, 40.0, 10.0, 40.0]).abs() < 1e-9);
        assert!(evenness(&[5.0, 5.0, 5.0]).abs() < 1e-9, "nothing grows");
        // Four steps that all grow, by chance in one of sixteen cases.
        let uneven = [0.0, 1.0, 9.0, 10.0, 30.0];
        assert!((confidence(&uneven, true) - 15.0 / 16.0).abs() < 1e-9);
        assert!(confidence(&uneven, false) < 0.1);
    }
}
