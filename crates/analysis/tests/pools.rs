//! Private pools: hand-made files case by case, simulated programs, and real recordings.
//!
//! The hand-made cases ask what PyTorch's own viewer asks of its envelopes, pairing and ghosts in its tests,
//! with sizes that an allocator can have (multiples of 512). A ghost is an allocation from before the trace.

use crate::common;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use vramscope_analysis::pools::{DEFAULT_POOL, Pools};
use vramscope_analysis::{AllocIdx, Counter, Device, Known, Level, Moment, Status};
use vramscope_snapshot::{DeviceId, Pool};
use vramscope_testkit::trace::Action;
use vramscope_testkit::value::{Record, block, event, segment, snapshot};
use vramscope_testkit::{Dialect, Options, pickle, record};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Where a segment of the default pool lies, and one of a private pool.
const A: u64 = 0x7f00_0000_0000;
const P: u64 = 0x7f10_0000_0000;

struct Case {
    replay: Device,
    pools: Pools,
}

fn case(segments: impl IntoIterator<Item = Record>, events: impl IntoIterator<Item = Record>) -> Case {
    let file = snapshot(segments, [events]).into();
    let snapshot = common::snapshot(&pickle(&file, Dialect::Protocol(4)));
    let replay = Device::new(snapshot, DeviceId(0));
    let pools = Pools::private(&replay);
    Case { replay, pools }
}

impl Case {
    fn peak_requested(&self) -> i64 {
        self.replay.peak(Counter::Requested).bytes
    }

    /// The greatest height of each private envelope, in order.
    fn heights(&self) -> Vec<i64> {
        self.pools.envelopes().iter().map(|envelope| envelope.peak().1.height()).collect()
    }

    /// What was asked for in the default pool, plus all of the private pools, after each event.
    fn with_envelopes(&self) -> Vec<i64> {
        let at = |at: u32| {
            let state = self.replay.state(Moment(at));
            let plain = state.live.iter().filter(|&&index| self.pools.envelope_of(index).is_none());
            let plain: u64 = plain.map(|&index| self.replay.allocation(index).requested).sum();
            let pools = self.pools.envelopes().iter().map(|envelope| envelope.level(Moment(at)).height());
            plain as i64 + pools.sum::<i64>()
        };
        (0..=self.replay.end().0).map(at).collect()
    }

    /// The requests of the allocations of each private envelope, largest first; and of those of none.
    fn requests(&self) -> (Vec<Vec<u64>>, Vec<u64>) {
        let mut pools = vec![Vec::new(); self.pools.envelopes().len()];
        let mut plain = Vec::new();
        for (index, allocation) in self.replay.allocations().iter() {
            let list = self.pools.envelope_of(index).map_or(&mut plain, |envelope| &mut pools[envelope]);
            list.push(allocation.requested);
        }
        for list in pools.iter_mut().chain([&mut plain]) {
            list.sort_unstable_by(|a, b| b.cmp(a));
        }
        (pools, plain)
    }

    /// Requests of what was there before the first event and still is at the end.
    fn ghosts(&self) -> Vec<u64> {
        let all = self.replay.allocations().iter().map(|(_, allocation)| allocation);
        let ghosts = all.filter(|a| a.opened == Moment::START && a.closed == Moment::NEVER);
        ghosts.map(|allocation| allocation.requested).collect()
    }
}

/// An unused segment.
fn idle(addr: u64, size: u64) -> Record {
    segment(addr, [block("inactive", addr, size, 0)])
}

/// A segment that begins with live blocks of these sizes.
fn holding(addr: u64, size: u64, live: &[u64]) -> Record {
    let mut at = addr;
    let mut blocks = Vec::new();
    for &bytes in live {
        blocks.push(block("active_allocated", at, bytes, bytes));
        at += bytes;
    }
    if at < addr + size {
        blocks.push(block("inactive", at, addr + size - at, 0));
    }
    segment(addr, blocks)
}

fn alloc(addr: u64, size: u64) -> Record {
    event("alloc", addr, size)
}

fn free(addr: u64, size: u64) -> [Record; 2] {
    [event("free_requested", addr, size), event("free_completed", addr, size)]
}

fn map(addr: u64, size: u64) -> Record {
    event("segment_map", addr, size)
}

