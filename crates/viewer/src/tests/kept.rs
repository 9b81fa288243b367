//! What leaves the window and what comes back: tables as files, places that are remembered, dropped files, panes.

use std::path::PathBuf;
use std::sync::Arc;

use egui::{Key, Modifiers, pos2};
use egui_kittest::kittest::Queryable;
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{Counter, Moment};
use vramscope_engine::color::ColorBy;

use super::{Direct, Done, bytes_of, click, drag, key, open, plot, point, settle, window};
use crate::views::Tab;

type Harness = egui_kittest::Harness<'static, crate::App>;

/// The window on a recording, and what it sent to its host.
fn done(name: &str) -> (Harness, Arc<std::sync::Mutex<Done>>) {
    let mut host = Direct::default();
    host.add(name, "", &bytes_of(name));
    let done = Arc::clone(&host.done);
    (open(host), done)
}

#[test]
fn csv_has_every_row_and_not_only_those_that_are_seen() {
    let (mut harness, done) = done("oom");
    let allocations = harness.state().device().unwrap().1.allocations as usize;
    for (tab, name) in [(Key::Num6, "allocations.csv"), (Key::Num5, "lifetimes.csv")] {
        key(&mut harness, tab);
        harness.key_press_modifiers(Modifiers::COMMAND, Key::E);
        settle(&mut harness);
        let (saved, text) = done.lock().unwrap().saved.pop().unwrap();
        assert_eq!(saved, name);
        // A line each, and the names of the columns; the chart's groups are no allocations.
        assert_eq!(text.lines().count(), allocations + 1);
        // The columns that `export` has.
        assert!(text.starts_with("allocation,addr,requested,size,alloc_event,release_event,free_event,"));
        // What is live at the end has no end.
        let open = text.lines().skip(1).filter(|line| line.split(',').nth(6) == Some(""));
        let live = super::views::replay("oom")
            .allocations()
            .iter()
            .filter(|(_, a)| a.closed == Moment::NEVER)
            .count();
        assert_eq!(open.count(), live);
    }
}

#[test]
fn notes_travel_with_the_recording_and_in_links() {
    let (mut harness, done) = done("oom");
    harness.state_mut().set_cursor(Moment(5000));
    settle(&mut harness);
    key(&mut harness, Key::M);
    harness.event(egui::Event::Text("100 MiB & more".into()));
    settle(&mut harness);
    harness.key_press(Key::Enter);
    harness.run_steps(60);
    assert!(super::drawn(&harness, "100 MiB & more"), "on the chart");
    assert!(harness.state().words().contains(": 100 MiB & more"), "for screen readers");
    let link = harness.state().link().unwrap();

    // A window that never saw it; and one of the same user.
    let (mut other, _) = self::done("oom");
    other.state_mut().follow(&link);
    let mut host = Direct::default();
    host.done.lock().unwrap().stored = done.lock().unwrap().stored.clone();
    host.add("oom", "", &bytes_of("oom"));
    for again in [other, open(host)] {
        let notes: Vec<_> = again.state().notes.iter().map(|note| (note.at, note.text.as_str())).collect();
        assert_eq!(notes, [(Moment(5000), "100 MiB & more")]);
    }

    // Nothing typed takes it away.
    key(&mut harness, Key::M);
    harness.get_by_label("Remove").click();
    settle(&mut harness);
    assert_eq!(harness.state().notes, []);
}

#[test]
fn a_link_means_the_recording_that_it_was_made_of() {
    let mut harness = window(&[("expandable", ""), ("oom", "")]);
    key(&mut harness, Key::CloseBracket);
    let at = point(&harness, 0.8, 0.1);
    click(&mut harness, at);
    let app = harness.state();
    let (link, cursor, alloc) = (app.link().unwrap(), app.selection.cursor, app.selection.alloc);
    assert!(alloc.is_some());

    // Among others it is found, wherever it is in the list.
    let mut more = window(&[("oom", ""), ("expandable", ""), ("cudagraph_pools", "")]);
    more.state_mut().follow(&link);
    let app = more.state();
    assert_eq!(app.device().unwrap().1.file, "oom.pickle");
    assert_eq!((app.selection.cursor, app.selection.alloc), (cursor, alloc));

    // Another one: nothing is selected in it, and the window says why.
    let mut other = window(&[("expandable", "")]);
    let before = other.state().selection.cursor;
    other.state_mut().follow(&link);
    settle(&mut other);
    let app = other.state();
    assert_eq!((app.selection.cursor, app.selection.alloc), (before, None));
    assert!(super::drawn(&other, "another recording"));
}

