//! What hands do, and what the window then shows.

use egui::{Event, Key, Modifiers, MouseWheelUnit, vec2};
use egui_kittest::kittest::Queryable;
use vramscope_analysis::{AllocIdx, Counter, Moment, Replay};
use vramscope_engine::{Axis, Response};
use vramscope_snapshot::{DeviceId, Reader};

use super::{bytes_of, click, drag, key, open, plot, point, settle, window};
use crate::desk::Slot;
use crate::views::Tab;

pub(super) fn replay(name: &str) -> Replay {
    let mut reader = Reader::new();
    reader.feed(&bytes_of(name)).unwrap();
    Replay::new(&reader.finish().unwrap(), DeviceId(0))
}

#[test]
fn a_click_selects_what_is_under_it_in_every_view() {
    let mut harness = window(&[("oom", "")]);
    let at = point(&harness, 0.99, 0.3);
    click(&mut harness, at);
    let app = harness.state();
    let alloc = app.selected.unwrap();
    let answer = app.desk.look(Slot::Details).unwrap();
    let Response::Details(details) = &*answer.response else { panic!("details") };
    assert_eq!(details.alloc, alloc);
    // The panel says what the replay has, to the byte.
    let replay = replay("oom");
    let allocation = replay.allocation(AllocIdx(alloc));
    assert_eq!(
        (details.requested, details.size, details.addr),
        (allocation.requested, allocation.size, allocation.addr)
    );
    assert!(allocation.is_live(Moment(app.cursor)), "the cursor is where it was clicked");
    let bytes = format!("{} B", vramscope_format::count(allocation.requested));
    assert!(harness.query_all_by_label(&bytes).next().is_some(), "the exact bytes can be read");
    key(&mut harness, Key::Escape);
    assert_eq!(harness.state().selected, None);
}

#[test]
fn numbers_in_the_status_bar_are_those_of_the_replay() {
    let mut harness = window(&[("oom", "")]);
    harness.hover_at(point(&harness, 0.5, 0.1));
    settle(&mut harness);
    let at = harness.state().hover_at.unwrap();
    let counters = replay("oom").counters(Moment(at));
    let text = format!("requested {}", vramscope_format::bytes(counters.requested));
    assert!(harness.query_by_label(&text).is_some(), "{text}");
}

#[test]
fn the_wheel_zooms_at_the_pointer_and_back_returns() {
    let mut harness = window(&[("oom", "")]);
    let before = harness.state().view;
    let at = point(&harness, 0.5, 0.5);
    harness.hover_at(at);
    harness.run_steps(40);
    let turn = |modifiers| Event::MouseWheel {
        unit: MouseWheelUnit::Line,
        delta: vec2(0.0, 4.0),
        modifiers,
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
    };
    harness.event(turn(Modifiers::NONE));
    harness.run_steps(40);
    let zoomed = harness.state().view;
    assert!(zoomed.x.1 - zoomed.x.0 < (before.x.1 - before.x.0) * 0.7);
    let (was, is) = (before.point(plot(&harness), at), zoomed.point(plot(&harness), at));
    assert!((was.0 - is.0).abs() < 1.0, "the event under the pointer stays there");
    harness.event_modifiers(turn(Modifiers::ALT), Modifiers::ALT);
    harness.run_steps(40);
    assert_eq!(harness.state().view.y, zoomed.y, "with Alt only the x axis");
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowLeft);
    harness.run_steps(40);
    assert_eq!(harness.state().view.x, zoomed.x);
    key(&mut harness, Key::F);
    harness.run_steps(20);
    assert_eq!(harness.state().view.x, before.x);
}

#[test]
fn the_axis_switches_in_place() {
    let mut harness = window(&[("oom", "")]);
    let at = point(&harness, 0.99, 0.3);
    click(&mut harness, at);
    let selected = harness.state().selected;
    key(&mut harness, Key::T);
    let app = harness.state();
    assert_eq!(app.settings.axis, Axis::Time);
    assert_eq!(app.selected, selected);
    let (_, summary) = app.device().unwrap();
    assert_eq!(app.view.x, (0.0, summary.time.unwrap().1 as f64), "the whole run is still shown");
    key(&mut harness, Key::T);
    assert_eq!(harness.state().settings.axis, Axis::Events);
}

#[test]
fn ctrl_and_a_drag_zoom_to_a_box() {
    let mut harness = window(&[("oom", "")]);
    let (from, to) = (point(&harness, 0.2, 0.1), point(&harness, 0.4, 0.6));
    let wanted =
        (harness.state().view.point(plot(&harness), from), harness.state().view.point(plot(&harness), to));
    harness.event(Event::ModifiersChanged(Modifiers::COMMAND));
    drag(&mut harness, from, to);
    harness.event(Event::ModifiersChanged(Modifiers::NONE));
    harness.run_steps(30);
    let view = harness.state().view;
    assert!(
        (view.x.0 - wanted.0.0).abs() < 20.0 && (view.x.1 - wanted.1.0).abs() < 20.0,
        "{view:?} {wanted:?}"
    );
}

