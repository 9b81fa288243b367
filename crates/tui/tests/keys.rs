//! Keys, one story after another: what is pressed, and what the screen says then.

use crate::common::{PLAIN, SMALL, Session, made_json};
use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use vramscope_tui::Effect;
use vramscope_tui::keys::View;

const WIDE: (u16, u16) = (160, 45);

fn llama(size: (u16, u16)) -> Session {
    Session::open(&["llama_python.pickle.xz"], false, size, PLAIN)
}

/// See [`made_json`].
fn made() -> Session {
    Session::open_bytes(made_json().as_bytes(), SMALL)
}

#[test]
fn the_first_screen_tells_the_story() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, SMALL, PLAIN);
    // Memory ran out at the last event, 11 822, with 3.99 GiB requested (oom.oracle.json has 4 282 391 560 bytes
    // at its peak); the cursor is there, and the heaviest line is named.
    oom.shows("event 11 822").shows("out of memory at event 11 822").shows("live at event 11 822, by line");
    oom.shows("modeling_llama.py:175 forward");
}

#[test]
fn enter_opens_the_moment_of_the_spike_that_is_drawn() {
    let mut made = made();
    // The cursor starts at the peak: 1000 + 500 + 9000 after event 3. From the start, every column to the right
    // shows its true maximum, and so does what Enter opens.
    made.shows("10.3 KiB requested  event 3");
    made.press(&["g"]).shows("0 B requested  start");
    made.press(&["z", "Right", "Right", "Right", "Right"]).shows("10.3 KiB requested  event 3");
    made.press(&["Enter"]).shows("10.3 KiB requested  event 3").shows("train.py:40 spike");
}

#[test]
fn the_state_after_the_last_event_can_be_opened_at_any_zoom() {
    for zoom in [&["e"][..], &["e", "+", "+", "+"], &["g", "+", "PgDn", "PgDn", "PgDn", "PgDn"]] {
        let mut made = made();
        // deep's 500 and last's 100 are live at the end.
        made.press(zoom).shows("600 B requested  event 8, the last");
        made.press(&["Enter"]).shows("600 B requested  event 8").shows("2 live");
    }
}

#[test]
fn the_tree_adds_up_to_the_timeline_at_every_event() {
    let mut made = made();
    let expected =
        ["0 B", "1000 B", "1.46 KiB", "10.3 KiB", "10.3 KiB", "1.46 KiB", "1.46 KiB", "500 B", "600 B"];
    for (event, total) in expected.iter().enumerate() {
        made.press(&["1", ":", &event.to_string(), "Enter"])
            .shows(&format!("{total} requested  event {event}"));
        made.press(&["2"]).shows(&format!("{total} requested  event {event}"));
    }
}

#[test]
fn chains_are_folded_and_unfolded() {
    let mut made = made();
    made.resize(WIDE.0, WIDE.1).press(&["e", "Enter", "i"]);
    made.shows("train.py:1 main").shows("train.py:20 deep › train.py:21 deeper › train.py:30 deepest");
    made.press(&["u"]).hides("›");
    made.press(&["u", "C"]).hides("deepest");
    made.press(&["E"]).shows("deepest");
}

#[test]
fn search_finds_what_is_not_open() {
    let mut llama = llama(SMALL);
    llama.press(&["Enter", "C"]).hides("activations.py");
    llama.press(&["/", "activations"]).shows("found");
    llama.press(&["Enter"]).shows("activations.py").shows("match 1 of");
    llama.press(&["n"]).press(&["N"]).shows("match 1 of");
    llama.press(&["Esc"]).hides("match 1 of");
    llama.press(&["/", "no such frame", "Enter"]).shows("nothing found");
    llama.press(&["Esc", "/", "(", "Enter"]).shows("open group without closing");
}

#[test]
fn the_same_frame_everywhere() {
    let mut llama = llama(WIDE);
    llama.press(&["Enter", "/", "modeling_layers.py:109", "Enter", "#"]).shows("with this frame");
}

#[test]
fn focus_is_a_stack_and_hiding_keeps_it() {
    let mut llama = llama(WIDE);
    llama.press(&["Enter", "/", "capture.py:79 train", "Enter", "Esc", "f"]);
    llama.shows("· in ").shows("capture.py:79 train");
    let before = llama.screen();
    // Showing internal frames and hiding them again ends where it began.
    llama.press(&["h"]).shows("hide internal").press(&["h"]);
    assert_eq!(llama.screen(), before);
    llama.press(&["q"]).hides("· in ");
    assert_eq!(llama.app.view(), View::Tree, "q leaves the focus first");
    llama.press(&["q"]);
    assert_eq!(llama.app.view(), View::Timeline);
}