#[test]
fn a_recording_is_shown_as_it_was_left() {
    let (mut harness, done) = done("oom");
    let at = point(&harness, 0.99, 0.3);
    click(&mut harness, at);
    key(&mut harness, Key::T);
    let app = harness.state_mut();
    app.settings.color = Some(ColorBy::Size);
    app.camera.view.x = (1e6, 1.2e6);
    // A place is kept once it has been still for half a second.
    harness.run_steps(60);
    let app = harness.state();
    let (view, cursor, selected) = (app.camera.view, app.selection.cursor, app.selection.alloc);
    assert!(selected.is_some());
    assert_eq!(view.x, (1e6, 1.2e6));

    let mut host = Direct::default();
    host.done.lock().unwrap().stored = done.lock().unwrap().stored.clone();
    host.add("oom", "", &bytes_of("oom"));
    let again = open(host);
    let app = again.state();
    assert_eq!((app.camera.view, app.selection.cursor, app.selection.alloc), (view, cursor, selected));
    assert_eq!((app.settings.axis, app.settings.color), (Axis::Time, Some(ColorBy::Size)));

    // Another recording begins anew.
    let mut host = Direct::default();
    host.done.lock().unwrap().stored = done.lock().unwrap().stored.clone();
    host.add("expandable", "", &bytes_of("expandable"));
    let other = open(host);
    assert_eq!(other.state().selection.alloc, None);
    assert_eq!(other.state().camera.view.x.0, 0.0);
}

/// A file that a hand lets go over the window.
#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &std::path::Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        Err("only its path is asked for".into())
    }
}

#[test]
fn dropped_files_are_opened() {
    let (mut harness, done) = done("oom");
    harness.input_mut().dropped_files.push(Arc::new(Dropped(PathBuf::from("/runs/rank1.pickle"))));
    settle(&mut harness);
    assert_eq!(done.lock().unwrap().opened, ["/runs/rank1.pickle"]);
}

#[test]
fn r_and_a_drag_measure_until_escape() {
    let mut harness = window(&[("oom", "")]);
    let (from, to) = (point(&harness, 0.2, 0.2), point(&harness, 0.6, 0.7));
    harness.key_down(Key::R);
    drag(&mut harness, from, to);
    harness.key_up(Key::R);
    settle(&mut harness);
    let (plot, app) = (plot(&harness), harness.state());
    let ruler = app.selection.ruler.unwrap();
    for (end, at) in [(ruler.from, from), (ruler.to, to)] {
        let wanted = app.camera.view.point(plot, at);
        assert!((end.0 - wanted.0).abs() < 20.0 && (end.1 - wanted.1).abs() < 2e7, "{end:?} {wanted:?}");
    }
    key(&mut harness, Key::Escape);
    assert!(harness.state().selection.ruler.is_none());
}

#[test]
fn a_second_pane_opens_changes_places_and_closes() {
    let mut harness = window(&[("oom", "")]);
    assert_eq!(harness.state().settings.tab, Tab::Flame);
    harness.get_by_label("split").click();
    settle(&mut harness);
    assert_eq!(harness.state().settings.side, Some(Tab::Tree), "the next in the row");
    harness.get_by_label("⇄").click();
    settle(&mut harness);
    let settings = &harness.state().settings;
    assert_eq!((settings.tab, settings.side), (Tab::Tree, Some(Tab::Flame)));
    // A view that is in sight stays where it is.
    key(&mut harness, Key::Num3);
    assert_eq!(harness.state().settings.tab, Tab::Tree);
    key(&mut harness, Key::Num6);
    assert_eq!(harness.state().settings.tab, Tab::Tables);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Backslash);
    settle(&mut harness);
    assert_eq!(harness.state().settings.side, None);
    let before = plot(&harness).height();
    harness.key_press_modifiers(Modifiers::COMMAND, Key::J);
    settle(&mut harness);
    assert!(plot(&harness).height() > before + 100.0, "the timeline takes the room");
}

#[test]
fn a_capacity_can_be_typed() {
    let mut harness = window(&[("oom", "")]);
    key(&mut harness, Key::Num9);
    assert_eq!(harness.state().capacity(), None);
    harness.get_by_label("capacity").focus();
    settle(&mut harness);
    harness.event(egui::Event::Text("h100".into()));
    settle(&mut harness);
    assert_eq!(harness.state().capacity(), Some(81_559 << 20));
    assert!(harness.query_by_label("79.6 GiB").is_some());
}

#[test]
fn a_cut_file_says_what_is_intact_until_that_was_read() {
    let bytes = bytes_of("oom");
    let mut host = Direct::default();
    host.add("cut", "", &bytes[..bytes.len() / 2]);
    let mut harness = open(host);
    let damage = harness.state().device().unwrap().1.damage.clone().unwrap();
    assert!(damage.contains("damaged or cut") && damage.contains("intact"), "{damage}");
    assert!(harness.query_by_label(&damage).is_some());
    harness.get_by_label("×").click();
    settle(&mut harness);
    assert!(harness.query_by_label(&damage).is_none());
}

