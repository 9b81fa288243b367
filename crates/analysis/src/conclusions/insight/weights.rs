//! What the weights cost: what comes with each parameter, copies in low precision, and the same weights twice.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use vramscope_snapshot::Frame;

use super::{Amount, Case, Finding, Kind, Severity, Site, signed};
use crate::conclusions::passes::Part;
use crate::questions::frames::is_internal;
use crate::replay::allocations::{Allocation, Moment};
use crate::replay::counters::Counter;
use vramscope_format::count;

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
/// How far from a usual recipe state may be.
const ALIKE: f64 = 0.03;
/// Copies of fewer bytes are nothing to act on.
const LEAST_COPIES: u64 = 16 << 20;
/// Weights, gradients and optimizer state are worth a word from this share of the peak on.
const STATE_SHARE: f64 = 0.25;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let peak = case.replay.peak(Counter::Requested).at;
    let Some(model) = Model::new(case, peak) else { return Vec::new() };
    let found = [doubled(case, &model), low_precision(case, &model), per_parameter(case)];
    found.into_iter().flatten().collect()
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

/// What is live at a moment, as far as it belongs to the model.
struct Model {
    at: Moment,
    peak: u64,
    parameters: Vec<Allocation>,
    gradients: u64,
    optimizer: u64,
}

impl Model {
    fn new(case: &Case<'_>, at: Moment) -> Option<Self> {
        let replay = case.replay;
        let peak_bytes = signed(replay.peak(Counter::Requested).bytes);
        if peak_bytes < LEAST_BYTES || case.snapshot.stacks.ids().len() <= 2 {
            return None;
        }
        let mut model = Self { at, peak: peak_bytes, parameters: Vec::new(), gradients: 0, optimizer: 0 };
        for index in replay.live(at) {
            let block = replay.allocation(index);
            match case.category(index) {
                "parameters" => model.parameters.push(block),
                "gradients" => model.gradients = model.gradients.saturating_add(block.requested),
                "optimizer state" => model.optimizer = model.optimizer.saturating_add(block.requested),
                _ => {}
            }
        }
        (!model.parameters.is_empty()).then_some(model)
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
    let is_own = |frame: &Frame| {
        let file = snapshot.text(frame.file);
        !is_internal(snapshot.text(frame.name), file) && !file.contains("-packages/")
    };
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
    let Case { replay, passes, bytes, .. } = *case;
    let weights = model.sizes();
    let at = model.at;
    let pass = passes.of(Part::Forward).iter().rfind(|pass| pass.from < at)?;
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

/// Times the weights that all state together takes, what that means, and bytes of a weight.
const RECIPES: [(f64, &str, u64); 4] = [
    (3.0, "weights, gradients and one moment", 4),
    (4.0, "weights, gradients and two moments", 4),
    (6.0, "weights and gradients in 16 bits, two moments in 32", 2),
    (8.0, "weights and gradients in 16 bits, two moments and a copy of the weights in 32", 2),
];

/// How many bytes each parameter takes, with its gradient and the optimizer's state: when the last backward pass has
/// ended and gradients are complete.
fn per_parameter(case: &Case<'_>) -> Option<Finding> {
    let bytes = case.bytes;
    let model = &Model::new(case, case.passes.of(Part::Backward).last()?.to)?;
    let weights = model.parameters.iter().fold(0_u64, |sum, block| sum.saturating_add(block.requested));
    let all = weights.saturating_add(model.gradients).saturating_add(model.optimizer);
    let is_large = all >= LEAST_BYTES && all as f64 >= model.peak as f64 * STATE_SHARE;
    if model.optimizer == 0 || weights == 0 || !is_large {
        return None;
    }
    let times = all as f64 / weights as f64;
    let (_, recipe, each) = RECIPES.into_iter().find(|(usual, ..)| (times / usual - 1.0).abs() < ALIKE)?;
    let parameters = weights / each;
    Some(
        Finding::new(Kind::ParameterBytes, Severity::Low, all, (model.at, model.at))
            .says(
                format!(
                    "{} parameters take {:.0} bytes each, {} in all: {recipe}",
                    count(parameters),
                    times * each as f64,
                    bytes(all)
                ),
                "Shard them (FSDP, ZeRO), use an optimizer with 8-bit state, or train adapters only",
            )
            .likely()
            .with("weights", Amount::Bytes(weights))
            .shown_by(format!("categories --at {}", super::moment(model.at)))
            .with("gradients", Amount::Bytes(model.gradients))
            .with("optimizer state", Amount::Bytes(model.optimizer)),
    )
}
