//! What hands do, and what the window then shows.

use egui::{Event, Key, Modifiers, MouseWheelUnit, vec2};
use egui_kittest::kittest::Queryable;
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{Counter, Replay};
use vramscope_engine::{
    AskAllocations, AskDetails, AskDiff, AskLanes, AskLifetimes, AskSearch, AskState, AskTree, Hit,
    LifetimeRow, News,
};
use vramscope_snapshot::{DeviceId, Reader};

use super::{bytes_of, click, drag, key, open, plot, point, settle, window};
use crate::requests::Slot;
use crate::view::View;
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
    let alloc = app.selection.alloc.unwrap();
    let answer = app.requests.look::<AskDetails>(Slot::Details).unwrap();
    let details = &*answer.value;
    assert_eq!(details.owner.alloc, alloc);
    // The panel says what the replay has, to the byte.
    let replay = replay("oom");
    let allocation = replay.allocation(alloc);
    assert_eq!(
        (details.owner.requested, details.size, details.addr),
        (allocation.requested, allocation.size, allocation.addr)
    );
    assert!(allocation.is_live(app.selection.cursor), "the cursor is where it was clicked");
    let bytes = format!("{} B", vramscope_format::count(allocation.requested));
    assert!(harness.query_all_by_label(&bytes).next().is_some(), "the exact bytes can be read");
    key(&mut harness, Key::Escape);
    assert_eq!(harness.state().selection.alloc, None);
}

#[test]
fn numbers_in_the_status_bar_are_those_of_the_replay() {
    let mut harness = window(&[("oom", "")]);
    harness.hover_at(point(&harness, 0.5, 0.1));
    settle(&mut harness);
    let at = harness.state().selection.hover_at.unwrap();
    let counters = replay("oom").counters(at);
    let text = format!("requested {}", vramscope_format::bytes(counters.requested));
    assert!(harness.query_by_label(&text).is_some(), "{text}");
}

#[test]
fn the_wheel_zooms_at_the_pointer_and_back_returns() {
    let mut harness = window(&[("oom", "")]);
    let before = harness.state().camera.view;
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
    let zoomed = harness.state().camera.view;
    assert!(zoomed.x.1 - zoomed.x.0 < (before.x.1 - before.x.0) * 0.7);
    let (was, is) = (before.point(plot(&harness), at), zoomed.point(plot(&harness), at));
    assert!((was.0 - is.0).abs() < 1.0, "the event under the pointer stays there");
    assert_eq!(zoomed.y.0, 0.0, "bytes follow what is shown, from zero");
    harness.event_modifiers(turn(Modifiers::SHIFT), Modifiers::SHIFT);
    harness.run_steps(40);
    let locked = harness.state().camera.view;
    assert_eq!(locked.x, zoomed.x, "with Shift only bytes");
    assert!(locked.y.1 - locked.y.0 < zoomed.y.1 * 0.8, "and they stay as they were chosen");
    // Every change is undone by itself, and done again.
    let mut go = |key: Key| {
        harness.key_press_modifiers(Modifiers::ALT, key);
        harness.run_steps(40);
        harness.state().camera.view
    };
    assert_eq!(go(Key::ArrowLeft), zoomed);
    assert_eq!(go(Key::ArrowLeft).x, before.x);
    assert_eq!(go(Key::ArrowRight), zoomed);
    key(&mut harness, Key::F);
    assert_eq!(harness.state().camera.view.x, before.x);
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowLeft);
    harness.run_steps(40);
    assert_eq!(harness.state().camera.view, zoomed, "showing the whole run is a change, too");
}

#[test]
fn a_drag_is_one_change_however_long_it_takes() {
    let mut harness = window(&[("oom", "")]);
    let whole = harness.state().camera.view;
    harness.state_mut().glide(View { x: (4_000.0, 8_000.0), ..whole });
    harness.run_steps(40);
    let before = harness.state().camera.view;
    let at = point(&harness, 0.5, 0.5);
    harness.hover_at(at);
    harness.step();
    harness.drag_at(at);
    for moved in 1..6 {
        // A second or more between two movements, while the button is down.
        harness.hover_at(at + vec2(-20.0 * moved as f32, 0.0));
        harness.run_steps(6);
    }
    harness.drop_at(at + vec2(-100.0, 0.0));
    harness.run_steps(10);
    assert!(harness.state().camera.view.x.0 > before.x.0);
    harness.key_press_modifiers(Modifiers::ALT, Key::ArrowLeft);
    harness.run_steps(10);
    assert_eq!(harness.state().camera.view.x, before.x);
}

