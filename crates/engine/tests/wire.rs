//! Messages as bytes.

use std::sync::Arc;

use vramscope_analysis::whatif::{Limit, Under};
use vramscope_analysis::{AllocIdx, Counter, GroupBy, Moment};
use vramscope_engine::*;

use crate::common::{Recording, open};

/// Answers every query with its number of files.
struct One;

impl Sql for One {
    fn catalog(&self) -> SqlCatalog {
        let view = SqlView { name: "one".into(), about: "One".into(), sql: "select 1".into() };
        SqlCatalog { views: vec![view], tables: vec![("events".into(), vec!["event".into()])] }
    }

    fn run(&self, files: Vec<OpenSnapshot>, _: &str, _: &dyn Fn() -> bool) -> Option<SqlResult> {
        let columns = vec![SqlColumn { name: "files".into(), is_text: false, width: 5 }];
        Some(SqlResult { result: 1, columns, total: 1, files: files.len() as u32, ..SqlResult::default() })
    }

    fn rows(&self, _: u64, first: u32, _: u32) -> Option<SqlRows> {
        Some(SqlRows { first, rows: vec![vec!["1".into()]] })
    }

    fn csv(&self, _: u64, _: u32, _: u32) -> Option<Page<String>> {
        None
    }
}

/// One request of each type.
fn requests(of: Source, at: Moment) -> Vec<Request> {
    let which = Which { text: "modeling_llama".into(), ..Which::default() };
    let list = |sort| Listing { which: which.clone(), sort, descending: true, first: 5, count: 9 };
    let stretch = Stretch { axis: Axis::Time, x: (0.0, 1e6), width: 64 };
    let under = Under { settings: "max_split_size_mb:64".into(), limit: Limit::Recorded };
    let (counter, alloc, height) = (Counter::Requested, AllocIdx(3), 32);
    let all: Vec<Request> = vec![
        AskSummary { of }.into(),
        AskTile {
            of,
            counter,
            stretch,
            y: (0.0, 1e9),
            height,
            pools: true,
            categories: true,
            only: which.clone(),
        }
        .into(),
        AskLanes { of, counter, stretch, lanes: vec![(0, 0, 9)], height, categories: false }.into(),
        AskOutline { of, counter, stretch, alloc, pools: false, only: Which::default() }.into(),
        AskCurve { of, stretch }.into(),
        AskMoment { of, at, whole: true }.into(),
        AskDetails { of, alloc, at }.into(),
        AskState { of, at, categories: false }.into(),
        AskTree { of, weigh: Weigh::Lifetime(Moment::START, at), inverted: true, own: true }.into(),
        AskDiff { before: (of, Moment::START), after: (of, at), own: true }.into(),
        AskAllocations { of, list: list(Sort::Lifetime) }.into(),
        AskStacks { of, list: list(Sort::Count) }.into(),
        AskLifetimes {
            of,
            which: which.clone(),
            group: GroupBy::Phase,
            open: vec![7],
            stretch,
            first: 5,
            count: 9,
        }
        .into(),
        AskSearch { of, text: "forward".into() }.into(),
        AskInsights { of }.into(),
        AskRank { of }.into(),
        AskConvert { of, from: Axis::Events, x: (0.0, 10.0) }.into(),
        AskSimulable { of, limit: Limit::None }.into(),
        AskSimulated { of, under: under.clone(), orders: 2 }.into(),
        AskSimulatedCurve { of, under: under.clone(), stretch }.into(),
        AskSimulatedMap { of, under, at }.into(),
        AskCsv { of, table: CsvOf::Allocations(list(Sort::Size)), first: 0, count: 9 }.into(),
        AskLevels { of, counter, stretch, only: which.clone() }.into(),
        AskHere { of, at, counter, by: By::Module, only: which }.into(),
        AskRange { of, axis: Axis::Events, x: (10.0, 500.0) }.into(),
        AskEvents { of, first: 5, count: 9 }.into(),
        AskReport { of, what: ReportOf::Steps, at }.into(),
        AskSqlCatalog {}.into(),
        AskSql { query: "select 1".into(), run: 1 }.into(),
        AskSqlRows { result: 1, first: 0, count: 9 }.into(),
    ];
    // A request that is added must be added above: the match fails to compile, and then the number is wrong.
    let number = |request: &Request| match request {
        Request::Summary(_) => 0,
        Request::Tile(_) => 1,
        Request::Lanes(_) => 2,
        Request::Outline(_) => 3,
        Request::Curve(_) => 4,
        Request::Moment(_) => 5,
        Request::Details(_) => 6,
        Request::State(_) => 7,
        Request::Tree(_) => 8,
        Request::Diff(_) => 9,
        Request::Allocations(_) => 10,
        Request::Stacks(_) => 11,
        Request::Lifetimes(_) => 12,
        Request::Search(_) => 13,
        Request::Insights(_) => 14,
        Request::Rank(_) => 15,
        Request::Convert(_) => 16,
        Request::Simulable(_) => 17,
        Request::Simulated(_) => 18,
        Request::SimulatedCurve(_) => 19,
        Request::SimulatedMap(_) => 20,
        Request::Csv(_) => 21,
        Request::Levels(_) => 22,
        Request::Here(_) => 23,
        Request::Range(_) => 24,
        Request::Events(_) => 25,
        Request::Report(_) => 26,
        Request::SqlCatalog(_) => 27,
        Request::Sql(_) => 28,
        Request::SqlRows(_) => 29,
    };
    assert!(all.iter().map(number).eq(0..30));
    all
}

