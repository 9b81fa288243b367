//! Requests and answers on real recordings.

use crate::common;
use std::sync::Arc;
use vramscope_analysis::query::MomentSpec;
use vramscope_analysis::{AllocIdx, Counter, Device, Moment, verdict_sentence};
use vramscope_engine::*;
use vramscope_snapshot::Reader;
use vramscope_testkit::{Dialect, Options};

use crate::common::{Recording, open};

#[test]
fn all_answers_about_a_moment_agree() {
    let Recording { session, of, replay, .. } = open("oom");
    for at in [0, 1, 500, 9_000, replay.end().0].map(Moment) {
        let info = session.ask(AskMoment { of, at, whole: true }).unwrap();
        let counters = info.counters;
        assert_eq!(counters, replay.counters(at));
        let gap: u64 = info.gap.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(gap as i64, counters.reserved - counters.requested, "{}", at.words());
        let map = session.ask(AskState { of, at, categories: false }).unwrap();
        let held: u64 = map.ranges.iter().map(|range| range.size).sum();
        let active: u64 = map.ranges.iter().flat_map(|range| &range.blocks).map(|block| block.size).sum();
        assert_eq!((held as i64, active as i64), (counters.reserved, counters.active));
        let tree = session.ask(AskTree { of, weigh: Weigh::Live(at), inverted: false, own: true }).unwrap();
        assert_eq!(tree.nodes[0].bytes as i64, counters.requested);
        let which = Which { scope: Scope::LiveAt(at), ..Which::default() };
        let list = Listing { which, count: 1, ..Listing::default() };
        let page = session.ask(AskAllocations { of, list }).unwrap();
        assert_eq!((page.total, page.bytes as i64), (info.live, counters.requested));
    }
}

#[test]
fn an_allocation_lies_in_its_segment_between_its_neighbours() {
    let Recording { session, of, replay, .. } = open("oom");
    let at = replay.peak(Counter::Requested).at;
    for &alloc in replay.state(at).live.iter().step_by(9) {
        let details = session.ask(AskDetails { of, alloc, at }).unwrap();
        let (segment, size) = details.segment.unwrap();
        assert!(segment <= details.addr && details.addr + details.size <= segment + size);
        if let Some(Neighbour { alloc: Some(after), .. }) = details.neighbours[1] {
            assert_eq!(replay.allocation(after).addr, details.addr + details.size);
        }
    }
}

#[test]
fn what_is_live_at_the_end_has_no_end() {
    let Recording { session, of, replay, .. } = open("oom");
    let (index, _) = replay.allocations().iter().find(|(_, a)| a.closed == Moment::NEVER).unwrap();
    let details = session.ask(AskDetails { of, alloc: index, at: replay.end() }).unwrap();
    assert_eq!((details.owner.closed, details.times[2]), (None, None));
    let which = Which { scope: Scope::LiveAt(replay.end()), ..Which::default() };
    let list = Listing { which: which.clone(), count: 1_000_000, ..Listing::default() };
    let page = session.ask(AskAllocations { of, list }).unwrap();
    assert!(page.rows.iter().all(|row| row.owner.closed.is_none() && row.lived_us.is_none()));
    let group = vramscope_analysis::GroupBy::Line;
    let stretch = Stretch { axis: Axis::Events, x: (0.0, f64::from(replay.end().0) + 1.0), width: 50 };
    let ask =
        |open| AskLifetimes { of, which: which.clone(), group, open, stretch, first: 0, count: 1_000_000 };
    let folded = session.ask(ask(Vec::new())).unwrap();
    let keys = folded.rows.iter().filter_map(|row| match row {
        LifetimeRow::Group { key, life: (_, None), time: (_, None), .. } => Some(*key),
        _ => None,
    });
    let keys: Vec<u64> = keys.collect();
    assert_eq!(keys.len() * 2, folded.rows.len(), "a name and a strip each, none with an end");
    let bars = session.ask(ask(keys)).unwrap();
    let is_bar = |row: &&LifetimeRow| matches!(row, LifetimeRow::Bar { time: (_, None), owner, .. } if owner.closed.is_none());
    assert_eq!(bars.rows.iter().filter(is_bar).count() as u32, page.total);
}

