//! Mistakes that show at one moment: copies of weights, one tensor that dominates, gradients that are kept, temporaries
//! of an optimizer, and numbers of more bytes than usual.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::Frame;

use super::ledger::{Gain, Ledger};
use super::{Amount, Finding, Kind, Severity};
use crate::conclusions::categories::CUBLAS_WORKSPACES;
use crate::conclusions::cycles::{CyclesBy, Thread};
use crate::conclusions::stacks::Role;

/// A block that dominates: its share of the peak, alone or with those of its size, and times the largest other block.
const HUGE_SHARE: f64 = 0.4;
const HUGE_TIMES: u64 = 6;
/// Smaller blocks are no operands of a large one.
const LEAST_OPERAND: u64 = 1 << 14;
/// Times the largest other block for one that is no square of numbers: products of large matrices are usual.
const FAR_HUGER_TIMES: u64 = 64;
/// More blocks of one size are how the program works.
const MOST_HUGE: usize = 6;
/// The share of the weights' sizes that a copy has, and how many sets make more than a model and its shadow.
const COPY_MATCH: f64 = 0.7;
const MANY_SETS: f64 = 2.6;
/// Lines that are looked at for copies, those of most bytes.
const MOST_COPY_LINES: usize = 8;
/// Smaller blocks coincide in size.
const LEAST_BLOCK: u64 = 4096;
/// Generations of optimizer state, times one generation.
const MANY_STATES: f64 = 1.5;
/// The share of the peak that temporaries of an optimizer may take before it is worth acting on.
const TEMPORARY_SHARE: f64 = 1.0 / 6.0;

pub(super) fn find(ledger: &Ledger<'_>) -> Vec<Finding> {
    let weights = Weights::new(ledger);
    let mut found = Vec::new();
    found.extend(huge_tensor(ledger, &weights));
    found.extend(gradients_kept(ledger, &weights));
    found.extend(optimizer_temporaries(ledger));
    found.extend(copies(ledger, &weights));
    found.extend(optimizer_states(ledger));
    found.extend(precision(ledger, &weights));
    found
}

/// Sizes of the weights, by those of their gradients: what the engine makes and leaves behind.
struct Weights {
    /// Number of weights of each size.
    sizes: BTreeMap<u64, usize>,
    /// Their bytes.
    bytes: u64,
    /// Gradients of the first passes.
    gradients: Vec<AllocIdx>,
}

impl Weights {
    fn new(ledger: &Ledger<'_>) -> Self {
        let cycles = ledger.cycles;
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        let mut gradients = Vec::new();
        // The first backward pass that leaves something behind.
        let mut of_pass: Option<usize> = None;
        for (index, block) in ledger.made_by(|thread, _| thread == Thread::Engine) {
            let pass = cycles.backward.partition_point(|pass| pass.to < block.opened);
            let Some(end) = cycles.backward.get(pass).map(|pass| pass.to) else { continue };
            let is_left = ledger.thread(&block) == Thread::Engine
                && block.released > end
                && block.opened <= end
                && !CUBLAS_WORKSPACES.contains(&block.requested);
            if !is_left || of_pass.is_some_and(|first| pass > first + 1) {
                continue;
            }
            if *of_pass.get_or_insert(pass) == pass {
                *sizes.entry(block.requested).or_default() += 1;
            }
            gradients.push(index);
        }
        let bytes = sizes
            .iter()
            .fold(0_u64, |sum, (size, count)| sum.saturating_add(size.saturating_mul(*count as u64)));
        Self { sizes, bytes, gradients }
    }

    fn has(&self, size: u64) -> bool {
        self.sizes.contains_key(&size)
    }
}

