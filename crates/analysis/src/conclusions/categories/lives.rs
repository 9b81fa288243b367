//! What the life of an allocation says: who made it, in which pass, and which passes it outlives.
//!
//! The reasons, which hold for any model:
//! - what the backward pass makes and leaves behind are gradients; the rest of it is temporary;
//! - what the forward pass makes and the backward pass finds was kept for it: activations, no matter which line made them. That goes
//!   for keys and values of training, too;
//! - a KV cache outlives the forward pass that made it, and no backward pass follows;
//! - what an optimizer makes and leaves behind is its state.

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Allocation, Moment, Replay};
use vramscope_snapshot::{EventTable, StackId};

use super::{ACTIVATIONS, CACHE, GRADIENTS, OPTIMIZER, OTHER, PARAMETERS, TEMPORARY, UNKNOWN, WORKSPACES};
use super::{TEMPORARY_EVENTS, lifetime};
use crate::conclusions::known::KnownBy;
use crate::conclusions::passes::{Nearby, Part, Pass, Passes};
use crate::conclusions::stacks::{Role, Stacks};
use crate::device::Device;

/// Bytes that PyTorch asks for as cuBLAS' workspace: on Hopper and later, and before.
pub(crate) const CUBLAS_WORKSPACES: [u64; 2] = [33_554_432, 8_519_680];

/// Blocks of one stack before the first pass that make a burst.
const BURST: u32 = 8;

pub(super) type Judgement = (u8, KnownBy);

/// Everything that single allocations are judged by.
pub(super) struct Lives<'a> {
    pub(super) stacks: &'a Stacks,
    pub(super) passes: &'a Passes,
    nearby: Nearby<'a>,
    pub(super) events: &'a EventTable,
    pub(super) replay: &'a Replay,
    /// How often allocations of a stack died in the pass that made them, and how often they outlived it; only where
    /// the last pass has no end.
    habits: HashMap<StackId, (u32, u32)>,
    /// Blocks before the first pass that outlive it, by stack.
    early: HashMap<StackId, u32>,
    first_pass: Moment,
    /// Whether anything was made by an optimizer or a backward pass.
    trains: bool,
}

impl<'a> Lives<'a> {
    pub(super) fn new(device: &'a Device) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let (stacks, passes) = (device.stacks(), device.passes());
        let first_pass = passes.list().first().map_or(Moment::NEVER, |pass| pass.from);
        let events = snapshot.events(replay.device());
        let mut lives = Self {
            stacks,
            passes,
            nearby: Nearby::new(passes),
            events,
            replay,
            habits: HashMap::new(),
            early: HashMap::new(),
            first_pass,
            trains: false,
        };
        let has_end = passes.list().last().is_none_or(|last| last.to < replay.end());
        for (_, allocation) in replay.allocations().iter() {
            lives.trains |= matches!(stacks.role_of(&allocation), Role::Optimizer | Role::Backward);
            if allocation.opened == Moment::START {
                continue;
            }
            if allocation.opened <= first_pass {
                if let_go(&allocation) > first_pass {
                    *lives.early.entry(allocation.recorded).or_default() += 1;
                }
            } else if !has_end && let Some(pass) = lives.nearby.inside(allocation.opened) {
                let (died, outlived) = lives.habits.entry(allocation.recorded).or_default();
                match () {
                    () if let_go(&allocation) <= pass.to => *died += 1,
                    () if pass.to < replay.end() => *outlived += 1,
                    () => {}
                }
            }
        }
        lives
    }

    /// What an allocation that the trace shows beginning is for.
    pub(super) fn judge(&self, allocation: &Allocation, workspaces: &mut HashSet<(u64, bool)>) -> Judgement {
        let role = self.stacks.role_of(allocation);
        let pass = self.nearby.inside(allocation.opened);
        let part = pass.map(|pass| pass.part);
        let in_pass = matches!(role, Role::Forward | Role::Backward | Role::Recompute)
            || matches!(part, Some(Part::Forward | Part::Backward));
        if in_pass
            && allocation.closed == Moment::NEVER
            && CUBLAS_WORKSPACES.contains(&allocation.requested)
            && !self.is_saved(allocation)
            && workspaces
                .insert((allocation.requested, role == Role::Backward || part == Some(Part::Backward)))
        {
            return (WORKSPACES, KnownBy::Likely);
        }
        match role {
            Role::Workspace => (WORKSPACES, KnownBy::Certain),
            Role::Parameters | Role::Buckets => self.made_once(allocation, role),
            Role::Optimizer => self.left_behind(allocation, pass, OPTIMIZER),
            Role::Backward => self.left_behind(allocation, pass, GRADIENTS),
            Role::Recompute => match lifetime(allocation) {
                0..=TEMPORARY_LIFE => (TEMPORARY, KnownBy::Certain),
                _ => (ACTIVATIONS, KnownBy::Certain),
            },
            Role::Cache => self.cached(allocation, pass),
            Role::Forward => self.of_forward(allocation, pass),
            Role::Other | Role::Native | Role::Unknown => self.unnamed(allocation, role, pass),
        }
    }

