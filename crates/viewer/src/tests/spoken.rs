//! What a screen reader hears: pictures and rows that are painted by hand have a role and a name.

use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT, Queryable};

use super::{click, point, settle, window};
use crate::views::Tab;

#[test]
fn pictures_say_what_they_show() {
    let mut harness = window(&[("oom", "")]);
    let mut find = |tab: Tab, words: &str| {
        harness.state_mut().open_tab(tab);
        settle(&mut harness);
        let found = harness
            .query_all_by_role(Role::Image)
            .any(|node| node.accesskit_node().label().is_some_and(|label| label.contains(words)));
        let all: Vec<_> =
            harness.query_all_by_role(Role::Image).map(|node| node.accesskit_node().label()).collect();
        assert!(found, "{tab:?}: {words} is not in {all:?}");
    };
    find(Tab::Flame, "Memory timeline. cuda:0, device 1 of 1: peak 3.99 GiB requested");
    find(Tab::Flame, "The whole run; shown is 0");
    find(Tab::Flame, "Phases: ");
    find(Tab::Flame, "Flame graph: ");
    find(Tab::Segments, "Addresses over time: ");
    find(Tab::State, "Map of memory, ");
}

#[test]
fn rows_say_what_they_hold() {
    let mut harness = window(&[("oom", "")]);
    let rows = [
        (Tab::Tree, Role::TreeItem, "capture.py"),
        (Tab::Tables, Role::Row, "MiB"),
        (Tab::Tables, Role::ColumnHeader, "requested"),
        (Tab::Events, Role::Row, "event 1"),
        (Tab::Breakdown, Role::Row, ", "),
    ];
    for (tab, role, words) in rows {
        harness.state_mut().open_tab(tab);
        settle(&mut harness);
        let found = harness
            .query_all_by_role(role)
            .any(|node| node.accesskit_node().label().is_some_and(|label| label.contains(words)));
        assert!(found, "{tab:?}: no {role:?} with {words}");
    }
}

/// Whatever reacts to a click or a drag has a name, in every view.
#[test]
fn nothing_that_reacts_is_nameless() {
    let mut harness = window(&[("expandable", "rank 0"), ("expandable", "rank 1"), ("oom", "rank 2")]);
    let at = point(&harness, 0.7, 0.2);
    click(&mut harness, at);
    let mut nameless = Vec::new();
    for (tab, name) in crate::views::lower::TABS {
        harness.state_mut().open_tab(tab);
        settle(&mut harness);
        for node in harness.root().children_recursive() {
            let node = node.accesskit_node();
            // Those of egui itself.
            let is_bar = node.role() == Role::ScrollBar;
            let reacts = !is_bar && node.data().supports_action(egui::accesskit::Action::Click);
            let named = node.label().or_else(|| node.value()).is_some_and(|text| !text.trim().is_empty());
            let by_others = node.data().placeholder().is_some() || node.labelled_by().next().is_some();
            if reacts && !named && !by_others {
                nameless.push(format!("{name}: {:?} {:?}", node.role(), node.bounding_box()));
            }
        }
    }
    nameless.sort();
    nameless.dedup();
    assert!(nameless.is_empty(), "{}", nameless.join("\n"));
}