#[test]
fn every_tab_opens_and_shows_its_data() {
    let mut harness = window(&[("oom", "")]);
    let peak = replay("oom").peak(Counter::Requested);
    for (tab, name, slot) in [
        (Tab::Segments, "Segments", Slot::Lanes),
        (Tab::State, "State", Slot::State),
        (Tab::Flame, "Flame", Slot::Flame),
        (Tab::Tree, "Tree", Slot::Tree),
        (Tab::Lifetimes, "Lifetimes", Slot::Lifetimes),
        (Tab::Tables, "Tables", Slot::Allocations),
        (Tab::Compare, "Compare", Slot::Diff),
    ] {
        harness.get_by_label(name).click();
        settle(&mut harness);
        let app = harness.state();
        assert_eq!(app.settings.tab, tab);
        let answer = app.desk.look(slot).unwrap();
        match &*answer.response {
            Response::Tree(tree) => assert_eq!(tree.nodes[0].bytes, peak.bytes as u64, "live at the peak"),
            Response::State(map) => assert_eq!(map.numbers.requested, peak.bytes),
            Response::Diff(tree) => assert_eq!(tree.nodes[0].after.0, peak.bytes as u64),
            Response::Tile(tile) => assert!(!tile.owners.is_empty()),
            Response::Allocations(page) => {
                assert_eq!(page.total as usize, replay("oom").allocations().len());
                assert!(page.rows.windows(2).all(|rows| rows[0].owner.requested >= rows[1].owner.requested));
            }
            Response::Lifetimes(page) => assert!(page.total > 100),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_row_of_the_table_is_selected_by_a_click() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num6);
    let answer = harness.state().desk.look(Slot::Allocations).unwrap();
    let Response::Allocations(page) = &*answer.response else { panic!("a page") };
    let largest = page.rows[0].owner.alloc;
    // Below the tabs, the switches and the names of the columns.
    let at = plot(&harness).left_bottom() + vec2(200.0, 22.0 + 30.0 + 4.0 + 28.0 + 24.0 + 12.0);
    click(&mut harness, at);
    assert_eq!(harness.state().selected, Some(largest));
}

#[test]
fn a_search_finds_lines_and_dims_the_rest() {
    let mut harness = window(&[("oom", "")]);
    harness.state_mut().parts.search.text = "activations.py".into();
    settle(&mut harness);
    let answer = harness.state().desk.look(Slot::Search).unwrap();
    let Response::Search(results) = &*answer.response else { panic!("results") };
    assert!(!results.stacks.is_empty() && !results.hits.is_empty());
    harness.state_mut().parts.search.text = "event 100".into();
    settle(&mut harness);
    let answer = harness.state().desk.look(Slot::Search).unwrap();
    let Response::Search(results) = &*answer.response else { panic!("results") };
    assert_eq!(results.hits[0], vramscope_engine::Hit::Event(100));
}

#[test]
fn ranks_are_listed_and_chosen() {
    let mut harness = window(&[("oom", "rank 0"), ("expandable", "rank 1")]);
    assert_eq!(harness.state().devices.len(), 2);
    key(&mut harness, Key::CloseBracket);
    assert_eq!(harness.state().current, 1);
    let (_, summary) = harness.state().device().unwrap();
    assert_eq!(summary.peaks[0].0, replay("expandable").peak(Counter::Requested).bytes);
}

#[test]
fn without_a_file_it_says_what_to_do() {
    let mut harness = open(super::Direct::default());
    harness.get_by_label("Open the demo").click();
    settle(&mut harness);
    assert!(harness.state().device().is_some());
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let mut host = super::Direct::default();
    host.news.push(vramscope_engine::News::Failed {
        name: "broken.pickle".into(),
        message: "damaged at byte 17".into(),
    });
    let harness = open(host);
    assert!(harness.query_by_label("damaged at byte 17").is_some());
}

#[test]
fn keys_and_commands_are_shown_and_work() {
    let mut harness = window(&[("oom", "")]);
    harness.event(Event::Text("?".into()));
    key(&mut harness, Key::Questionmark);
    assert!(harness.query_by_label("Show the whole run").is_some());
    key(&mut harness, Key::Escape);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::K);
    settle(&mut harness);
    harness.event(Event::Text("light".into()));
    settle(&mut harness);
    key(&mut harness, Key::Enter);
    assert!(!harness.state().settings.dark);
}
