//! Files that hold less than a snapshot: what they have is shown, the rest is said to be missing.

use egui::Key;
use egui_kittest::kittest::Queryable;
use vramscope_analysis::{Counter, GroupBy};
use vramscope_engine::{AskAllocations, AskLifetimes, LifetimeRow};

use super::{Direct, click, drawn, key, open, point, settle};
use crate::requests::Slot;

#[test]
fn an_ascend_profile_shows_operators_their_lives_and_their_role() {
    let mut harness = open(Direct::on("inputs/ascend"));
    let summaries: Vec<_> =
        harness.state().files.devices.iter().map(|d| d.summary.clone().unwrap()).collect();
    assert!(summaries.iter().any(|summary| (&*summary.rank, &*summary.role) == ("rank 0", "actor_update")));
    assert!(summaries.iter().any(|summary| summary.device == "NPU 0"));
    let (_, summary) = harness.state().device().unwrap();
    assert!(summary.has.reserved && !summary.has.addresses && !summary.has.requested);
    assert!(summary.time.is_some(), "absolute times");

    for (tab, text) in
        [(Key::Num1, "Addresses: not in this file"), (Key::Num2, "Addresses: not in this file")]
    {
        key(&mut harness, tab);
        assert!(drawn(&harness, text), "{text}");
    }
    key(&mut harness, Key::Num5);
    let answer = harness.state().requests.look::<AskLifetimes>(Slot::Lifetimes).unwrap();
    if !summary.has.stacks {
        assert_eq!(answer.request.group, GroupBy::Operator);
    }
    let page = &*answer.value;
    let members = page.rows.iter().map(|row| match row {
        LifetimeRow::Group { sum, .. } => sum.count,
        _ => 0,
    });
    assert_eq!(members.sum::<u64>(), u64::from(summary.allocations));

    // All that lives while one does.
    let at = point(&harness, 0.6, 0.2);
    click(&mut harness, at);
    assert!(harness.state().selection.alloc.is_some());
    assert!(harness.query_all_by_label("not in this file").next().is_some(), "address and pool");
    harness.get_by_label("Show what lives at the same time").click();
    settle(&mut harness);
    let answer = harness.state().requests.look::<AskAllocations>(Slot::Allocations).unwrap();
    let page = &*answer.value;
    assert!(page.total >= 1 && page.total <= summary.allocations);
}

#[test]
fn a_trace_and_a_memory_timeline_open() {
    for path in ["inputs/kineto/t.json.xz", "inputs/kineto/mt.json.gz", "inputs/kineto/mt.raw.json.gz"] {
        let harness = open(Direct::on(path));
        let (_, summary) = harness.state().device().unwrap();
        assert!(!summary.has.addresses, "{path}");
        assert!(summary.peak(Counter::Requested).bytes > 0, "{path}");
        if !summary.has.reserved {
            assert!(harness.query_by_label("reserved: not in this file").is_some(), "{path}");
        }
    }
}
