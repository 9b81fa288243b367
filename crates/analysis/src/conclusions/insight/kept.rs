//! Memory that is there longer than the work it was made for: autograd graphs that are kept, forward passes that no
//! backward pass uses, tensors that a list or a cache keeps, and what only the garbage collector frees.

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::{Action, EventIdx, Frame, StackId};

use super::ledger::{Gain, Ledger};
use super::{Amount, Finding, Kind, Severity};
use crate::conclusions::cycles::{CyclesBy, Thread};
use crate::conclusions::stacks::Role;

/// The share of what a forward pass saves that has to outlive the backward pass after its own.
const OUTLIVES: f64 = 0.55;
/// The share of the units in which that has to be so, and how many at the least.
const MOST_UNITS: f64 = 0.6;
const LEAST_UNITS: usize = 3;
/// Repetitions of one forward pass that wait for a backward pass, and how alike they have to be.
const LEAST_REPEATS: usize = 3;
const ALIKE: f64 = 0.93;
/// Units that are looked at for forward passes that wait.
const SAMPLED_UNITS: usize = 8;
/// The share of the peak that waiting forward passes have to hold.
const WAITING_SHARE: f64 = 0.25;
/// Blocks of modules that are freed at once, the share of what modules made, and how often: a graph that is dropped.
const DROPPED_BLOCKS: usize = 5;
const DROPPED_SHARE: f64 = 0.35;
const LEAST_DROPS: usize = 2;
/// The share of the units in which something stays, and how many units have to be known.
const GROWS_IN: f64 = 0.5;
const LEAST_GROWING: usize = 4;
const LEAST_GROWING_STEPS: usize = 6;
/// Less than this, and than this share of the peak, troubles nobody for a long time.
const LEAST_GROWTH: u64 = 1 << 20;
const LEAST_GROWTH_SHARE: f64 = 0.01;
/// The share of the peak that the collector has to free at once, of how many units.
const COLLECTED_SHARE: f64 = 0.08;
const COLLECTED_UNITS: usize = 3;

pub(super) fn find(ledger: &Ledger<'_>) -> Vec<Finding> {
    let mut taken = HashSet::new();
    let mut found = Vec::new();
    for look in [kept_graph, collected, waiting, dropped, growth] {
        found.extend(look(ledger, &mut taken));
    }
    found
}

/// Allocations that are part of a finding already.
type Taken = HashSet<AllocIdx>;

/// Whether a block is saved by a forward pass for its backward pass: made on the main thread, and alive when that pass begins.
fn is_saved(ledger: &Ledger<'_>, block: &Allocation, unit: usize) -> bool {
    let Some(pass) = ledger.cycles.backward.get(unit) else { return false };
    ledger.thread(block) == Thread::Main
        && !matches!(ledger.role(block), Role::Parameters | Role::Optimizer | Role::Buckets)
        && block.opened <= pass.from
        && ledger.freed(block) > pass.from
}

/// Activations of most steps that outlive the backward pass after their own.
fn kept_graph(ledger: &Ledger<'_>, taken: &mut Taken) -> Option<Finding> {
    let cycles = ledger.cycles;
    if cycles.by != CyclesBy::Backward {
        return None;
    }
    let units = cycles.units();
    // Where there are modules, what they made tells: a program may keep its inputs for reasons of its own.
    let has_modules = ledger.made().any(|(_, block)| ledger.in_module(&block));
    let (mut saved, mut kept) = (vec![0_u64; units], vec![0_u64; units]);
    let mut set = Vec::new();
    for (index, block) in ledger.made_by(|thread, _| thread == Thread::Main) {
        let unit = cycles.unit(block.opened);
        if !is_saved(ledger, &block, unit) {
            continue;
        }
        let counts = !has_modules || ledger.in_module(&block);
        let bytes = if counts { block.requested } else { 0 };
        saved[unit] = saved[unit].saturating_add(bytes);
        let next = cycles.backward.get(unit + 1);
        if next.map_or(ledger.freed(&block) == Moment::NEVER, |next| ledger.freed(&block) > next.to) {
            kept[unit] = kept[unit].saturating_add(bytes);
            set.push(index);
        }
    }
    let known = units.saturating_sub(1);
    let is_kept = |unit: &usize| saved[*unit] > 0 && kept[*unit] as f64 >= saved[*unit] as f64 * OUTLIVES;
    let many = (0..known).filter(is_kept).count();
    if many < LEAST_UNITS || (many as f64) < known as f64 * MOST_UNITS {
        return None;
    }
    let gain = ledger.gain(&set);
    taken.extend(set.iter().copied());
    let line = ledger.line(&set);
    let bytes = ledger.case.bytes;
    let what = format!(
        "activations of {many} of {known} steps outlive the backward pass after their own: {} at once, by {}. Something \
         that is kept holds their graph",
        bytes(gain.most.unsigned_abs()),
        ledger.name(line)
    );
    let advice = "Store numbers, not tensors: .item() or .detach() on what is kept from step to step (a loss, an \
                  output, a hidden state, a running average)";
    let mut finding = ledger
        .finding(Kind::KeptGraph, &set, gain)
        .says(what, advice)
        .with("steps whose graph is kept", Amount::Count(many as u64))
        .with("bytes per step", Amount::Bytes(per_step(&kept)));
    // A result of few bytes that is kept in each step is what holds the rest.
    for (frame, size) in companions(ledger, &set).into_iter().take(3) {
        finding = finding.at("small, and kept with it", ledger.case.place(frame), size);
    }
    Some(finding)
}

