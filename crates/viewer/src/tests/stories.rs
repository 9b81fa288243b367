//! Questions, and the number of clicks and keys that answer each.

use egui::Key;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vramscope_engine::{AskHere, AskState, Group};
use vramscope_format::{bytes, change};

use super::views::replay;
use super::{drawn, key, open, settle, window};
use crate::App;
use crate::requests::Slot;
use crate::views::Tab;

/// Hands that count what they do.
struct Hands {
    harness: Harness<'static, App>,
    actions: usize,
}

impl Hands {
    fn on(harness: Harness<'static, App>) -> Self {
        Self { harness, actions: 0 }
    }

    fn press(&mut self, pressed: Key) {
        self.actions += 1;
        key(&mut self.harness, pressed);
    }

    fn click(&mut self, label: &str) {
        self.actions += 1;
        self.harness.get_all_by_label_contains(label).next().unwrap().click();
        settle(&mut self.harness);
    }
}

#[test]
fn what_filled_it_is_seen_without_a_click() {
    let hands = Hands::on(window(&[("oom", "")]));
    // The cursor is at the peak, and the legend and the panel say what is live there.
    let here = hands.harness.state().requests.look::<AskHere>(Slot::Legend).unwrap().value;
    let most = here.rows.first().unwrap();
    assert_eq!(most.name, "activations");
    assert!(drawn(&hands.harness, "activations") && drawn(&hands.harness, "TOP LINES HERE"));
    assert_eq!(hands.actions, 0);
}

#[test]
fn one_click_shows_what_filled_it_alone() {
    let mut hands = Hands::on(window(&[("oom", "")]));
    hands.click("activations");
    let app = hands.harness.state();
    assert!(app.is_isolated(&Group::Category(3)));
    let levels = app.isolated_levels().unwrap();
    assert!(app.camera.view.y.1 < levels.peak.bytes as f64 * 1.2, "the bytes fit what is alone");
    assert!(drawn(&hands.harness, "only activations"));
    assert_eq!(hands.actions, 1);
    hands.press(Key::Escape);
    assert!(hands.harness.state().isolated.is_none(), "and a key shows everything again");
}

#[test]
fn why_it_failed_takes_one_click() {
    let mut hands = Hands::on(window(&[("oom", "")]));
    hands.click("out of memory at event 11 822");
    let app = hands.harness.state();
    let map = app.requests.look::<AskState>(Slot::State).unwrap().value;
    let failed = replay("oom").ooms()[0].event;
    assert_eq!(map.at.event(), Some(failed), "the map is that of the failure");
    assert!(drawn(&hands.harness, "requested 32.0 MiB"), "with the request");
    assert!(drawn(&hands.harness, "largest hole 20.0 MiB, 12.0 MiB short"), "and the largest hole");
    assert_eq!(hands.actions, 1);
}

#[test]
fn what_leaked_takes_one_click() {
    let mut hands = Hands::on(window(&[("leak_graph", "")]));
    let found = crate::views::insights::all(hands.harness.state_mut());
    let leak = found.iter().find(|insight| insight.kind == "growth" || insight.kind == "kept graph").unwrap();
    hands.click(&leak.title);
    let app = hands.harness.state();
    let isolated = app.isolated.as_ref().unwrap();
    assert_eq!(isolated.which.group, leak.group, "the leaking allocations are alone");
    assert_eq!(app.settings.tab, Tab::Insights);
    assert!(app.isolated_levels().unwrap().sum.count > 1);
    assert_eq!(hands.actions, 1);
}

#[test]
fn of_thousands_of_ranks_who_stands_out_takes_no_click_to_see_and_one_to_open() {
    let host = super::thousands();
    let done = std::sync::Arc::clone(&host.done);
    let mut hands = Hands::on(open(host));
    assert!(drawn(&hands.harness, "rank 1000"), "who stands out is named");
    assert!(hands.harness.query_by_label("4 096 ranks · 1 stands out").is_some());
    // Of the others only figures are in memory.
    assert_eq!(hands.harness.state().files.devices.len(), 1);
    hands.click("rank 1000 stands out");
    assert_eq!(done.lock().unwrap().opened, ["rank1000"]);
    let app = hands.harness.state();
    assert_eq!((app.files.devices.len(), app.files.current), (2, 1), "it is open and shown");
    assert_eq!(hands.actions, 1);
}