/// One request, or several of one size, that take most of the peak and are far larger than all else that is live.
fn huge_tensor(ledger: &Ledger<'_>, weights: &Weights) -> Option<Finding> {
    let replay = ledger.case.replay;
    let failed = replay.ooms().last().copied();
    let at = failed.map_or(ledger.peak_at, |oom| Moment(oom.event.0));
    let live = replay.live(at);
    let unit = ledger.cycles.unit(at);
    let mut by_size: HashMap<u64, Vec<AllocIdx>> = HashMap::new();
    for &index in &live {
        let block = replay.allocation(index);
        by_size.entry(block.requested).or_default().push(index);
    }
    if let Some(oom) = failed {
        by_size.entry(oom.requested).or_default();
    }
    // What lives on from step to step is no mistake of one request: weights, buffers, queues.
    let is_passing = |index: &AllocIdx| {
        let block = replay.allocation(*index);
        block.opened > Moment::START
            // What a hook of the program makes while the engine runs is brought back, not made.
            && (ledger.thread(&block) == Thread::Main || ledger.own(block.recorded).is_none())
            && (ledger.cycles.units() < 2 || ledger.cycles.unit(block.opened) + 1 >= ledger.cycles.unit(at))
            && ledger.cycles.unit(ledger.freed(&block).min(ledger.cycles.last)) <= unit + 1
    };
    by_size.values_mut().for_each(|set| set.retain(is_passing));
    // A gradient alone is as large as what it is of.
    let is_main = |index: &AllocIdx| ledger.thread(&replay.allocation(*index)) == Thread::Main;
    by_size.retain(|size, set| {
        set.len() <= MOST_HUGE
            && (set.is_empty() || set.iter().any(is_main))
            && (!set.is_empty() || failed.is_some_and(|oom| oom.requested == *size))
    });
    let (size, set) = by_size.into_iter().max_by_key(|(size, set)| {
        let failed = failed.is_some_and(|oom| oom.requested == *size);
        (if failed { *size } else { size.saturating_mul(set.len() as u64) }, *size)
    })?;
    let is_failed = failed.is_some_and(|oom| oom.requested == size);
    let total = if is_failed { size } else { size.saturating_mul(set.len() as u64) };
    // The largest other block that the same step made.
    let other = live
        .iter()
        .map(|&index| replay.allocation(index))
        .filter(|block| block.requested < size / 2 && block.opened > Moment::START)
        .filter(|block| ledger.cycles.unit(block.opened) == unit || ledger.cycles.units() == 0)
        .filter(|block| !matches!(ledger.role(block), Role::Workspace))
        .map(|block| block.requested)
        .max()
        .unwrap_or_default();
    // Where the step has nothing of its own beside it, what lives on is what it was made of.
    let other = if other >= LEAST_OPERAND { other } else { largest_beside(ledger, &live, size) };
    let times = size / other.max(1);
    let in_modules = set.iter().filter(|index| ledger.in_module(&replay.allocation(**index))).count();
    let is_of_modules = !set.is_empty() && in_modules * 4 >= set.len();
    let limit = if is_failed { HUGE_SHARE / 2.0 } else { HUGE_SHARE };
    // Each of two vectors against each of the other makes a square.
    let is_square = [2, 4, 8].iter().any(|each| {
        let numbers = size / each;
        numbers > 0 && numbers.isqrt().pow(2) == numbers
    });
    let least = if is_square || is_failed { HUGE_TIMES } else { FAR_HUGER_TIMES };
    if (total as f64) < (ledger.peak.max(total)) as f64 * limit
        || times < least
        || other == 0
        || weights.has(size)
    {
        return None;
    }
    if (is_of_modules || ledger.cycles.by != CyclesBy::Backward) && !is_failed {
        return None;
    }
    let is_input = set.iter().all(|index| replay.allocation(*index).opened == Moment::START) && !is_failed;
    if is_input {
        return None;
    }
    let gain = ledger.gain(&set);
    let bytes = ledger.case.bytes;
    let event =
        failed.filter(|_| is_failed).map(|oom| ledger.case.device.event_table().get(oom.event.index()));
    let line: Option<Frame> = event.and_then(|event| ledger.own(event.stack)).or_else(|| ledger.line(&set));
    let what = format!(
        "{} of {} {}{}, {times} times the largest other tensor of its step",
        match set.len() + usize::from(is_failed) {
            1 => "one tensor".to_owned(),
            n => format!("{n} tensors"),
        },
        bytes(size),
        if is_failed { "are asked for by " } else { "at the peak by " },
        ledger.name(line)
    );
    let advice = "Look for a broadcast to n × n, the logits of a whole vocabulary, attention that is written out, or a \
                  cast of everything at once; work in chunks";
    let mut finding = ledger.finding(Kind::HugeTensor, &set, gain).says(what, advice);
    finding.site.line = ledger.case.line(line).or(finding.site.line);
    finding.bytes = total;
    finding.severity =
        if is_failed { Severity::High } else { finding.severity.max(ledger.severity(total / 2)) };
    if let Some(frame) = event.and_then(|event| ledger.of_loop(event.stack)) {
        finding = finding.at("called by", ledger.case.place(frame), size);
    }
    Some(
        finding
            .with("of one size", Amount::Bytes(size))
            .with("times the largest other", Amount::Count(times)),
    )
}

