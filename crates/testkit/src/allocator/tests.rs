//! Worked examples: what PyTorch does for a few requests, by its own rules.

use super::*;

const MIB: u64 = 1 << 20;
const DEFAULT: PoolId = (0, 0);

type Sink = Box<dyn FnMut(&Event, &Counters)>;
type Recorded = (Vec<(&'static str, u64, u64)>, Vec<SegmentInfo>, Counters);

/// Runs a few requests; gives the events as (action, address above the base, size), and the allocator.
fn record(config: Config, program: impl FnOnce(&mut Allocator<Sink>)) -> Recorded {
    let events = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let (sink, base) = (events.clone(), config.base);
    let sink: Sink = Box::new(move |event, _| {
        let addr = if event.addr >= base { event.addr - base } else { event.addr };
        sink.borrow_mut().push((event.action.name(), addr, event.size));
    });
    let mut allocator = Allocator::new(config, sink);
    program(&mut allocator);
    let events = events.borrow().clone();
    (events, allocator.segments(), allocator.counters())
}

#[test]
fn a_small_request_takes_512_bytes_of_a_2_mib_segment() {
    let (events, segments, counters) = record(Config::default(), |allocator| {
        allocator.malloc(100, 0, DEFAULT, 0).unwrap();
        allocator.malloc(513, 0, DEFAULT, 0).unwrap();
    });
    assert_eq!(events, [("segment_alloc", 0, 2 * MIB), ("alloc", 0, 100), ("alloc", 512, 513)]);
    let expected = Counters { requested: 613, allocated: 1536, active: 1536, reserved: 2 * MIB };
    assert_eq!(counters, expected);
    assert_eq!(segments.len(), 1);
    assert_eq!(segments[0].bytes, expected);
    assert_eq!(segments[0].blocks.len(), 3);
}

#[test]
fn large_segments_are_20_mib_or_a_multiple_of_2_mib_and_split_only_above_1_mib() {
    let (events, segments, counters) = record(Config::default(), |allocator| {
        allocator.malloc(5 * MIB, 0, DEFAULT, 0).unwrap();
        allocator.malloc(19 * MIB + MIB / 2, 0, DEFAULT, 0).unwrap();
    });
    let second = 20 * MIB;
    let expected = [
        ("segment_alloc", 0, 20 * MIB),
        ("alloc", 0, 5 * MIB),
        ("segment_alloc", second, 20 * MIB),
        ("alloc", second, 19 * MIB + MIB / 2),
    ];
    assert_eq!(events, expected);
    // Half a MiB is left over: too little to split off, so the block keeps it.
    assert_eq!(counters.allocated, 25 * MIB);
    assert_eq!(segments[1].blocks.len(), 1);
}

#[test]
fn rounding_by_powers_of_two() {
    let config = Config { roundup_power2_divisions: [4; 16], ..Config::default() };
    // 1200 is not above 512 * 4 bytes: the ordinary rounding. 5000 lies in the steps of 1024 above 4096.
    assert_eq!(config.round(1200), 1536);
    assert_eq!(config.round(5000), 5120);
    assert_eq!(config.round(9 * MIB), 10 * MIB);
    assert_eq!(config.round(8 * MIB), 8 * MIB);
    assert_eq!(config.round(0), 512);
}

#[test]
fn best_fit_and_merging() {
    let (events, segments, _) = record(Config::default(), |allocator| {
        let ids = [1024, 512, 4096, 512, 2048].map(|size| allocator.malloc(size, 0, DEFAULT, 0).unwrap());
        let [a, _, c, d, _] = ids;
        allocator.free(c, 0);
        allocator.free(a, 0);
        // The hole of 1024 fits better than that of 4096.
        allocator.malloc(1000, 0, DEFAULT, 0).unwrap();
        // c and d merge to 4608.
        allocator.free(d, 0);
        allocator.malloc(4608, 0, DEFAULT, 0).unwrap();
        // Another stream gets its own segment.
        allocator.malloc(512, 7, DEFAULT, 0).unwrap();
    });
    let allocs: Vec<_> = events.iter().filter(|(action, ..)| *action == "alloc").skip(5).collect();
    assert_eq!(allocs, [&("alloc", 0, 1000), &("alloc", 1536, 4608), &("alloc", 2 * MIB, 512)]);
    assert_eq!(segments[1].stream, 7);
}

#[test]
fn expandable_segments_grow_merge_and_get_holes() {
    let config = Config { expandable: true, ..Config::default() };
    let (events, segments, counters) = record(config, |allocator| {
        let ids = [15, 30, 5].map(|size| allocator.malloc(size * MIB, 0, DEFAULT, 0).unwrap());
        allocator.free(ids[1], 0);
        allocator.empty_cache(0);
    });
    let expected = [
        ("segment_map", 0, 20 * MIB),
        ("alloc", 0, 15 * MIB),
        // 5 MiB are left of the first page; 25 more need two pages.
        ("segment_map", 20 * MIB, 40 * MIB),
        ("alloc", 15 * MIB, 30 * MIB),
        ("alloc", 45 * MIB, 5 * MIB),
        ("free_requested", 15 * MIB, 30 * MIB),
        ("free_completed", 15 * MIB, 30 * MIB),
        // The 10 MiB behind the last block hold no whole page, the page from 20 to 40 is free.
        ("segment_unmap", 20 * MIB, 20 * MIB),
    ];
    assert_eq!(events, expected);
    assert_eq!(counters.reserved, 40 * MIB);
    let base = Config::default().base;
    let ranges: Vec<_> = segments.iter().map(|s| (s.addr - base, s.bytes.reserved)).collect();
    assert_eq!(ranges, [(0, 20 * MIB), (40 * MIB, 20 * MIB)]);
}

#[test]
fn a_full_device_gives_back_segments_and_then_is_out_of_memory() {
    let config = Config { capacity: 64 * MIB, ..Config::default() };
    let (events, _, counters) = record(config, |allocator| {
        let id = allocator.malloc(40 * MIB, 0, DEFAULT, 0).unwrap();
        allocator.free_deferred(id, 0);
        allocator.malloc(50 * MIB, 0, DEFAULT, 0).unwrap();
        assert_eq!(allocator.malloc(20 * MIB + 1, 0, DEFAULT, 0), None);
        assert_eq!(allocator.peaks().reserved, 50 * MIB);
        assert_eq!(allocator.peaks().active, 50 * MIB);
    });
    let expected = [
        ("segment_alloc", 0, 40 * MIB),
        ("alloc", 0, 40 * MIB),
        ("free_requested", 0, 40 * MIB),
        ("free_completed", 0, 40 * MIB),
        ("segment_free", 0, 40 * MIB),
        ("segment_alloc", 0, 50 * MIB),
        ("alloc", 0, 50 * MIB),
        ("oom", 14 * MIB, 20 * MIB + 512),
    ];
    assert_eq!(events, expected);
    assert_eq!(counters.requested, 50 * MIB);
}

#[test]
fn a_deferred_free_is_active_until_the_stream_is_done() {
    let (events, ..) = record(Config::default(), |allocator| {
        let id = allocator.malloc(512, 0, DEFAULT, 0).unwrap();
        allocator.free_deferred(id, 0);
        let Counters { requested, allocated, active, .. } = allocator.counters();
        assert_eq!((requested, allocated, active), (512, 0, 512));
        allocator.malloc(512, 0, DEFAULT, 0).unwrap();
        allocator.stream_done(id);
        allocator.malloc(512, 0, DEFAULT, 0).unwrap();
    });
    let tail = [("alloc", 512, 512), ("free_completed", 0, 512), ("alloc", 0, 512)];
    assert_eq!(events[3..], tail);
}

#[test]
fn oversize_blocks_are_kept_for_oversize_requests() {
    let config = Config { max_split_size: Some(32 * MIB), ..Config::default() };
    let (events, _, counters) = record(config, |allocator| {
        let id = allocator.malloc(40 * MIB, 0, DEFAULT, 0).unwrap();
        allocator.free(id, 0);
        // Not from the block of 40 MiB, which is oversize.
        allocator.malloc(10 * MIB, 0, DEFAULT, 0).unwrap();
        // Within 20 MiB of its size, and never split.
        allocator.malloc(33 * MIB, 0, DEFAULT, 0).unwrap();
    });
    let allocs: Vec<_> = events.iter().filter(|(action, ..)| *action == "alloc").collect();
    assert_eq!(allocs[1..], [&("alloc", 40 * MIB, 10 * MIB), &("alloc", 0, 33 * MIB)]);
    assert_eq!(counters.allocated, 50 * MIB);
}

#[test]
fn private_pools_are_apart_and_survive_empty_cache() {
    let (_, segments, counters) = record(Config::default(), |allocator| {
        for pool in [(0, 0), (0, 1)] {
            let id = allocator.malloc(512, 0, pool, 0).unwrap();
            allocator.free(id, 0);
        }
        allocator.empty_cache(0);
    });
    assert_eq!(counters.reserved, 2 * MIB);
    assert_eq!(segments[0].pool, (0, 1));
}