    /// What a model or DDP makes for good.
    fn made_once(&self, allocation: &Allocation, role: Role) -> Judgement {
        match role {
            _ if is_brief(allocation) => (TEMPORARY, KnownBy::Certain),
            Role::Parameters => (PARAMETERS, KnownBy::Certain),
            _ => (GRADIENTS, KnownBy::Certain),
        }
    }

    /// What is made in a pass of its kind: `kept` if it outlives the pass, otherwise temporary.
    fn left_behind(&self, allocation: &Allocation, pass: Option<Pass>, kept: u8) -> Judgement {
        let Some(pass) = pass else {
            // No pass at all: a state without a trace, or stacks that say other things.
            let is_kept = allocation.opened == Moment::START || !is_brief(allocation);
            return (if is_kept { kept } else { TEMPORARY }, KnownBy::Likely);
        };
        if let_go(allocation) <= pass.to {
            return (TEMPORARY, KnownBy::Certain);
        }
        if pass.to < self.replay.end() {
            return (kept, KnownBy::Certain);
        }
        // The trace ends in this pass.
        let died = self.usually_dies(allocation.recorded);
        if died { (TEMPORARY, KnownBy::Likely) } else { (kept, KnownBy::Likely) }
    }

    /// What a forward pass makes.
    fn of_forward(&self, allocation: &Allocation, pass: Option<Pass>) -> Judgement {
        if self.is_saved(allocation) {
            return (ACTIVATIONS, KnownBy::Certain);
        }
        if is_brief(allocation) {
            return (TEMPORARY, KnownBy::Certain);
        }
        if self.freed_as(allocation) == Role::Cache && self.outlives(allocation, pass) {
            return (CACHE, KnownBy::Certain);
        }
        let next = self.nearby.next_backward(allocation.opened);
        if next.is_some_and(|next| let_go(allocation) <= next.from) {
            return (TEMPORARY, KnownBy::Certain);
        }
        if allocation.closed == Moment::NEVER && self.usually_dies(allocation.recorded) {
            return (TEMPORARY, KnownBy::Likely);
        }
        (ACTIVATIONS, KnownBy::Likely)
    }

    /// What the code of a KV cache makes.
    fn cached(&self, allocation: &Allocation, pass: Option<Pass>) -> Judgement {
        let next = self.nearby.next_backward(allocation.opened);
        match () {
            () if self.is_saved(allocation) => (ACTIVATIONS, KnownBy::Certain),
            // A program that keeps the model's output keeps its keys and values beyond the backward pass.
            () if next.is_some_and(|next| let_go(allocation) > next.from) => (ACTIVATIONS, KnownBy::Likely),
            () if pass.is_none() && self.trains => (ACTIVATIONS, KnownBy::Likely),
            () if self.outlives(allocation, pass) => (CACHE, KnownBy::Certain),
            () if is_brief(allocation) => (TEMPORARY, KnownBy::Certain),
            () => (ACTIVATIONS, KnownBy::Likely),
        }
    }

    /// What has a stack that says nothing, or none.
    fn unnamed(&self, allocation: &Allocation, role: Role, pass: Option<Pass>) -> Judgement {
        let is_blind = role != Role::Other;
        if is_blind && let Some(Pass { part: part @ (Part::Backward | Part::Optimizer), .. }) = pass {
            let kept = if part == Part::Backward { GRADIENTS } else { OPTIMIZER };
            return match self.left_behind(allocation, pass, kept).0 {
                // Passes that were found at peaks may hold several: what dies in one may be an activation.
                TEMPORARY if !is_brief(allocation) && !self.stacks.tell_parts() => {
                    (UNKNOWN, KnownBy::Unknown)
                }
                category => (category, KnownBy::Likely),
            };
        }
        if self.is_saved(allocation) {
            return (ACTIVATIONS, KnownBy::Likely);
        }
        if is_brief(allocation) {
            return (TEMPORARY, KnownBy::Certain);
        }
        if allocation.opened <= self.first_pass && self.survives_passes(allocation) {
            let burst = self.early.get(&allocation.recorded).copied().unwrap_or_default();
            // Without stacks, everything that was there before the first pass and stays is one burst.
            if burst >= BURST {
                return (PARAMETERS, KnownBy::Likely);
            }
        }
        if is_blind { (UNKNOWN, KnownBy::Unknown) } else { (OTHER, KnownBy::Unknown) }
    }