#[test]
fn a_click_in_the_second_rank_selects_there_and_moves_nothing() {
    let mut harness = window(&[("oom", "rank 0"), ("expandable", "rank 1")]);
    harness.state_mut().files.beside = Some(1);
    settle(&mut harness);
    let (first, view) = (plot(&harness), harness.state().camera.view);
    // The second picture lies right below, as high as the first. Its lowest pixels are the model's weights.
    let at = pos2(first.left() + 60.0, first.bottom() + first.height() + 20.0);
    click(&mut harness, at);
    let app = harness.state();
    assert_eq!((app.files.current, app.files.beside), (1, Some(0)));
    assert!(app.selection.alloc.is_some());
    assert!(plot(&harness).top() > first.bottom(), "each rank stays where it was");
    assert_eq!(app.camera.view.x.0, view.x.0);
}

#[test]
fn ranks_that_differ_are_named() {
    let ranks = [("expandable", "rank 0"), ("expandable", "rank 1"), ("oom", "rank 2")];
    let mut harness = window(&ranks);
    key(&mut harness, Key::Num7);
    let found = crate::views::insights::all(harness.state_mut());
    let peaks = ["oom", "expandable"].map(|name| super::views::replay(name).peak(Counter::Requested).bytes);
    let more = vramscope_format::bytes(peaks[0] - peaks[1]);
    let title = format!("rank 2 holds {more} more than the median rank at its peak");
    assert!(found.iter().any(|insight| insight.title == title), "{title}");
    assert!(harness.query_by_label("ACROSS RANKS").is_some());
}

/// Names in the side bar.
fn names(harness: &Harness) -> Vec<String> {
    harness.state().files.devices.iter().map(|device| device.name.clone()).collect()
}

#[test]
fn a_file_can_be_closed_and_the_next_one_is_shown() {
    let mut host = Direct::default();
    for (name, rank) in [("oom", "rank 0"), ("alloc_retry", "rank 1"), ("expandable", "rank 2")] {
        host.add(name, rank, &bytes_of(name));
    }
    let done = Arc::clone(&host.done);
    let title = || done.lock().unwrap().title.clone();
    let mut harness = open(host);
    harness.state_mut().files.touched = true;
    harness.state_mut().focus(1);
    harness.state_mut().show_beside(Some(2));
    settle(&mut harness);
    assert_eq!(title(), "alloc_retry.pickle · vramscope");
    harness.key_press_modifiers(Modifiers::SHIFT, Key::X);
    settle(&mut harness);
    // What was beside it has its place now; it is the same recording.
    assert_eq!(names(&harness), ["rank 0", "rank 2"]);
    assert_eq!((harness.state().files.current, harness.state().files.beside), (1, Some(1)));
    assert_eq!(title(), "expandable.pickle · vramscope");
    assert!(!harness.state().requests.is_waiting());
    // One that is not shown: what is shown stays.
    harness.state_mut().close(0);
    settle(&mut harness);
    assert_eq!((names(&harness).len(), harness.state().files.current), (1, 0));
    assert_eq!(title(), "expandable.pickle · vramscope");
    harness.get_by_label("Close the file").click();
    settle(&mut harness);
    assert!(harness.state().device().is_none() && harness.query_by_label("Open the demo").is_some());
    assert_eq!(title(), "vramscope");
    harness.get_by_label("Open the demo").click();
    settle(&mut harness);
    assert_eq!(names(&harness).len(), 1);
}

#[test]
fn a_file_that_is_opened_again_is_listed_once() {
    let mut host = Direct::default();
    for name in ["oom", "expandable", "oom"] {
        host.add(name, "", &bytes_of(name));
    }
    let harness = open(host);
    assert_eq!(names(&harness), ["expandable.pickle", "oom.pickle"]);
    assert_eq!(harness.state().name_of(harness.state().files.current), "oom.pickle", "it is shown");
}

/// Numbers of another moment than the one that is shown look like it, until answers come.
#[test]
fn a_cut_line_makes_what_is_shown_pale() {
    let mut host = Direct::default();
    host.add("oom", "", &bytes_of("oom"));
    let done = Arc::clone(&host.done);
    let mut harness = open(host);
    let cut = |is_lost| done.lock().unwrap().is_lost = is_lost;
    cut(true);
    settle(&mut harness);
    assert!(!harness.state().is_stale, "all that was asked has come");
    key(&mut harness, Key::Comma);
    assert!(harness.state().is_stale);
    cut(false);
    settle(&mut harness);
    assert!(!harness.state().is_stale && !harness.state().requests.is_waiting());
}

/// A key means something here or to a browser, never both: the page asks the table.
#[test]
fn keys_are_taken_from_a_browser_or_left_to_it() {
    use crate::commands::is_taken;
    let ours = [Key::K, Key::O, Key::S, Key::E, Key::B, Key::D, Key::J, Key::Backslash];
    assert!(ours.into_iter().all(|key| is_taken(Modifiers::COMMAND, key)));
    assert!(is_taken(Modifiers::ALT, Key::ArrowLeft));
    // Print, the address, find, a new tab, close it, reload.
    let browsers = [Key::P, Key::L, Key::F, Key::T, Key::W, Key::R, Key::N];
    assert!(browsers.into_iter().all(|key| !is_taken(Modifiers::COMMAND, key)));
    assert!(!is_taken(Modifiers::COMMAND | Modifiers::SHIFT, Key::S));
}
