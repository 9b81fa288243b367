//! How many bytes some allocations take together at any moment, and where that is highest or lowest.
//!
//! Kept as the steps of a staircase. Over them lie two trees that know the highest and the lowest step of every node, so that
//! those of a pixel column are found in a few comparisons, however many steps lie in it.

use vramscope_replay::{AllocIdx, Counter, Moment, Peak, Replay};

use crate::pictures::pile::Measure;

/// Children of a node.
const FANOUT: usize = 16;

/// The level of some allocations over time.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// When each step begins; the first is at the start.
    from: Vec<Moment>,
    /// Bytes of each step.
    bytes: Vec<u64>,
    /// For each node the highest of its steps, the first of them if there are several; from the smallest nodes up.
    highest: Vec<Vec<u32>>,
    /// The same for the lowest.
    lowest: Vec<Vec<u32>>,
}

/// Whether the first of two levels is further than the second.
type Beyond = fn(u64, u64) -> bool;

const HIGHER: Beyond = |a, b| a > b;
const LOWER: Beyond = |a, b| a < b;

impl Levels {
    /// The level of allocations given as birth, end and bytes, in any order.
    pub(crate) fn new(lives: impl Iterator<Item = (Moment, Moment, u64)>) -> Self {
        let mut changes: Vec<(Moment, i128)> = Vec::new();
        for (born, end, bytes) in lives.filter(|(born, end, _)| born < end) {
            changes.extend([(born, i128::from(bytes)), (end, -i128::from(bytes))]);
        }
        changes.sort_unstable_by_key(|(at, _)| *at);
        let (mut from, mut bytes, mut level) = (vec![Moment::START], vec![0], 0_i128);
        for same in changes.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(at, _)) = same.first().filter(|(at, _)| *at != Moment::NEVER) else { continue };
            level += same.iter().map(|(_, change)| change).sum::<i128>();
            let now = u64::try_from(level).unwrap_or(u64::MAX);
            if at == Moment::START {
                bytes[0] = now;
            } else if bytes.last() != Some(&now) {
                from.push(at);
                bytes.push(now);
            }
        }
        let (highest, lowest) = (tree(&bytes, HIGHER), tree(&bytes, LOWER));
        Self { from, bytes, highest, lowest }
    }

    /// The level of each of some groups, where `group` says which one an allocation belongs to.
    pub fn of_groups(
        replay: &Replay,
        counter: Counter,
        groups: usize,
        group: impl Fn(AllocIdx) -> usize,
    ) -> Vec<Self> {
        let measure = Measure::new(replay, counter);
        let mut lives = vec![Vec::new(); groups];
        for index in (0..replay.allocations().len() as u32).map(AllocIdx) {
            if let Some(lives) = lives.get_mut(group(index)) {
                lives.push((measure.born(index), measure.end(index), measure.bytes(index)));
            }
        }
        lives.into_iter().map(|lives| Self::new(lives.into_iter())).collect()
    }

    /// Bytes at a moment.
    pub fn at(&self, at: Moment) -> u64 {
        self.bytes[self.step(at)]
    }

    /// The first moment from one to another, both included, at which the level is highest among them.
    pub fn highest(&self, from: Moment, to: Moment) -> Moment {
        self.furthest(&self.highest, HIGHER, from, to)
    }

    /// The same where it is lowest.
    pub fn lowest(&self, from: Moment, to: Moment) -> Moment {
        self.furthest(&self.lowest, LOWER, from, to)
    }

    fn furthest(&self, tree: &[Vec<u32>], beyond: Beyond, from: Moment, to: Moment) -> Moment {
        let (first, last) = (self.step(from), self.step(to.max(from)));
        self.from[self.furthest_step(tree, beyond, first, last)].max(from)
    }

    /// When the level is highest of all.
    pub fn peak(&self) -> Peak {
        let at = self.highest(Moment::START, Moment::NEVER);
        Peak { bytes: i64::try_from(self.at(at)).unwrap_or(i64::MAX), at }
    }

    fn step(&self, at: Moment) -> usize {
        self.from.partition_point(|from| *from <= at).saturating_sub(1)
    }

    /// The highest or lowest of some steps, both ends included; the first of them if there are several.
    fn furthest_step(&self, tree: &[Vec<u32>], beyond: Beyond, first: usize, last: usize) -> usize {
        let mut best = first;
        let mut consider = |step: usize| {
            if beyond(self.bytes[step], self.bytes[best]) {
                best = step;
            }
        };
        let mut step = first;
        while step <= last {
            // The largest node that begins here and ends in time.
            let level = (0..tree.len()).rev().find(|&level| {
                let size = FANOUT.pow(level as u32 + 1);
                step.is_multiple_of(size) && step + size <= last + 1
            });
            match level {
                Some(level) => {
                    let size = FANOUT.pow(level as u32 + 1);
                    consider(tree[level][step / size] as usize);
                    step += size;
                }
                None => {
                    consider(step);
                    step += 1;
                }
            }
        }
        best
    }
}

