//! Files that tell less than a snapshot: what they have is shown, of the rest the window says that it is not there.

use egui::Key;
use egui_kittest::kittest::Queryable;
use vramscope_engine::{GroupBy, LifetimeRow, Request, Response};

use super::{Direct, click, key, open, point, settle};
use crate::desk::Slot;

#[test]
fn an_ascend_profile_shows_operators_their_lives_and_their_role() {
    let mut harness = open(Direct::on("inputs/ascend"));
    let summaries: Vec<_> = harness.state().devices.iter().map(|d| d.summary.clone().unwrap()).collect();
    assert!(summaries.iter().any(|summary| (&*summary.rank, &*summary.role) == ("rank 0", "actor_update")));
    assert!(summaries.iter().any(|summary| summary.device == "NPU 0"));
    let (_, summary) = harness.state().device().unwrap();
    assert!(summary.told.reserved && !summary.told.addresses && !summary.told.requested);
    assert!(summary.time.is_some(), "absolute times");

    for (tab, text) in
        [(Key::Num1, "Addresses: not in this file"), (Key::Num2, "Addresses: not in this file")]
    {
        key(&mut harness, tab);
        assert!(drawn(&harness, text), "{text}");
    }
    key(&mut harness, Key::Num5);
    let answer = harness.state().desk.look(Slot::Lifetimes).unwrap();
    if !summary.told.stacks {
        assert!(matches!(answer.request, Request::Lifetimes { group: GroupBy::Operator, .. }));
    }
    let Response::Lifetimes(page) = &*answer.response else { panic!("lifetimes") };
    let is_bar = |row: &&LifetimeRow| matches!(row, LifetimeRow::Bar { .. });
    assert_eq!(page.rows.iter().filter(is_bar).count(), summary.allocations as usize);

    // All that lives while one does.
    let at = point(&harness, 0.6, 0.2);
    click(&mut harness, at);
    assert!(harness.state().selected.is_some());
    assert!(harness.query_all_by_label("not in this file").next().is_some(), "address and pool");
    harness.get_by_label("Show what lives at the same time").click();
    settle(&mut harness);
    let answer = harness.state().desk.look(Slot::Allocations).unwrap();
    let Response::Allocations(page) = &*answer.response else { panic!("a page") };
    assert!(page.total >= 1 && page.total <= summary.allocations);
}

#[test]
fn a_trace_and_a_memory_timeline_open() {
    for path in ["inputs/kineto/t.json.xz", "inputs/kineto/mt.json.gz", "inputs/kineto/mt.raw.json.gz"] {
        let harness = open(Direct::on(path));
        let (_, summary) = harness.state().device().unwrap();
        assert!(!summary.told.addresses, "{path}");
        assert!(summary.peaks[0].0 > 0, "{path}");
        if !summary.told.reserved {
            assert!(harness.query_by_label("reserved: not in this file").is_some(), "{path}");
        }
    }
}

/// Whether some text is painted: views draw much of theirs without a widget.
fn drawn(harness: &egui_kittest::Harness<'static, crate::App>, text: &str) -> bool {
    harness.output().shapes.iter().any(|clipped| has_text(&clipped.shape, text))
}

fn has_text(shape: &egui::Shape, text: &str) -> bool {
    match shape {
        egui::Shape::Text(shape) => shape.galley.text().contains(text),
        egui::Shape::Vec(shapes) => shapes.iter().any(|shape| has_text(shape, text)),
        _ => false,
    }
}