#[test]
fn the_axis_switches_in_place() {
    let mut harness = window(&[("oom", "")]);
    let at = point(&harness, 0.99, 0.3);
    click(&mut harness, at);
    let selected = harness.state().selection.alloc;
    key(&mut harness, Key::T);
    let app = harness.state();
    assert_eq!(app.settings.axis, Axis::Time);
    assert_eq!(app.selection.alloc, selected);
    let (_, summary) = app.device().unwrap();
    assert_eq!(app.camera.view.x, (0.0, summary.time.unwrap().1 as f64), "the whole run is still shown");
    key(&mut harness, Key::T);
    assert_eq!(harness.state().settings.axis, Axis::Events);
}

#[test]
fn ctrl_and_a_drag_zoom_to_a_box() {
    let mut harness = window(&[("oom", "")]);
    let (from, to) = (point(&harness, 0.2, 0.1), point(&harness, 0.4, 0.6));
    let wanted = (
        harness.state().camera.view.point(plot(&harness), from),
        harness.state().camera.view.point(plot(&harness), to),
    );
    harness.event(Event::ModifiersChanged(Modifiers::COMMAND));
    drag(&mut harness, from, to);
    harness.event(Event::ModifiersChanged(Modifiers::NONE));
    harness.run_steps(30);
    let view = harness.state().camera.view;
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
        (Tab::Events, "Events", Slot::Events),
        (Tab::Breakdown, "Breakdown", Slot::Report),
        (Tab::Compare, "Compare", Slot::Diff),
    ] {
        if harness.query_by_label(name).is_none() {
            harness.get_by_label("more ▾").click();
            settle(&mut harness);
        }
        harness.get_by_label(name).click();
        settle(&mut harness);
        let app = harness.state();
        assert_eq!(app.settings.tab, tab);
        assert!(app.requests.is_fresh(slot), "{name}");
    }
    let requests = &harness.state().requests;
    for slot in [Slot::Flame, Slot::Tree] {
        let tree = requests.look::<AskTree>(slot).unwrap().value;
        assert_eq!(tree.nodes[0].bytes, peak.bytes as u64, "live at the peak");
    }
    assert_eq!(requests.look::<AskState>(Slot::State).unwrap().value.counters.requested, peak.bytes);
    assert_eq!(requests.look::<AskDiff>(Slot::Diff).unwrap().value.nodes[0].after.bytes, peak.bytes as u64);
    assert!(!requests.look::<AskLanes>(Slot::Lanes).unwrap().value.owners.is_empty());
    assert!(requests.look::<AskLifetimes>(Slot::Lifetimes).unwrap().value.total > 20);
    let page = requests.look::<AskAllocations>(Slot::Allocations).unwrap().value;
    assert_eq!(page.total as usize, replay("oom").allocations().len());
    assert!(page.rows.windows(2).all(|rows| rows[0].owner.requested >= rows[1].owner.requested));
}

#[test]
fn groups_of_lifetimes_unfold_fit_and_stand_alone() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num5);
    let rows = |harness: &egui_kittest::Harness<'static, crate::App>| {
        harness.state().requests.look::<AskLifetimes>(Slot::Lifetimes).unwrap().value.rows.clone()
    };
    let [
        LifetimeRow::Group { label, sum, life, open: false, .. },
        LifetimeRow::Strip { levels, most, .. },
        ..,
    ] = &rows(&harness)[..]
    else {
        panic!("a folded group is a name and a strip");
    };
    assert!(levels.contains(&255) && *most > 0, "its highest column is as high as the row");
    let (folded, members) = (rows(&harness).len(), sum.count as usize);
    assert!(super::drawn(&harness, label), "its name is on the screen");
    harness.get_all_by_label_contains("× events").next().unwrap().click();
    settle(&mut harness);
    let bars = rows(&harness).iter().filter(|row| matches!(row, LifetimeRow::Bar { .. })).count();
    assert_eq!(bars, members.min(160 - 2), "of {folded} rows");
    harness.get_by_label("fold all").click();
    settle(&mut harness);
    assert_eq!(rows(&harness).len(), folded);

    let last = harness.state().device().unwrap().1.length(Axis::Events);
    let (from, to) = (f64::from(life.0.0), life.1.map_or(last, |at| f64::from(at.0)));
    harness.get_all_by_label("fit").next().unwrap().click();
    settle(&mut harness);
    let x = harness.state().camera.view.x;
    assert!(
        x.0 <= from && x.1 >= to.min(last) && x.1 - x.0 <= (to - from) * 1.31 + 8.0,
        "{x:?} for {from} to {to}"
    );
    harness.get_all_by_label("alone").next().unwrap().click();
    settle(&mut harness);
    assert!(harness.state().isolated.is_some());
}

