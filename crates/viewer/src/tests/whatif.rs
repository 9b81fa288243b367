//! Other allocator settings in the window.

use egui::Key;
use egui_kittest::kittest::Queryable;
use vramscope_analysis::whatif::Tone;
use vramscope_engine::{AskSimulatedCurve, AskSimulatedMap, Source};

use super::{Harness, key, settle, window};
use crate::{App, Slot};

const OF: Source = Source { file: 0, device: 0 };

/// Enough frames for every order of every setting.
fn simulate(harness: &mut Harness<'static, App>) {
    harness.run_steps(80);
}

#[test]
fn ready_made_settings_are_simulated_one_order_a_frame() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num0);
    settle(&mut harness);
    assert!(harness.query_by_label("Cancel").is_some(), "not all orders are simulated yet");
    simulate(&mut harness);
    assert!(harness.query_by_label("Cancel").is_none());
    let rows = harness.state().parts.whatif.rows(OF);
    // oom.oracle.json: the program ran out of memory under a limit.
    assert_eq!((rows[0].name.as_str(), rows[0].result.tone), ("recording", Tone::Bad));
    assert_eq!(rows[1].name, "expandable_segments:True");
    assert!(rows.iter().skip(1).all(|row| !row.confidence.text.is_empty()));
    let requests = &harness.state().requests;
    let curve = requests.look::<AskSimulatedCurve>(Slot::SimulatedCurve).unwrap();
    assert!(curve.fresh && curve.value.iter().flatten().any(|&level| level > 0));
    let map = requests.look::<AskSimulatedMap>(Slot::SimulatedMap).unwrap();
    assert_eq!(map.value.ranges.iter().map(|range| range.size).sum::<u64>(), map.value.reserved);
    harness.get_by_label("max_split_size_mb:128").click();
    settle(&mut harness);
    let curve = harness.state().requests.look::<AskSimulatedCurve>(Slot::SimulatedCurve).unwrap();
    assert_eq!(curve.request.under.settings, "max_split_size_mb:128");
}

#[test]
fn settings_are_checked_while_they_are_typed() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num0);
    simulate(&mut harness);
    let before = harness.state().parts.whatif.rows(OF).len();
    harness.get_by_label("settings").click();
    settle(&mut harness);
    harness.get_by_label("settings").type_text("max_split_size_mb:2");
    settle(&mut harness);
    assert!(harness.query_by_label_contains("at least 20").is_some());
    harness.get_by_label("settings").type_text("00");
    settle(&mut harness);
    assert!(harness.query_by_label_contains("at least 20").is_none());
    harness.get_by_label("Simulate").click();
    simulate(&mut harness);
    let rows = harness.state().parts.whatif.rows(OF);
    assert_eq!(rows.len(), before + 1);
    assert_eq!(rows[before].name, "max_split_size_mb:200");
}

#[test]
fn simulating_can_be_cancelled() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num0);
    harness.run_steps(4);
    harness.get_by_label("Cancel").click();
    simulate(&mut harness);
    // However long nobody goes on: not every setting was simulated with every order.
    assert!(harness.state().parts.whatif.is_unfinished(OF));
    harness.get_by_label("Go on").click();
    simulate(&mut harness);
    assert!(harness.query_by_label("Go on").is_none() && harness.query_by_label("Cancel").is_none());
    assert!(!harness.state().parts.whatif.is_unfinished(OF));
}