#[test]
fn pairing_gives_the_peak() {
    for size in [100, 200] {
        let case = case([], [alloc(1000, size), event("free_completed", 1000, size)]);
        assert_eq!((case.peak_requested(), case.replay.allocations().len()), (size as i64, 1));
    }
    // A free without its alloc. PyTorch's viewer draws an empty chart here: its top leaves out what was there
    // before the first event. The 300 bytes were there.
    let lone = case([], [event("free_completed", 1000, 300)]);
    assert_eq!(lone.peak_requested(), 300);
    assert_eq!(lone.replay.counters(lone.replay.end()).requested, 0);
}

#[test]
fn a_free_of_more_than_the_segment_that_is_left() {
    // 90 MiB are freed where a segment of 80 MiB is. PyTorch's viewer shows 90; a block ends where its segment
    // does, so of the two numbers that contradict each other the one that the driver gave is taken.
    let size = 90 * MIB;
    let case = case(
        [holding(P, 80 * MIB, &[512]).segment_pool(1, 42)],
        [event("free_completed", P, size), alloc(P, 512)],
    );
    assert_eq!(case.heights(), [80 * MIB as i64]);
    assert_eq!(case.requests(), (vec![vec![size, 512]], vec![]));
    let envelope = &case.pools.envelopes()[0];
    assert_eq!((envelope.pool, envelope.stream), (Some((1, 42)), 0));
    assert_eq!(envelope.level(case.replay.end()), Level { active: 512, reserved: 80 * MIB as i64 });
}

#[test]
fn a_pool_counts_in_full_whatever_is_used_of_it() {
    let [requested, completed] = free(P, 500);
    let small = case([idle(P, 8 * KIB).segment_pool(1, 0)], [alloc(P, 500), requested, completed]);
    assert_eq!(small.heights(), [8192]);
    let lone = [0, 512, 1024].map(|offset| event("free_completed", P + offset, 500));
    assert_eq!(case([idle(P, 16 * KIB).segment_pool(1, 0)], lone).heights(), [16384]);
    let both = case(
        [holding(A, 2 * MIB, &[512]), holding(P, 8 * KIB, &[512]).segment_pool(1, 0)],
        [alloc(A, 512), alloc(P, 512)],
    );
    assert_eq!(both.with_envelopes(), [8192, 8704, 8704], "the pool, and what the default pool gives out");
    assert_eq!(both.peak_requested(), 1024, "without pools: what was asked for");
}

#[test]
fn the_pool_of_an_event_wins_over_its_address() {
    // At this address the final state has pool (1, 0); the event says (2, 7), on another stream.
    let stated = case(
        [holding(P, 8 * KIB, &[1024]).segment_pool(1, 0)],
        [alloc(P, 1024).pool(2, 7).stream(3), event("free_completed", P, 1024), alloc(P, 1024)],
    );
    let keys: Vec<_> =
        stated.pools.envelopes().iter().map(|e| (e.pool.unwrap(), e.stream, e.known)).collect();
    assert_eq!(keys, [((1, 0), 0, Known::ByAddress), ((2, 7), 3, Known::Stated)]);
    // Without any segment the events alone make the envelope.
    let alone = case([], [alloc(P, 1024).pool(1, 0), event("free_completed", P, 1024).pool(1, 0)]);
    assert_eq!(alone.heights(), [1024]);
    assert_eq!(alone.pools.envelopes()[0].known, Known::Stated);
    // Some events say it and some do not.
    let mixed = case(
        [holding(A, 2 * MIB, &[512]), holding(P, 2 * MIB, &[1024]).segment_pool(1, 0)],
        [alloc(A, 512).pool(0, 0), alloc(P, 1024)],
    );
    assert_eq!((mixed.peak_requested(), mixed.requests()), (1536, (vec![vec![1024]], vec![512])));
}

#[test]
fn an_address_outside_every_segment_has_no_pool() {
    let case = case([idle(P, 2 * MIB).segment_pool(1, 0)], [alloc(A, 512), event("free_completed", A, 512)]);
    assert_eq!(case.requests(), (vec![vec![]], vec![512]));
    let all = Pools::all(&case.replay);
    let unknown = &all.envelopes()[all.envelope_of(AllocIdx(0)).unwrap()];
    assert_eq!((unknown.pool, unknown.known), (None, Known::Unknown));
}

#[test]
fn one_envelope_for_each_stream_of_a_pool() {
    let segments = [(P, 1), (P + 4 * MIB, 2)]
        .map(|(addr, stream)| holding(addr, 2 * MIB, &[512]).segment_pool(1, 0).stream(stream));
    let case = case(segments, [alloc(P, 512).stream(1), alloc(P + 4 * MIB, 512).stream(2)]);
    let keys: Vec<_> = case.pools.envelopes().iter().map(|e| (e.pool.unwrap(), e.stream)).collect();
    assert_eq!(keys, [((1, 0), 1), ((1, 0), 2)]);
}