#[test]
fn a_view_jumps_where_little_motion_is_preferred() {
    let mut harness = window(&[("oom", "")]);
    harness.state_mut().settings.motion = Some(false);
    let x = (1000.0, 3000.0);
    let view = View { x, ..harness.state().camera.view };
    harness.state_mut().glide(view);
    assert_eq!(harness.state().camera.view.x, x, "at once");
    harness.state_mut().settings.motion = None;
    harness.state_mut().fit();
    assert_eq!(harness.state().camera.view.x, x, "it glides");
    settle(&mut harness);
    assert!(harness.state().camera.view.x.1 > 3000.0);
}

#[test]
fn a_row_of_the_table_is_selected_by_a_click() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num6);
    let answer = harness.state().requests.look::<AskAllocations>(Slot::Allocations).unwrap();
    let page = &*answer.value;
    let largest = page.rows[0].owner.alloc;
    // Below the tabs, the switches and the names of the columns.
    let at = plot(&harness).left_bottom() + vec2(200.0, 22.0 + 30.0 + 4.0 + 28.0 + 24.0 + 12.0);
    click(&mut harness, at);
    assert_eq!(harness.state().selection.alloc, Some(largest));
}

#[test]
fn a_search_finds_lines_and_dims_the_rest() {
    let mut harness = window(&[("oom", "")]);
    harness.state_mut().parts.search.text = "activations.py".into();
    settle(&mut harness);
    let answer = harness.state().requests.look::<AskSearch>(Slot::Search).unwrap();
    let results = &*answer.value;
    assert!(!results.stacks.is_empty() && !results.hits.is_empty());
    harness.state_mut().parts.search.text = "event 100".into();
    settle(&mut harness);
    let answer = harness.state().requests.look::<AskSearch>(Slot::Search).unwrap();
    let results = &*answer.value;
    assert!(matches!(results.hits[..], [Hit::Moment { at, .. }] if at.words() == "after event 100"));
}

#[test]
fn ranks_are_listed_and_chosen() {
    let mut harness = window(&[("oom", "rank 0"), ("expandable", "rank 1")]);
    assert_eq!(harness.state().files.devices.len(), 2);
    key(&mut harness, Key::CloseBracket);
    assert_eq!(harness.state().files.current, 1);
    let (_, summary) = harness.state().device().unwrap();
    assert_eq!(summary.peak(Counter::Requested).bytes, replay("expandable").peak(Counter::Requested).bytes);
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
    host.news.push(News::Failed { name: "broken.pickle".into(), message: "damaged at byte 17".into() });
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
    assert_eq!(harness.state().settings.dark, Some(false));
}

/// Types into the search and goes to the first result.
fn go_to(harness: &mut egui_kittest::Harness<'static, crate::App>, text: &str) {
    key(harness, Key::Slash);
    harness.event(Event::Text(text.into()));
    settle(harness);
    key(harness, Key::Enter);
    key(harness, Key::Escape);
}

#[test]
fn the_search_goes_to_moments_and_every_view_counts_events_alike() {
    let mut harness = window(&[("oom", "")]);
    let replay = replay("oom");
    go_to(&mut harness, "8773");
    assert_eq!(harness.state().selection.cursor.words(), "after event 8 773");
    assert!(harness.query_by_label("requested after event 8 773").is_some(), "the panel");
    for (text, at) in
        [("peak", replay.peak(Counter::Requested).at), ("start", vramscope_analysis::Moment::START)]
    {
        go_to(&mut harness, text);
        assert_eq!(harness.state().selection.cursor, at, "{text}");
    }
    // The last event is one less than their number.
    key(&mut harness, Key::O);
    let last = replay.ooms().iter().map(|oom| oom.event.0).min().unwrap();
    let text = format!("requested after event {}", vramscope_format::count(last));
    assert!(harness.query_by_label(&text).is_some(), "{text}");
}

#[test]
fn what_is_typed_is_explained_where_it_is_wrong() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Slash);
    harness.event(Event::Text("oom:7".into()));
    settle(&mut harness);
    assert!(harness.query_by_label("oom:7 does not exist: memory ran out 1 time").is_some());
    key(&mut harness, Key::Escape);
    key(&mut harness, Key::Num6);
    harness.get_by_label("filter").focus();
    settle(&mut harness);
    harness.event(Event::Text("size>=20MiB".into()));
    settle(&mut harness);
    let page = harness.state().requests.look::<AskAllocations>(Slot::Allocations).unwrap().value;
    let large = replay("oom").allocations().iter().filter(|(_, a)| a.requested >= 20 << 20).count();
    assert_eq!(page.total as usize, large);
}

#[test]
fn the_line_of_reserved_memory_says_what_it_ends_at() {
    let harness = window(&[("expandable", "")]);
    let replay = replay("expandable");
    let end = vramscope_format::bytes(replay.counters(replay.end()).reserved);
    assert!(super::drawn(&harness, &format!("reserved {end}")), "{end}");
}

