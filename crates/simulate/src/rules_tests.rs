//! The rules one by one, on traces that are worked out by hand.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::addresses::Order;
use crate::requests::{Kind, Place, Requests, Step};
use crate::run::{End, Outcome, Simulator};
use crate::settings::Settings;
use crate::watch::Moments;

const MIB: u64 = 1 << 20;

/// A program, written down step by step. Allocations are numbered from 0.
#[derive(Default)]
struct Program {
    requests: Requests,
}

impl Program {
    fn alloc_in(mut self, size: u64, pool: (i64, i64), stream: u64) -> Self {
        let place = Place { pool, stream };
        let table = &mut self.requests.place_table;
        let at = table.iter().position(|other| *other == place).unwrap_or_else(|| {
            table.push(place);
            table.len() - 1
        });
        let allocation = self.requests.sizes.len() as u32;
        self.requests.sizes.push(size);
        self.requests.places.push(at as u16);
        self.step(Kind::Alloc, allocation)
    }

    fn alloc(self, size: u64) -> Self {
        self.alloc_in(size, (0, 0), 0)
    }

    fn free(self, allocation: u32) -> Self {
        self.step(Kind::Release, allocation).step(Kind::Complete, allocation)
    }

    fn empty_cache(self) -> Self {
        self.step(Kind::EmptyCache, 0)
    }

    fn step(mut self, kind: Kind, allocation: u32) -> Self {
        let moment = self.requests.steps.len() as u32 + 1;
        self.requests.steps.push(Step::new(kind, allocation, moment));
        self
    }

    fn run(&self, settings: &str, limit: Option<u64>) -> Outcome {
        let settings = Settings { limit, ..Settings::parse(settings).unwrap() };
        Simulator::new(self.requests.clone()).run(&settings, Order::Ascending, &mut ())
    }
}

#[test]
fn segments_by_size() {
    // 1 MiB → small segment of 2; 1 MiB + 1 byte → 20; 9.9 MiB → fits the 20; 10 MiB → its own; 11 MiB → 12.
    let reserved = |size| Program::default().alloc(size).run("", None).counters.reserved / MIB;
    assert_eq!([MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 11 * MIB].map(reserved), [2, 20, 20, 10, 12]);
    let larger = Program::default().alloc(2 * MIB).run("large_segment_size_mb:40", None);
    assert_eq!(larger.counters.reserved, 40 * MIB);
}

#[test]
fn a_large_rest_is_split_off_and_a_small_one_is_not() {
    // 30 MiB freed. 29 MiB leaves 1 MiB, which stays with the block; 28 MiB leaves 2 MiB, which is cut off.
    let after = |size| Program::default().alloc(30 * MIB).free(0).alloc(size).run("", None).counters;
    assert_eq!((after(29 * MIB).allocated, after(28 * MIB).allocated), (30 * MIB, 28 * MIB));
    assert_eq!((after(29 * MIB).inactive_split, after(28 * MIB).inactive_split), (0, 2 * MIB));
    // In an expandable segment every rest is cut off.
    let expandable =
        Program::default().alloc(30 * MIB).free(0).alloc(29 * MIB).run("expandable_segments:True", None);
    assert_eq!(expandable.counters.allocated, 29 * MIB);
    assert_eq!(expandable.counters.reserved, 40 * MIB);
}

#[test]
fn best_fit_takes_the_smallest_then_the_lowest() {
    // Segments of 40, 30 and 30 MiB in ascending order, all free: 30 MiB goes to the first of the two.
    let program = Program::default().alloc(40 * MIB).alloc(30 * MIB).alloc(30 * MIB);
    let outcome = program.free(0).free(1).free(2).alloc(30 * MIB).run("", None);
    let used: Vec<bool> = outcome.segments.iter().map(|segment| segment.blocks[0].2).collect();
    assert_eq!(used, [false, true, false]);
    assert_eq!(outcome.counters.device_allocs, 3);
}

#[test]
fn streams_and_pools_do_not_share() {
    let program = Program::default().alloc(30 * MIB).free(0).alloc_in(30 * MIB, (0, 0), 7).alloc_in(
        30 * MIB,
        (0, 1),
        0,
    );
    assert_eq!(program.run("", None).counters.reserved, 90 * MIB);
}

#[test]
fn oversize_blocks_serve_only_oversize_requests() {
    let split = "max_split_size_mb:64";
    // 100 MiB are free; 50 MiB may not be cut from them, and get a segment of their own.
    let small = Program::default().alloc(100 * MIB).free(0).alloc(50 * MIB);
    assert_eq!(small.run(split, None).counters.reserved, 150 * MIB);
    assert_eq!(small.run("", None).counters.reserved, 100 * MIB);
    // 80 MiB + 20 MiB = 100 MiB: refused; 81 MiB take the block whole.
    let large = |size| Program::default().alloc(100 * MIB).free(0).alloc(size).run(split, None).counters;
    assert_eq!((large(80 * MIB).reserved, large(81 * MIB).reserved), (180 * MIB, 100 * MIB));
    assert_eq!(large(81 * MIB).allocated, 100 * MIB);
}