#[test]
fn ghosts_are_what_lived_before_and_still_does() {
    let pool = |record: Record| record.segment_pool(1, 0);
    let [requested, completed] = free(P, 512);
    let traced = case([pool(idle(P, 2 * MIB))], [alloc(P, 512), requested, completed]);
    assert_eq!((traced.replay.allocations().len(), traced.ghosts()), (1, vec![]));
    // This pool is empty and no event names it. PyTorch's viewer does not show it at all; it holds
    // memory that serves nothing, which is what one looks for.
    let unused = case([pool(idle(P, 2 * MIB))], []);
    assert_eq!((unused.replay.allocations().len(), unused.heights()), (0, vec![2 * MIB as i64]));
    assert_eq!(case([holding(A, 2 * MIB, &[512])], []).ghosts(), [512]);
    assert_eq!(case([holding(A, 2 * MIB, &[1024, 2048])], []).ghosts(), [1024, 2048]);
    assert_eq!(case([holding(A, 2 * MIB, &[512])], [alloc(A, 512)]).ghosts(), [0; 0]);
}

#[test]
fn ghosts_after_the_ring_has_wrapped() {
    let x = P + 4 * MIB;
    let gone = || event("free_completed", x, 4 * MIB);
    let case = case(
        [holding(P, 20 * MIB, &[MIB, 2 * MIB]).segment_pool(1, 0)],
        [gone(), alloc(x, 4 * MIB), gone(), alloc(x, 4 * MIB), gone()],
    );
    assert_eq!((case.replay.allocations().len(), case.ghosts()), (5, vec![MIB, 2 * MIB]));
    assert_eq!(case.heights(), [20 * MIB as i64]);
}

#[test]
fn ghosts_in_a_pool_and_beside_it() {
    let (in_pool, beside) = (P + MIB, A + 2 * MIB);
    let case = case(
        [holding(A, 20 * MIB, &[2 * MIB, 4 * MIB]), holding(P, 20 * MIB, &[MIB, 3 * MIB]).segment_pool(0, 1)],
        [alloc(in_pool, 3 * MIB), alloc(beside, 4 * MIB)],
    );
    let mut ghosts = case.ghosts();
    ghosts.sort_unstable();
    assert_eq!(ghosts, [MIB, 2 * MIB]);
    assert_eq!(case.heights(), [20 * MIB as i64]);
    assert_eq!(case.requests(), (vec![vec![3 * MIB, MIB]], vec![4 * MIB, 2 * MIB]));
    assert_eq!(case.with_envelopes(), [22, 22, 26].map(|mib| mib * MIB as i64));
}

#[test]
fn ghosts_of_two_pools_stay_apart() {
    let (one, two) = (P, P + 40 * MIB);
    let case = case(
        [
            holding(one, 4 * MIB, &[MIB]).segment_pool(1, 0),
            holding(one + 8 * MIB, 4 * MIB, &[2 * MIB]).segment_pool(2, 0),
            holding(two, 4 * MIB, &[3 * MIB]).segment_pool(1, 0),
        ],
        [],
    );
    assert_eq!(case.requests(), (vec![vec![3 * MIB, MIB], vec![2 * MIB]], vec![]));
    assert_eq!(case.heights(), [8 * MIB as i64, 4 * MIB as i64]);
}

#[test]
fn a_whole_trace_in_two_segments() {
    // Two default blocks and three in the pool; one of each goes, and a third default block comes.
    let half = 512 * KIB;
    let [free_plain, plain_gone] = free(A, half);
    let [free_pooled, pooled_gone] = free(P, half);
    let case = case(
        [
            segment(
                A,
                [
                    block("active_allocated", A, half, half),
                    block("active_allocated", A + half, half, half),
                    block("inactive", A + 2 * half, 2 * half, 0),
                ],
            ),
            segment(
                P,
                [
                    block("inactive", P, half, 0),
                    block("active_allocated", P + half, half, half),
                    block("active_allocated", P + 2 * half, half, half),
                    block("inactive", P + 3 * half, half, 0),
                ],
            )
            .segment_pool(1, 0),
        ],
        [
            event("segment_alloc", A, 2 * MIB),
            alloc(A, half),
            event("segment_alloc", P, 2 * MIB),
            alloc(P, half),
            alloc(A + half, half),
            alloc(P + half, half),
            free_pooled,
            pooled_gone,
            free_plain,
            plain_gone,
            alloc(P + 2 * half, half),
            alloc(A, half),
        ],
    );
    let (pooled, plain) = case.requests();
    assert_eq!((pooled, plain), (vec![vec![half; 3]], vec![half; 3]));
    // In halves of a MiB: the pool counts as four from its segment on.
    let halves: Vec<_> = case.with_envelopes().iter().map(|bytes| bytes / half as i64).collect();
    assert_eq!(halves, [0, 0, 1, 5, 5, 6, 6, 6, 6, 6, 5, 5, 6]);
    let requested: Vec<_> = case.replay.all_counters().map(|c| c.requested / half as i64).collect();
    assert_eq!(requested, [0, 1, 1, 2, 3, 4, 4, 3, 3, 2, 3, 4], "without pools");
}

