//! How PyTorch rounds a request, and when it splits a block.

use serde::{Deserialize, Serialize};
use vramscope_snapshot::Settings;

/// Smallest block, and the unit of rounding.
pub const UNIT: u64 = 512;
/// Requests up to here come from segments of the small pool; a larger block is split only if more
/// than this remains.
pub const SMALL: u64 = 1 << 20;
const MIB: u64 = 1 << 20;
/// Pages that expandable segments are made of.
pub const GRANULE: u64 = 2 * MIB;

/// The settings that sizes depend on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rules {
    max_split_size: Option<u64>,
    /// Divisions for sizes under 2 MiB, under 4 MiB, and so on; the last also for all above.
    divisions: Vec<u64>,
    /// Host memory: a block is a segment.
    whole_blocks: bool,
}

impl Rules {
    /// The rules that a snapshot was recorded under.
    pub fn new(settings: &Settings) -> Self {
        let mut divisions: Vec<u64> =
            settings.roundup_divisions.iter().map(|&(_, divisions)| divisions).collect();
        if divisions.iter().all(|&n| n <= 1) {
            divisions.clear();
        }
        Self { max_split_size: settings.max_split_size, divisions, whole_blocks: false }
    }

    /// The rules of pinned host memory.
    pub(crate) fn host() -> Self {
        Self { whole_blocks: true, ..Self::default() }
    }

    /// The size of the block that serves a request of `n` bytes.
    #[inline]
    pub fn round(&self, n: u64) -> u64 {
        if n < UNIT {
            return UNIT;
        }
        if !self.divisions.is_empty() {
            let class = (n / MIB).checked_ilog2().unwrap_or(0) as usize;
            let divisions = self.divisions[class.min(self.divisions.len() - 1)];
            if divisions > 1 && n > UNIT.saturating_mul(divisions) {
                let step = (1_u64 << n.ilog2()) >> divisions.ilog2();
                return n.checked_next_multiple_of(step.max(1)).unwrap_or(n);
            }
        }
        // Nothing that large is ever served, so it need not be a multiple.
        n.checked_next_multiple_of(UNIT).unwrap_or(n)
    }

    /// Of a free block of `block` bytes, how many a request that rounds to `rounded` gets: all of
    /// it, unless what remains is worth a block of its own.
    #[inline]
    pub(crate) fn taken(&self, rounded: u64, block: u64, expandable: bool) -> u64 {
        let Some(rest) = block.checked_sub(rounded) else { return block };
        let split = if self.whole_blocks {
            false
        } else if rounded <= SMALL || expandable {
            rest >= UNIT
        } else {
            rest > SMALL && self.max_split_size.is_none_or(|max| rounded < max)
        };
        if split { rounded } else { block }
    }

    /// Whether a block's size follows from the request alone.
    pub(crate) fn is_certain(&self, rounded: u64, expandable: bool) -> bool {
        !self.whole_blocks && (rounded <= SMALL || expandable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_rounding_is_to_512() {
        let rules = Rules::new(&Settings::default());
        assert_eq!([0, 1, 512, 513, 1 << 20].map(|n| rules.round(n)), [512, 512, 512, 1024, 1 << 20]);
        assert_eq!(rules.round(u64::MAX), u64::MAX, "a request that no rounding fits");
    }

    #[test]
    fn power_of_two_divisions_by_size_class() {
        // [1:4,2:1,4:8]: a quarter of a power of two below 2 MiB, none below 4 MiB, an eighth above.
        let settings = Settings { roundup_divisions: vec![(1, 4), (2, 1), (4, 8)], ..Settings::default() };
        let rules = Rules::new(&settings);
        // 1200 lies between 1024 and 2048; a quarter of 1024 is 256; but 1200 <= 512 * 4.
        assert_eq!(rules.round(1200), 1536);
        // 5000 is above 4096: steps of 1024.
        assert_eq!(rules.round(5000), 5120);
        assert_eq!(rules.round(3 * MIB + 1), 3 * MIB + 512);
        // 9 MiB + 1 is above 8 MiB: steps of 1 MiB.
        assert_eq!(rules.round(9 * MIB + 1), 10 * MIB);
    }

    #[test]
    fn splitting_by_pool() {
        let rules = Rules::new(&Settings { max_split_size: Some(32 * MIB), ..Settings::default() });
        assert_eq!(rules.taken(512, 1024, false), 512, "small blocks split down to 512 bytes");
        assert_eq!(rules.taken(2 * MIB, 3 * MIB, false), 3 * MIB, "1 MiB is not more than 1 MiB");
        assert_eq!(rules.taken(2 * MIB, 3 * MIB + 512, false), 2 * MIB);
        assert_eq!(rules.taken(32 * MIB, 64 * MIB, false), 64 * MIB, "too large to be split");
        assert_eq!(rules.taken(2 * MIB, 3 * MIB, true), 2 * MIB, "expandable segments always split");
    }
}
