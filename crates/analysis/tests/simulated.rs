//! Against an allocator that was written independently of the replay: random programs under random
//! settings, every counter after every event, in every dialect.

use crate::common;
use proptest::prelude::*;
use vramscope_analysis::{Counter, Counters, Device, Moment, Status};
use vramscope_snapshot::Snapshot;
use vramscope_testkit::allocator::{Config, Stacks};
use vramscope_testkit::{Dialect, Options, record, trace};

fn counters(simulated: &trace::Counters) -> Counters {
    Counters {
        requested: simulated.requested as i64,
        allocated: simulated.allocated as i64,
        active: simulated.active as i64,
        reserved: simulated.reserved as i64,
    }
}

fn options() -> impl Strategy<Value = Options> {
    let max_split = prop_oneof![Just(None), (20_u64..200).prop_map(|mib| Some(mib << 20))];
    let divisions = prop_oneof![Just(0_u64), Just(1), Just(2), Just(4), Just(8)];
    (
        any::<u64>(),
        200_u64..1500,
        1_u32..3,
        0_u32..3,
        0_u32..3,
        any::<bool>(),
        any::<bool>(),
        max_split,
        divisions,
    )
        .prop_map(
            |(seed, events, devices, pools, streams, pool_id, expandable, max_split_size, divisions)| {
                Options {
                    events,
                    seed,
                    devices,
                    depth: (1, 8),
                    frames: 60,
                    pools,
                    streams,
                    pool_id,
                    allocator: Config {
                        expandable,
                        max_split_size,
                        roundup_power2_divisions: [divisions; 16],
                        stacks: Stacks::All,
                        ..Config::default()
                    },
                    ..Options::default()
                }
            },
        )
}

fn dialects() -> impl Strategy<Value = Dialect> {
    prop_oneof![(0_u8..=5).prop_map(Dialect::Protocol), Just(Dialect::Cpp), Just(Dialect::CppTagged)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn complete_recordings_are_exact_after_every_event(options in options(), dialect in dialects()) {
        let recording = record(&options);
        let snapshot = common::snapshot(&recording.pickle(dialect));
        prop_assert_eq!(&snapshot.warnings, &[""; 0]);
        for (number, device) in recording.devices.iter().enumerate() {
            let replay = Device::new(snapshot.clone(), vramscope_snapshot::DeviceId(number as i32));
            prop_assert_eq!(replay.verdict().status, Status::Exact, "{:?}", replay.verdict());
            prop_assert_eq!(replay.events(), device.events.len());
            for (row, after) in device.counters.iter().enumerate() {
                prop_assert_eq!(replay.counters(Moment(row as u32 + 1)), counters(after), "after event {}", row);
            }
            for counter in Counter::ALL {
                prop_assert_eq!(replay.peak(counter).bytes, counters(&device.peaks())[counter]);
            }
        }
    }

    /// Where the beginning is missing, what was asked for and what is held are known all the same, and
    /// a verdict that infers nothing is right about everything.
    #[test]
    fn recordings_without_their_beginning(options in options(), lost in 1_u64..900, ring: bool) {
        let options = if ring {
            Options { ring: Some(options.events.saturating_sub(lost).max(50)), ..options }
        } else {
            Options { late_start: lost, ..options }
        };
        let recording = record(&options);
        let snapshot = common::snapshot(&recording.pickle(Dialect::Protocol(4)));
        for (number, device) in recording.devices.iter().enumerate() {
            let replay = Device::new(snapshot.clone(), vramscope_snapshot::DeviceId(number as i32));
            prop_assert_ne!(replay.verdict().status, Status::Exact);
            let certain = replay.verdict().estimated_bytes == 0;
            let moments = std::iter::once(&device.start).chain(&device.counters);
            for (row, after) in moments.enumerate() {
                let (ours, theirs) = (replay.counters(Moment(row as u32)), counters(after));
                for counter in Counter::ALL {
                    if certain || matches!(counter, Counter::Requested | Counter::Reserved) {
                        prop_assert_eq!(ours[counter], theirs[counter], "{} at moment {}", counter.name(), row);
                    } else {
                        // Off by no more than what is inferred.
                        let off = ours[counter].abs_diff(theirs[counter]);
                        prop_assert!(off <= replay.verdict().estimated_bytes, "{} off by {}", counter.name(), off);
                    }
                }
            }
            prop_assert_eq!(replay.counters(replay.end()), counters(&device.end()));
        }
    }
}

/// One recording says the same in every spelling.
#[test]
fn every_dialect_gives_the_same_model() {
    let options = Options { events: 600, depth: (1, 12), devices: 2, pools: 1, ..Options::default() };
    let recording = record(&options);
    let expected = common::snapshot(&recording.pickle(Dialect::Protocol(4)));
    let strip = |mut snapshot: Snapshot| {
        snapshot.format.clear();
        snapshot
    };
    let expected = strip(expected);
    for protocol in 0..=5 {
        let snapshot = strip(common::snapshot(&recording.pickle(Dialect::Protocol(protocol))));
        assert!(snapshot == expected, "protocol {protocol}");
    }
    let json = vramscope_testkit::json(&recording.value(Dialect::Protocol(4)));
    assert!(strip(common::snapshot(json.as_bytes())) == expected, "json");
    // The C++ writer puts keys and strings in another order, so ids differ; what they stand for does not.
    for dialect in [Dialect::Cpp, Dialect::CppTagged] {
        let snapshot = common::snapshot(&recording.pickle(dialect));
        for (ours, theirs) in snapshot.traces.iter().zip(&expected.traces) {
            assert_eq!(ours.events.len(), theirs.events.len());
            for (a, b) in ours.events.iter().zip(theirs.events.iter()) {
                assert_eq!((a.action, a.addr, a.size, a.time_us), (b.action, b.addr, b.size, b.time_us));
                let names = |snapshot: &Snapshot, stack| -> Vec<(String, String, u32)> {
                    let frame = |f: vramscope_snapshot::Frame| {
                        (snapshot.text(f.name).to_owned(), snapshot.text(f.file).to_owned(), f.line)
                    };
                    snapshot.frames(stack).map(frame).collect()
                };
                assert_eq!(names(&snapshot, a.stack), names(&expected, b.stack));
            }
        }
    }
}
