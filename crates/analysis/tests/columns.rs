//! The extremes of many stretches, against the counters after every event.

use crate::common;
use vramscope_analysis::{Counter, Counters, Device, Moment};
use vramscope_snapshot::DeviceId;

/// The least and the greatest of each counter, and the first moment at which one is highest.
fn by_hand(all: &[Counters], counter: Counter, from: usize, to: usize) -> (Counters, Counters, usize) {
    let moments = &all[from..=to];
    let min = moments.iter().copied().reduce(Counters::min).unwrap();
    let max = moments.iter().copied().reduce(Counters::max).unwrap();
    let first = moments.iter().position(|counters| counters[counter] == max[counter]).unwrap();
    (min, max, from + first)
}

#[test]
fn extremes_of_stretches_are_those_of_their_moments() {
    // The longest has more events than counters are kept for in groups.
    let mut longest = 0;
    for name in ["leak_graph", "oom", "inference_kv", "alloc_retry"] {
        let snapshot = common::recording(name);
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let mut all = vec![replay.counters(Moment::START)];
        all.extend(replay.all_counters());
        let end = all.len() - 1;
        longest = longest.max(end);
        // Columns of every width: neighbors, the same one again, and beyond the end.
        for columns in [1, 2, 7, 190, 3000] {
            let edge = |column: usize| (column * (end + 1) / columns).min(end);
            let stretches: Vec<_> = (0..columns)
                .map(|column| (edge(column), edge(column + 1).saturating_sub(1).max(edge(column))))
                .chain([(end, end), (0, 0), (3, end)])
                .collect();
            let asked = stretches.iter().map(|&(from, to)| (Moment(from as u32), Moment(to as u32)));
            for counter in [Counter::Requested, Counter::Active] {
                for (found, &(from, to)) in replay.extremes_of(counter, asked.clone()).zip(&stretches) {
                    let expected = by_hand(&all, counter, from, to);
                    assert_eq!(found.ends, [all[from], all[to]], "{name}: from {from} to {to}");
                    let found = (found.min, found.max, found.highest.0 as usize);
                    assert_eq!(found, expected, "{name}: {counter:?} from {from} to {to}");
                }
            }
        }
    }
    assert!(longest > 64 * 256, "{longest} events");
}