#[test]
fn siblings_parents_and_children() {
    let mut made = made();
    made.press(&[":", "3", "Enter", "2"]);
    // Below main: spike 9000, big 1000, deep 500, heaviest first.
    made.press(&["Right", "y"]).shows("copied 2 frames");
    made.press(&["]", "y"]);
    made.press(&["]", "y"]);
    made.press(&["[", "y"]);
    let copied: Vec<_> = made
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Copy(text) => text.lines().next().unwrap().to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = ["spike", "big", "deepest", "big"].map(ToOwned::to_owned);
    let names: Vec<_> = copied.iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, expected);
    made.press(&["Left", "y"]).shows("copied 1 frame");
}

#[test]
fn allocations_under_a_line_and_the_event_that_made_one() {
    let mut made = made();
    made.press(&[":", "3", "Enter", "2", "/", "spike", "Enter", "Enter"]);
    assert_eq!(made.app.view(), View::Allocations);
    made.shows("1 allocation, largest first, below train.py:40 spike").shows("8.79 KiB (9 000 B)");
    made.shows("allocated event 3, +0.003 s").shows("freed     event 4, +0.004 s");
    made.press(&["Enter"]);
    assert_eq!(made.app.view(), View::Events);
    made.shows("9 events").shows("spike");
    made.press(&["q", "q", "q"]);
    assert_eq!(made.app.view(), View::Timeline);
}

#[test]
fn filters_say_what_they_leave() {
    let mut made = made();
    made.press(&[":", "3", "Enter", "2", "F", "size>=1000", "Enter"])
        .shows("filter size>=1000: 9.77 KiB in 2");
    made.press(&["F", "Ctrl-u", "stack=deepest", "Enter"]).shows("filter stack=deepest: 500 B in 1");
    // Upper case counts only where there is some.
    made.press(&["F", "Ctrl-u", "DEEPEST", "Enter"]).shows("no allocation of this trace passes DEEPEST");
    made.shows("nothing that is live at this moment passes the filter");
    made.press(&["F", "Ctrl-u", "size>=1parsec", "Enter"])
        .shows("'1parsec' is not a valid size (try 512, 20MiB, 1.5GB)");
    made.press(&["Esc", "Esc"]).hides("passes");
}

#[test]
fn a_marked_moment_and_another_as_a_tree_of_changes() {
    let mut made = made();
    made.press(&[":", "2", "Enter", "x"]).shows("marked event 2");
    made.press(&["e", "D"]);
    assert_eq!(made.app.view(), View::Diff);
    // From 1500 to 600: big went with its 1000, last came with 100, deep stayed.
    made.shows("-900 B requested")
        .shows("-1000 B")
        .shows("+100 B")
        .shows("train.py:10 big")
        .shows("train.py:50 last");
}

#[test]
fn two_files_side_by_side() {
    let names = ["llama_python.pickle.xz", "leak_graph.pickle.xz"];
    let mut both = Session::open(&names, true, WIDE, PLAIN);
    both.shows("▸ A llama_python.pickle.xz").shows("  B leak_graph.pickle.xz");
    // One scale for both: leak_graph's peak is the higher one, and its labels are on both sides.
    let line = both.screen().into_iter().find(|line| line.contains("512 MiB")).unwrap();
    assert_eq!(line.matches("512 MiB").count(), 2, "{line}");
    // Linked cursors are at the same event.
    both.press(&[":", "1000", "Enter"]);
    let status = both.screen()[3].clone();
    let (left, right) = status.split_once('│').unwrap();
    let event = |side: &str| side.split("event ").nth(1).unwrap().split(" ·").next().unwrap().to_owned();
    assert_eq!((event(left), event(right)), ("1 000".to_owned(), "1 000".to_owned()));
    // Apart, only one moves.
    both.press(&["L", "f"]);
    let status = both.screen()[3].clone();
    let (left_now, right_now) = status.split_once('│').unwrap();
    assert_ne!(event(left), event(left_now));
    assert_eq!(event(right), event(right_now));
    both.press(&["}"]).shows("▸ B leak_graph.pickle.xz");
    both.press(&["s"]).shows("▸ B leak_graph.pickle.xz").shows("  A llama_python.pickle.xz");
    both.press(&["9"]).shows("requested  llama_python.pickle.xz event");
    both.press(&["q", "q"]);
    assert!(matches!(both.effects.as_slice(), [Effect::Quit(0)]), "{:?}", both.effects);
}