/// The largest live block of less than half a size.
fn largest_beside(ledger: &Ledger<'_>, live: &[AllocIdx], size: u64) -> u64 {
    let sizes = live.iter().map(|index| ledger.case.replay.allocation(*index).requested);
    sizes.filter(|other| *other < size / 2).max().unwrap_or_default()
}

/// Gradients of the first passes that are never freed: they are there in every forward pass.
fn gradients_kept(ledger: &Ledger<'_>, weights: &Weights) -> Option<Finding> {
    let cycles = ledger.cycles;
    if cycles.backward.len() < 3 {
        return None;
    }
    let replay = ledger.case.replay;
    let kept: Vec<AllocIdx> = weights
        .gradients
        .iter()
        .copied()
        .filter(|index| ledger.freed(&replay.allocation(*index)) == Moment::NEVER)
        .collect();
    let bytes = ledger.bytes(&kept);
    if weights.bytes == 0 || (bytes as f64) < weights.bytes as f64 * COPY_MATCH || kept.len() < 2 {
        return None;
    }
    // Without them each forward pass has that much less, and the backward pass until it makes them again.
    let mut parts = Vec::new();
    // What each backward pass adds to a gradient is a block of the same size, which would be the gradient instead.
    let mut added: HashMap<(usize, u64), Vec<Moment>> = HashMap::new();
    for (_, block) in ledger.made() {
        if ledger.thread(&block) == Thread::Engine && weights.has(block.requested) {
            let pass = cycles.backward.partition_point(|pass| pass.to < block.opened);
            added.entry((pass, block.requested)).or_default().push(block.released);
        }
    }
    for (number, pair) in cycles.backward.windows(2).enumerate() {
        // Each would be made again where the pass adds to it, or else where the first pass made it.
        for &index in &kept {
            let block = replay.allocation(index);
            if let Some(again) = added.get_mut(&(number + 1, block.requested)).and_then(Vec::pop) {
                parts.push((pair[0].to, again.min(replay.end()), block.requested));
                continue;
            }
            let first = cycles.backward.iter().find(|pass| block.opened <= pass.to);
            let Some(first) = first.filter(|first| first.to.0 > first.from.0) else { continue };
            let share = f64::from(block.opened.0 - first.from.0.min(block.opened.0))
                / f64::from(first.to.0 - first.from.0);
            let again = pair[1].from.0 + (f64::from(pair[1].to.0 - pair[1].from.0) * share) as u32;
            parts.push((pair[0].to, Moment(again), block.requested));
        }
    }
    let gain = Gain { most: bytes.try_into().unwrap_or(i64::MAX), ..ledger.gain_while(parts.into_iter()) };
    let line = seed(ledger).or_else(|| ledger.line(&kept));
    let what = format!(
        "gradients ({}) live through every forward pass: they are set to zero, not let go",
        ledger.case.bytes.to_owned()(bytes)
    );
    let mut finding = ledger
        .finding(Kind::GradientsKept, &kept, gain)
        .says(what, "Call optimizer.zero_grad(set_to_none=True), which is the default, or set .grad to None")
        .with("gradients", Amount::Count(kept.len() as u64));
    finding.site.line = ledger.case.line(line).or(finding.site.line);
    for (name, frame) in [("backward called by", line), ("zeroed near", zeroing(ledger))] {
        if let Some(frame) = frame {
            finding = finding.at(name, ledger.case.place(frame), bytes);
        }
    }
    Some(finding)
}

/// The line of the program that calls `backward`.
fn seed(ledger: &Ledger<'_>) -> Option<Frame> {
    let (_, block) = ledger.made_by(|thread, _| thread == Thread::BackwardCall).next()?;
    ledger.own(block.recorded)
}

/// The line of the program that calls `zero_grad`, where something of it shows.
fn zeroing(ledger: &Ledger<'_>) -> Option<Frame> {
    let snapshot = ledger.case.snapshot;
    let events = ledger.case.device.event_table();
    let is_zero = |stack| snapshot.frames(stack).any(|frame| snapshot.text(frame.name) == "zero_grad");
    events.distinct_stacks().iter().copied().find(|stack| is_zero(*stack)).and_then(|stack| ledger.own(stack))
}