/// The highest or lowest step of every whole node, level by level.
fn tree(bytes: &[u64], beyond: Beyond) -> Vec<Vec<u32>> {
    let mut levels: Vec<Vec<u32>> = Vec::new();
    let mut below: Vec<u32> = (0..bytes.len() as u32).collect();
    while below.len() >= FANOUT {
        let further = |a: u32, b: u32| if beyond(bytes[b as usize], bytes[a as usize]) { b } else { a };
        let furthest = |steps: &[u32]| steps.iter().copied().reduce(further).unwrap_or_default();
        below = below.chunks_exact(FANOUT).map(furthest).collect();
        levels.push(below.clone());
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(lives: &[(u32, u32, u64)]) -> Levels {
        Levels::new(lives.iter().map(|&(born, end, bytes)| (Moment(born), Moment(end), bytes)))
    }

    #[test]
    fn a_level_is_what_lives_and_the_first_highest_moment_counts() {
        let levels = levels(&[(0, 4, 10), (2, u32::MAX, 5), (3, 6, 1), (8, 9, 11)]);
        let at: Vec<u64> = (0..10).map(|at| levels.at(Moment(at))).collect();
        assert_eq!(at, [10, 10, 15, 16, 6, 6, 5, 5, 16, 5]);
        assert_eq!(levels.peak(), Peak { bytes: 16, at: Moment(3) });
        assert_eq!(levels.highest(Moment(4), Moment(9)), Moment(8));
        assert_eq!(levels.highest(Moment(1), Moment(1)), Moment(1));
        assert_eq!(levels.highest(Moment(9), Moment(50)), Moment(9));
    }

    #[test]
    fn every_range_of_a_long_staircase_agrees_with_looking_at_each_moment() {
        // Births and ends from a small generator; no two runs differ.
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let lives: Vec<(u32, u32, u64)> = (0..700)
            .map(|_| {
                let born = next(1000) as u32;
                (born, born + next(300) as u32, next(50))
            })
            .collect();
        let levels = levels(&lives);
        for _ in 0..500 {
            let from = next(1300) as u32;
            let to = from + next(1300) as u32;
            let expected = (from..=to).max_by_key(|&at| (levels.at(Moment(at)), std::cmp::Reverse(at)));
            assert_eq!(Some(levels.highest(Moment(from), Moment(to)).0), expected, "{from} to {to}");
            let expected = (from..=to).min_by_key(|&at| (levels.at(Moment(at)), at));
            assert_eq!(Some(levels.lowest(Moment(from), Moment(to)).0), expected, "{from} to {to}");
        }
    }

    #[test]
    fn nothing_is_a_level_of_zero() {
        assert_eq!(levels(&[]).peak(), Peak { bytes: 0, at: Moment::START });
    }
}
