//! What memory is for: parameters, gradients, optimizer state, activations, KV cache, temporaries.
//!
//! A snapshot does not say, but the run shows it: who allocates a block, in which pass, and which passes it outlives
//! (`lives`); what blocks that are older than the recording must be (`old`). Every answer carries how it is known.
//! - *parameters*: made where a model is built, moved or loaded; and what stays through a run that began late.
//! - *gradients*: made in a backward pass, and still there when it ends; and DDP's buckets.
//! - *optimizer state*: made in an optimizer, and still there when its step ends.
//! - *activations*: made in a forward pass and kept for the backward pass; made by one that a backward pass runs again;
//!   or what a run of inference works with.
//! - *KV cache*: made by functions or files that are named so, and outlives its forward pass.
//! - *temporary*: gone when the pass ends that made it, or within [`TEMPORARY_EVENTS`] events.
//! - *workspaces*: buffers of libraries: cuBLAS', which the first matrix product makes and nobody frees, and
//!   those of autotuning.
//! - *other*: whatever else has a stack.
//! - *unknown*: the file cannot tell.
//!
//! What the profiler said of an allocation (`category` of an event), and the roles that a recorder listed beside the
//! snapshot, come before these, and a user's [`Rules`] before everything. Every allocation is in exactly one category, so the categories add up to the
//! counters at every moment.

mod curves;
mod layout;
mod lives;
mod old;
mod rules;

use std::fs::File;
use std::io;
use std::sync::Arc;

use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use vramscope_mapped::{Buffer, Store, StoreError, Writer};
use vramscope_replay::{AllocIdx, Allocation, Moment, Replay, State};
use vramscope_snapshot::stored::{get_small, put_small};
use vramscope_snapshot::{EventTable, Pool, Snapshot, StrId, TensorRole};

use crate::conclusions::known::KnownBy;
use crate::conclusions::roles::Roles;
use crate::conclusions::stacks::Role;
use crate::device::Device;
use crate::questions::pools::Pools;
use crate::shelf::Shelved;
pub use curves::Curves;
pub(crate) use lives::CUBLAS_WORKSPACES;
use lives::{Lives, gradient_sizes, untold_parameters};
pub use rules::{Rules, RulesError};

/// Allocations that live for at most this many events are temporary: half a dozen operations.
pub const TEMPORARY_EVENTS: u32 = 20;

/// The categories that the defaults know, in the order in which they are listed.
pub const DEFAULT_CATEGORIES: [&str; 9] = [
    "parameters",
    "gradients",
    "optimizer state",
    "activations",
    "KV cache",
    "temporary",
    "workspaces",
    "other",
    "unknown",
];

pub(crate) const PARAMETERS: u8 = 0;
pub(crate) const GRADIENTS: u8 = 1;
pub(crate) const OPTIMIZER: u8 = 2;
pub(crate) const ACTIVATIONS: u8 = 3;
const CACHE: u8 = 4;
const TEMPORARY: u8 = 5;
const WORKSPACES: u8 = 6;
const OTHER: u8 = 7;
const UNKNOWN: u8 = 8;

/// A category for every allocation of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Categories {
    names: Vec<String>,
    #[serde(skip)]
    pub(crate) of: Buffer<u8>,
    /// Numbers among [`KnownBy::ALL`].
    #[serde(skip)]
    pub(crate) known_by: Buffer<u8>,
}

/// What a category has at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Bytes that the program asked for.
    pub requested: u64,
    /// Bytes of the blocks, those that await their free included.
    pub active: u64,
    /// Allocations.
    pub count: u64,
    /// Of `requested`, what is known in each way, in the order of [`KnownBy::ALL`].
    pub known_by: [u64; 4],
}

