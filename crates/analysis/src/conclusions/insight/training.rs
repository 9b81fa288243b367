//! What a program keeps without need: activations that no backward pass will use, and a KV cache while training.

use hashbrown::HashSet;
use vramscope_replay::{AllocIdx, Allocation, Counter, Moment};
use vramscope_snapshot::StackId;

use super::{Amount, Case, Finding, Kind, Severity, Site, signed};
use crate::conclusions::passes::Part;
use crate::conclusions::stacks::Role;
use crate::questions::frames::user_frame;

/// Less than this, or than this share of the peak, is nothing to act on.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_SHARE: f64 = 0.1;
/// A forward pass that keeps blocks of fewer lines keeps its results, or a cache.
const GRAPH_LINES: usize = 4;
/// Forward passes without a backward pass between them, from which on the program is one of inference.
const LEAST_PASSES: usize = 2;
/// A KV cache of fewer bytes is not worth a word; from the share on it is worth acting on.
const LEAST_CACHE: u64 = 16 << 20;
const CACHE_SHARE: f64 = 0.01;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    no_grad(case).into_iter().chain(training_cache(case)).collect()
}

/// The largest of some blocks decides where to look.
fn heaviest(blocks: &[(AllocIdx, Allocation)]) -> Option<StackId> {
    blocks
        .iter()
        .max_by_key(|(index, block)| (block.requested, std::cmp::Reverse(*index)))
        .map(|(_, b)| b.stack)
}

fn total(blocks: &[(AllocIdx, Allocation)]) -> u64 {
    blocks.iter().fold(0, |sum, (_, block)| sum.saturating_add(block.requested))
}

/// Forward passes, no backward pass, and at the end of a forward pass much of what its lines made is still there.
fn no_grad(case: &Case<'_>) -> Option<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let passes = case.device.passes();
    let forward = passes.of(Part::Forward);
    // A program that fails in its first forward pass may have wanted a backward pass.
    if !replay.ooms().is_empty() {
        return None;
    }
    if passes.has(Part::Backward) || passes.has(Part::Optimizer) || forward.len() < LEAST_PASSES {
        return None;
    }
    let peak = signed(replay.peak(Counter::Requested).bytes);
    let pass = forward.iter().max_by_key(|pass| (replay.counters(pass.to).requested, pass.to))?;
    let is_kept = |(_, block): &(AllocIdx, Allocation)| {
        pass.from < block.opened
            && block.recorded != StackId::EMPTY
            && case.device.stacks().role_of(block) == Role::Forward
    };
    let live = replay.live(pass.to).into_iter().map(|index| (index, replay.allocation(index)));
    let kept: Vec<_> = live.filter(is_kept).collect();
    let lines: HashSet<_> = kept.iter().filter_map(|(_, block)| user_frame(snapshot, block.stack)).collect();
    let held = total(&kept);
    if lines.len() < GRAPH_LINES || held < LEAST_BYTES || (held as f64) < peak as f64 * LEAST_SHARE {
        return None;
    }
    let stack = heaviest(&kept)?;
    let frame = user_frame(snapshot, stack);
    Some(
        Finding::new(Kind::NoGrad, Severity::Medium, held, (pass.from, pass.to))
            .says(
                format!(
                    "{} of activations are live when a forward pass ends, and no backward pass ever uses them",
                    bytes(held)
                ),
                "If this is inference, run it under torch.inference_mode() or torch.no_grad()",
            )
            .on(Site { stack: Some(stack), line: case.line(frame), ..Site::default() })
            .likely()
            .with("activations live at the end of the pass", Amount::Bytes(held))
            .shown_by(format!("top --at {}", super::moment(pass.to)))
            .with("lines that made them", Amount::Count(lines.len() as u64))
            .with("forward passes", Amount::Count(forward.len() as u64)),
    )
}

/// Keys and values that a cache copies while a backward pass follows.
fn training_cache(case: &Case<'_>) -> Option<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let passes = case.device.passes();
    if !passes.has(Part::Backward) {
        return None;
    }
    let peak = replay.peak(Counter::Requested);
    let is_cache = |(_, block): &(AllocIdx, Allocation)| {
        block.opened > Moment::START && case.device.stacks().role_of(block) == Role::Cache
    };
    let live = replay.live(peak.at).into_iter().map(|index| (index, replay.allocation(index)));
    let cached: Vec<_> = live.filter(is_cache).collect();
    let held = total(&cached);
    let share = held as f64 / signed(peak.bytes).max(1) as f64;
    if held < LEAST_CACHE || share < CACHE_SHARE {
        return None;
    }
    let stack = heaviest(&cached)?;
    let severity = if share >= LEAST_SHARE { Severity::Medium } else { Severity::Low };
    Some(
        Finding::new(Kind::TrainingCache, severity, held, (peak.at, peak.at))
            .says(
                format!("a KV cache of {} is kept while training, where nothing reads it", bytes(held)),
                "Set use_cache=False in the model's configuration, or pass it to the forward call",
            )
            .on(Site { stack: Some(stack), line: case.line(user_frame(snapshot, stack)), ..Site::default() })
            .with("share of the peak", Amount::Share(share))
            .shown_by("top --at peak")
            .with("blocks", Amount::Count(cached.len() as u64)),
    )
}
