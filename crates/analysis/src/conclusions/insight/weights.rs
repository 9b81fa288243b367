//! What the weights cost: what comes with each parameter, copies in low precision, and the same weights twice.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use vramscope_replay::{AllocIdx, Allocation, Counter, Moment};
use vramscope_snapshot::Frame;

use super::{Amount, Case, Finding, Kind, Severity, Site, signed};
use crate::conclusions::passes::Part;
use crate::conclusions::recipe::Recipe;
use crate::device::Device;
use crate::questions::frames::is_of_program;

/// Less than this is nothing to act on.
const LEAST_BYTES: u64 = 64 << 20;
/// Fewer blocks of equal sizes are chance.
const LEAST_BLOCKS: usize = 8;
/// Blocks below this are norms and biases, whose sizes coincide.
const LEAST_BLOCK: u64 = 64 << 10;
/// The share of the weights' bytes that has to be there again, before it is a copy.
const SAME_SHARE: f64 = 0.9;
/// The share of the peak that makes copies worth a word.
const COPY_SHARE: f64 = 0.05;
/// Copies of fewer bytes are nothing to act on.
const LEAST_COPIES: u64 = 16 << 20;
/// Weights, gradients and optimizer state are worth a word from this share of the peak on.
const STATE_SHARE: f64 = 0.25;

/// `is_short` says whether memory was short: only then is what every parameter takes something to act on.
pub(super) fn find(case: &Case<'_>, is_short: bool) -> Vec<Finding> {
    let Some(model) = Model::new(case) else { return Vec::new() };
    let per_parameter = if is_short { per_parameter(case, model.peak) } else { None };
    let found = [doubled(case, &model), low_precision(case, &model), per_parameter];
    found.into_iter().flatten().collect()
}

/// Whether there is enough memory, with stacks, to ask what it is for.
pub(super) fn looks_at(device: &Device) -> bool {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    signed(replay.peak(Counter::Requested).bytes) >= LEAST_BYTES && !snapshot.stacks.is_empty()
}

/// Blocks by size: how many of each.
type Sizes = BTreeMap<u64, usize>;

fn bytes_of(sizes: &Sizes) -> u64 {
    sizes.iter().fold(0, |sum, (size, count)| sum.saturating_add(size.saturating_mul(*count as u64)))
}

/// What both have.
fn common(a: &Sizes, b: &Sizes) -> Sizes {
    a.iter().filter_map(|(size, n)| Some((*size, *n.min(b.get(size)?)))).collect()
}

/// The weights that are live at the peak.
struct Model {
    at: Moment,
    peak: u64,
    parameters: Vec<Allocation>,
}

impl Model {
    fn new(case: &Case<'_>) -> Option<Self> {
        let replay = case.replay;
        if !looks_at(case.device) {
            return None;
        }
        let peak = replay.peak(Counter::Requested);
        let bytes = signed(peak.bytes);
        let is_parameter = |index: &AllocIdx| case.category(*index) == "parameters";
        let live = replay.live(peak.at).into_iter().filter(is_parameter);
        let parameters: Vec<_> = live.map(|index| replay.allocation(index)).collect();
        (!parameters.is_empty()).then_some(Self { at: peak.at, peak: bytes, parameters })
    }

    fn sizes(&self) -> Sizes {
        sizes(self.parameters.iter())
    }
}

fn sizes<'a>(blocks: impl Iterator<Item = &'a Allocation>) -> Sizes {
    let mut sizes = Sizes::new();
    for block in blocks.filter(|block| block.requested >= LEAST_BLOCK) {
        *sizes.entry(block.requested).or_default() += 1;
    }
    sizes
}

