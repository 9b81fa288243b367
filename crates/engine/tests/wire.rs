//! Messages as bytes.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use vramscope_analysis::Replay;
use vramscope_engine::*;

fn add(session: &mut Session, name: &str) -> Source {
    let snapshot = common::read(name);
    let replays = Replay::all(&snapshot);
    session.add(OpenFile::new(name, "", 1, snapshot, replays))[0]
}

fn ask(session: &Session, request: &Request) -> Response {
    session.answer(request, &|| true).unwrap()
}

#[test]
fn messages_come_back_from_bytes_as_they_were() {
    let mut session = Session::default();
    let of = add(&mut session, "oom");
    let stretch = Stretch { axis: Axis::Time, x: (0.0, 1e6), width: 64 };
    let tile = Request::Tile {
        of,
        bytes: Bytes::Requested,
        stretch,
        y: (0.0, 1e9),
        height: 32,
        pools: true,
        categories: true,
    };
    for request in [Request::Summary(of), tile, Request::Insights(of)] {
        assert_eq!(decode::<Request>(&encode(&request)), Some(request.clone()));
        let response = ask(&session, &request);
        assert_eq!(decode::<Response>(&encode(&response)), Some(response));
    }
    assert_eq!(decode::<Request>(b"\xff\xff\xff\xff"), None);
}

#[test]
fn sources_are_renumbered() {
    let of = |file| Source { file, device: 0 };
    let mut request = Request::Diff { before: (of(1), 3), after: (of(2), 4), own: true };
    for source in request.sources() {
        source.file += 10;
    }
    assert_eq!(request, Request::Diff { before: (of(11), 3), after: (of(12), 4), own: true });
}