/// The median of the units that have any.
fn per_step(bytes: &[u64]) -> u64 {
    let mut bytes: Vec<u64> = bytes.iter().copied().filter(|bytes| *bytes > 0).collect();
    bytes.sort_unstable();
    bytes.get(bytes.len() / 2).copied().unwrap_or_default()
}

/// Lines of the program that made small blocks of a set outside of modules, in most steps: one of them is likely what is
/// kept on purpose.
fn companions(ledger: &Ledger<'_>, set: &[AllocIdx]) -> Vec<(Frame, u64)> {
    let mut lines: HashMap<Frame, (u64, u64)> = HashMap::new();
    for &index in set {
        let block = ledger.case.replay.allocation(index);
        if block.requested <= 4096
            && !ledger.in_module(&block)
            && let Some(frame) = ledger.own(block.recorded)
        {
            let (count, bytes) = lines.entry(frame).or_default();
            (*count, *bytes) = (*count + 1, *bytes + block.requested);
        }
    }
    let mut lines: Vec<_> =
        lines.into_iter().filter(|(_, (count, _))| *count >= LEAST_UNITS as u64).collect();
    lines.sort_by_key(|(frame, (count, _))| (std::cmp::Reverse(*count), frame.file, frame.line));
    lines.into_iter().map(|(frame, (_, bytes))| (frame, bytes)).collect()
}

