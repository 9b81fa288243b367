//! Where the allocator puts a burst of blocks that comes first: how parameters are told from optimizer state when both
//! are older than the recording and of the same sizes.
//!
//! A model is moved to the device before anything else lives there, one block per parameter, in order. Its blocks fill
//! fresh segments from their beginnings. Optimizer state comes after a whole step and fills what that left. So the burst
//! is laid out on an empty allocator, and where segments of the recording have blocks of those sizes at those offsets,
//! they are the burst's.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use vramscope_replay::{AllocIdx, Allocation, Range};

const MIB: u64 = 1 << 20;

/// A segment of the burst: its size, and offset and requested bytes of each block.
struct Fresh {
    size: u64,
    blocks: Vec<(u64, u64)>,
}

impl Fresh {
    fn bytes(&self) -> u64 {
        self.blocks.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// Lays a burst out on an empty allocator with default settings: the smallest free range that fits, else a new segment.
fn lay_out(burst: &[u64]) -> Vec<Fresh> {
    let mut segments: Vec<Fresh> = Vec::new();
    // Free ranges of small and of large blocks: size, segment, offset.
    let mut free: [BTreeSet<(u64, usize, u64)>; 2] = Default::default();
    for &requested in burst {
        let size = requested.max(1).next_multiple_of(512);
        let is_small = size <= MIB;
        let pool = &mut free[usize::from(!is_small)];
        let fits = pool.range((size, 0, 0)..).next().copied();
        let (room, segment, offset) = fits.unwrap_or_else(|| {
            let room = match size {
                _ if is_small => 2 * MIB,
                _ if size < 10 * MIB => 20 * MIB,
                _ => size.next_multiple_of(2 * MIB),
            };
            segments.push(Fresh { size: room, blocks: Vec::new() });
            (room, segments.len() - 1, 0)
        });
        pool.remove(&(room, segment, offset));
        let rest = room - size;
        if rest >= 512 && (is_small || rest > MIB) {
            pool.insert((rest, segment, offset + size));
        }
        segments[segment].blocks.push((offset, requested));
    }
    segments
}

/// The allocations that lie where a burst would have put them. `held` are the segments at the start, `blocks` the
/// allocations that may be meant.
pub(super) fn find(burst: &[u64], held: &[Range], blocks: &[(AllocIdx, Allocation)]) -> HashSet<AllocIdx> {
    let by_addr: HashMap<u64, (AllocIdx, u64)> =
        blocks.iter().map(|(index, block)| (block.addr, (*index, block.requested))).collect();
    // Segments that begin with such a block, by their size and that of the block.
    let mut candidates: HashMap<(u64, u64), Vec<u64>> = HashMap::new();
    for range in held {
        if let Some((_, first)) = by_addr.get(&range.addr) {
            candidates.entry((range.size, *first)).or_default().push(range.addr);
        }
    }
    let mut fresh = lay_out(burst);
    fresh.sort_by_key(|segment| std::cmp::Reverse((segment.bytes(), segment.blocks.len())));
    let mut found = HashSet::new();
    let mut taken = HashSet::new();
    for segment in &fresh {
        let Some(&(_, first)) = segment.blocks.first() else { continue };
        let matching = |addr: u64| {
            segment
                .blocks
                .iter()
                .filter_map(move |&(offset, requested)| Some((addr.checked_add(offset)?, requested)))
        };
        let matching = |addr: u64| {
            matching(addr).filter_map(|(addr, requested)| {
                by_addr.get(&addr).filter(|(_, actual)| *actual == requested).map(|(index, _)| *index)
            })
        };
        let open = candidates.get(&(segment.size, first)).into_iter().flatten();
        let open = open.copied().filter(|addr| !taken.contains(addr)).take(MOST_CANDIDATES);
        let Some(best) = open.max_by_key(|&addr| (matching(addr).count(), std::cmp::Reverse(addr))) else {
            continue;
        };
        taken.insert(best);
        found.extend(matching(best));
    }
    found
}

/// Segments that are tried for one of the burst.
const MOST_CANDIDATES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_fills_fresh_segments() {
        // 8 MiB and a block of 1.5 MiB share 20 MiB; 600 and 100 KiB share 2 MiB; 12 MiB has its own.
        let burst = [8 * MIB, 600 << 10, 3 * MIB / 2, 100 << 10, 12 * MIB];
        let laid: Vec<_> = lay_out(&burst).into_iter().map(|fresh| (fresh.size, fresh.blocks)).collect();
        assert_eq!(
            laid,
            [
                (20 * MIB, vec![(0, 8 * MIB), (8 * MIB, 3 * MIB / 2)]),
                (2 * MIB, vec![(0, 600 << 10), (600 << 10, 100 << 10)]),
                (12 * MIB, vec![(0, 12 * MIB)]),
            ]
        );
    }
}