#[test]
fn the_envelope_follows_what_is_held() {
    let expandable = |record: Record| record.segment_pool(1, 0).set("is_expandable", true);
    // It grows with every map, though 500 KiB were free when 400 more were mapped: fragmentation shows.
    let (first, second) = (500 * KIB, 400 * KIB);
    let [requested, completed] = free(P, first);
    let blocks = [block("inactive", P, first, 0), block("active_allocated", P + first, second, second)];
    let grown = case(
        [expandable(segment(P, blocks))],
        [
            map(P, first),
            alloc(P, first),
            requested,
            completed,
            map(P + first, second),
            alloc(P + first, second),
        ],
    );
    assert_eq!(grown.with_envelopes(), [0, 500, 500, 500, 500, 900, 900].map(|kib| kib * KIB as i64));
    // What was held before the first event is in it from the start.
    let old = case([holding(P, 2000 * KIB, &[300 * KIB]).segment_pool(1, 0)], [alloc(P, 300 * KIB)]);
    assert_eq!(old.with_envelopes(), [2000 * KIB as i64; 2]);
    // And what an event mapped is not counted a second time.
    let once = case([expandable(idle(P, 600 * KIB))], [map(P, 600 * KIB)]);
    assert_eq!(once.with_envelopes(), [0, 600 * KIB as i64]);
    // A block ends where its segment does, whatever was asked for: 800 KiB. PyTorch's viewer shows 1000.
    let over = case([idle(P, 800 * KIB).segment_pool(1, 0)], [alloc(P, 1000 * KIB).pool(1, 0)]);
    assert_eq!(over.heights(), [800 * KIB as i64]);
    // The default pool has no envelope among the private ones.
    let plain = case([holding(A, 5000 * KIB, &[200 * KIB])], [map(A, 5000 * KIB), alloc(A, 200 * KIB)]);
    assert_eq!((plain.heights(), plain.peak_requested()), (vec![], 200 * KIB as i64));
}

#[test]
fn the_envelope_shrinks_when_memory_is_given_back() {
    let [requested, completed] = free(P + 2 * MIB, MIB);
    let case = case(
        [idle(P, 2 * MIB).segment_pool(1, 0).set("is_expandable", true)],
        [
            map(P, 2 * MIB),
            map(P + 2 * MIB, 4 * MIB),
            alloc(P + 2 * MIB, MIB),
            requested,
            completed,
            event("segment_unmap", P + 2 * MIB, 4 * MIB),
        ],
    );
    assert_eq!(case.with_envelopes(), [0, 2, 6, 6, 6, 6, 2].map(|mib| mib * MIB as i64));
    let envelope = &case.pools.envelopes()[0];
    assert_eq!(envelope.extremes(Moment(3), Moment(6)).0.reserved, 2 * MIB as i64);
    let [summary] = case.pools.summaries(&case.replay, Moment(3))[..] else { panic!() };
    assert_eq!(summary.now, Level { active: MIB as i64, reserved: 6 * MIB as i64 });
    assert_eq!((summary.segments, summary.peak_at), (1, Moment(3)));
    assert_eq!((summary.peak_active, summary.peak.idle()), (MIB as i64, 5 * MIB as i64));
    assert_eq!((summary.first, summary.last), (Some(Moment(1)), None));
}