#[test]
fn ranks_open_and_compare() {
    let mut ranks = Session::open(&["llama_python.pickle.xz", "leak_graph.pickle.xz"], false, WIDE, PLAIN);
    ranks.press(&["6"]).shows("2 files").shows("● ").press(&["Down", "Enter"]);
    ranks.press(&["1"]).shows("▸ leak_graph.pickle.xz");
    ranks.press(&["6", "Up", "x"]).shows("▸ A leak_graph.pickle.xz").shows("  B llama_python.pickle.xz");
    ranks.press(&["q"]).hides("  B llama");
}

#[test]
fn insights_lead_to_the_evidence() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, WIDE, PLAIN);
    oom.press(&["5"]).shows("out of memory at event 11 822");
    oom.press(&["Enter"]).shows("event 11 822");
    assert_eq!(oom.app.view(), View::Tree);
}

#[test]
fn resizing_keeps_the_place() {
    let mut llama = llama(WIDE);
    llama.press(&["+", "+", "f"]);
    let place = llama.screen()[2].split("  ").nth(1).unwrap().split(" ·").next().unwrap().to_owned();
    for (width, height) in [(40, 10), (400, 100), (80, 24), WIDE] {
        llama.resize(width, height);
        llama.text();
    }
    llama.shows(&place);
    llama.press(&["Enter", "Down", "Down"]);
    let before = llama.screen();
    llama.resize(40, 10).text();
    llama.resize(WIDE.0, WIDE.1);
    assert_eq!(llama.screen(), before);
}

#[test]
fn no_size_breaks_any_view() {
    let sizes = [(1, 1), (9, 3), (10, 4), (20, 5), (40, 10), (61, 13), (100, 14), (400, 100)];
    let mut session = Session::open(&["cudagraph_pools.pickle.xz", "oom.pickle.xz"], true, SMALL, PLAIN);
    for view in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "?"] {
        session.press(&[view]);
        for (width, height) in sizes {
            session.resize(width, height);
            session.press(&["Down", "Right", "PgDn"]).text();
        }
    }
    for split in ["Esc", "s", "L", "q", "q"] {
        session.press(&[split]).text();
    }
}

/// Goes through every view and presses what changes most in it.
fn roam(session: &mut Session) {
    for view in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "a"] {
        session.press(&[view, "Down", "Enter", "p", ".", "t", "+", "Up", "c", "E", "J"]).text();
    }
}

#[test]
fn hostile_and_damaged_files_in_every_view() {
    for (_, bytes) in vramscope_testkit::attacks::all().iter().filter(|(_, bytes)| bytes.len() < 1 << 20) {
        roam(&mut Session::open_bytes(bytes, SMALL));
    }
    let mut rng = vramscope_testkit::Rng::new(5);
    let options = vramscope_testkit::Options { events: 200, devices: 2, pool_id: true, ..Default::default() };
    let recording = vramscope_testkit::record(&options).pickle(vramscope_testkit::Dialect::Protocol(4));
    for _ in 0..150 {
        let damaged = vramscope_testkit::damage(&recording, &mut rng);
        roam(&mut Session::open_bytes(&damaged, SMALL));
    }
}

#[test]
fn times_and_sizes_that_no_clock_and_no_memory_has() {
    let event = |time: i64, addr: u64, size: u64| {
        format!(r#"{{"action": "alloc", "addr": {addr}, "size": {size}, "time_us": {time}}}"#)
    };
    let events = [
        event(i64::MIN + 1, 0, u64::MAX),
        event(i64::MAX, 1 << 40, u64::MAX / 2),
        event(0, 1 << 50, 1 << 62),
        event(-5, u64::MAX - 5, 700),
    ];
    let json = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, events.join(","));
    roam(&mut Session::open_bytes(json.as_bytes(), SMALL));
}

#[test]
fn names_from_a_file_cannot_break_the_screen() {
    let evil = r#"{"name": "a\u001b[2Jb\u202e\u0000日本語🦀", "filename": "/x/\u0007é漢字.py", "line": 3}"#;
    let json = format!(
        r#"{{"segments": [], "device_traces": [[{{"action": "alloc", "addr": 1, "size": 5, "frames": [{evil}]}}, {{"action": "alloc", "addr": 600, "size": 5, "frames": [{evil}]}}]],
        "external_annotations": [{{"stage": "START", "name": "\u001b]0;x", "device": 0, "time_us": 1}}]}}"#
    );
    let mut session = Session::open_bytes(json.as_bytes(), SMALL);
    for view in ["1", "2", "3", "4", "7", "a"] {
        let text = session.press(&[view]).text();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
    session.press(&["2"]).shows("日本語");
}