#[test]
fn a_file_without_devices_says_so() {
    let mut host = super::Direct::default();
    host.news.push(News::Opened { name: "empty.pickle".into(), sources: Vec::new() });
    let harness = open(host);
    let text = "There is nothing to show: nothing was allocated on any device while recording.";
    assert!(harness.query_by_label(text).is_some());
}

#[test]
fn files_that_are_not_ranks_are_shown_as_they_were_named() {
    let mut host = super::Direct::default();
    let names = ["oom", "expandable_mixed", "expandable"];
    for name in names {
        host.news.push(News::Reading { name: name.into(), done: 0, total: 1 });
    }
    // They are read side by side, and the first is ready last.
    for name in ["expandable", "expandable_mixed", "oom"] {
        host.add(name, "", &bytes_of(name));
    }
    let harness = open(host);
    let app = harness.state();
    let shown: Vec<_> = (0..3).map(|at| app.name_of(at)).collect();
    assert_eq!(shown, names.map(|name| format!("{name}.pickle")));
    assert_eq!(app.device().unwrap().1.file, "oom.pickle");
    assert!(harness.query_by_label("FILES").is_some() && harness.query_by_label("RANKS").is_none());
    assert!(!super::drawn(&harness, "▲ "), "what has nothing to do with each other does not stand out");
}

#[test]
fn hatching_is_explained_where_there_is_some() {
    let harness = window(&[("cudagraph_pools", "")]);
    assert!(
        super::drawn(&harness, "idle in a private pool")
            && super::drawn(&harness, "without idle pool memory")
    );
    assert!(!super::drawn(&window(&[("oom", "")]), "idle in a private pool"));
}

#[test]
fn the_name_of_a_failed_allocation_opens_the_map() {
    let mut harness = window(&[("oom", "")]);
    // The words beside the line of the failure, at the right end.
    let at = plot(&harness).right_top() + vec2(-60.0, 8.0);
    click(&mut harness, at);
    let app = harness.state();
    assert_eq!(app.settings.tab, Tab::State);
    assert_eq!(app.selection.cursor.event(), Some(replay("oom").ooms()[0].event));
    assert_eq!(app.selection.alloc, None, "nothing behind it is selected");
}

#[test]
fn all_of_a_stack_are_shown_whatever_the_table_was_limited_to() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num6);
    harness.get_by_label("live at the cursor").click();
    settle(&mut harness);
    let at = point(&harness, 0.99, 0.3);
    click(&mut harness, at);
    let details = harness.state().selected_details().unwrap();
    harness.get_by_label("Show all of them in the table").click();
    settle(&mut harness);
    let page = harness.state().requests.look::<AskAllocations>(Slot::Allocations).unwrap().value;
    let stack = details.owner.stack;
    let all = replay("oom").allocations().iter().filter(|(_, allocation)| allocation.stack == stack).count();
    assert_eq!(page.total as usize, all);
}

#[test]
fn segments_scroll_to_what_is_selected_elsewhere() {
    let mut harness = window(&[("oom", "")]);
    // So low that most rows are out of sight.
    harness.set_size(vec2(900.0, 460.0));
    key(&mut harness, Key::Num1);
    settle(&mut harness);
    let (_, summary) = harness.state().device().unwrap();
    // Rows are sorted by size: the last one is the smallest stretch, the one with the highest address of those.
    let last = summary.lanes.iter().min_by_key(|lane| (lane.size, std::cmp::Reverse(lane.addr))).unwrap();
    let (addr, end) = (last.addr, last.addr + last.size);
    let replay = replay("oom");
    let (alloc, _) = replay.allocations().iter().find(|(_, a)| addr <= a.addr && a.addr < end).unwrap();
    assert_eq!(harness.state().parts.segments.scroll(), 0.0);
    harness.state_mut().select_and_show(alloc);
    harness.run_steps(40);
    assert!(harness.state().parts.segments.scroll() > 0.0, "of {} rows", summary.lanes.len());
    let lanes = harness.state().requests.look::<AskLanes>(Slot::Lanes).unwrap();
    let number = summary.lanes.iter().position(|lane| lane.addr == addr).unwrap() as u32;
    assert!(lanes.request.lanes.iter().any(|(lane, ..)| *lane == number), "its row is drawn");
}

#[test]
fn names_in_messages_stand_between_quotes() {
    let mut host = super::Direct::default();
    let message = "the file ends before `_dump_snapshot` had written it".to_owned();
    host.news.push(News::Failed { name: "cut.pickle".into(), message });
    let harness = open(host);
    assert!(harness.query_by_label("the file ends before '_dump_snapshot' had written it").is_some());
}

#[test]
fn what_is_read_but_not_open_yet_is_replayed() {
    let mut host = super::Direct::default();
    host.news.push(News::Reading { name: "large.pickle".into(), done: 5 << 20, total: 5 << 20 });
    let harness = open(host);
    assert!(harness.query_by_label("replaying…").is_some());
}