#[test]
fn small_ones_are_summed_up_by_pool() {
    // Ten allocations of 100 to 1000 blocks in the default pool, ten of twice that in a private one.
    let sizes: Vec<u64> = (1..=10).map(|n| n * 100 * 512).collect();
    let twice: Vec<u64> = sizes.iter().map(|size| size * 2).collect();
    let starts = |from: u64, sizes: &[u64]| -> Vec<u64> {
        sizes.iter().scan(from, |at, size| Some(std::mem::replace(at, *at + size))).collect()
    };
    let events = |from, sizes: &[u64]| -> Vec<Record> {
        starts(from, sizes).into_iter().zip(sizes).map(|(addr, &size)| alloc(addr, size)).collect()
    };
    let trace: Vec<_> = events(A, &sizes).into_iter().chain(events(P, &twice)).collect();
    let segments = || [holding(A, 20 * MIB, &sizes), holding(P, 20 * MIB, &twice).segment_pool(1, 0)];
    let all = case(segments(), trace);
    let (pooled, plain) = all.requests();
    // A chart of the five largest draws five of the pool, and sums up the rest of each.
    let rest = |list: &[u64]| list.iter().filter(|&&size| size < 1200 * 512).sum::<u64>() / 512;
    assert_eq!((rest(&pooled[0]), rest(&plain)), (3000, 5500));

    // Interleaved, and two drawn: what is left of the pool is 200 + 100 blocks, of the default pool nothing.
    let four = [1800, 200, 1600, 100].map(|blocks| blocks * 512);
    let drawn = case([holding(P, 20 * MIB, &four).segment_pool(1, 0)], events(P, &four)).requests().0;
    assert_eq!(drawn[0][2..].iter().sum::<u64>() / 512, 300);

    // Six, of which the three smallest are summed up: 100 + 200 + 300 blocks, and 500 when the first has gone.
    let six = &sizes[..6];
    let trace = events(P, six).into_iter().chain(free(P, six[0]));
    let mut blocks = vec![block("inactive", P, six[0], 0)];
    let live = starts(P, six).into_iter().zip(six).skip(1);
    blocks.extend(live.map(|(addr, &size)| block("active_allocated", addr, size, size)));
    let six = case([segment(P, blocks).segment_pool(1, 0)], trace);
    let small = |at: u32| {
        let live = six.replay.state(Moment(at)).live.into_iter().map(|index| six.replay.allocation(index));
        live.map(|a| a.requested / 512).filter(|&blocks| blocks <= 300).sum::<u64>()
    };
    assert_eq!((small(6), small(8)), (600, 500));

    // Lone frees: all of it was there at the start, and it goes one by one.
    let lone: Vec<_> = starts(P, &sizes[..4])
        .into_iter()
        .zip(&sizes)
        .map(|(addr, &size)| event("free_completed", addr, size))
        .collect();
    let lone = case([idle(P, 20 * MIB).segment_pool(1, 0)], lone);
    let active: Vec<_> =
        (0..5).map(|at| lone.pools.envelopes()[0].level(Moment(at)).active / 51_200).collect();
    assert_eq!(active, [10, 9, 7, 4, 0], "1 + 2 + 3 + 4 hundred blocks");
}

fn packed_recordings() -> impl Iterator<Item = (String, PathBuf)> {
    std::fs::read_dir(common::recordings()).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?.strip_suffix(".xz")?.to_owned();
        Some((name, path))
    })
}

/// Bytes held by pool and stream.
type Held = BTreeMap<(Option<Pool>, u64), i64>;

#[test]
fn real_pools_hold_their_segments_and_add_up_to_the_counters() {
    let mut with_pools = 0;
    for (name, path) in packed_recordings() {
        let snapshot = Arc::new(common::snapshot(&std::fs::read(path).unwrap()));
        for replay in Device::all(&snapshot) {
            let (all, private) = (Pools::all(&replay), Pools::private(&replay));
            with_pools += usize::from(!private.envelopes().is_empty());
            let mut held = Held::new();
            for segment in snapshot.segments_of(replay.device()) {
                let key = (snapshot.pool(segment.pool), snapshot.stream(segment.stream));
                *held.entry(key).or_default() += segment.total_size as i64;
            }
            let ours: Held = all
                .envelopes()
                .iter()
                .map(|e| ((e.pool, e.stream), e.level(replay.end()).reserved))
                .filter(|(_, reserved)| *reserved > 0)
                .collect();
            if snapshot.segments.iter().all(|segment| snapshot.pool(segment.pool).is_some()) {
                assert_eq!(ours, held, "{name}: what is held at the end is the segments");
            }
            for envelope in private.envelopes() {
                let same = all.find(envelope.pool, envelope.stream).unwrap();
                assert!(envelope.steps().eq(same.steps()), "{name}");
                assert_ne!(envelope.pool, Some(DEFAULT_POOL));
            }
            if replay.verdict().status != Status::Exact {
                continue;
            }
            let end = replay.end().0;
            for at in (0..=end).step_by((end as usize / 50).max(1)).chain([end]).map(Moment) {
                let levels = all.envelopes().iter().map(|envelope| envelope.level(at));
                let sum = levels.fold(Level::default(), |sum, level| Level {
                    active: sum.active + level.active,
                    reserved: sum.reserved + level.reserved,
                });
                let counters = replay.counters(at);
                assert_eq!((sum.active, sum.reserved), (counters.active, counters.reserved), "{name} {at:?}");
                for envelope in all.envelopes() {
                    let level = envelope.level(at);
                    let key = (envelope.pool, envelope.stream);
                    assert!(level.active <= level.reserved, "{name} {at:?} {key:?} {level:?}");
                }
            }
        }
    }
    assert!(with_pools > 12, "{with_pools} recordings have private pools");
}