/// The peak is inside a step of the optimizer, by what that step makes and lets go.
fn optimizer_temporaries(ledger: &Ledger<'_>) -> Option<Finding> {
    let replay = ledger.case.replay;
    let is_temporary = |index: &AllocIdx| {
        let block = replay.allocation(*index);
        ledger.is_of_optimizer(&block) && ledger.freed(&block) != Moment::NEVER && {
            let life = block.released.0.saturating_sub(block.opened.0) as usize;
            life * 8 < replay.events().max(8)
        }
    };
    let at_peak: Vec<AllocIdx> = replay.live(ledger.peak_at).into_iter().filter(is_temporary).collect();
    if at_peak.is_empty() {
        return None;
    }
    // Those of every step: without them the peak is elsewhere.
    let all: Vec<AllocIdx> = ledger
        .made_by(|_, role| role == Role::Optimizer)
        .map(|(index, _)| index)
        .filter(is_temporary)
        .collect();
    let gain = ledger.gain(&all);
    if (gain.bytes as f64) < ledger.peak as f64 * super::ledger::MEDIUM {
        return None;
    }
    let bytes = ledger.case.bytes;
    let line = ledger.line(&at_peak);
    let what = format!(
        "the peak is inside the optimizer's step: its temporaries take {} there, called at {}",
        bytes(ledger.bytes(&at_peak)),
        ledger.name(line)
    );
    let mut finding = ledger.finding(Kind::OptimizerTemporaries, &all, gain).says(
        what,
        "Pass fused=True, or foreach=False, to the optimizer; or step each parameter in its backward hook",
    );
    if (gain.bytes as f64) < ledger.peak as f64 * TEMPORARY_SHARE {
        finding.severity = Severity::Low;
    }
    Some(finding)
}

