//! What each target starts from: small inputs of every kind, made here so that nothing large is kept. What once broke
//! is among them in small: annotations that are never closed, levels below zero, rows that are one row.

use vramscope_analysis::{AllocIdx, Counter, Moment};
use vramscope_engine::{
    AskCurve, AskDetails, AskDiff, AskEvents, AskHere, AskInsights, AskLanes, AskLevels, AskMoment,
    AskOutline, AskRange, AskRank, AskReport, AskState, AskSummary, AskTile, AskTree, Axis, By, Group,
    ReportOf, Request, Source, Stretch, Weigh, Which, encode,
};
use vramscope_snapshot::{Reader, embedded};
use vramscope_testkit::shapes::SHAPES;
use vramscope_testkit::verbs::VERBS;
use vramscope_testkit::{Rng, attacks};

/// Longer inputs make a fuzzer slow.
const LONGEST: usize = 32 << 10;

/// Events per shape, about.
const SMALL: u64 = 24;

/// Files of every format and shape.
pub(crate) fn files() -> Vec<Vec<u8>> {
    let shapes = SHAPES.iter().map(|shape| (shape.make)(SMALL));
    let levels = br#"{"device_traces": [[{"action":"alloc","size":33554432000},{"action":"segment_alloc","size":20971520000}]]}"#;
    let attacks = attacks::all().into_iter().map(|(_, bytes)| bytes);
    let all = shapes.chain([levels.to_vec()]).chain(attacks);
    all.filter(|bytes| bytes.len() <= LONGEST).collect()
}

/// The inputs of a target.
pub(crate) fn seeds(target: &str, corpus: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let files = || files().into_iter().chain(corpus.iter().cloned());
    match target {
        "read" => files().collect(),
        "sqlite" => {
            let mut rng = Rng::new(5);
            (0..40).map(|len| (0..20 * len).map(|_| rng.next_u64() as u8).collect()).collect()
        }
        "verbs" => {
            let prefixed = |(number, file): (usize, Vec<u8>)| [&[number as u8, 0][..], &file].concat();
            let mut seeds: Vec<_> = (0..VERBS.len()).cycle().zip(files()).map(prefixed).collect();
            let file = corpus.first().cloned().unwrap_or_default();
            seeds.extend((0..VERBS.len()).map(|verb| [&[verb as u8, 1, verb as u8][..], &file].concat()));
            seeds
        }
        "http" => REQUESTS.iter().map(|request| request.to_vec()).collect(),
        "report" => files().filter_map(|file| data(&file)).collect(),
        "sidecar" => vec![SIDECAR.into()],
        "store" => {
            let mut rng = Rng::new(7);
            let changes = (0..60_u8).map(|seed| {
                // Every second one changes nothing.
                let changes = if seed % 4 < 2 { 0 } else { 6 * (1 + u64::from(seed) % 3) };
                [seed].into_iter().chain((0..changes).map(|_| rng.next_u64() as u8)).collect()
            });
            changes.collect()
        }
        "wire" => requests().iter().map(|request| encode(request).split_off(4)).collect(),
        _ => Vec::new(),
    }
}

/// A sidecar with everything that a recorder writes.
const SIDECAR: &str = r#"{"schema": "vramscope/sidecar/1", "snapshot": "run.pickle", "reason": "oom",
"time_us": 1000500, "rank": 3, "pid": 5, "versions": {"torch": "2.14.0", "hip": null}, "allocator": {"backend": "native",
"settings": "expandable_segments:True"}, "devices": [{"device": 0, "name": "H200", "capacity": 104857600,
"free": 41943040, "reserved": 2097152, "limit": 94371840, "processes": [{"pid": 5, "bytes": 17825792}, {"pid": 7,
"bytes": 31457280}]}], "host_memory": {"allocated_bytes.current": 12582912, "active_bytes.current": 8388608},
"pinned_tensors": {"count": 1, "bytes": 5242880, "rounded": 8388608}, "nccl": [{"group": "default", "stats": {"persist": 1,
"total": 6291456}}], "roles": {"from": "given", "storages": [{"name": "fc.weight", "role": "parameter", "device": 0,
"address": 4096, "bytes": 1000}]}, "sources": {"/home/me/train.py": {"40": "y = model(x)"}}}"#;

/// A file as a report has it inside.
fn data(file: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new();
    reader.feed(file).ok()?;
    let mut bytes = Vec::new();
    embedded::encode(&reader.finish().ok()?, &mut bytes).ok()?;
    Some(bytes)
}

const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept-Encoding: gzip\r\n\r\n",
    b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhelloGET /x HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"POST /ask HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET /%00%ff?token=abc HTTP/1.0\r\nCookie: a=b; c=d\r\n\r\n",
    b"HEAD * HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"\r\n\r\n",
];

fn requests() -> Vec<Request> {
    let of = Source { file: 0, device: 0 };
    let stretch = Stretch { axis: Axis::Events, x: (0.0, 40.0), width: 50 };
    let (counter, y, height) = (Counter::Requested, (0.0, 1e6), 40);
    let (alloc, at) = (AllocIdx(3), Moment(7));
    let only = Which { group: Some(Group::Category(3)), ..Which::default() };
    vec![
        AskSummary { of }.into(),
        AskInsights { of }.into(),
        AskRank { of }.into(),
        AskTile { of, counter, stretch, y, height, pools: true, categories: true, only: only.clone() }.into(),
        AskCurve { of, stretch }.into(),
        AskOutline { of, counter, stretch, alloc, pools: false, only: Which::default() }.into(),
        AskLanes { of, counter, stretch, lanes: vec![(0, 0, 9)], height: 9, categories: false }.into(),
        AskMoment { of, at, whole: true }.into(),
        AskDetails { of, alloc, at }.into(),
        AskState { of, at, categories: true }.into(),
        AskTree { of, weigh: Weigh::Lifetime(Moment(0), at), inverted: true, own: true }.into(),
        AskDiff { before: (of, Moment(0)), after: (of, at), own: true }.into(),
        AskLevels { of, counter, stretch, only: only.clone() }.into(),
        AskHere { of, at, counter, by: By::Line, only }.into(),
        AskRange { of, axis: Axis::Events, x: (1.0, 9.0) }.into(),
        AskEvents { of, first: 2, count: 5 }.into(),
        AskReport { of, what: ReportOf::Pools, at }.into(),
    ]
}