impl Total {
    /// How its bytes are known, in words: `certain`, or `certain 90 %, likely 10 %`.
    pub fn how(&self) -> String {
        let ways = KnownBy::ALL.iter().zip(self.known_by).filter(|(_, bytes)| *bytes > 0);
        let ways: Vec<_> = ways.collect();
        match ways.as_slice() {
            [(how, _)] => how.name().to_owned(),
            ways => ways
                .iter()
                .map(|(how, bytes)| {
                    format!("{} {}", how.name(), vramscope_format::share(*bytes, self.requested))
                })
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

/// Requested bytes by category over time: one entry per stretch of the trace, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// For each stretch the first moment in it at which most is requested. The entries are those of that
    /// moment, so they add up to it and no peak is lost.
    pub at: Vec<Moment>,
    /// For each category, in the order of [`Categories::names`], the bytes in each stretch.
    pub bytes: Vec<Vec<i64>>,
    /// For each category the most that it had at any moment.
    pub most: Vec<i64>,
}

/// Puts every allocation in a category. Each stack is looked at once; an allocation costs a few look-ups.
pub fn classify(device: &Device, rules: &Rules) -> Categories {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let mut names: Vec<String> = DEFAULT_CATEGORIES.map(str::to_owned).to_vec();
    let numbers: Vec<u8> = rules
        .rules
        .iter()
        .map(|rule| {
            let same = |name: &String| name.eq_ignore_ascii_case(&rule.category);
            let number = names.iter().position(same).unwrap_or_else(|| {
                names.push(rule.category.clone());
                names.len() - 1
            });
            number as u8
        })
        .collect();
    let by_stack = rules.by_stack(snapshot);
    let pools = rules.rules.iter().any(|rule| rule.pool.is_some()).then(|| Pools::all(device));
    let pool_of = |index: AllocIdx| -> Option<Pool> {
        let pools = pools.as_ref()?;
        pools.envelopes().get(pools.envelope_of(index)?)?.pool
    };
    let by_user = |index: AllocIdx, allocation: &Allocation| {
        let fits = |row: &usize| {
            let rule = &rules.rules[*row];
            let stack = by_stack[*row].as_ref();
            stack.is_none_or(|stacks| stacks.get(allocation.recorded.index()) == Some(&true))
                && rule.fits(allocation.requested, lifetime(allocation))
                && rule.pool.is_none_or(|pool| pool_of(index) == Some(pool))
        };
        (0..numbers.len()).find(fits).map(|row| numbers[row])
    };
    let profiler = Profiler::new(device);
    let roles = Roles::new(snapshot, replay);
    let (mut of, mut known_by) = by_lives(device);
    let is_told = !numbers.is_empty() || !roles.is_empty() || profiler.has_any;
    if is_told {
        for (index, allocation) in replay.allocations().iter() {
            let role = || roles.of(index).map(|storage| of_role(storage.role));
            let recorded =
                by_user(index, &allocation).or_else(role).or_else(|| profiler.category(&allocation));
            if let Some(category) = recorded {
                of[index.index()] = category;
                known_by[index.index()] = KnownBy::Recorded;
            } else if !roles.is_empty() && is_contradicted(of[index.index()], &allocation, device) {
                let is_in_flight =
                    device.passes().inside(allocation.opened).is_some_and(|pass| pass.to >= replay.end());
                (of[index.index()], known_by[index.index()]) = match is_in_flight {
                    true => (TEMPORARY, KnownBy::Likely),
                    false => (OTHER, KnownBy::Unknown),
                };
            }
        }
    }
    let known_by = known_by.into_iter().map(|known| known as u8).collect();
    Categories { names, of: of.into(), known_by }
}

const fn of_role(role: TensorRole) -> u8 {
    match role {
        TensorRole::Parameter | TensorRole::Buffer => PARAMETERS,
        TensorRole::Gradient => GRADIENTS,
        TensorRole::Optimizer => OPTIMIZER,
    }
}

/// Whether a category is none that an allocation without a recorded role can have. The recorder lists the parameters,
/// gradients and optimizer state of all models that are alive at the dump, so what lives then and is not listed is none.
/// DDP's buckets are gradients that no parameter has.
fn is_contradicted(category: u8, allocation: &Allocation, device: &Device) -> bool {
    matches!(category, PARAMETERS | GRADIENTS | OPTIMIZER)
        && allocation.closed == Moment::NEVER
        && device.stacks().role_of(allocation) != Role::Buckets
}

/// What the run shows of every allocation.
fn by_lives(device: &Device) -> (Vec<u8>, Vec<KnownBy>) {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let lives = Lives::new(device);
    let mut workspaces = HashSet::new();
    let judged = replay.allocations().iter().map(|(_, allocation)| lives.judge(&allocation, &mut workspaces));
    let (mut of, mut known_by): (Vec<u8>, Vec<KnownBy>) = judged.unzip();
    let gradients = gradient_sizes(&lives, &of);
    let untold: Vec<_> = untold_parameters(&lives, &of, &gradients)
        .map(|index| (index, (PARAMETERS, KnownBy::Likely)))
        .collect();
    for (index, (category, known)) in old::judge(snapshot, &lives, &gradients).into_iter().chain(untold) {
        of[index.index()] = category;
        known_by[index.index()] = known;
    }
    (of, known_by)
}

impl Shelved for Categories {
    const NAME: &'static str = "categories";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        put_small("categories", self, out)?;
        out.put("category", &self.of)?;
        out.put("known_by", &self.known_by)
    }

    /// Looking at an allocation touches what is about it.
    fn get(store: &Store) -> Result<Self, StoreError> {
        let found: Self = get_small("categories", store)?;
        Ok(Self { of: store.get("category")?, known_by: store.get("known_by")?, ..found })
    }
}

impl Device {
    /// The category of every allocation, by the default rules.
    pub fn categories(&self) -> Arc<Categories> {
        self.once(|| classify(self, &Rules::default()))
    }
}

/// Events that an allocation lived; more than any number if it is live at the end.
fn lifetime(allocation: &Allocation) -> u64 {
    match allocation.closed {
        Moment::NEVER => u64::MAX,
        closed => closed.0.saturating_sub(allocation.opened.0).into(),
    }
}

/// What the profiler said, where it was asked (`profile_plot`).
struct Profiler<'a> {
    snapshot: &'a Snapshot,
    events: &'a EventTable,
    has_any: bool,
}

