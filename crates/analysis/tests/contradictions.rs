//! Files whose events and segments contradict each other: levels stay at or above zero, and the verdict says by how
//! much. The numbers are worked out by hand.

use vramscope_analysis::{Counter, Device, Moment, Note, Status, fragmentation, gap, phases, verdict_notes};
use vramscope_snapshot::{DeviceId, Reader, Snapshot};
use vramscope_testkit::value::{Record, annotation, block, event, segment, snapshot};
use vramscope_testkit::{Dialect, Value, pickle};

const MIB: u64 = 1 << 20;

fn read(file: Record) -> (Snapshot, Device) {
    let mut reader = Reader::new();
    reader.feed(&pickle(&file.into(), Dialect::Protocol(4))).unwrap();
    let snapshot = reader.finish().unwrap();
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    (snapshot, replay)
}

fn levels(replay: &Device, counter: Counter) -> Vec<i64> {
    (0..=replay.end().0).map(|at| replay.counters(Moment(at))[counter]).collect()
}

/// 20 MiB are taken, and nothing is held at the end: the events are believed. What was allocated ends there.
#[test]
fn segments_that_are_missing_at_the_end() {
    let events =
        [event("segment_alloc", MIB, 20 * MIB), event("alloc", MIB, 30 * MIB), event("snapshot", 0, 0)];
    let (_, replay) = read(snapshot([], [events]));
    let mib = |n: u64| (n * MIB) as i64;
    assert_eq!(levels(&replay, Counter::Reserved), [0, mib(20), mib(20), mib(20)]);
    assert_eq!(levels(&replay, Counter::Requested), [0, 0, mib(30), 0]);
    assert_eq!(replay.verdict().status, Status::EventsSkipped);
    let notes = verdict_notes(replay.verdict(), &vramscope_format::size).join("\n");
    assert!(notes.contains("`reserved` would fall to 20.0 MiB below zero"), "{notes}");
    assert!(
        notes.contains("up to 10.0 MiB more is in use than is held from the driver, first at event 1"),
        "{notes}"
    );

    // 30 MiB are requested of 20 MiB that are held: no gap, and a contradiction.
    let gap = gap(&replay, &replay.state(Moment(2)));
    assert_eq!((gap.total, gap.unexplained), (0, 0));
    assert_eq!(gap.contradicted, 10 * MIB);
    let samples = fragmentation(&replay, (Moment::START, replay.end()), 4, Some(u64::MAX), |_| true).samples;
    assert!(samples.iter().all(|sample| sample.reserved >= 0));
}

/// 4 MiB are given back that were never held, while 2 MiB lie at the end.
#[test]
fn segments_that_are_given_back_without_having_been_taken() {
    let events = [event("segment_free", MIB, 4 * MIB), event("segment_alloc", 64 * MIB, 2 * MIB)];
    let at_the_end = segment(64 * MIB, [block("inactive", 64 * MIB, 2 * MIB, 0)]);
    let (_, replay) = read(snapshot([at_the_end], [events]));
    // What is given back was there before: 4, 0, 2.
    assert_eq!(levels(&replay, Counter::Reserved), [4, 0, 2].map(|n| n << 20));
}

/// Sizes that add up to more than 2^63 and are taken back: cut off, above zero at every moment.
#[test]
fn sizes_that_no_number_holds() {
    let sizes = (0..40_000).map(|i| event("alloc", i << 40, 1 << 48));
    let frees = (0..40_000).map(|i| event("free_completed", i << 40, 1 << 48));
    let (_, replay) = read(snapshot([], [sizes.chain(frees)]));
    for counter in Counter::ALL {
        assert!(replay.extremes(Moment::START, replay.end()).0[counter] >= 0, "{counter:?}");
    }
    assert!(replay.verdict().notes.contains(&Note::CutOff));
}

/// All blocks end at the last event, since nothing is left at the end: a phase that lasts until then costs no more for
/// it, and its numbers are those of its first span.
#[test]
fn phases_that_are_never_closed() {
    let allocs = (0..500).map(|i| event("alloc", MIB + i * 512, 512).time(i as i64));
    let marks = (0..300).map(|i| annotation("START", "p", i));
    let (_, replay) = read(snapshot([], [allocs]).set("external_annotations", Value::list(marks)));
    assert_eq!(replay.spans().len(), 300);
    let found = phases(&replay);
    assert_eq!((found.len(), found[0].count), (1, 300));
    // The highest moment is the one before everything ends, or the end if nothing does.
    assert_eq!(found[0].peak.bytes, replay.peak(Counter::Requested).bytes);
    let by_hand: Vec<i64> = replay.all_counters().map(|counters| counters.requested).collect();
    assert_eq!(levels(&replay, Counter::Requested)[1..], by_hand);
}
