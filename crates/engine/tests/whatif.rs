//! Other settings behind a viewer: answers come order by order, agree with each other, and can be cancelled.

use std::cell::Cell;

use vramscope_analysis::whatif::{Limit, Tone, Under};
use vramscope_analysis::{Counter, Moment};
use vramscope_engine::*;

use crate::common::{Recording, open};

fn under(settings: &str) -> Under {
    Under { settings: settings.into(), limit: Limit::Recorded }
}

#[test]
fn the_recorded_settings_give_the_recorded_curve_and_map() {
    let Recording { session, of, replay, .. } = open("llama_python");
    let end = replay.end();
    let info = session.ask(AskSimulable { of, limit: Limit::Recorded }).unwrap();
    assert_eq!(info.refused, None);
    assert!(
        info.about
            .iter()
            .any(|remark| remark.tone == Tone::Fine && remark.text.starts_with("self-check: all"))
    );
    assert!(info.choices.iter().all(|choice| !choice.settings.is_empty()), "the defaults were recorded");
    let same = under("");
    let simulated = session.ask(AskSimulated { of, under: same.clone(), orders: 1 }).unwrap();
    let (row, recorded) = (&simulated.row, &info.recorded);
    assert_eq!((row.reserved_peak, row.device_calls), (recorded.reserved_peak, recorded.device_calls));
    assert_eq!(row.change, "+0.0 %");
    // Each column has the peak of the same moments.
    let stretch = Stretch { axis: Axis::Events, x: (0.0, f64::from(end.0) + 1.0), width: 50 };
    let real = session.ask(AskCurve { of, stretch }).unwrap();
    let curve = session.ask(AskSimulatedCurve { of, under: same.clone(), stretch }).unwrap();
    let peak = curve.iter().flatten().max().copied();
    assert_eq!(peak, Some(replay.peak(Counter::Reserved).bytes as u64));
    assert_eq!(real.most.len(), curve.len());
    for at in [Moment(2), replay.peak(Counter::Requested).at, end] {
        let map = session.ask(AskSimulatedMap { of, under: same.clone(), at }).unwrap();
        let counters = replay.counters(at);
        let used: u64 = map.ranges.iter().flat_map(|range| &range.used).map(|(_, size)| size).sum();
        let held: u64 = map.ranges.iter().map(|range| range.size).sum();
        assert_eq!((used as i64, held as i64), (counters.active, counters.reserved), "{}", at.words());
        assert!(!map.ended);
    }
}

#[test]
fn every_order_is_one_more_answer() {
    let Recording { session, of, .. } = open("llama_python");
    let ask = |settings: &str, orders| {
        session.ask(AskSimulated { of, under: under(settings), orders }).unwrap().orders
    };
    assert_eq!(ask("max_split_size_mb:64", 1), (1, 7));
    assert_eq!(ask("max_split_size_mb:64", 3), (3, 7));
    assert_eq!(ask("max_split_size_mb:64", 2), (3, 7), "what is simulated is kept");
    assert_eq!(ask("max_split_size_mb:64", 9), (7, 7));
    assert_eq!(ask("expandable_segments:True", 9), (1, 1), "addresses do not matter there");
    let wrong = session.ask(AskSimulated { of, under: under("max_split_size_mb:2"), orders: 1 }).unwrap();
    assert!(wrong.problem.as_ref().unwrap().contains("at least 20"));
}

#[test]
fn a_simulation_stops_when_nobody_waits_for_it() {
    let Recording { session, of, .. } = open("llama_python");
    let request = AskSimulated { of, under: under("max_split_size_mb:64"), orders: 7 }.into();
    let left = Cell::new(3);
    let patience = || {
        left.set(left.get() - 1);
        left.get() > 0
    };
    assert!(session.answer(&request, &patience).is_none());
    let again = session.ask(AskSimulated { of, under: under("max_split_size_mb:64"), orders: 7 }).unwrap();
    assert_eq!(again.orders, (7, 7));
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let Recording { session, of, .. } = open("late_start");
    let info = session.ask(AskSimulable { of, limit: Limit::Recorded }).unwrap();
    assert!(info.refused.as_ref().unwrap().contains("cannot be simulated"));
    let simulated = session.ask(AskSimulated { of, under: under(""), orders: 1 }).unwrap();
    assert_eq!(simulated.problem, info.refused);
}
