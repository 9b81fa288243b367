//! What rounding and blocks that are not split cost, at the moment when most was held.

use vramscope_replay::{Allocation, Counter};

use super::gap::worth_telling;
use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::questions::frames::user_frame;
use crate::questions::gap::gap;

/// Bytes that are large on any device.
const LARGE: u64 = 256 << 20;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Case { snapshot, replay, bytes, device, .. } = *case;
    let at = replay.peak(Counter::Reserved).at;
    let state = replay.state(at);
    let gap = gap(device, &state);
    let reserved = state.counters.reserved;
    let wasted = |allocation: &Allocation| allocation.size.saturating_sub(allocation.requested);
    let live = state.live.iter().map(|&index| replay.allocation(index));
    let worst = live.max_by_key(|allocation| (wasted(allocation), std::cmp::Reverse(allocation.addr)));
    let frame = worst.and_then(|worst| user_frame(snapshot, worst.stack));
    let divides = snapshot.settings.roundup_divisions.iter().any(|&(_, divisions)| divisions > 1);
    let parts = [
        (
            Kind::Rounding,
            gap.rounding,
            match divides {
                true => "lost to rounding requests up by roundup_power2_divisions",
                false => "lost to rounding requests up",
            },
            match divides {
                true => "Raise roundup_power2_divisions, or leave it out: it rounds up in large steps",
                false => "Make fewer, larger tensors: every one is rounded up to 512 bytes",
            },
            divides.then_some(""),
        ),
        (
            Kind::Unsplit,
            gap.unsplit,
            "in blocks larger than requested, which were not split",
            match snapshot.settings.max_split_size {
                Some(_) => "Raise max_split_size_mb, or leave it out: blocks above it are handed out whole",
                None => {
                    "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, under which every remainder is split off"
                }
            },
            match snapshot.settings.max_split_size {
                Some(_) => Some(""),
                None => Some("expandable_segments:True"),
            },
        ),
    ];
    // What the setting itself costs is worth a word wherever it is large, however large the device.
    let by_setting = |kind: Kind, part: u64| kind == Kind::Rounding && divides && part >= LARGE;
    let told =
        parts.into_iter().filter(|&(kind, part, ..)| worth_telling(part, reserved) || by_setting(kind, part));
    told.map(|(kind, part, what, advice, tried)| {
        let effect = tried.map(|settings| case.effect_of(settings)).unwrap_or_default();
        let site = Site { stack: worst.map(|worst| worst.stack), line: case.line(frame), ..Site::default() };
        let mut finding = Finding::new(kind, Severity::Medium, part, (at, at))
            .says(format!("{} is {what}", bytes(part)), format!("{advice}{effect}"))
            .on(site)
            .with("share of reserved", Amount::Share(part as f64 / reserved.max(1) as f64))
            .shown_by(format!("at --at {}", super::moment(at)));
        if let Some(worst) = worst {
            finding = finding
                .with("most in one block", Amount::Bytes(wasted(&worst)))
                .with("requested", Amount::Bytes(worst.requested));
        }
        finding
    })
    .collect()
}
