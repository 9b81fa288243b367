//! The gap: memory that is held but was not asked for, by cause.
//!
//! reserved − requested = rounding + unsplit + awaiting_free + pinned_holes + cached + pools + workspaces
//!                        + unexplained − contradicted
//!
//! - *rounding*: what rounding requests up adds to blocks in use;
//! - *unsplit*: what remains of a block that was too small to be split off;
//! - *awaiting_free*: both of these in blocks that the program let go and another stream still uses;
//! - *pinned_holes*: free ranges in partly used segments of the default pool;
//! - *cached*: completely unused segments of the default pool, and such pages of expandable ones: `empty_cache()`
//!   releases them;
//! - *pools*: whatever is free in private pools, which serves nothing else;
//! - *workspaces*: segments that an NPU uses as workspaces.
//!
//! - *unexplained*: what a file with holes in its history cannot tell;
//! - *contradicted*: what a file shows beyond what it says was held.
//!
//! The last two are 0 wherever the verdict is exact.

use serde::Serialize;
use vramscope_replay::State;

use crate::conclusions::insight::ShowBytes;
use crate::device::Device;
use crate::questions::pools::is_private;

/// The gap at a moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Reserved minus requested; 0 where a file shows more requested than was held.
    pub total: u64,
    /// Rounding of blocks in use.
    pub rounding: u64,
    /// Remainders that were not split off.
    pub unsplit: u64,
    /// Both in blocks that await their free.
    pub awaiting_free: u64,
    /// Free in partly used segments.
    pub pinned_holes: u64,
    /// Completely unused segments.
    pub cached: u64,
    /// What is free in private pools.
    pub pools: u64,
    /// Segments that an NPU uses as workspaces.
    pub workspaces: u64,
    /// What the file cannot tell.
    pub unexplained: u64,
    /// By how much the file shows more than it says was held.
    pub contradicted: u64,
    /// Blocks that await their free, whole: no part of the gap but for `awaiting_free`.
    #[serde(skip)]
    pub waiting: u64,
}

impl Gap {
    /// Whether there is a gap, or the file contradicts itself.
    pub fn is_worth_a_word(&self) -> bool {
        self.total > 0 || self.contradicted > 0
    }

    /// All causes with their bytes in one line.
    pub fn sentence(&self, bytes: ShowBytes<'_>) -> String {
        self.causes().map(|(cause, n)| format!("{cause} {}", bytes(n))).collect::<Vec<_>>().join(" · ")
    }

    /// What awaits its free, in words: why less may be allocated than requested.
    pub fn waiting_sentence(&self, bytes: ShowBytes<'_>) -> Option<String> {
        let words = "awaits its free, released by the program and in use by another stream: requested and active count it, \
                     allocated does not";
        (self.waiting > 0).then(|| format!("{} {words}", bytes(self.waiting)))
    }

    /// All causes in words, with their bytes, largest first; what the file cannot explain comes last.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let rest = [("unexplained", self.unexplained), ("the file contradicts itself by", self.contradicted)];
        self.words().into_iter().chain(rest).filter(|(_, n)| *n > 0)
    }

    /// The causes that are known, in words, largest first.
    pub fn words(&self) -> [(&'static str, u64); 7] {
        self.parts().map(|(name, bytes)| {
            let words = match name {
                "unsplit" => "unsplit remainders",
                "awaiting_free" => "rounding of blocks awaiting free",
                "pinned_holes" => "stranded in partly used segments",
                "cached" => "cached in unused segments",
                "pools" => "free in private pools",
                name => name,
            };
            (words, bytes)
        })
    }

    /// The causes that are known, by name as in JSON, largest first.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        let mut parts = [
            ("rounding", self.rounding),
            ("unsplit", self.unsplit),
            ("awaiting_free", self.awaiting_free),
            ("pinned_holes", self.pinned_holes),
            ("cached", self.cached),
            ("pools", self.pools),
            ("workspaces", self.workspaces),
        ];
        parts.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        parts
    }
}

/// The gap of a state, by cause.
pub fn gap(device: &Device, state: &State) -> Gap {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let difference = i128::from(state.counters.reserved) - i128::from(state.counters.requested);
    let mut gap = Gap { total: cut(difference), ..Gap::default() };
    let mut lived_in = vec![false; state.ranges.len()];
    for (_, allocation) in state.allocations() {
        let after = state.ranges.partition_point(|range| range.addr <= allocation.addr);
        if let Some(range) = after.checked_sub(1) {
            lived_in[range] = true;
        }
        let over = allocation.size.saturating_sub(allocation.requested);
        if allocation.released <= state.at {
            gap.awaiting_free = gap.awaiting_free.saturating_add(over);
            gap.waiting = gap.waiting.saturating_add(allocation.size);
            continue;
        }
        let rounding =
            replay.rules().round(allocation.requested).saturating_sub(allocation.requested).min(over);
        gap.rounding = gap.rounding.saturating_add(rounding);
        gap.unsplit = gap.unsplit.saturating_add(over - rounding);
    }
    for hole in &state.holes {
        let range = &state.ranges[hole.range];
        if is_private(snapshot, range.pool) {
            gap.pools = gap.pools.saturating_add(hole.size);
            continue;
        }
        let pages = match (lived_in[hole.range], range.expandable) {
            (false, _) => hole.size,
            (true, true) => hole.whole_pages(),
            (true, false) => 0,
        };
        gap.cached = gap.cached.saturating_add(pages);
        gap.pinned_holes = gap.pinned_holes.saturating_add(hole.size - pages);
    }
    let workspaces = state.ranges.iter().filter(|range| replay.is_workspace(range)).map(|range| range.size);
    gap.workspaces = workspaces.fold(0, u64::saturating_add);
    let explained = gap.parts().iter().fold(0_i128, |sum, (_, bytes)| sum + i128::from(*bytes));
    (gap.unexplained, gap.contradicted) = (cut(difference - explained), cut(explained - difference));
    gap
}

/// What is above zero.
fn cut(bytes: i128) -> u64 {
    u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
}