#[test]
fn every_request_and_every_answer_survives_the_wire() {
    let Recording { mut session, of, replay, .. } = open("oom");
    session.set_sql(Some(Arc::new(One)));
    for request in requests(of, replay.peak(Counter::Requested).at) {
        let sent = encode(&request);
        assert_eq!(decode::<Request>(&sent), Ok(request.clone()));
        let response = session.answer(&request, &|| true).unwrap();
        assert_ne!(response, Response::Nothing, "{request:?}");
        assert_eq!(decode::<Response>(&encode(&response)), Ok(response.clone()), "{request:?}");
        let answered = session.answer_encoded(&sent, &|| true).unwrap();
        assert_eq!(decode::<Response>(&answered), Ok(response));
    }
    let nobody = Request::from(AskSummary { of: Source { file: 7, device: 0 } });
    assert_eq!(session.answer(&nobody, &|| true), Some(Response::Nothing));
}

#[test]
fn news_survive_the_wire() {
    let news = vec![
        News::Reading { name: "a".into(), done: 1, total: 2 },
        News::Opened { name: "a".into(), sources: vec![Source { file: 0, device: 1 }] },
        News::Failed { name: "b".into(), message: "not a snapshot".into() },
        News::Idle,
    ];
    assert_eq!(decode::<Vec<News>>(&encode(&news)), Ok(news));
}

#[test]
fn a_page_of_another_version_is_told_to_reload() {
    let Recording { session, of, .. } = open("oom");
    let request = encode(&Request::from(AskSummary { of }));
    let mut other = request.clone();
    other[0] ^= 1;
    assert_eq!(decode::<Request>(&other), Err(WireError::Version));
    assert!(WireError::Version.to_string().contains("reload"));
    // Bytes from before there was a version, and none at all.
    assert_eq!(decode::<Request>(&request[4..]), Err(WireError::Version));
    assert_eq!(decode::<Request>(b""), Err(WireError::Version));
    assert_eq!(
        decode::<Request>(&[&PROTOCOL.to_le_bytes()[..], &[0xff; 9]].concat()),
        Err(WireError::Damaged)
    );
    // The session answers such a request in its own version, so that the other side sees the difference.
    let answer = session.answer_encoded(&other, &|| true).unwrap();
    assert_eq!(decode::<Response>(&answer), Ok(Response::Nothing));
}

#[test]
fn sources_are_renumbered() {
    let of = |file| (Source { file, device: 0 }, Moment(3));
    let mut request = Request::from(AskDiff { before: of(1), after: of(2), own: true });
    for source in request.sources() {
        source.file += 10;
    }
    assert_eq!(request, AskDiff { before: of(11), after: of(12), own: true }.into());
}
