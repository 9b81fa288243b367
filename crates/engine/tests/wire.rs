//! Messages as bytes, and comparisons between sessions.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::io::Read;
use std::path::PathBuf;

use vramscope_analysis::Replay;
use vramscope_engine::*;
use vramscope_snapshot::Reader;

fn add(session: &mut Session, name: &str) -> Source {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recordings/{name}.pickle.xz"));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(std::fs::File::open(path).unwrap(), false).read_to_end(&mut bytes).unwrap();
    let mut reader = Reader::new();
    reader.feed(&bytes).unwrap();
    let snapshot = reader.finish().unwrap();
    let replays = Replay::all(&snapshot);
    session.add(OpenFile::new(name, "", bytes.len() as u64, snapshot, replays))[0]
}

fn ask(session: &Session, request: &Request) -> Response {
    session.answer(request, &|| true).unwrap()
}

fn peak(session: &Session, of: Source) -> u32 {
    let Response::Summary(summary) = ask(session, &Request::Summary(of)) else { panic!("no summary") };
    summary.peaks[0].1
}

/// A node with the text of its label, and its children in order.
/// Depth, function, line, and what is before and after.
type Row = (usize, String, u32, (u64, u64), (u64, u64));

fn lines(tree: &DiffTree) -> Vec<Row> {
    let mut open = vec![(0_u32, 0)];
    let mut lines = Vec::new();
    while let Some((row, depth)) = open.pop() {
        let node = &tree.nodes[row as usize];
        let label = &tree.labels[node.label as usize];
        lines.push((depth, format!("{} {}", label.file, label.name), label.line, node.before, node.after));
        open.extend(node.children.iter().rev().map(|&child| (child, depth + 1)));
    }
    lines
}

#[test]
fn two_trees_of_two_sessions_are_the_comparison_of_one() {
    let mut together = Session::default();
    let (a, b) = (add(&mut together, "oom"), add(&mut together, "alloc_retry"));
    let before = (a, peak(&together, a));
    let after = (b, peak(&together, b));
    let Response::Diff(one) = ask(&together, &Request::Diff { before, after, own: false }) else {
        panic!("no comparison")
    };
    let half = |name: &str, at: u32| {
        let mut session = Session::default();
        let of = add(&mut session, name);
        let request = Request::Tree { of, weigh: Weigh::Live(at), inverted: false, own: false };
        let Response::Tree(tree) = ask(&session, &request) else { panic!("no tree") };
        tree
    };
    let two = DiffTree::of(&half("oom", before.1), &half("alloc_retry", after.1));
    assert_eq!(lines(&two), lines(&one));
    assert!(lines(&one).len() > 20, "both have stacks");
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
