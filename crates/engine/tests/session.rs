//! Questions and answers on a real recording.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use vramscope_analysis::{AllocIdx, Counter, Moment, Replay};
use vramscope_engine::*;
use vramscope_snapshot::DeviceId;

use common::read;

fn session() -> (Session, Source, Replay) {
    let snapshot = read("oom");
    let replay = Replay::new(&snapshot, DeviceId(0));
    let replays = Replay::all(&snapshot);
    let mut session = Session::default();
    let sources = session.add(OpenFile::new("oom.pickle", "rank 0", 1, snapshot, replays));
    (session, sources[0], replay)
}

fn ask(session: &Session, request: &Request) -> Response {
    session.answer(request, &|| true).unwrap()
}

fn tile(of: Source, replay: &Replay, axis: Axis) -> Request {
    let x = if axis == Axis::Events { f64::from(replay.end().0) + 1.0 } else { 1e6 };
    let stretch = Stretch { axis, x: (0.0, x), width: 200 };
    let y = (0.0, replay.peak(Counter::Requested).bytes as f64 * 1.1);
    Request::Tile { of, bytes: Bytes::Requested, stretch, y, height: 100, pools: true, categories: true }
}

#[test]
fn every_message_survives_the_wire() {
    let (session, of, replay) = session();
    let filter = Filter { text: "modeling_llama".into(), ..Filter::default() };
    let stretch = Stretch { axis: Axis::Events, x: (0.0, 1000.0), width: 50 };
    let at = replay.peak(Counter::Requested).at.0;
    let (first, count) = (5, 9);
    let nobody = Request::Summary(Source { file: 7, device: 0 });
    let requests = [
        Request::Summary(of),
        tile(of, &replay, Axis::Events),
        tile(of, &replay, Axis::Time),
        Request::Lanes {
            of,
            bytes: Bytes::Active,
            stretch,
            lanes: vec![(0, 0, 9)],
            height: 9,
            categories: false,
        },
        Request::Outline { of, bytes: Bytes::Requested, stretch, alloc: 3, pools: false },
        Request::Curve { of, stretch },
        Request::Moment { of, at, whole: true },
        Request::Details { of, alloc: 3, at },
        Request::State { of, at },
        Request::Tree { of, weigh: Weigh::Lifetime(0, at), inverted: true, own: true },
        Request::Diff { before: (of, 0), after: (of, at), own: true },
        Request::Allocations {
            of,
            filter: filter.clone(),
            sort: Sort::Lifetime,
            descending: true,
            first,
            count,
        },
        Request::Stacks { of, filter: filter.clone(), sort: Sort::Count, descending: false, first, count },
        Request::Lifetimes { of, filter, group: GroupBy::Phase, first, count },
        Request::Search { of, text: "forward".into() },
        Request::Insights(of),
        Request::Convert { of, from: Axis::Events, x: (0.0, 10.0) },
        nobody.clone(),
    ];
    for request in requests {
        let sent = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&sent).unwrap(), request);
        let response = ask(&session, &request);
        let sent = serde_json::to_string(&response).unwrap();
        assert_eq!(serde_json::from_str::<Response>(&sent).unwrap(), response, "{request:?}");
        assert_eq!(response == Response::Nothing, request == nobody);
    }
}

#[test]
fn all_answers_about_a_moment_agree() {
    let (session, of, replay) = session();
    for at in [0, 1, 500, 9_000, replay.end().0] {
        let Response::Moment(info) = ask(&session, &Request::Moment { of, at, whole: true }) else {
            panic!("a moment")
        };
        let numbers = info.numbers;
        assert_eq!(numbers, replay.counters(Moment(at)).into());
        let gap: u64 = info.gap.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(gap as i64, numbers.reserved - numbers.requested, "at {at}");
        let Response::State(map) = ask(&session, &Request::State { of, at }) else { panic!("a map") };
        let held: u64 = map.ranges.iter().map(|range| range.size).sum();
        let active: u64 = map.ranges.iter().flat_map(|range| &range.blocks).map(|block| block.size).sum();
        assert_eq!((held as i64, active as i64), (numbers.reserved, numbers.active));
        let tree = Request::Tree { of, weigh: Weigh::Live(at), inverted: false, own: true };
        let Response::Tree(tree) = ask(&session, &tree) else { panic!("a tree") };
        assert_eq!(tree.nodes[0].bytes as i64, numbers.requested);
        let filter = Filter { scope: Scope::LiveAt(at), ..Filter::default() };
        let page =
            Request::Allocations { of, filter, sort: Sort::Opened, descending: false, first: 0, count: 1 };
        let Response::Allocations(page) = ask(&session, &page) else { panic!("a page") };
        assert_eq!((page.total, page.bytes as i64), (info.live, numbers.requested));
    }
}

#[test]
fn an_allocation_lies_in_its_segment_between_its_neighbours() {
    let (session, of, replay) = session();
    let at = replay.peak(Counter::Requested).at;
    for &index in replay.state(at).live.iter().step_by(9) {
        let request = Request::Details { of, alloc: index.0, at: at.0 };
        let Response::Details(details) = ask(&session, &request) else { panic!("details") };
        let (segment, size) = details.segment.unwrap();
        assert!(segment <= details.addr && details.addr + details.size <= segment + size);
        if let Some(Neighbour { alloc: Some(after), .. }) = details.neighbours[1] {
            assert_eq!(replay.allocation(AllocIdx(after)).addr, details.addr + details.size);
        }
    }
}

#[test]
fn addresses_lines_and_phases_are_found() {
    let (session, of, replay) = session();
    let hits = |text: &str| match ask(&session, &Request::Search { of, text: text.into() }) {
        Response::Search(results) => results.hits,
        other => panic!("{other:?}"),
    };
    let addr = replay.allocation(AllocIdx(100)).addr;
    assert!(hits(&format!("{addr:#x}")).iter().any(|hit| matches!(hit, Hit::Address { alloc: 100, .. })));
    assert!(hits("optimizer").iter().any(|hit| matches!(hit, Hit::Phase { .. })));
    assert!(hits("modeling_llama.py").iter().any(|hit| matches!(hit, Hit::Line { .. })));
    assert_eq!(hits("no such thing anywhere"), []);
}

#[test]
fn a_question_that_nobody_waits_for_is_not_answered() {
    let (session, of, replay) = session();
    assert_eq!(session.answer(&tile(of, &replay, Axis::Events), &|| false), None);
}