#[test]
fn the_source_of_the_selected_frame() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("model.py");
    std::fs::write(&source, "import torch\n\ndef forward(x):\n    return x @ x\n").unwrap();
    let frame = format!(r#"{{"name": "forward", "filename": "{}", "line": 4}}"#, source.display());
    let event =
        |addr: u64| format!(r#"{{"action": "alloc", "addr": {addr}, "size": 5, "frames": [{frame}]}}"#);
    let json = format!(r#"{{"segments": [], "device_traces": [[{}, {}]]}}"#, event(0), event(512));
    let mut session = Session::open_bytes(json.as_bytes(), WIDE);
    session.press(&["2"]).shows("▸    4     return x @ x").shows("     3 def forward(x):");
    // A name that is no plain file is not opened.
    let json = json.replace(&source.display().to_string(), "/dev/zero");
    Session::open_bytes(json.as_bytes(), WIDE).press(&["2"]).shows("zero:4 forward");
}

#[test]
fn the_mouse_does_what_keys_do() {
    let mouse = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    let click = |column, row| mouse(MouseEventKind::Down(MouseButton::Left), column, row);
    let mut made = made();
    // The last column of the chart is the end of the trace; a second click opens it.
    made.app.mouse(click(79, 8));
    made.shows("600 B requested  event 8");
    made.app.mouse(click(79, 8));
    made.shows("%par");
    // The second row of the tree is below the title, the tabs, the moment and the header.
    made.app.mouse(click(40, 5));
    made.press(&["y"]).shows("copied 4 frames");
    made.app.mouse(click(2, 1));
    assert_eq!(made.app.view(), View::Timeline);
    let mut llama = llama(SMALL);
    llama.shows("0                 2 000");
    llama.app.mouse(mouse(MouseEventKind::ScrollUp, 40, 8));
    llama.hides("0                 2 000");
}

#[test]
fn a_file_that_is_none_says_why() {
    let mut session = Session::open_bytes(b"PK\x03\x04", SMALL);
    session.shows("zip").press(&["q"]);
    assert!(matches!(session.effects.as_slice(), [Effect::Quit(2)]), "{:?}", session.effects);
}

#[test]
fn what_is_on_the_screen_as_text_and_json() {
    let mut made = made();
    made.press(&[":", "3", "Enter", "2", "W", "J"]);
    let [Effect::Write { ending: "txt", text, .. }, Effect::Write { ending: "json", text: json, .. }] =
        made.effects.as_slice()
    else {
        panic!("{:?}", made.effects)
    };
    assert!(text.contains("train.py:40 spike"), "{text}");
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(value["counters"]["requested"], 10_500);
    assert_eq!(value["screen"]["rows"][1]["bytes"], 9000);
}

#[test]
fn help_lists_every_key_and_finds_one() {
    let mut made = made();
    made.press(&["?"]).shows("Esc or ? closes").press(&["flame"]).shows("what is live, as a flame graph");
    made.hides("15 columns").press(&["Esc"]).hides("Keys with");
}

#[test]
fn going_to_times_phases_and_places_that_are_not_there() {
    let mut llama = llama(WIDE);
    llama.press(&[":", "99999", "Enter"]).shows("there is no event 99999: the trace has events 0 to 7 604");
    llama.press(&["Esc", ":", "oom", "Enter"]).shows("memory never ran out");
    llama.press(&["Esc", ":", "+2.0", "Enter"]).shows("+1.670 s");
    llama.press(&["t"]).shows("time").press(&["/", "backward", "Enter", "n"]);
    llama.press(&["/", "no such phase", "Enter"]).shows("nothing found");
    llama.press(&["Esc", ":", "no such phase", "Enter"]).shows("there is no phase 'no such phase'");
}

#[test]
fn ascii_terminals_get_ascii() {
    let theme = vramscope_tui::Theme { ascii: true, ..PLAIN };
    let mut llama = Session::open(&["llama_python.pickle.xz"], false, SMALL, theme);
    for view in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "?"] {
        let text = llama.press(&[view]).text();
        assert!(text.is_ascii(), "{text}");
    }
}