/// Bursts of allocations that have the sizes of the weights.
fn copies(ledger: &Ledger<'_>, weights: &Weights) -> Option<Finding> {
    if weights.bytes == 0 || weights.sizes.values().sum::<usize>() < 2 {
        return None;
    }
    let large: BTreeMap<u64, usize> = weights
        .sizes
        .iter()
        .filter(|(size, _)| **size >= LEAST_BLOCK)
        .map(|(size, count)| (*size, *count))
        .collect();
    let whole =
        large.iter().fold(0_u64, |sum, (size, count)| sum.saturating_add(size.saturating_mul(*count as u64)));
    // Blocks with the size of a weight, made by the program outside of passes and optimizers, by line.
    let mut by_line: HashMap<Option<Frame>, Vec<(AllocIdx, Allocation)>> = HashMap::new();
    for (index, block) in ledger.made_by(|thread, _| matches!(thread, Thread::Main | Thread::Other)) {
        let is_copy = large.contains_key(&block.requested)
            && matches!(ledger.thread(&block), Thread::Main | Thread::Other)
            && !ledger.in_module(&block)
            && !matches!(
                ledger.role(&block),
                Role::Optimizer | Role::Forward | Role::Buckets | Role::Workspace
            );
        if is_copy {
            by_line.entry(ledger.own(block.recorded)).or_default().push((index, block));
        }
    }
    let first_pass = ledger.cycles.backward.first().map_or(Moment::NEVER, |pass| pass.from);
    let mut best: Option<(Gain, Vec<AllocIdx>, Option<Frame>, f64)> = None;
    // Each line that is looked at goes through the curve once.
    let mut by_line: Vec<_> = by_line.into_iter().collect();
    let bytes_of = |blocks: &[(AllocIdx, Allocation)]| {
        blocks.iter().fold(0_u64, |sum, (_, block)| sum.saturating_add(block.requested))
    };
    by_line.sort_by_key(|(frame, blocks)| {
        (std::cmp::Reverse(bytes_of(blocks)), frame.map(|frame| (frame.file, frame.line)))
    });
    by_line.truncate(MOST_COPY_LINES);
    for (frame, blocks) in by_line {
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        blocks.iter().for_each(|(_, block)| *sizes.entry(block.requested).or_default() += 1);
        let covered = large
            .iter()
            .filter(|(size, _)| sizes.contains_key(size))
            .fold(0_u64, |sum, (size, count)| sum.saturating_add(size.saturating_mul(*count as u64)));
        let distinct = large.keys().filter(|size| sizes.contains_key(*size)).count();
        if (covered as f64) < whole as f64 * COPY_MATCH || distinct < 2 {
            continue;
        }
        // The model itself is made before the first pass, by lines of its own.
        let is_model = blocks
            .iter()
            .all(|(_, block)| ledger.role(block) == Role::Parameters && block.opened < first_pass);
        if is_model {
            continue;
        }
        // Before the first pass the weights themselves are made; a checkpoint that is loaded beside them is a copy.
        let is_loaded = |block: &Allocation| {
            ledger.case.snapshot.frames(block.recorded).any(|frame| {
                let file = ledger.case.snapshot.text(frame.file);
                file.ends_with("torch/serialization.py") || file.contains("/safetensors/")
            })
        };
        let loaded = blocks.iter().filter(|(_, block)| is_loaded(block)).count() * 2 >= blocks.len();
        let late = blocks.iter().filter(|(_, block)| block.opened > first_pass).count() * 2 >= blocks.len();
        if !loaded && !late {
            continue;
        }
        let set: Vec<AllocIdx> = blocks.iter().map(|(index, _)| *index).collect();
        let gain = ledger.gain(&set);
        let lives = blocks
            .iter()
            .map(|(_, block)| ledger.freed(block).min(ledger.cycles.last).0.saturating_sub(block.opened.0))
            .max();
        let lives_on = lives.is_some_and(|life| life as usize * 3 >= ledger.cycles.last.0 as usize);
        let sets = gain.most.max(0) as f64 / whole.max(1) as f64;
        let is_copy = (loaded && lives_on && sets >= COPY_MATCH) || sets >= MANY_SETS;
        if is_copy && best.as_ref().is_none_or(|(known, ..)| gain.most > known.most) {
            best = Some((gain, set, frame, sets));
        }
    }
    let (gain, set, frame, sets) = best?;
    let bytes = ledger.case.bytes;
    let what = format!(
        "{} more of the weights at once ({}), made at {}",
        match sets.round() as u64 {
            0 | 1 => "one copy".to_owned(),
            n => format!("{n} copies"),
        },
        bytes(gain.most.max(0).unsigned_abs()),
        ledger.name(frame)
    );
    let mut finding = ledger
        .finding(Kind::Copies, &set, gain)
        .says(what, "Copy state to the CPU (v.cpu(), map_location=\"cpu\"), replace the older copy, or drop it when it is loaded");
    finding.site.line = ledger.case.line(frame).or(finding.site.line);
    Some(finding.with("bytes of one copy", Amount::Bytes(whole)))
}

/// Whether a set is so many times the weights: each part of it has the sizes of most of them.
pub(super) fn are_weights(ledger: &Ledger<'_>, set: &[AllocIdx], times: usize) -> bool {
    let weights = Weights::new(ledger);
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    for &index in set {
        *sizes.entry(ledger.case.replay.allocation(index).requested).or_default() += 1;
    }
    let is_there =
        |(size, count): &(&u64, &usize)| sizes.get(size).is_some_and(|found| *found >= **count * times / 2);
    let large = || weights.sizes.iter().filter(|(size, _)| **size >= LEAST_BLOCK);
    let sum =
        |bytes: u64, (size, count): (&u64, &usize)| bytes.saturating_add(size.saturating_mul(*count as u64));
    let (all, found) = (large().fold(0, sum), large().filter(is_there).fold(0, sum));
    let of_weights =
        set.iter().filter(|index| weights.has(ledger.case.replay.allocation(**index).requested)).count();
    times >= 2 && all > 0 && found as f64 >= all as f64 * COPY_MATCH && of_weights * 10 >= set.len() * 7
}