/// The same sizes of weights from two lines of the program.
fn doubled(case: &Case<'_>, model: &Model) -> Option<Finding> {
    let (snapshot, bytes) = (case.snapshot, case.bytes);
    let is_own = |frame: &Frame| is_of_program(snapshot.text(frame.name), snapshot.text(frame.file));
    let mut lines: HashMap<Frame, Vec<&Allocation>> = HashMap::new();
    for block in &model.parameters {
        if let Some(frame) = snapshot.frames(block.stack).find(is_own) {
            lines.entry(frame).or_default().push(block);
        }
    }
    let mut groups: Vec<(Frame, Sizes, Moment)> = lines
        .into_iter()
        .filter(|(_, blocks)| blocks.len() >= LEAST_BLOCKS)
        .map(|(frame, blocks)| {
            let first = blocks.iter().map(|block| block.opened).min().unwrap_or_default();
            (frame, sizes(blocks.into_iter()), first)
        })
        .collect();
    groups.sort_by_key(|(frame, sizes, first)| (std::cmp::Reverse(bytes_of(sizes)), *first, frame.line));
    groups.truncate(MOST_GROUPS);
    let pairs = groups.iter().enumerate().flat_map(|(at, a)| groups[at + 1..].iter().map(move |b| (a, b)));
    let mut twins = pairs.filter_map(|(a, b)| {
        let (own, both) = (bytes_of(&a.1).max(bytes_of(&b.1)), bytes_of(&common(&a.1, &b.1)));
        (both >= LEAST_BYTES && both as f64 >= own as f64 * SAME_SHARE).then_some((a, b, both))
    });
    let (a, b, both) = twins.next()?;
    let (first, second) = if a.2 <= b.2 { (a, b) } else { (b, a) };
    let (place, again) = (case.place(first.0), case.place(second.0));
    Some(
        Finding::new(Kind::DoubledWeights, Severity::Medium, both, (model.at, model.at))
            .says(
                format!(
                    "the same weights are there twice: {} of equal sizes from {place} and from {again}",
                    bytes(both)
                ),
                "Drop the first copy before the second is made, or load into it (load_state_dict with assign=True)",
            )
            .on(Site { line: case.line(Some(second.0)), ..Site::default() })
            .likely()
            .at("from", place, bytes_of(&first.1))
            .shown_by(format!("top --at {} --category parameters", super::moment(model.at)))
            .at("from", again, bytes_of(&second.1)),
    )
}

/// Lines that make weights which are compared with each other.
const MOST_GROUPS: usize = 16;

/// Blocks of half the size of each weight that a forward pass makes and keeps: what autocast caches.
fn low_precision(case: &Case<'_>, model: &Model) -> Option<Finding> {
    let Case { replay, bytes, .. } = *case;
    let weights = model.sizes();
    let at = model.at;
    let pass = case.device.passes().of(Part::Forward).iter().rfind(|pass| pass.from < at)?;
    let halves: Sizes = weights.iter().map(|(size, count)| (size / 2, *count)).collect();
    let is_new = |block: &&Allocation| block.opened > pass.from && block.opened <= pass.to;
    let live: Vec<Allocation> =
        replay.live(pass.to.min(at)).into_iter().map(|index| replay.allocation(index)).collect();
    let made = sizes(live.iter().filter(is_new));
    let copies = common(&halves, &made);
    let (held, all) = (bytes_of(&copies), bytes_of(&halves));
    let is_copy = copies.len() >= 2 && copies.values().sum::<usize>() >= LEAST_BLOCKS;
    if !is_copy || (held as f64) < all as f64 * 0.6 {
        return None;
    }
    let share = held as f64 / model.peak.max(1) as f64;
    if held < LEAST_COPIES || share < COPY_SHARE {
        return None;
    }
    Some(
        Finding::new(Kind::LowPrecisionCopies, Severity::Low, held, (pass.from, at))
            .says(
                format!(
                    "autocast keeps copies of the weights in low precision: {} at the peak, {} of it",
                    bytes(held),
                    vramscope_format::percent(share)
                ),
                "Keep the weights in bfloat16 instead, or pass cache_enabled=False to torch.autocast; with short \
                 sequences autocast can cost more memory than it saves",
            )
            .likely()
            .with("copies", Amount::Count(copies.values().sum::<usize>() as u64))
            .shown_by("categories --at peak")
            .with("weights that they are copies of", Amount::Bytes(bytes_of(&weights))),
    )
}

/// How many bytes each parameter takes, with its gradient and the optimizer's state.
fn per_parameter(case: &Case<'_>, peak: u64) -> Option<Finding> {
    let recipe = Recipe::new(case.device, &case.device.categories())?;
    let all = recipe.all();
    if all < LEAST_BYTES || (all as f64) < peak as f64 * STATE_SHARE {
        return None;
    }
    Some(
        Finding::new(Kind::ParameterBytes, Severity::Low, all, (recipe.at, recipe.at))
            .says(
                recipe.words(case.bytes),
                "Shard them (FSDP, ZeRO), use an optimizer with 8-bit state, or train adapters only",
            )
            .likely()
            .with("weights", Amount::Bytes(recipe.weights))
            .shown_by(format!("categories --at {}", super::moment(recipe.at)))
            .with("gradients", Amount::Bytes(recipe.gradients))
            .with("optimizer state", Amount::Bytes(recipe.optimizer)),
    )
}