#[test]
fn groups_of_lifetimes_are_folded_the_most_bytes_times_events_first() {
    let Recording { session, of, replay, .. } = open("oom");
    let end = replay.end();
    let stretch = Stretch { axis: Axis::Events, x: (0.0, f64::from(end.0) + 1.0), width: 1 };
    let group = vramscope_analysis::GroupBy::Stack;
    let which = Which::default();
    let ask = AskLifetimes { of, which, group, open: Vec::new(), stretch, first: 0, count: 1_000_000 };
    let page = session.ask(ask.clone()).unwrap();
    let (mut weights, mut sums) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for (_, a) in replay.allocations().iter() {
        *weights.entry(a.stack).or_insert(0) += a.requested * u64::from(a.closed.min(end).0 - a.opened.0);
        let moments = a.closed.0.min(end.0 + 1) - a.opened.0;
        *sums.entry(a.stack).or_insert(0) += a.requested * u64::from(moments);
    }
    let mut all: Vec<u64> = Vec::new();
    for pair in page.rows.chunks(2) {
        let [
            LifetimeRow::Group { group: Some(Group::Stack(stack)), weight, .. },
            LifetimeRow::Strip { levels, most, .. },
        ] = pair
        else {
            panic!("{pair:?}");
        };
        assert_eq!(*weight, weights[stack]);
        // One column of all moments: the mean of what lives at each of them.
        assert!(most.abs_diff(sums[stack] / (u64::from(end.0) + 1)) <= 1, "{most}");
        assert_eq!(levels.len(), 1);
        all.push(*weight);
    }
    assert_eq!(all.len(), weights.len());
    assert!(all.is_sorted_by(|a, b| a >= b));

    // A page in the middle of an open group.
    let LifetimeRow::Group { key, sum, .. } = &page.rows[0] else { panic!() };
    let ask = AskLifetimes { open: vec![*key], first: 1, count: 3, ..ask };
    let part = session.ask(ask).unwrap();
    assert_eq!(u64::from(part.total), page.rows.len() as u64 + sum.count);
    assert!(
        matches!(&part.rows[..], [LifetimeRow::Strip { .. }, LifetimeRow::Bar { .. }, ..]),
        "{:?}",
        part.rows
    );
}

fn hits(recording: &Recording, text: &str) -> Vec<Hit> {
    recording.session.ask(AskSearch { of: recording.of, text: text.into() }).unwrap().hits.clone()
}

#[test]
fn addresses_lines_and_phases_are_found() {
    let recording = open("oom");
    let addr = recording.replay.allocation(AllocIdx(100)).addr;
    let is_it = |hit: &Hit| matches!(hit, Hit::Address { owner, .. } if owner.alloc == AllocIdx(100));
    assert!(hits(&recording, &format!("{addr:#x}")).iter().any(is_it));
    // While it is typed, digit by digit, there is always something to see.
    let whole = format!("{addr:#x}");
    for typed in 3..whole.len() {
        assert!(!hits(&recording, &whole[..typed]).is_empty(), "{}", &whole[..typed]);
    }
    assert!(hits(&recording, "optimizer").iter().any(|hit| matches!(hit, Hit::Phase { .. })));
    assert!(hits(&recording, "modeling_llama.py").iter().any(|hit| matches!(hit, Hit::Line { .. })));
    assert_eq!(hits(&recording, "no such thing anywhere"), []);
}

#[test]
fn moments_are_found_as_they_are_typed_elsewhere() {
    let recording = open("oom");
    let Recording { session, of, replay, .. } = &recording;
    for text in [
        "start",
        "end",
        "peak",
        "peak:reserved",
        "oom",
        "oom:1",
        "8773",
        "11 822",
        "+0.5",
        "in:backward#2:end",
    ] {
        let spec: MomentSpec = text.parse().unwrap();
        let at = spec.resolve(replay, None).unwrap();
        let found = hits(&recording, text);
        assert!(matches!(found[..], [Hit::Moment { at: found, .. }] if found == at), "{text}: {found:?}");
    }
    let problem = |text: &str| session.ask(AskSearch { of: *of, text: text.into() }).unwrap().problem.clone();
    let last = vramscope_format::count(replay.end().0 - 1);
    assert_eq!(
        problem("99999999"),
        Some(format!("there is no event 99999999: the trace has events 0 to {last}"))
    );
    assert!(problem("oom:9").is_some() && problem("forward").is_none());
}