/// Optimizer state that is made again while the older one lives.
fn optimizer_states(ledger: &Ledger<'_>) -> Option<Finding> {
    let mut by_unit: BTreeMap<usize, Vec<AllocIdx>> = BTreeMap::new();
    for (index, block) in ledger.made_by(|_, role| role == Role::Optimizer) {
        let unit = ledger.cycles.unit(block.opened);
        let lives_on = ledger.cycles.unit(ledger.freed(&block).min(ledger.cycles.last)) >= unit + 2;
        if ledger.is_of_optimizer(&block) && block.requested >= LEAST_BLOCK && lives_on {
            by_unit.entry(unit).or_default().push(index);
        }
    }
    let first = by_unit.values().next().map(|set| ledger.bytes(set)).filter(|bytes| *bytes > 0)?;
    let generations: Vec<&Vec<AllocIdx>> =
        by_unit.values().filter(|set| ledger.bytes(set).abs_diff(first) <= first / 10).collect();
    if generations.len() < 2 {
        return None;
    }
    let set: Vec<AllocIdx> = generations.iter().flat_map(|set| set.iter().copied()).collect();
    let gain = ledger.gain(&set[generations[0].len()..]);
    let whole = ledger.gain(&set);
    if (whole.most as f64) < first as f64 * MANY_STATES {
        return None;
    }
    let bytes = ledger.case.bytes;
    let line = ledger.line(&set);
    let what = format!(
        "the optimizer's state is made {} times while the older ones live: {} instead of {}, at {}",
        generations.len(),
        bytes(whole.most.max(0).unsigned_abs()),
        bytes(first),
        ledger.name(line)
    );
    Some(ledger.finding(Kind::Copies, &set, Gain { bytes: gain.bytes, ..whole }).says(
        what,
        "Make the optimizer once, or drop the old one (and what refers to it) before the new one steps",
    ))
}

/// Losses of eight bytes: the model computes in double precision.
fn precision(ledger: &Ledger<'_>, weights: &Weights) -> Option<Finding> {
    let snapshot = ledger.case.snapshot;
    let is_seed = |block: &Allocation| {
        ledger.thread(block) == Thread::BackwardCall
            && snapshot
                .frames(block.recorded)
                .next()
                .is_some_and(|frame| snapshot.text(frame.name) == "_make_grads")
    };
    let (mut all, mut double) = (0_usize, 0_usize);
    let mut line = None;
    let mut passes = HashSet::new();
    for (_, block) in
        ledger.made_by(|thread, _| thread == Thread::BackwardCall).filter(|(_, block)| is_seed(block))
    {
        all += 1;
        if block.requested == 8 {
            double += 1;
            line = line.or_else(|| ledger.own(block.recorded));
            passes.insert(ledger.cycles.unit(block.opened));
        }
    }
    if double < 2 || double * 2 < all {
        return None;
    }
    let replay = ledger.case.replay;
    // Half of all that is made in passes would do.
    let set: Vec<AllocIdx> = replay
        .live(ledger.peak_at)
        .into_iter()
        .filter(|index| replay.allocation(*index).requested >= LEAST_BLOCK)
        .collect();
    let most = ledger.bytes(&set);
    let gain = Gain { bytes: most / 2, most: most.try_into().unwrap_or(i64::MAX), at: ledger.peak_at };
    let made = ledger.line(&set);
    let what = format!(
        "the loss is a number of eight bytes: the program computes in double precision, {} at the peak instead of {}",
        ledger.case.bytes.to_owned()(most),
        ledger.case.bytes.to_owned()(most / 2)
    );
    let mut finding = ledger
        .finding(Kind::Precision, &set, gain)
        .says(what, "Use float32: look for .double(), dtype=torch.float64, and for data from NumPy, whose default is float64")
        .with("weights, by their gradients", Amount::Bytes(weights.bytes));
    for (name, frame) in [("backward called by", line), ("most is made by", made)] {
        if let Some(frame) = frame {
            finding = finding.at(name, ledger.case.place(frame), most);
        }
    }
    for frame in casts(ledger) {
        finding = finding.at("cast by", ledger.case.place(frame), 0);
    }
    Some(finding)
}

/// Lines of the program that call a conversion to double precision.
fn casts(ledger: &Ledger<'_>) -> Vec<Frame> {
    let snapshot = ledger.case.snapshot;
    let events = ledger.case.device.event_table();
    let is_cast = |stack| {
        snapshot
            .frames(stack)
            .any(|frame| matches!(snapshot.text(frame.name), "double" | "to" | "_apply" | "from_numpy"))
    };
    let mut lines: Vec<Frame> = Vec::new();
    for &stack in events.distinct_stacks().iter() {
        if is_cast(stack)
            && let Some(frame) = ledger.own(stack)
            && !lines.contains(&frame)
        {
            lines.push(frame);
            if lines.len() == 3 {
                break;
            }
        }
    }
    lines
}