impl<'a> Profiler<'a> {
    fn new(device: &'a Device) -> Self {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let has_any = snapshot.metas.iter().any(|meta| meta.category != StrId::EMPTY);
        Self { snapshot, events: snapshot.events(replay.device()), has_any }
    }

    fn category(&self, allocation: &Allocation) -> Option<u8> {
        let event = allocation.opened.event().filter(|_| self.has_any)?;
        let meta = self.snapshot.meta(self.events.get(event.index()).meta);
        Some(match self.snapshot.text(meta.category).to_ascii_lowercase().as_str() {
            "parameter" => PARAMETERS,
            "gradient" => GRADIENTS,
            "optimizer_state" => OPTIMIZER,
            "activation" | "autograd_detail" => ACTIVATIONS,
            "temporary" => TEMPORARY,
            "input" => OTHER,
            _ => return None,
        })
    }
}

impl Categories {
    /// The names of the categories: the defaults in their order, then those of the rules.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Which of [`Categories::names`] an allocation is in.
    pub fn of(&self, allocation: AllocIdx) -> usize {
        self.of.get(allocation.index()).copied().unwrap_or(UNKNOWN).into()
    }

    /// How that is known.
    pub fn known_by(&self, allocation: AllocIdx) -> KnownBy {
        let number = self.known_by.get(allocation.index()).copied().map(usize::from);
        number.and_then(|number| KnownBy::ALL.get(number)).copied().unwrap_or_default()
    }

    /// What each category has in a state, in the order of [`Categories::names`]. `keep` says which allocations
    /// count.
    pub fn totals(&self, state: &State, keep: impl Fn(AllocIdx, &Allocation) -> bool) -> Vec<Total> {
        let mut totals = vec![Total::default(); self.names.len()];
        for (index, allocation) in state.allocations() {
            if !keep(index, &allocation) {
                continue;
            }
            let total = &mut totals[self.of(index)];
            total.requested = total.requested.saturating_add(allocation.requested);
            total.active = total.active.saturating_add(allocation.size);
            total.count += 1;
            let known = &mut total.known_by[self.known_by(index) as usize];
            *known = known.saturating_add(allocation.requested);
        }
        totals
    }

    /// Requested bytes by category, sampled at the highest moment of each stretch of the trace, in one pass.
    pub fn series(&self, replay: &Replay, stretches: usize) -> Series {
        let stretches = stretches.clamp(1, replay.events() + 1);
        let width = (replay.events() + 1).div_ceil(stretches).max(1);
        let categories = self.names.len();
        let mut series =
            Series { at: Vec::new(), bytes: vec![Vec::new(); categories], most: vec![0; categories] };
        let mut most = vec![0_i64; categories];
        let mut now = vec![0_i64; self.names.len()];
        let mut total = 0_i64;
        // The best moment of the stretch so far, and the bytes then.
        let mut best: Option<(Moment, i64)> = None;
        let mut then = now.clone();
        // Where the next stretch begins.
        let mut next = 0;
        let mut keep = |best: Option<(Moment, i64)>, then: &[i64]| {
            if let Some((at, _)) = best {
                series.at.push(at);
                series.bytes.iter_mut().zip(then).for_each(|(column, &bytes)| column.push(bytes));
            }
        };
        replay.each_moment(|at, effects| {
            for effect in effects {
                let Some((index, bytes)) = effect.requested(replay) else { continue };
                let category = self.of(index);
                let sum = &mut now[category];
                *sum = sum.saturating_add(bytes);
                most[category] = most[category].max(*sum);
                total = total.saturating_add(bytes);
            }
            if at.0 as usize == next {
                keep(best.take(), &then);
                next += width;
            }
            if best.is_none_or(|(_, most)| total > most) {
                best = Some((at, total));
                then.clone_from(&now);
            }
        });
        keep(best, &then);
        series.most = most;
        series
    }
}