/// The simulated allocator writes the pool of every event. What follows from that is the truth about the
/// same program recorded by an older PyTorch, which does not.
#[test]
fn simulated_pools_are_as_the_events_say() {
    for (seed, expandable) in [(1, false), (2, true), (3, true), (4, false)] {
        for late_start in [0, 2000] {
            let mut options =
                Options { events: 6000, seed, pools: 3, late_start, pool_id: true, ..Options::default() };
            options.allocator.expandable = expandable;
            let told = record(&options);
            let held = |ring: &vramscope_testkit::recording::Device, upto: usize| {
                // Backwards from the end, as the counters of PyTorch would have been.
                let mut held = Held::new();
                for segment in &ring.segments {
                    let pool = (segment.pool.0.into(), segment.pool.1.into());
                    *held.entry((Some(pool), segment.stream)).or_default() += segment.bytes.reserved as i64;
                }
                for event in ring.events[upto..].iter().rev() {
                    let sign = match event.action {
                        Action::SegmentAlloc | Action::SegmentMap => -1,
                        Action::SegmentFree | Action::SegmentUnmap => 1,
                        _ => continue,
                    };
                    let pool = (event.pool.0.into(), event.pool.1.into());
                    *held.entry((Some(pool), event.stream)).or_default() += sign * event.size as i64;
                }
                held.retain(|_, bytes| *bytes != 0);
                held
            };
            let device = &told.devices[0];
            for pool_id in [true, false] {
                options.pool_id = pool_id;
                let snapshot = common::snapshot(&record(&options).pickle(Dialect::Protocol(4)));
                let replay = Device::new(snapshot.clone(), DeviceId(0));
                let pools = Pools::all(&replay);
                for upto in (0..=device.events.len()).step_by(97).chain([device.events.len()]) {
                    let at = Moment(upto as u32);
                    let truth = held(device, upto);
                    let mut ours: Held = pools
                        .envelopes()
                        .iter()
                        .map(|e| ((e.pool, e.stream), e.level(at).reserved))
                        .filter(|(_, reserved)| *reserved != 0)
                        .collect();
                    if pool_id {
                        assert_eq!(ours, truth, "seed {seed} at {at:?}");
                        continue;
                    }
                    // What is not known makes up the difference, stream by stream.
                    for (key, bytes) in &truth {
                        let known = ours.remove(key).unwrap_or_default();
                        assert!(known <= *bytes, "seed {seed} at {at:?}: {key:?} {known} {bytes}");
                        *ours.entry((None, key.1)).or_default() -= bytes - known;
                    }
                    assert!(ours.values().all(|&rest| rest == 0), "seed {seed} at {at:?}: {ours:?}");
                }
                let all_stated = pools.envelopes().iter().all(|e| e.known == Known::Stated);
                assert_eq!(all_stated, pool_id);
            }
        }
    }
}

#[test]
fn no_private_pool_costs_nothing_and_is_the_default_pool() {
    let case = case(
        [holding(A, 2 * MIB, &[512])],
        [event("segment_alloc", P, 2 * MIB), event("segment_free", P, 2 * MIB), alloc(A, 512)],
    );
    assert!(case.pools.envelopes().is_empty());
    assert_eq!(case.pools.envelope_of(AllocIdx(0)), None);
    let all = Pools::all(&case.replay);
    let [envelope] = all.envelopes() else { panic!() };
    assert_eq!((envelope.pool, envelope.known), (Some(DEFAULT_POOL), Known::Assumed));
    assert_eq!(envelope.level(Moment(1)).reserved, 4 * MIB as i64);
}
