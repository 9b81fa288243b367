//! What blocks are for that are older than the recording.
//!
//! Such a block has no stack, but the run shows what it must be:
//! - what the cache's own code frees was cache, what `zero_grad` frees was a gradient, what a backward pass frees was kept
//!   for it;
//! - what stays through a run of inference are the model's parameters;
//! - what stays through a run of training are parameters and optimizer state. The sizes of a step's gradients are those of
//!   the trained parameters; blocks of such a size beyond one for each parameter are optimizer state. Which is which shows
//!   where they lie ([`layout`]).

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Allocation, Moment};
use vramscope_snapshot::{PoolId, Snapshot};

use super::lives::{CUBLAS_WORKSPACES, Judgement, Lives, let_go};
use super::{ACTIVATIONS, CACHE, GRADIENTS, OPTIMIZER, PARAMETERS, UNKNOWN, WORKSPACES, layout};
use crate::conclusions::known::KnownBy;
use crate::conclusions::passes::Part;
use crate::conclusions::stacks::Role;

/// Bytes of cuBLASLt's workspace. Parameters are as large often enough that a lone block may be either.
const CUBLASLT_WORKSPACE: u64 = 1 << 20;

const NOT_KNOWN: Judgement = (UNKNOWN, KnownBy::Unknown);

/// Judges the allocations that are older than the trace and have no stack. `burst` are the sizes of a step's gradients.
pub(super) fn judge(snapshot: &Snapshot, lives: &Lives<'_>, burst: &[u64]) -> HashMap<AllocIdx, Judgement> {
    let is_old = |(_, allocation): &(AllocIdx, Allocation)| {
        allocation.opened == Moment::START && lives.stacks.role_of(allocation) == Role::Unknown
    };
    let (stay, gone): (Vec<_>, Vec<_>) =
        lives.replay.allocations().iter().filter(is_old).partition(|(_, old)| let_go(old) == Moment::NEVER);
    let mut found: HashMap<_, _> = gone.iter().map(|(index, old)| (*index, freed(lives, old))).collect();
    let is_default = |(_, old): &(AllocIdx, Allocation)| {
        old.pool == PoolId::UNKNOWN || snapshot.pool(old.pool).is_none_or(|pool| pool == (0, 0))
    };
    let (mut stay, private): (Vec<_>, Vec<_>) = stay.into_iter().partition(is_default);
    found.extend(private.iter().map(|(index, _)| (*index, NOT_KNOWN)));
    let trained = counts(burst.iter().copied());
    let sizes = counts(stay.iter().map(|(_, old)| old.requested));
    // One workspace for each thread that multiplies.
    let is_workspace = |requested: u64| {
        CUBLAS_WORKSPACES.contains(&requested)
            && !trained.contains_key(&requested)
            && sizes.get(&requested).is_some_and(|count| *count <= 2)
    };
    let is_lone = |requested: u64| requested == CUBLASLT_WORKSPACE && sizes.get(&requested) == Some(&1);
    stay.retain(|(index, old)| {
        let judgement = match old.requested {
            bytes if is_workspace(bytes) => (WORKSPACES, KnownBy::Likely),
            bytes if is_lone(bytes) && !trained.contains_key(&bytes) => NOT_KNOWN,
            _ => return true,
        };
        found.insert(*index, judgement);
        false
    });
    let judged = match () {
        () if !burst.is_empty() => of_training(lives, &stay, &trained, burst),
        () if lives.passes.has(Part::Forward) && !lives.passes.has(Part::Backward) => {
            stay.iter().map(|(index, _)| (*index, (PARAMETERS, KnownBy::Likely))).collect()
        }
        () => HashMap::new(),
    };
    for (index, _) in &stay {
        found.insert(*index, judged.get(index).copied().unwrap_or(NOT_KNOWN));
    }
    found
}

/// What a block was, by who freed it.
fn freed(lives: &Lives<'_>, old: &Allocation) -> Judgement {
    let part = lives.freed_by(old).and_then(|stack| lives.stacks.part(stack));
    match (lives.freed_as(old), part) {
        (Role::Cache, _) => (CACHE, KnownBy::Certain),
        (Role::Optimizer, _) => (GRADIENTS, KnownBy::Likely),
        (_, Some(Part::Backward)) => (ACTIVATIONS, KnownBy::Likely),
        _ => NOT_KNOWN,
    }
}