/// Several forward passes that wait for one backward pass, or for none.
fn waiting(ledger: &Ledger<'_>, taken: &mut Taken) -> Option<Finding> {
    let cycles = ledger.cycles;
    let is_live = |block: &Allocation, at: Moment| block.opened <= at && ledger.freed(block) > at;
    // What waits at the beginning of each backward pass, and at the end of the run.
    let units = if cycles.by == CyclesBy::Backward { cycles.units() } else { cycles.backward.len() };
    let mut waiting: Vec<(u64, Vec<AllocIdx>)> = vec![(0, Vec::new()); units + 1];
    for (index, block) in ledger.made_by(|thread, _| thread == Thread::Main) {
        let unit = cycles.backward.partition_point(|pass| pass.to < block.opened);
        let at = cycles.backward.get(unit).map_or(cycles.last, |pass| pass.from);
        if ledger.thread(&block) == Thread::Main
            && !matches!(ledger.role(&block), Role::Parameters | Role::Optimizer)
            && is_live(&block, at)
            && !taken.contains(&index)
        {
            let (bytes, blocks) = &mut waiting[unit.min(units)];
            *bytes = bytes.saturating_add(block.requested);
            blocks.push(index);
        }
    }
    // A sample of the units, the unfinished one, and the one that holds most.
    let most = (0..units).max_by_key(|unit| (waiting[*unit].0, std::cmp::Reverse(*unit)));
    let sample: Vec<usize> = (0..units).step_by(units.div_ceil(SAMPLED_UNITS).max(1)).collect();
    let looked_at = sample.len();
    let repeats_in = |unit: usize| match ledger.is_share(waiting[unit].0, WAITING_SHARE) {
        true => repeats(ledger, &waiting[unit].1),
        false => 0,
    };
    let found: Vec<(usize, usize)> = sample
        .into_iter()
        .chain(most)
        .chain([units])
        .map(|unit| (unit, repeats_in(unit)))
        .filter(|(_, repeats)| *repeats >= LEAST_REPEATS)
        .collect();
    let alike = found.iter().filter(|(unit, _)| *unit < units).count();
    let (unit, repeats) = found.into_iter().max_by_key(|(unit, _)| waiting[*unit].0)?;
    let is_unfinished = unit == units;
    // Passes that a backward pass uses are usual if each unit has them only once in a while.
    if !is_unfinished && (alike as f64) < looked_at as f64 * MOST_UNITS {
        return None;
    }
    let set = std::mem::take(&mut waiting[unit].1);
    let gain = ledger.gain(&set);
    // One pass at a time would still be there.
    let once = gain.most.unsigned_abs() / repeats as u64;
    let gain = Gain { bytes: gain.bytes.max(gain.most.unsigned_abs() - once), ..gain };
    taken.extend(set.iter().copied());
    let bytes = ledger.case.bytes;
    let line = ledger.line(&set);
    // A pass whose activations are kept although nothing runs backward is one that needs no graph at all.
    let kind = if is_unfinished && alike == 0 { Kind::NoGrad } else { Kind::KeptGraph };
    let (what, advice) = match kind {
        Kind::NoGrad => (
            format!(
                "{repeats} forward passes and no backward pass: {} of saved activations wait at the end, by {}",
                bytes(gain.most.unsigned_abs()),
                ledger.name(line)
            ),
            "Run passes that need no gradient under torch.no_grad() or torch.inference_mode(); keep only detached \
             results",
        ),
        _ => (
            format!(
                "{repeats} forward passes wait for one backward pass: {} of saved activations at once, by {}",
                bytes(gain.most.unsigned_abs()),
                ledger.name(line)
            ),
            "Call backward() after each forward pass and let gradients add up, instead of summing losses first",
        ),
    };
    Some(
        ledger
            .finding(kind, &set, gain)
            .says(what, advice)
            .with("forward passes that wait", Amount::Count(repeats as u64)),
    )
}

/// How often one forward pass repeats in a list of blocks: the number of periods of its sequence of stacks. A period has to
/// hold something that no module made (an input, a loss), since the layers of one pass repeat, too.
fn repeats(ledger: &Ledger<'_>, set: &[AllocIdx]) -> usize {
    let blocks: Vec<Allocation> = set.iter().map(|index| ledger.case.replay.allocation(*index)).collect();
    // What is made once after the last pass (a sum of losses) is no part of any.
    (0..=LOOSE_ENDS.min(blocks.len()))
        .map(|loose| repeats_of(ledger, &blocks[..blocks.len() - loose]))
        .max()
        .unwrap_or(0)
}

/// Blocks after the last repetition that may be left out.
const LOOSE_ENDS: usize = 4;

fn repeats_of(ledger: &Ledger<'_>, blocks: &[Allocation]) -> usize {
    let stacks: Vec<StackId> = blocks.iter().map(|block| block.recorded).collect();
    let len = stacks.len();
    let Some(last) = stacks.last() else { return 0 };
    // A period ends where the last stack came before.
    let lengths =
        stacks.iter().rev().enumerate().skip(1).filter(|(_, stack)| *stack == last).map(|(at, _)| at);
    for length in lengths.take(64) {
        let repeats = len / length;
        if repeats < LEAST_REPEATS {
            return 0;
        }
        let most = ((len - length) as f64 * (1.0 - ALIKE)) as usize;
        if (length..len).filter(|&at| stacks[at] != stacks[at - length]).nth(most).is_some() {
            continue;
        }
        let modules = blocks.iter().rev().take(length).filter(|block| ledger.in_module(block)).count();
        if modules >= 2 && modules < length {
            return repeats;
        }
    }
    0
}