#[test]
fn filters_mean_what_they_mean_elsewhere() {
    let Recording { session, of, replay, snapshot } = open("oom");
    let page = |text: &str| {
        let which = Which { text: text.into(), ..Which::default() };
        session.ask(AskAllocations { of, list: Listing { which, count: 10, ..Listing::default() } }).unwrap()
    };
    let counted = |keep: &dyn Fn(&vramscope_analysis::Allocation) -> bool| {
        replay.allocations().iter().filter(|(_, allocation)| keep(allocation)).count() as u32
    };
    assert_eq!(page("size>=20MiB").total, counted(&|a| a.requested >= 20 << 20));
    assert_eq!(
        page("size>=1MiB size<=20MiB").total,
        counted(&|a| (1 << 20..=20 << 20).contains(&a.requested))
    );
    assert_eq!(page("stream=0").total, counted(&|a| snapshot.stream(a.stream) == 0));
    let addr = replay.allocation(AllocIdx(7)).addr;
    let around = counted(&|a| a.addr <= addr && addr < a.addr + a.size.max(1));
    assert_eq!(page(&format!("{addr:#x}")).total, around);
    let llama = page("modeling_llama").total;
    assert!(
        llama > 0 && page("MODELING_llama").total == 0 && page("modeling_llama size>=1MiB").total < llama
    );
    assert_eq!(
        page("size>=20parsecs").problem.as_deref(),
        Some("'20parsecs' is not a valid size (try 512, 20MiB, 1.5GB)")
    );
    // Half of a pattern is text.
    assert_eq!((page("f(").total, page("f(").problem.clone()), (0, None));
}

#[test]
fn a_request_that_nobody_waits_for_is_not_answered() {
    let Recording { session, of, .. } = open("oom");
    let stretch = Stretch { axis: Axis::Events, x: (0.0, 100.0), width: 200 };
    let counter = Counter::Requested;
    let only = Which::default();
    let tile =
        AskTile { of, counter, stretch, y: (0.0, 1e9), height: 100, pools: true, categories: true, only };
    assert_eq!(session.answer(&tile.into(), &|| false), None);
}

#[test]
fn words_are_those_of_the_analysis() {
    for name in ["oom", "expandable"] {
        let Recording { session, of, replay, snapshot } = open(name);
        let summary = session.ask(AskSummary { of }).unwrap();
        assert_eq!(summary.verdict, verdict_sentence(replay.verdict(), &vramscope_format::size));
        assert_eq!(summary.device, snapshot.device_name(replay.device()));
        let at = replay.peak(Counter::Requested).at;
        let info = session.ask(AskMoment { of, at, whole: true }).unwrap();
        let gap = vramscope_analysis::gap(&replay, &replay.state(at));
        let causes: Vec<_> = gap.words().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        let told: Vec<_> = info.gap.iter().map(|(cause, bytes)| (cause.as_str(), *bytes)).collect();
        assert_eq!(told, causes);
    }
}

#[test]
fn replays_are_shared_with_the_caller_that_opened_the_file() {
    let snapshot = Arc::new(common::read("oom"));
    let replays: Vec<_> = Device::all(&snapshot).into_iter().map(Arc::new).collect();
    let mut session = Session::default();
    session.add(OpenFile::new("oom.pickle", "", 1, snapshot, replays.clone()));
    assert_eq!(Arc::strong_count(&replays[0]), 2);
}

#[test]
fn every_device_of_a_file_is_compared_with_the_ranks() {
    let recorded = vramscope_testkit::record(&Options { devices: 2, events: 2_000, ..Options::default() });
    let mut reader = Reader::new();
    reader.feed(&recorded.pickle(Dialect::Protocol(4))).unwrap();
    let snapshot = Arc::new(reader.finish().unwrap());
    let replays = Device::all(&snapshot);
    let mut session = Session::default();
    let sources = session.add(OpenFile::new("rank3.pickle", "rank 3", 1, snapshot, replays));
    let digest = |of: Source| session.ask(AskRank { of }).unwrap();
    let names: Vec<_> = sources.iter().map(|&of| (digest(of).rank, digest(of).device.clone())).collect();
    assert_eq!(names, [(Some(3), Some("cuda:0".into())), (Some(3), Some("cuda:1".into()))]);
    assert!(sources.iter().all(|&of| session.ask(AskSummary { of }).unwrap().by_default));
}