#[test]
fn oversize_blocks_go_before_everything_else_does() {
    // 100 and 30 MiB are free. 70 MiB need a segment: 200 MiB are over the limit, so the 100 MiB go, and the 30 stay.
    let program = Program::default().alloc(100 * MIB).alloc(30 * MIB).free(0).free(1).alloc(70 * MIB);
    let counters = program.run("max_split_size_mb:64", Some(190 * MIB)).counters;
    assert_eq!((counters.reserved, counters.retries, counters.device_frees), (100 * MIB, 0, 1));
}

#[test]
fn a_retry_empties_the_cache_once() {
    let program = Program::default().alloc(100 * MIB).alloc(60 * MIB).free(0).alloc(110 * MIB);
    // 160 + 110 > 200: the 100 MiB go back, 60 + 110 fit.
    let retried = program.run("", Some(200 * MIB));
    assert_eq!((retried.counters.retries, retried.counters.reserved), (1, 170 * MIB));
    // 60 + 110 > 169: nothing helps.
    let failed = program.run("", Some(169 * MIB));
    let oom = failed.out_of_memory.unwrap();
    assert_eq!((oom.allocation, oom.requested, failed.counters.retries), (2, 110 * MIB, 1));
    assert!(matches!(failed.end, End::OutOfMemory(_)));
}

#[test]
fn there_is_no_retry_inside_a_private_pool() {
    let program = Program::default().alloc(100 * MIB).free(0).alloc_in(30 * MIB, (0, 1), 0);
    let failed = program.run("", Some(120 * MIB));
    assert_eq!((failed.counters.retries, failed.counters.reserved), (0, 100 * MIB));
    assert!(failed.out_of_memory.is_some());
}

#[test]
fn empty_cache_keeps_segments_in_use_and_private_pools() {
    let program = Program::default()
        .alloc(30 * MIB)
        .alloc(4 * MIB)
        .alloc(4 * MIB)
        .alloc_in(30 * MIB, (1, 0), 0)
        .free(0)
        .free(2)
        .free(3)
        .empty_cache();
    // Gone: the 30 MiB. Stay: the 20 MiB that one block of 4 MiB pins, and the pool.
    assert_eq!(program.run("", None).counters.reserved, 50 * MIB);
    // Expandable: 34 + 4 MiB mapped as 40 + nothing more; after it, the first page of 20 MiB is free. The pool stays.
    let expandable = program.run("expandable_segments:True", None).counters;
    assert_eq!((expandable.reserved, expandable.device_frees), (20 * MIB + 40 * MIB, 1));
}

#[test]
fn pending_frees_complete_when_the_cache_is_emptied() {
    let program = Program::default().alloc(30 * MIB).step(Kind::Release, 0).empty_cache();
    let counters = program.run("", None).counters;
    assert_eq!((counters.active, counters.reserved, counters.requested), (0, 0, 0));
    // The recorded completion comes later, and changes nothing.
    let program = program.step(Kind::Complete, 0).alloc(30 * MIB);
    assert_eq!(program.run("", None).counters.active, 30 * MIB);
}

#[test]
fn garbage_collection_frees_what_is_older_than_average() {
    // The large pool is searched by every request below. Free since: A since search 3, B since search 4. At search 6,
    // for 40 MiB, their ages are 3 and 2; the mean is 2.5, so that only A goes. 72 MiB are held, 60 MiB (60 % of the
    // limit) may be, and A's 30 MiB are enough.
    let program = Program::default().alloc(30 * MIB).alloc(30 * MIB).alloc(12 * MIB);
    let program = program.free(0).free(2).alloc(12 * MIB).free(3).free(1).alloc(12 * MIB).alloc(40 * MIB);
    let counters = program.run("garbage_collection_threshold:0.6", Some(100 * MIB)).counters;
    assert_eq!((counters.gc_runs, counters.device_frees, counters.reserved), (1, 1, 82 * MIB));
    assert_eq!(counters.retries, 0);
    // Without a limit there is no threshold.
    assert_eq!(program.run("garbage_collection_threshold:0.6", None).counters.device_frees, 0);
}

#[test]
fn expandable_segments_map_what_is_missing() {
    // 15 MiB → one page of 20. 10 MiB more: 5 are there, 5 are missing → another page.
    let program = Program::default().alloc(15 * MIB).alloc(10 * MIB);
    let counters = program.run("expandable_segments:True", None).counters;
    assert_eq!((counters.reserved, counters.device_allocs, counters.segments), (40 * MIB, 2, 0));
    // The limit is checked against the size of a whole segment: 20 + 10 > 29.
    assert!(program.run("expandable_segments:True", Some(29 * MIB)).out_of_memory.is_some());
    // 20 + 10 = 30 is allowed, although 40 are then held.
    assert_eq!(program.run("expandable_segments:True", Some(30 * MIB)).counters.reserved, 40 * MIB);
}

#[test]
fn counters_at_moments() {
    let program = Program::default().alloc(3 * MIB).free(0).alloc(1);
    let mut moments = Moments::new(vec![0, 1, 2, 3, 9]);
    Simulator::new(program.requests).run(&Settings::default(), Order::Ascending, &mut moments);
    let found: Vec<_> =
        moments.finish().iter().map(|c| (c.allocated / MIB, c.active / MIB, c.reserved / MIB)).collect();
    assert_eq!(found, [(0, 0, 0), (3, 3, 20), (0, 3, 20), (0, 0, 20), (0, 0, 22)]);
}