/// Graphs that are dropped without a backward pass: many blocks of modules freed at once on the main thread, while the
/// engine freed none of their siblings.
fn dropped(ledger: &Ledger<'_>, taken: &mut Taken) -> Option<Finding> {
    let cycles = ledger.cycles;
    let events = ledger.case.device.event_table();
    let unit = |at: Moment| cycles.backward.partition_point(|pass| pass.to < at);
    // Stacks whose blocks the engine frees now and then are used by backward passes.
    let mut used: HashSet<StackId> = HashSet::new();
    let mut unit_is_used = vec![false; cycles.backward.len() + 1];
    let mut bursts: Vec<(Vec<AllocIdx>, u64)> = Vec::new();
    let mut burst: Vec<AllocIdx> = Vec::new();
    // Bytes that modules made since the last burst.
    let mut since = 0_u64;
    for (row, (action, &stack)) in events.actions().zip(events.stacks()).enumerate() {
        let index = ledger.case.replay.allocation_of(EventIdx::from_index(row));
        match (action, index) {
            (Action::Alloc, index) => {
                if !burst.is_empty() {
                    let is_large = burst.len() >= DROPPED_BLOCKS;
                    if is_large {
                        bursts.push((std::mem::take(&mut burst), since));
                        since = 0;
                    }
                    burst.clear();
                }
                let block = index.map(|index| ledger.case.replay.allocation(index));
                if let Some(block) = block.filter(|block| ledger.in_module(block)) {
                    since = since.saturating_add(block.requested);
                }
            }
            (Action::FreeRequested, Some(index)) => {
                let block = ledger.case.replay.allocation(index);
                if !ledger.in_module(&block) || block.opened == Moment::START {
                    continue;
                }
                match ledger.freed_on(stack) {
                    Thread::Engine | Thread::BackwardCall => {
                        used.insert(block.recorded);
                        if let Some(is_used) = unit_is_used.get_mut(unit(block.opened)) {
                            *is_used = true;
                        }
                    }
                    Thread::Main
                        if Moment(row as u32 + 1) <= cycles.last
                            && !ledger.freed_in_module(stack)
                            && !taken.contains(&index) =>
                    {
                        burst.push(index);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    bursts.extend((!burst.is_empty()).then_some((burst, since)));
    bursts.retain(|(burst, _)| {
        burst.len() >= DROPPED_BLOCKS && ledger.is_share(ledger.bytes(burst), super::ledger::MEDIUM)
    });
    if bursts.len() < LEAST_DROPS {
        return None;
    }
    // Bytes that modules make from one unit to the next, by unit: a burst has to be a good part of its own.
    let mut made: HashMap<(usize, StackId), u64> = HashMap::new();
    for (_, block) in ledger.made().filter(|(_, block)| ledger.in_module(block)) {
        let bytes = made.entry((unit(block.opened), block.recorded)).or_default();
        *bytes = bytes.saturating_add(block.requested);
    }
    let mut by_round: HashMap<usize, u64> = HashMap::new();
    for (_, block) in ledger.made().filter(|(_, block)| ledger.in_module(block)) {
        let bytes = by_round.entry(cycles.unit(block.opened)).or_default();
        *bytes = bytes.saturating_add(block.requested);
    }
    let mut stacks: HashSet<StackId> = HashSet::new();
    let mut many = 0;
    for (mut burst, since) in bursts {
        burst.retain(|index| {
            let block = ledger.case.replay.allocation(*index);
            // A pass that was used, and whose blocks outlived it, is a graph that was retained.
            let outlived = unit(block.opened) < unit(block.released);
            !used.contains(&block.recorded)
                && (!outlived || unit_is_used.get(unit(block.opened)) == Some(&true))
        });
        let own: HashSet<StackId> =
            burst.iter().map(|index| ledger.case.replay.allocation(*index).recorded).collect();
        let of = burst.first().map_or(0, |index| unit(ledger.case.replay.allocation(*index).opened));
        let all = own.iter().fold(0_u64, |sum, stack| {
            sum.saturating_add(made.get(&(of, *stack)).copied().unwrap_or_default())
        });
        let bytes = ledger.bytes(&burst);
        // In a run without any backward pass a graph is a good part of what the modules of a round made: what a function
        // lets go when it returns is not.
        let least = match cycles.backward.is_empty() {
            true => {
                let round = burst
                    .first()
                    .map_or(0, |index| cycles.unit(ledger.case.replay.allocation(*index).opened));
                by_round.get(&round).copied().unwrap_or(since).max(since) as f64 * DROPPED_SHARE
            }
            false => all as f64 * DROPPED_SHARE / 4.0,
        };
        if burst.len() >= DROPPED_BLOCKS
            && bytes as f64 >= least
            && ledger.is_share(bytes, super::ledger::MEDIUM)
        {
            stacks.extend(own);
            many += 1;
        }
    }
    if many < LEAST_DROPS {
        return None;
    }
    let set: Vec<AllocIdx> = ledger
        .made()
        .filter(|(index, block)| stacks.contains(&block.recorded) && !taken.contains(index))
        .map(|(index, _)| index)
        .collect();
    let gain = ledger.gain(&set);
    if !ledger.is_share(gain.bytes, super::ledger::MEDIUM) {
        return None;
    }
    taken.extend(set.iter().copied());
    let bytes = ledger.case.bytes;
    let line = ledger.line(&set);
    let what = format!(
        "{many} forward passes saved activations that no backward pass used: {} at once, by {}",
        bytes(gain.most.unsigned_abs()),
        ledger.name(line)
    );
    Some(
        ledger
            .finding(Kind::NoGrad, &set, gain)
            .says(what, "Run them under torch.no_grad() or torch.inference_mode(), or freeze the model they belong to")
            .with("passes without a backward pass", Amount::Count(many as u64)),
    )
}

/// Tensors of several units that are freed together in the middle of the run.
fn collected(ledger: &Ledger<'_>, taken: &mut Taken) -> Option<Finding> {
    let cycles = ledger.cycles;
    if cycles.by == CyclesBy::Nothing {
        return None;
    }
    let events = ledger.case.device.event_table();
    let mut set: Vec<AllocIdx> = Vec::new();
    let mut times = 0;
    let mut burst: Vec<AllocIdx> = Vec::new();
    let mut close = |burst: &mut Vec<AllocIdx>, set: &mut Vec<AllocIdx>| {
        if !ledger.is_share(ledger.bytes(burst), COLLECTED_SHARE) {
            burst.clear();
            return;
        }
        // The same line in several units: what a program drops at once is of many lines and one unit.
        let mut units: HashMap<StackId, HashSet<usize>> = HashMap::new();
        for index in burst.iter() {
            let block = ledger.case.replay.allocation(*index);
            units.entry(block.recorded).or_default().insert(cycles.unit(block.opened));
        }
        burst.retain(|index| {
            units
                .get(&ledger.case.replay.allocation(*index).recorded)
                .is_some_and(|units| units.len() >= COLLECTED_UNITS)
        });
        if ledger.is_share(ledger.bytes(burst), COLLECTED_SHARE) {
            set.append(burst);
            times += 1;
        }
        burst.clear();
    };
    for (row, (action, &stack)) in events.actions().zip(events.stacks()).enumerate() {
        match action {
            Action::Alloc => close(&mut burst, &mut set),
            Action::FreeRequested if Moment(row as u32 + 1) <= cycles.last => {
                let index = ledger.case.replay.allocation_of(EventIdx::from_index(row));
                if let Some(index) = index.filter(|index| !taken.contains(index))
                    && ledger.freed_on(stack) == Thread::Main
                    && ledger.case.replay.allocation(index).opened > Moment::START
                {
                    burst.push(index);
                }
            }
            _ => {}
        }
    }
    close(&mut burst, &mut set);
    // A list that is emptied once, at its end, is no work of the collector.
    let stacks: HashSet<StackId> =
        set.iter().map(|index| ledger.case.replay.allocation(*index).recorded).collect();
    let last = set.iter().map(|index| ledger.case.replay.allocation(*index).released).max()?;
    let after: HashSet<usize> = ledger
        .made()
        .filter(|(_, block)| block.opened > last && stacks.contains(&block.recorded))
        .map(|(_, block)| cycles.unit(block.opened))
        .collect();
    if times < 2 && (times == 0 || after.len() < COLLECTED_UNITS) {
        return None;
    }
    // What waits for the collector when the run ends belongs to it.
    let lines: HashSet<StackId> =
        set.iter().map(|index| ledger.case.replay.allocation(*index).recorded).collect();
    let last = ledger.made().filter(|(index, block)| {
        lines.contains(&block.recorded) && ledger.freed(block) == Moment::NEVER && !taken.contains(index)
    });
    set.extend(last.map(|(index, _)| index));
    let gain = ledger.gain(&set);
    if !ledger.is_share(gain.bytes, super::ledger::MEDIUM) {
        return None;
    }
    taken.extend(set.iter().copied());
    let bytes = ledger.case.bytes;
    let line = ledger.line(&set);
    let what = format!(
        "tensors of several steps are freed together, {times} times, long after their last use: {} at once, by {}. The \
         garbage collector frees them, or a list that is emptied now and then",
        bytes(gain.most.unsigned_abs()),
        ledger.name(line)
    );
    let advice = "Break the reference cycle (an object that refers to itself through a closure, a hook or a parent), or \
                  empty the list in each step";
    Some(
        ledger
            .finding(Kind::ReferenceCycle, &set, gain)
            .says(what, advice)
            .with("times freed together", Amount::Count(times)),
    )
}

/// Whether what grows is part of graphs: blocks of modules, or of a function of the program's own, that were saved for a
/// backward pass and outlive it.
fn graph_of(ledger: &Ledger<'_>, set: &[AllocIdx], gain: Gain, units: usize) -> Option<Finding> {
    if ledger.cycles.by != CyclesBy::Backward {
        return None;
    }
    let snapshot = ledger.case.snapshot;
    let is_of_function = |stack: StackId| {
        snapshot.frames(stack).any(|frame| {
            snapshot.text(frame.name) == "apply"
                && snapshot.text(frame.file).ends_with("torch/autograd/function.py")
        })
    };
    let blocks = || set.iter().map(|index| ledger.case.replay.allocation(*index));
    let bytes_of = |is: &dyn Fn(&Allocation) -> bool| {
        blocks().filter(|block| is(block)).fold(0_u64, |sum, block| sum.saturating_add(block.requested))
    };
    let all = ledger.bytes(set);
    let of_functions = bytes_of(&|block| is_of_function(block.recorded));
    let of_modules = bytes_of(&|block| ledger.in_module(block));
    // An output that is kept is one block of a step; a graph is many.
    let each = blocks().filter(|block| ledger.in_module(block)).count() / units.max(1);
    let is_graph = of_functions >= all / 2 || (of_modules >= all / 2 && each >= LEAST_UNITS);
    if !is_graph {
        return None;
    }
    let bytes = ledger.case.bytes;
    let line = ledger.line(set);
    let what = format!(
        "saved tensors of {units} steps outlive their backward pass: {} in all, by {}. Something that is kept holds a part \
         of their graph",
        bytes(gain.most.max(0).unsigned_abs()),
        ledger.name(line)
    );
    let advice = "Detach what is kept from step to step (.detach() or .item()), run what needs no gradient under \
                  torch.no_grad(), and pass tensors to save_for_backward instead of keeping them on ctx";
    let mut finding = ledger
        .finding(Kind::KeptGraph, set, gain)
        .says(what, advice)
        .with("steps that keep some", Amount::Count(units as u64));
    for (frame, size) in companions(ledger, set).into_iter().take(3) {
        finding = finding.at("small, and kept with it", ledger.case.place(frame), size);
    }
    Some(finding)
}

/// Tensors that stay: in most units, or in every unit of a regular few, something of a line is never freed.
fn growth(ledger: &Ledger<'_>, taken: &mut Taken) -> Option<Finding> {
    let cycles = ledger.cycles;
    let units = cycles.units();
    let least = match cycles.by {
        CyclesBy::Backward => LEAST_GROWING,
        CyclesBy::Steps | CyclesBy::Recurrence => LEAST_GROWING_STEPS,
        CyclesBy::Nothing => return None,
    };
    if units < least {
        return None;
    }
    // What stays of each line, by unit.
    let mut lines: HashMap<Option<Frame>, (Vec<u64>, Vec<AllocIdx>)> = HashMap::new();
    for (index, block) in ledger.left() {
        let unit = cycles.unit(block.opened);
        if ledger.freed(&block) != Moment::NEVER
            || unit == 0
            || unit >= units
            || taken.contains(&index)
            || matches!(
                ledger.role(&block),
                Role::Optimizer | Role::Parameters | Role::Workspace | Role::Unknown
            )
        {
            continue;
        }
        let (bytes, set) = lines
            .entry(ledger.own(block.recorded).or_else(|| ledger.own(block.stack)))
            .or_insert_with(|| (vec![0; units], Vec::new()));
        bytes[unit] = bytes[unit].saturating_add(block.requested);
        set.push(index);
    }
    // The last unit of all has not had the time to let go.
    let is_growing = |bytes: &[u64]| {
        let known = bytes.get(1..units.saturating_sub(1)).unwrap_or_default();
        let filled: Vec<usize> = (0..known.len()).filter(|unit| known[*unit] > 0).collect();
        let third = known.len() / 3;
        let sum = |part: &[u64]| part.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let goes_on = sum(&known[known.len() - third..]) >= sum(&known[..third]) / 2;
        let gaps: Vec<usize> = filled.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let is_regular = filled.len() >= LEAST_UNITS
            && gaps.iter().max() == gaps.iter().min()
            && (filled.last().unwrap_or(&0) - filled.first().unwrap_or(&0)) * 2 >= known.len();
        let is_usual = filled.len() >= LEAST_UNITS && filled.len() as f64 >= known.len() as f64 * GROWS_IN;
        goes_on && (is_usual || is_regular)
    };
    let mut growing: Vec<_> = lines.into_iter().filter(|(_, (bytes, _))| is_growing(bytes)).collect();
    growing.sort_by_key(|(frame, (bytes, _))| {
        (
            std::cmp::Reverse(bytes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes))),
            frame.map(|frame| (frame.file, frame.line)),
        )
    });
    let set: Vec<AllocIdx> = growing.iter().flat_map(|(_, (_, set))| set.iter().copied()).collect();
    // What stopped to grow long before the end was collected on purpose.
    let last = set.iter().map(|index| ledger.case.replay.allocation(*index).opened).max()?;
    let usual = cycles.last.0 / u32::try_from(units).unwrap_or(u32::MAX).max(1);
    let gaps = growing
        .first()
        .map_or(1, |(_, (bytes, _))| units / bytes.iter().filter(|bytes| **bytes > 0).count().max(1));
    if cycles.last.0.saturating_sub(last.0) > usual.saturating_mul(gaps as u32 + 2) {
        return None;
    }
    let gain: Gain = ledger.gain(&set);
    let most = gain.most.max(0).unsigned_abs();
    if most < LEAST_GROWTH || !ledger.is_share(most, LEAST_GROWTH_SHARE) {
        return None;
    }
    taken.extend(set.iter().copied());
    let filled =
        growing.first().map_or(0, |(_, (bytes, _))| bytes.iter().filter(|bytes| **bytes > 0).count());
    let bytes = ledger.case.bytes;
    let line = growing.first().and_then(|(frame, _)| *frame);
    if let Some(found) = graph_of(ledger, &set, gain, filled) {
        return Some(found);
    }
    if super::program::are_weights(ledger, &set, filled) {
        let what = format!(
            "{filled} copies of the weights are alive, made at {}: {} in all",
            ledger.name(line),
            bytes(gain.most.max(0).unsigned_abs())
        );
        let advice = "Copy the state to the CPU ({k: v.cpu() for k, v in model.state_dict().items()}), or keep the last \
                      copy only";
        return Some(
            ledger
                .finding(Kind::Copies, &set, gain)
                .says(what, advice)
                .with("copies", Amount::Count(filled as u64)),
        );
    }
    let what = format!(
        "{} that {} made in {filled} of {units} {} are never freed: {} in all",
        vramscope_format::plural(set.len() as u64, "tensor"),
        ledger.name(line),
        match cycles.by {
            CyclesBy::Backward | CyclesBy::Steps => "steps",
            _ => "rounds",
        },
        bytes(gain.most.max(0).unsigned_abs())
    );
    let advice = "Find what keeps them (a list, a dict, a cache, a history): drop the reference, move it to the CPU, or \
                  give the cache a limit";
    let mut kept = vec![0_u64; units];
    for &index in &set {
        let block = ledger.case.replay.allocation(index);
        if let Some(bytes) = kept.get_mut(cycles.unit(block.opened)) {
            *bytes = bytes.saturating_add(block.requested);
        }
    }
    let mut finding = ledger.finding(Kind::Growth, &set, gain);
    // It goes on for as long as the program runs.
    finding.severity = finding.severity.max(Severity::Medium);
    Some(
        finding
            .says(what, advice)
            .with("bytes per step", Amount::Bytes(per_step(&kept)))
            .with("tensors", Amount::Count(set.len() as u64))
            .with("of these rounds keep some", Amount::Count(filled as u64))
            .shown_by("steps"),
    )
}