/// What stays through training: parameters, and optimizer state for those that are trained.
fn of_training(
    lives: &Lives<'_>,
    stay: &[(AllocIdx, Allocation)],
    trained: &HashMap<u64, usize>,
    burst: &[u64],
) -> HashMap<AllocIdx, Judgement> {
    let sizes = counts(stay.iter().map(|(_, old)| old.requested));
    let copies = copies(trained, &sizes);
    let order = parameter_order(lives, burst);
    let held = lives.replay.held(Moment::START);
    let parameters = match copies {
        0 => HashSet::new(),
        _ => layout::find(&order, &held, stay),
    };
    let mut placed: HashMap<u64, usize> = HashMap::new();
    for (_, old) in stay.iter().filter(|(index, _)| parameters.contains(index)) {
        *placed.entry(old.requested).or_default() += 1;
    }
    let likely = |category| (category, KnownBy::Likely);
    let judge = |index: &AllocIdx, old: &Allocation| {
        let bytes = old.requested;
        let count = sizes.get(&bytes).copied().unwrap_or_default();
        let Some(&wanted) = trained.get(&bytes) else {
            // State of twice the width: 32 bit for parameters of 16.
            let narrow = trained.get(&(bytes / 2)).copied().unwrap_or_default();
            let is_wide_state = copies == 0 && narrow > 0 && count >= narrow && count.is_multiple_of(narrow);
            return likely(if is_wide_state { OPTIMIZER } else { PARAMETERS });
        };
        match () {
            () if copies == 0 || count <= wanted => likely(PARAMETERS),
            () if parameters.contains(index) => likely(PARAMETERS),
            // Where all parameters of this size are placed, the others must be state.
            () if placed.get(&bytes) == Some(&wanted) => likely(OPTIMIZER),
            () => NOT_KNOWN,
        }
    };
    stay.iter().map(|(index, old)| (*index, judge(index, old))).collect()
}

/// How many blocks of the optimizer there are for each trained parameter, by most bytes.
fn copies(trained: &HashMap<u64, usize>, sizes: &HashMap<u64, usize>) -> usize {
    let mut votes: HashMap<usize, u64> = HashMap::new();
    for (&bytes, &wanted) in trained {
        let count = sizes.get(&bytes).copied().unwrap_or_default();
        let vote = votes.entry((count / wanted.max(1)).saturating_sub(1)).or_default();
        *vote = vote.saturating_add(bytes.saturating_mul(wanted as u64));
    }
    let most = votes.into_iter().max_by_key(|&(copies, bytes)| (bytes, copies));
    most.map(|(copies, _)| copies).unwrap_or_default()
}

/// The sizes of the trained parameters in their own order: an optimizer goes through them in it, and makes a block for
/// each. Otherwise the order in which gradients come, backwards.
fn parameter_order(lives: &Lives<'_>, burst: &[u64]) -> Vec<u64> {
    let wanted = counts(burst.iter().copied());
    for pass in lives.passes.of(Part::Optimizer).iter().take(OPTIMIZER_STEPS) {
        let source = lives.replay.source();
        let made = source.opened_between(pass.from, pass.to);
        let sizes: Vec<u64> = made.map(|index| lives.replay.allocation(index).requested).collect();
        // A window as long as the burst that holds the same sizes: what it has too many of, and too few.
        let mut surplus: HashMap<u64, i64> =
            wanted.iter().map(|(bytes, count)| (*bytes, -(*count as i64))).collect();
        let mut wrong = surplus.len();
        for (row, &bytes) in sizes.iter().enumerate() {
            let mut shift = |bytes: u64, by: i64| {
                let count = surplus.entry(bytes).or_default();
                let was = *count == 0;
                *count += by;
                match (was, *count == 0) {
                    (true, false) => wrong += 1,
                    (false, true) => wrong -= 1,
                    _ => {}
                }
            };
            shift(bytes, 1);
            if row >= burst.len() {
                shift(sizes[row - burst.len()], -1);
            }
            if wrong == 0 && row + 1 >= burst.len() {
                return sizes[row + 1 - burst.len()..=row].to_vec();
            }
        }
    }
    burst.iter().rev().copied().collect()
}

/// Steps of the optimizer that are looked at for the order of parameters.
const OPTIMIZER_STEPS: usize = 4;

fn counts(sizes: impl Iterator<Item = u64>) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    for bytes in sizes {
        *counts.entry(bytes).or_default() += 1;
    }
    counts
}