    /// Whether the next backward pass finds it and lets it go: it was kept for that pass.
    fn is_saved(&self, allocation: &Allocation) -> bool {
        let Some(next) = self.nearby.next_backward(allocation.opened) else { return false };
        let freed = let_go(allocation);
        // A backward pass that the trace ends in has not let go of all yet.
        next.from < freed && (freed <= next.to || next.to == self.replay.end() && freed == Moment::NEVER)
    }

    /// Whether it lives on after the forward pass that made it.
    fn outlives(&self, allocation: &Allocation, pass: Option<Pass>) -> bool {
        pass.is_none_or(|pass| let_go(allocation) > pass.to)
    }

    /// Whether two passes come and go while it lives.
    fn survives_passes(&self, allocation: &Allocation) -> bool {
        let passes = self.passes.list();
        let begun = passes.partition_point(|pass| pass.from < allocation.opened);
        let last = passes.get(begun + 1).or(passes.last());
        last.is_some_and(|pass| pass.to < let_go(allocation))
    }

    fn usually_dies(&self, stack: StackId) -> bool {
        self.habits.get(&stack).is_some_and(|(died, outlived)| died > outlived)
    }

    /// What the stack says that freed it.
    pub(super) fn freed_as(&self, allocation: &Allocation) -> Role {
        self.freed_by(allocation).map_or(Role::Unknown, |stack| self.stacks.role(stack))
    }

    /// The stack that freed it.
    pub(super) fn freed_by(&self, allocation: &Allocation) -> Option<StackId> {
        let event = let_go(allocation).event()?;
        self.events.stacks().get(event.index()).copied()
    }
}

/// When the program let go of an allocation.
pub(super) fn let_go(allocation: &Allocation) -> Moment {
    allocation.released.min(allocation.closed)
}

const TEMPORARY_LIFE: u64 = TEMPORARY_EVENTS as u64;

fn is_brief(allocation: &Allocation) -> bool {
    lifetime(allocation) <= TEMPORARY_LIFE
}

/// Which allocations are parameters although no stack says so: there before the first backward pass, of the size of a
/// gradient, and never freed while passes come and go.
pub(super) fn untold_parameters<'a>(
    lives: &'a Lives<'_>,
    of: &'a [u8],
    gradients: &[u64],
) -> impl Iterator<Item = AllocIdx> + 'a {
    let sizes: HashSet<u64> = gradients.iter().copied().collect();
    let backward = lives.passes.of(Part::Backward);
    let first = backward.first().map_or(Moment::START, |pass| pass.from);
    let outlived = backward.get(1).or(backward.first()).map_or(Moment::NEVER, |pass| pass.to);
    let candidates = of.iter().enumerate().filter(|(_, category)| matches!(**category, UNKNOWN | OTHER));
    candidates.filter_map(move |(row, _)| {
        let allocation = lives.replay.allocation(AllocIdx(row as u32));
        let is_parameter = allocation.opened != Moment::START
            && allocation.opened <= first
            && let_go(&allocation) > outlived
            && sizes.contains(&allocation.requested);
        is_parameter.then_some(AllocIdx(row as u32))
    })
}

/// Sizes of the gradients that the fullest backward pass leaves, in order of birth. `of` are the categories so far.
pub(super) fn gradient_sizes(lives: &Lives<'_>, of: &[u8]) -> Vec<u64> {
    let mut by_pass: HashMap<Moment, Vec<u64>> = HashMap::new();
    for (row, _) in of.iter().enumerate().filter(|(_, category)| **category == GRADIENTS) {
        let allocation = lives.replay.allocation(AllocIdx(row as u32));
        if allocation.opened != Moment::START
            && let Some(pass) = lives.passes.inside(allocation.opened)
        {
            by_pass.entry(pass.from).or_default().push(allocation.requested);
        }
    }
    let fullest = by_pass.into_iter().max_by_key(|(from, sizes)| (sizes.len(), std::cmp::Reverse(*from)));
    fullest.map(|(_, sizes)| sizes).unwrap_or_default()
}
