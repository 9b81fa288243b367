//! The mean of the counters in any stretch of the trace: how much of a column is usual, and how much a spike.

use vramscope_analysis::{Counter, Counters, Moment, Replay};

/// Moments between two sums that are kept.
const STRIDE: usize = 32;
/// Stretches of fewer moments are added up one by one; in longer ones the ends count as the mean of their stride.
const LEAST_LONG: usize = 4 * STRIDE;

/// A number for each counter.
pub(crate) type Sums = [f64; Counter::ALL.len()];

/// The sums of the counters over all earlier moments, at every [`STRIDE`]th one.
#[derive(Debug)]
pub(crate) struct Means {
    sums: Vec<Sums>,
}

impl Means {
    /// Goes through the trace once.
    pub(crate) fn new(replay: &Replay) -> Self {
        let (mut sums, mut sum) = (Vec::new(), Sums::default());
        for (row, counters) in replay.counters_from(Moment::START).enumerate() {
            if row % STRIDE == 0 {
                sums.push(sum);
            }
            add(&mut sum, counters);
        }
        sums.push(sum);
        Self { sums }
    }

    /// The mean of each counter in stretches of moments in order, both ends of each included.
    pub(crate) fn of_each(&self, replay: &Replay, stretches: &[(Moment, Moment)]) -> Vec<Sums> {
        let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else { return Vec::new() };
        let (start, end) = (first.0.0 as usize, last.1.0 as usize + 1);
        let moments = end.saturating_sub(start);
        if moments >= LEAST_LONG * stretches.len() {
            return means(stretches, |moment| self.before(moment, replay.end().0 as usize + 1));
        }
        let mut sum = Sums::default();
        let all = replay.counters_from(first.0).take(moments).map(|counters| {
            add(&mut sum, counters);
            sum
        });
        let sums: Vec<Sums> = std::iter::once(Sums::default()).chain(all).collect();
        means(stretches, |moment| sums[moment.saturating_sub(start).min(sums.len() - 1)])
    }

    /// About the sums over all moments before one; `moments` is how many there are.
    fn before(&self, moment: usize, moments: usize) -> Sums {
        let row = (moment / STRIDE).min(self.sums.len().saturating_sub(2));
        let [from, to] = [row, row + 1].map(|row| self.sums.get(row).copied().unwrap_or_default());
        let first = row * STRIDE;
        let stride = STRIDE.min(moments.saturating_sub(first)).max(1);
        let share = moment.saturating_sub(first).min(stride) as f64 / stride as f64;
        std::array::from_fn(|counter| from[counter] + (to[counter] - from[counter]) * share)
    }
}

/// The means of stretches, given the sums before any moment.
fn means(stretches: &[(Moment, Moment)], before: impl Fn(usize) -> Sums) -> Vec<Sums> {
    let mean = |&(from, to): &(Moment, Moment)| {
        let (from, to) = (from.0 as usize, to.0 as usize + 1);
        let (sum, later) = (before(from), before(to));
        let moments = to.saturating_sub(from).max(1) as f64;
        std::array::from_fn(|counter| (later[counter] - sum[counter]) / moments)
    };
    stretches.iter().map(mean).collect()
}

fn add(sum: &mut Sums, counters: Counters) {
    for (sum, counter) in sum.iter_mut().zip(Counter::ALL) {
        *sum += counters[counter] as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vramscope_files::{find, open};

    #[test]
    fn means_are_those_of_all_moments_added_up() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings/leak_graph.pickle.xz");
        let opened = open(&find(&[path]).0[0], None, &()).unwrap();
        let replay = &opened.devices[0];
        let means = Means::new(replay);
        let end = replay.end().0;
        let most = replay.peak(Counter::Requested).bytes as f64;
        // Each of them alone, and some beside each other: short ones to the byte, long ones but for their ends.
        let alone =
            [(0, 0), (0, 127), (255, 256), (end - 3, end), (end, end), (0, end), (1, 300), (300, 4000)];
        let beside: Vec<_> = (0..end - 40).step_by(40).map(|from| (from, from + 39)).collect();
        for stretches in alone.map(|one| vec![one]).into_iter().chain([beside]) {
            let moments: Vec<_> = stretches.iter().map(|&(from, to)| (Moment(from), Moment(to))).collect();
            for (&(from, to), mean) in stretches.iter().zip(means.of_each(replay, &moments)) {
                let all = (from..=to).map(|at| replay.counters(Moment(at)).requested as f64);
                let count = f64::from(to - from + 1);
                let expected = all.sum::<f64>() / count;
                let tolerance = if count < LEAST_LONG as f64 { 1.0 } else { most * STRIDE as f64 / count };
                let mean = mean[Counter::Requested as usize];
                assert!((mean - expected).abs() <= tolerance, "{from}..={to}: {mean}, not {expected}");
            }
        }
    }
}
