//! Attention scores that are written out: batch × heads × sequence × sequence, which grow with the square of the
//! sequence.
//!
//! They show as the blocks of a softmax inside a function for attention, and as blocks of the same shape around it:
//! products, masks, dropout, copies in another precision. Fused kernels have no softmax of their own.

use hashbrown::HashSet;
use vramscope_replay::Counter;
use vramscope_snapshot::{Frame, Snapshot, StackId, StrId};

use super::{Amount, Case, Finding, Kind, Severity, Site, signed};
use crate::questions::frames::user_frame;

/// Less than this, or than this share of the peak, is nothing to act on.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_SHARE: f64 = 0.1;

/// A function of the program: its file and name.
type Function = (StrId, StrId);

fn is_attention(snapshot: &Snapshot, frame: Frame) -> bool {
    let of_attention = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.contains("attention") || text.contains("attn")
    };
    of_attention(snapshot.text(frame.name)) || of_attention(snapshot.text(frame.file))
}

/// The function for attention that a stack with a softmax belongs to.
fn softmax_in(snapshot: &Snapshot, stack: StackId) -> Option<Function> {
    let innermost = snapshot.frames(stack).next()?;
    let is_softmax = |frame: Frame| snapshot.text(frame.name).to_ascii_lowercase().contains("softmax");
    let own = user_frame(snapshot, stack)?;
    let is_score = (is_softmax(innermost) || is_softmax(own)) && is_attention(snapshot, own);
    is_score.then_some((own.file, own.name))
}

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let Case { snapshot, replay, bytes, .. } = *case;
    let peak = replay.peak(Counter::Requested);
    // By stack, once it was looked at.
    let mut functions: Vec<Option<Option<Function>>> = vec![None; snapshot.stacks.ids().len()];
    let mut sizes: HashSet<(Function, u64)> = HashSet::new();
    for (_, block) in replay.allocations().iter() {
        let Some(known) = functions.get_mut(block.stack.index()) else { continue };
        if let Some(function) = *known.get_or_insert_with(|| softmax_in(snapshot, block.stack)) {
            // The same scores in half or double precision, and as a mask of bytes.
            sizes.extend(
                [block.requested, block.requested / 2, block.requested * 2, block.requested / 4]
                    .map(|n| (function, n)),
            );
        }
    }
    if sizes.is_empty() {
        return None;
    }
    let (mut held, mut count, mut worst) = (0_u64, 0_u64, None);
    for index in replay.live(peak.at) {
        let block = replay.allocation(index);
        let Some(frame) = user_frame(snapshot, block.stack) else { continue };
        if sizes.contains(&((frame.file, frame.name), block.requested)) {
            held = held.saturating_add(block.requested);
            count += 1;
            worst = worst.max(Some((block.requested, std::cmp::Reverse(index), block.stack)));
        }
    }
    let share = held as f64 / signed(peak.bytes).max(1) as f64;
    let (largest, _, stack) = worst.filter(|_| held >= LEAST_BYTES && share >= LEAST_SHARE)?;
    let frame = user_frame(snapshot, stack);
    let place = frame.map_or_else(String::new, |frame| format!(" by {}", case.place(frame)));
    Some(
        Finding::new(Kind::AttentionScores, Severity::Medium, held, (peak.at, peak.at))
            .says(
                format!(
                    "attention scores of {} are live at the peak, written out{place}: they grow with the square of the \
                     sequence",
                    bytes(held)
                ),
                "Use fused attention, which never writes them out: attn_implementation=\"sdpa\", or \
                 torch.nn.functional.scaled_dot_product_attention",
            )
            .on(Site { stack: Some(stack), line: case.line(frame), ..Site::default() })
            .likely()
            .with("share of the peak", Amount::Share(share))
            .shown_by("top --at peak")
            .with("blocks", Amount::Count(count))
            .with("the largest", Amount::Bytes(largest)),
    )
}