#[test]
fn which_rank_takes_no_click_to_see_and_one_to_open() {
    let ranks =
        [("expandable", "rank 0"), ("expandable", "rank 1"), ("expandable", "rank 2"), ("oom", "rank 3")];
    let mut hands = Hands::on(window(&ranks));
    assert!(drawn(&hands.harness, "▲ 3.99 GiB"), "the rank that stands out is marked");
    hands.press(Key::OpenBracket);
    assert_eq!(hands.harness.state().files.current, 3);
    assert_eq!(hands.actions, 1);
}

#[test]
fn how_a_rank_differs_is_seen_and_one_click_compares_it() {
    let ranks =
        [("expandable", "rank 0"), ("expandable", "rank 1"), ("expandable", "rank 2"), ("oom", "rank 3")];
    let mut hands = Hands::on(window(&ranks));
    let app = hands.harness.state();
    let (sources, curves) = (app.files.devices.iter().map(|device| device.source), &app.parts.rank_curves);
    let off: Vec<bool> = sources.map(|of| curves.of(of).unwrap() != curves.median()).collect();
    assert_eq!(off, [false, false, false, true], "three of four are the median");
    let most = curves.of(app.files.devices[3].source).unwrap().iter().max().copied();
    assert_eq!(most, Some(replay("oom").peak(vramscope_analysis::Counter::Requested).bytes));
    // Why it stands out is said where it is marked.
    let mark = hands.harness.get_by_label("rank 3, peak 3.99 GiB").rect().left_top() + egui::vec2(20.0, 8.0);
    hands.harness.hover_at(mark);
    hands.harness.run_steps(60);
    let end = |name: &str| replay(name).counters(replay(name).end()).requested;
    let (own, others) = (end("oom"), end("expandable"));
    let words = format!("{} against the median of {}", change(own - others), bytes(others));
    assert!(drawn(&hands.harness, &words), "how far it is off");
    assert!(drawn(&hands.harness, "modeling_llama.py"), "and in which lines");
    hands.click("Compare rank 0 with rank 3");
    assert_eq!(hands.harness.state().settings.tab, Tab::Compare);
    assert_eq!(hands.harness.state().parts.compare.other, Some(3));
    assert_eq!(hands.actions, 1);
}

#[test]
fn who_had_this_address_takes_two_actions() {
    let mut hands = Hands::on(window(&[("oom", "")]));
    let replay = replay("oom");
    let index = vramscope_analysis::AllocIdx(replay.allocations().len() as u32 / 2);
    let addr = replay.allocation(index).addr;
    hands.press(Key::Slash);
    // Typing, or pasting, the address counts as one.
    hands.actions += 1;
    hands
        .harness
        .get_all_by_role(egui::accesskit::Role::TextInput)
        .next()
        .unwrap()
        .type_text(&format!("{addr:#x}"));
    settle(&mut hands.harness);
    settle(&mut hands.harness);
    let lives = replay.allocations().iter().filter(|(_, a)| a.addr == addr).count();
    assert!(drawn(&hands.harness, &format!("{addr:#x}")));
    let results = hands.harness.state().requests.look::<vramscope_engine::AskSearch>(Slot::Search).unwrap();
    assert!(results.value.hits.len() >= lives.min(2), "every tenant is listed");
    assert!(hands.actions <= 2);
}

#[test]
fn an_empty_start_opens_nothing() {
    let hands = Hands::on(open(super::Direct::default()));
    assert!(hands.harness.state().device().is_none());
}

/// Where the system has no dialog for files, there is a list of folders; a folder is read when it is gone to, and not again.
#[test]
fn files_are_chosen_before_anything_is_open() {
    let host = super::Direct::default();
    let done = std::sync::Arc::clone(&host.done);
    let mut hands = Hands::on(open(host));
    hands.click("Browse…");
    assert_eq!(done.lock().unwrap().listed, 1);
    hands.harness.get_by_label("llama/").click();
    settle(&mut hands.harness);
    hands.click("oom.pickle");
    let done = done.lock().unwrap().clone();
    assert_eq!((done.listed, done.opened), (2, vec!["/runs/oom.pickle".to_owned()]));
}

#[test]
fn what_is_shown_is_there_in_words() {
    let mut hands = Hands::on(window(&[("oom", "")]));
    let words = hands.harness.state().words();
    assert!(words.starts_with("cuda:0, device 1 of 1: peak 3.99 GiB requested. exact"), "{words}");
    assert!(words.contains("\nLive by color: activations 3.34 GiB, "), "{words}");
    assert!(words.contains("\nFinding: out of memory at event 11 822"), "{words}");
    hands.click("activations");
    assert!(hands.harness.state().words().contains("\nOnly activations is shown, peak 3.34 GiB"));
}
