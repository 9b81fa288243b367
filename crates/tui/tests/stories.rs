//! What was wrong once, as it should be: cursors that stay, names that are there, nothing hidden.

use crate::common::{PLAIN, SMALL, Session, made_json, recording};
use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;
use vramscope_analysis::query::Pattern;
use vramscope_tui::{Effect, Loader, News, draw};

fn open(name: &str, size: (u16, u16)) -> Session {
    Session::open(&[name], false, size, PLAIN)
}

fn made() -> Session {
    Session::open_bytes(made_json().as_bytes(), SMALL)
}

/// The event that the status line names; in a comparison, of one side.
fn event_in(text: &str) -> u64 {
    let digits = text.split("event ").nth(1).unwrap().chars();
    digits
        .take_while(|c| c.is_ascii_digit() || *c == ' ')
        .filter(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

fn event(session: &mut Session) -> u64 {
    event_in(&session.screen()[2])
}

#[test]
fn zooming_keeps_the_cursor_on_the_screen() {
    let mut oom = open("oom.pickle.xz", SMALL);
    oom.press(&["+"]).shows("event 11 822");
    // 11 824 moments, the last 5 912 on 70 columns: the column before the last begins at moment
    // 5 912 + 68 × 5 912 / 70 and ends before 5 912 + 69 × 5 912 / 70, and an event is one less than its moment.
    oom.press(&["Left"]);
    let at = event(&mut oom);
    assert!((11_654..=11_738).contains(&at), "{at}");
    // Zooming in as far as it goes, and out again, stays there.
    for key in ["+", "-"] {
        for _ in 0..14 {
            oom.press(&[key]);
            assert_eq!(event(&mut oom), at);
        }
    }
    oom.press(&["p", "+", "+"]);
    let peak = event(&mut oom);
    let right = event(oom.press(&["Right"]));
    assert!(right >= peak && right - peak < 200, "a column is 42 events wide: {peak} {right}");
}

#[test]
fn a_view_that_was_moved_away_comes_back_to_the_cursor() {
    let mut oom = open("oom.pickle.xz", SMALL);
    oom.press(&["+", "+", "a", "a", "a", "a", "a", "a"]).shows("event 11 822");
    let at = event(oom.press(&["Left"]));
    assert!((11_700..11_822).contains(&at), "a column left of the cursor, not of the screen: {at}");
}

#[test]
fn the_moment_stays_when_the_screen_changes() {
    let mut oom = open("oom.pickle.xz", (140, 42));
    let at = event(oom.press(&["Left", "Left", "Left", "Left", "Left"]));
    for (width, height) in [(100, 42), (80, 24), (200, 60)] {
        oom.resize(width, height);
        assert_eq!(event(&mut oom), at, "{width} columns");
    }
    // Along time, too.
    let at = event(oom.press(&["t", "Left", "Left", "Left"]));
    for (width, height) in [(100, 42), (80, 24), (140, 42)] {
        oom.resize(width, height);
        assert_eq!(event(&mut oom), at, "{width} columns along time");
    }
    let names = ["llama_python.pickle.xz", "leak_graph.pickle.xz"];
    let mut both = Session::open(&names, true, (160, 45), PLAIN);
    both.press(&["Left", "Left"]);
    let before = event_in(&both.screen()[3]);
    assert_eq!(event_in(&both.press(&["s"]).screen()[3]), before);
}

#[test]
fn a_search_in_the_flame_graph_selects_the_match() {
    let mut oom = open("oom.pickle.xz", (140, 42));
    oom.press(&["3", "/", "sdpa", "Enter", "y"]);
    let [Effect::Copy(stack)] = oom.effects.as_slice() else { panic!("{:?}", oom.effects) };
    let innermost = stack.lines().next().unwrap().to_owned();
    assert!(innermost.contains("sdpa_attention.py"), "{innermost}");
    oom.press(&["g", "/", "modeling_llama.py:64 ", "Enter"]).shows("match 1 of");
    oom.press(&["n"]).shows("match 2 of").press(&["N"]).shows("match 1 of");
}

#[test]
fn files_without_ranks_are_listed_by_name() {
    let names = ["llama_python.pickle.xz", "leak_graph.pickle.xz"];
    let mut two = Session::open(&names, false, (160, 45), PLAIN);
    two.shows("file 1 of 2 (6)").shows("2 files").hides("stands out");
    let rows = two.press(&["6"]).text();
    assert!(rows.contains("● llama_python.pickle.xz") && rows.contains("  leak_graph.pickle.xz"), "{rows}");
    // Files of the same name are told apart by their folders.
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|run| folder.path().join(run).join("snapshot.json"));
    for path in &paths {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, made_json()).unwrap();
    }
    let mut same = Session::open_paths(&paths, false, (160, 45), PLAIN);
    same.press(&["6"]).shows("/a/snapshot.json").shows("/b/snapshot.json");
}

/// A file in which some bytes are allocated and freed, and nothing else.
fn one_allocation(bytes: u64) -> String {
    let event = |action: &str| format!(r#"{{"action": "{action}", "addr": 4096, "size": {bytes}}}"#);
    let events = ["alloc", "free_requested", "free_completed"].map(event).join(",");
    format!(r#"{{"segments": [], "device_traces": [[{events}]]}}"#)
}

#[test]
fn a_folder_of_ranks_says_so_and_who_stands_out() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, mib) in [(0, 100), (1, 100), (2, 180), (3, 100)] {
        let path = folder.path().join(format!("rank{rank}_memory_snapshot.json"));
        std::fs::write(path, one_allocation(mib << 20)).unwrap();
    }
    let mut ranks = Session::open_paths(&[folder.path().to_owned()], false, (140, 42), PLAIN);
    ranks.shows("rank 0 of 4 ranks (6)");
    ranks.shows(
        "4 ranks: rank 2 stands out, 180 MiB requested at the peak, +80.0 MiB against the median of 100 MiB",
    );
    ranks.press(&["6"]).shows("4 ranks");
    // Equal ranks are counted, and none is named.
    std::fs::write(folder.path().join("rank2_memory_snapshot.json"), one_allocation(100 << 20)).unwrap();
    let mut equal = Session::open_paths(&[folder.path().to_owned()], false, (140, 42), PLAIN);
    equal.shows("4 ranks, none stands out");
}

/// 4 096 ranks of 100 MiB, of which rank 1000 has 180: links to two files.
#[test]
fn thousands_of_ranks_are_a_heat_map_and_the_one_that_stands_out() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, files) = (folder.path().join("runs"), folder.path().join("files"));
    std::fs::create_dir(&runs).unwrap();
    std::fs::create_dir(&files).unwrap();
    for (name, mib) in [("usual", 100), ("odd", 180)] {
        std::fs::write(files.join(name), one_allocation(mib << 20)).unwrap();
    }
    for rank in 0..4096 {
        let file = files.join(if rank == 1000 { "odd" } else { "usual" });
        std::fs::hard_link(file, runs.join(format!("rank{rank}_memory_snapshot.json"))).unwrap();
    }
    let mut ranks = Session::open_paths(&[runs], false, (100, 30), PLAIN);
    ranks.shows("4 096 ranks: rank 1000 stands out").press(&["6"]);
    ranks.shows("4 096 ranks · 1 stands out");
    // Who stands out is the first row, and what differs is below.
    let screen = ranks.screen();
    assert!(screen[4].contains("rank 1000") && screen[4].contains("▲ +80.0 MiB"), "{}", screen.join("\n"));
    ranks.shows("180 MiB requested at the peak, +80.0 MiB against the median of 100 MiB");
    // The map has 9 rows, so 456 ranks share one: the third has ranks 912 to 1367.
    ranks.shows("ranks × time, from start to end of each recording: peak, the highest of 456 ranks in a row");
    let row = screen.iter().find(|line| line.contains("▸912–1367")).unwrap();
    assert!(row.contains('█') && row.ends_with('▲'), "{row}");
    assert_eq!(screen.iter().filter(|line| line.ends_with('▲')).count(), 1);
    insta::assert_snapshot!(
        "ranks_4096_100x30",
        ranks.text().replace(&*folder.path().to_string_lossy(), "DIR")
    );
    // On a wide screen the map is beside the list.
    ranks.resize(200, 60);
    insta::assert_snapshot!(
        "ranks_4096_200x60",
        ranks.text().replace(&*folder.path().to_string_lossy(), "DIR")
    );
    // Enter opens it.
    ranks.press(&["Enter", "1"]).shows("rank 1000 of 4096 ranks");
}

#[test]
fn a_file_that_changed_says_so_and_is_read_again_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.json");
    std::fs::write(&path, made_json()).unwrap();
    let mut session = Session::open_paths(std::slice::from_ref(&path), false, (140, 42), PLAIN);
    session.press(&[":", "3", "Enter", "2"]).hides("file changed");
    let watched = session.watched.remove(0);
    assert_eq!(watched.input.stamp(), watched.stamp, "nothing has changed");
    // The spike is twice as large now.
    std::fs::write(&path, made_json().replace("9000", "18000")).unwrap();
    assert_ne!(watched.input.stamp(), watched.stamp);
    session.app.receive([News::Changed(watched.row)]);
    session.shows("file changed: Ctrl-r");
    session.press(&["Ctrl-r"]).hides("file changed");
    // Still the tree after event 3, where big, deep and the new spike are live: 1000 + 500 + 18000 bytes.
    session.shows("event 3").shows("19.0 KiB");
}

#[test]
fn the_first_picture_does_not_wait_for_the_insights() {
    let mut oom = open("oom.pickle.xz", (140, 42));
    oom.unanalyzed = Some(Vec::new());
    oom.press(&["Ctrl-r"]).shows("3.99 GiB requested  event 11 822").shows("looking for insights…");
    assert!(oom.text().contains('█'), "the chart is there");
    // Every view works before.
    oom.press(&["5"])
        .shows("looking for insights…")
        .press(&["2"])
        .shows("analyzing…")
        .press(&["8", "4", "3", "1"]);
    oom.analyze_held();
    oom.shows("5: 3 insights").hides("looking for insights…").press(&["2"]).shows("activations (likely)");
}

#[test]
fn keys_of_the_footer_can_be_clicked() {
    let mut oom = open("oom.pickle.xz", SMALL);
    let foot = oom.screen().pop().unwrap();
    let column =
        foot.chars().collect::<Vec<_>>().windows(4).position(|four| four == ['h', 'e', 'l', 'p']).unwrap();
    let (kind, modifiers) = (MouseEventKind::Down(MouseButton::Left), KeyModifiers::NONE);
    oom.app.mouse(MouseEvent { kind, column: column as u16, row: SMALL.1 - 1, modifiers });
    oom.shows("Keys: type to find one");
}

#[test]
fn help_says_what_verdicts_mean() {
    let mut oom = open("oom.pickle.xz", (160, 45));
    oom.press(&["?", "ring overflow"]).shows("ring overflow: the beginning of the history is lost");
}

#[test]
fn recorded_ranks_are_compared_on_the_first_screen() {
    let paths = [0, 1, 2, 3].map(|rank| recording(&format!("rank{rank}_memory_snapshot.pickle.xz")));
    let mut ranks = Session::open_paths(&paths, false, (140, 42), PLAIN);
    // PyTorch's own counters, in rank?.oracle.json: rank 2 has the highest peak of the four.
    ranks.shows("rank 0 of 4 ranks (6)").shows("4 ranks: rank 2 stands out");
}

#[test]
fn a_pool_has_one_name_in_every_view() {
    // This file names no pool, as PyTorch before 2.12: all of it is in the default pool.
    let mut made = made();
    made.resize(160, 45).press(&[":", "3", "Enter", "2", "e"]);
    made.shows("pool      default · stream default");
    made.press(&["4"]).shows("pool default · stream default");
    made.press(&["8"]).shows("2.00 MiB reserved in 1 pool on 1 stream").hides("unknown").hides("(0, 0)");
}

#[test]
fn bars_of_pools_begin_in_one_column() {
    let mut pools = open("cudagraph_pools.pickle.xz", (160, 45));
    let screen = pools.press(&["8"]).screen();
    // Three graphs and the default pool; the default pool on three streams.
    assert!(screen[2].contains("4 pools on 3 streams"), "{}", screen[2]);
    let bars: Vec<_> = screen.iter().filter_map(|line| line.chars().position(|c| "█░".contains(c))).collect();
    assert!(bars.len() >= 4 && bars.iter().all(|&x| x == bars[0]), "{bars:?}");
}

#[test]
fn a_search_for_phases_stops_once_in_each_and_counts() {
    let mut oom = open("oom.pickle.xz", SMALL);
    // Four optimizer steps; PyTorch's own Optimizer.step inside each is not counted.
    oom.press(&["g", "/", "optimizer"]).shows("4 found").press(&["Enter"]).shows("phase 1 of 4");
    let mut seen = vec![event(&mut oom)];
    for number in ["phase 2 of 4", "phase 3 of 4", "phase 4 of 4", "phase 1 of 4"] {
        oom.press(&["n"]).shows(number);
        seen.push(event(&mut oom));
    }
    assert!(seen[..4].is_sorted() && seen[4] == seen[0], "{seen:?}");
    oom.press(&["N"]).shows("phase 4 of 4").press(&["Esc"]).hides("phase 4 of 4");
}

#[test]
fn a_search_for_events_counts_while_it_is_typed() {
    let mut oom = open("oom.pickle.xz", SMALL);
    // The run ends with its only failed allocation.
    oom.press(&["7", "/", "^oom$"]).shows("1 found").press(&["Esc"]).hides("found");
    oom.press(&["/", "^oom$", "Enter"]).shows("1 found").shows("11 822");
}

#[test]
fn moments_are_typed_as_for_the_command_line() {
    // Event N is at 1 000 + N ms: forward has events 1 to 3, backward 4 to 7.
    let mark = |stage: &str, name: &str, time: u64| {
        format!(r###"{{"stage": "{stage}", "name": "## {name} ##", "device": 0, "time_us": {time}}}"###)
    };
    let marks = [
        mark("START", "forward", 1_000_500),
        mark("END", "forward", 1_003_500),
        mark("START", "backward", 1_003_600),
        mark("END", "backward", 1_007_500),
    ];
    let json = made_json();
    let end = json.rfind('}').unwrap();
    let json = format!("{}, \"external_annotations\": [{}]}}", &json[..end], marks.join(","));
    let mut phased = Session::open_bytes(json.as_bytes(), SMALL);
    let cases = [
        ("start", "0 B requested  start"),
        ("end", "600 B requested  event 8, the last"),
        ("peak", "10.3 KiB requested  event 3"),
        ("peak:reserved", "1000 B requested  event 1"),
        ("0 7", "500 B requested  event 7"),
        ("+0.0025", "1.46 KiB requested  event 2"),
        ("@1002000", "1.46 KiB requested  event 2"),
        ("in:forward", "10.3 KiB requested  event 3"),
        ("in:forward#1:start", "0 B requested  event 0"),
        ("backward:end", "500 B requested  event 7"),
        ("backw#1:end", "500 B requested  event 7"),
    ];
    for (typed, expected) in cases {
        phased.press(&[":", typed, "Enter"]).shows(expected);
    }
    phased.press(&[":"]).shows(":").shows("start, end, peak, peak:COUNTER, oom, oom:K, N or e:N, +S, @T");
    phased.press(&["backward#2", "Enter"]).shows("'backward' number 2 does not exist: there are 1");
    phased.press(&["Esc", ":", "oom:2", "Enter"]).shows("memory never ran out in this recording");
    // What was allocated in a phase: big, deep and the spike in forward.
    phased.press(&["Esc", ":", "3", "Enter", "2", "F"]).shows("size>=20MiB size<1GiB pool=0,1 stream=0");
    phased.press(&["phase=backward", "Enter"]).shows("no allocation of this trace passes phase=backward");
    phased
        .resize(120, 40)
        .press(&["F", "Ctrl-u", "phase=forward size<1000", "Enter"])
        .shows("size<1000: 1.46 KiB in 2");
    phased.press(&["F", "Ctrl-u", "category=nonsense", "Enter"]).shows("there is no category 'nonsense'");
}

#[test]
fn filters_reach_every_view_of_a_moment() {
    let mut made = made();
    made.resize(120, 40).press(&[":", "3", "Enter", "2", "F", "size>=9000", "Enter"]).shows("8.79 KiB in 1");
    made.press(&["a"]).shows("1 allocation").shows("spike").hides("deepest");
    // One allocation and its two frees.
    made.press(&["7"]).shows("4 of 9 events pass size>=9000");
    made.press(&["4"]).shows("1 of 1 segment pass size>=9000");
}

/// Device 0 has the longer trace; device 1 ran out of memory.
fn two_devices() -> Session {
    let alloc = |addr: u64, size: u64| format!(r#"{{"action": "alloc", "addr": {addr}, "size": {size}}}"#);
    let long: Vec<_> = (0..20).map(|row| alloc(4096 * row, 512)).collect();
    let oom = r#"{"action": "oom", "addr": 0, "device_free": 1024, "size": 1048576}"#;
    let json = format!(
        r#"{{"segments": [], "device_traces": [[{}], [{}, {oom}]]}}"#,
        long.join(","),
        alloc(4096, 4096)
    );
    Session::open_bytes(json.as_bytes(), (120, 40))
}

#[test]
fn no_device_is_hidden_by_a_longer_trace() {
    let mut two = two_devices();
    two.shows("cuda:1 (2 of 2 devices, < >)").shows("event 1, the last");
    two.press(&["<"]).shows("cuda:0 (1 of 2 devices, < >)").shows("cuda:0, 1 of 2");
    two.press(&["g"]).shows("cuda:1 ran out of memory 1 time");
    two.press(&["5"]).shows("cuda:1 has");
    two.press(&["<"]).shows("there is no other device in this direction");
    made().press(&[">"]).shows("cuda:0 is the only device in this file");
}

#[test]
fn ignored_frames_give_way_to_their_callers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.json");
    std::fs::write(&path, made_json()).unwrap();
    let loader =
        Loader { ignore_frames: Some(Pattern::new("train.py:40|deep").unwrap()), ..Loader::default() };
    let mut made = Session::open_with(&[path], false, SMALL, PLAIN, loader);
    // At event 3: the spike's 9000 and deep's 500 count for main, big's 1000 for itself.
    made.shows("9.28 KiB  90.5%        2  train.py:1 main").shows("1000 B   9.5%        1  train.py:10 big");
    made.press(&["2"]).hides("spike").hides("deep").shows("train.py:10 big");
}

/// The line of a screen that has a text.
#[track_caller]
fn line_with(session: &mut Session, text: &str) -> usize {
    let screen = session.screen();
    let found = screen.iter().position(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("{text:?} is not on the screen:\n{}", screen.join("\n")))
}

#[test]
fn a_folded_chain_names_the_line_of_the_program() {
    let mut oom = open("oom.pickle.xz", SMALL);
    // Wrappers of transformers lie between it and the model; the innermost call is named, too.
    oom.press(&["2"]).shows("capture.py:79").shows(":286");
}

#[test]
fn what_a_call_has_of_its_own_stands_where_its_bytes_belong() {
    let mut oom = open("oom.pickle.xz", SMALL);
    oom.press(&["2"]);
    let (own, callee) = (line_with(&mut oom, "(here)"), line_with(&mut oom, "activations.py:103"));
    assert!(own < callee, "1.26 GiB come before 430 MiB");
    let screen = oom.screen();
    assert!(screen[own].contains("1.26 GiB") && screen[callee].contains("430 MiB"));
    // Both have the same parent.
    for row in [own, callee] {
        let mut oom = open("oom.pickle.xz", SMALL);
        oom.press(&["2"]).press(&vec!["Down"; row - 4]).press(&["Left", "y"]);
        let copied = oom.effects.iter().find_map(|effect| match effect {
            Effect::Copy(text) => Some(text.clone()),
            _ => None,
        });
        assert!(copied.unwrap().contains("modeling_llama.py:175 forward"));
    }
}

#[test]
fn all_of_a_finding_can_be_read_on_the_smallest_screen() {
    let mut oom = open("oom.pickle.xz", (40, 10));
    oom.press(&["5"]).shows("PgDn:").hides("Go back to the batch");
    let mut seen = String::new();
    for _ in 0..20 {
        seen += &oom.text();
        oom.press(&["PgDn"]);
    }
    assert!(seen.contains("Go back to the batch"), "the advice");
    assert!(seen.contains("Enter shows"), "the last line");
    // Another finding begins at its beginning.
    oom.press(&["Down"]).shows("memory nearly ran out");
}

#[test]
fn nothing_is_cut_without_a_mark() {
    for size in [(40, 10), (60, 16), SMALL] {
        for view in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0", "?"] {
            let mut oom = open("oom.pickle.xz", size);
            // A word that fills the last column is whole in a wider screen, or ends in an ellipsis.
            let narrow = oom.press(&[view]).screen();
            let words: Vec<_> = narrow
                .iter()
                .filter(|line| vramscope_format::width(line) == usize::from(size.0))
                .filter_map(|line| line.rsplit(' ').next().map(str::to_owned))
                .filter(|word| word.ends_with(|c: char| c.is_ascii_alphanumeric()) && !word.contains('…'))
                .collect();
            let wide = oom.resize(240, 60).text();
            for word in words {
                let is_whole =
                    wide.split([' ', '\n', '│']).any(|other| other.trim_end_matches([':', ',', ';']) == word);
                assert!(is_whole, "{word:?} is cut in view {view} at {size:?}:\n{}", narrow.join("\n"));
            }
        }
    }
}

/// Presses keys and counts them.
fn after(session: &mut Session, keys: &[&str], most: usize) -> String {
    assert!(keys.len() <= most, "{keys:?}");
    session.press(keys).text()
}

#[test]
fn what_filled_memory_takes_no_key() {
    // oom.oracle.json: at most 4 282 391 560 bytes were requested, 3.99 GiB.
    let mut oom = open("oom.pickle.xz", SMALL);
    let first = after(&mut oom, &[], 1);
    assert!(first.contains("peak 3.99 GiB") && first.contains("live at event 11 822, by line"), "{first}");
    assert!(first.contains("1.26 GiB  31.6%       15  modeling_llama.py:175 forward"), "{first}");
}

#[test]
fn what_leaked_takes_one_key() {
    let mut leak = open("leak_graph.pickle.xz", SMALL);
    assert!(leak.text().contains("activations of 5 of 5 steps outlive the backward pass"));
    let found = after(&mut leak, &["5"], 1);
    assert!(found.contains("capture.py:79 train"), "{found}");
    assert!(found.contains("Store numbers, not tensors: .item() or .detach()"), "{found}");
}

#[test]
fn why_it_failed_takes_one_key() {
    let mut oom = open("oom.pickle.xz", SMALL);
    assert!(oom.text().contains("out of memory at event 11 822"));
    let found = after(&mut oom, &["5"], 1);
    assert!(found.contains("135 GiB was free on the device, but a per-process limit applied"), "{found}");
}

#[test]
fn which_rank_takes_one_key() {
    let paths = [0, 1, 2, 3].map(|rank| recording(&format!("rank{rank}_memory_snapshot.pickle.xz")));
    let mut ranks = Session::open_paths(&paths, false, SMALL, PLAIN);
    assert!(ranks.text().contains("rank 2 stands out"));
    let found = after(&mut ranks, &["6"], 2);
    let row = found.lines().find(|line| line.contains("rank 2") && line.contains('▲')).unwrap();
    assert!(!row.contains("rank 0"), "{found}");
}

#[test]
fn who_had_an_address_takes_two_keys() {
    let mut pools = open("cudagraph_pools.pickle.xz", SMALL);
    let found = after(&mut pools, &["4", "H"], 2);
    // "12 of 345 events pass 0x7f0a8c000000"
    let line = found.lines().find(|line| line.contains("events pass 0x")).unwrap();
    let wanted = line.split("0x").nth(1).unwrap().split(' ').next().unwrap();
    let wanted = u64::from_str_radix(wanted, 16).unwrap();
    let (inputs, _) = vramscope_files::find(&[recording("cudagraph_pools.pickle.xz")]);
    let opened = vramscope_files::open(&inputs[0], None, &()).unwrap();
    let events = opened.snapshot.events(vramscope_snapshot::DeviceId(0));
    let has = events.iter().filter(|event| event.addr <= wanted && wanted < event.addr + event.size.max(1));
    let count = has.count();
    assert!(count > 1 && line.starts_with(&format!("{count} of {} events", events.len())), "{line}: {count}");
    // From a list of allocations it is one more.
    assert!(after(&mut pools, &["Esc", "a", "H"], 3).contains("events pass 0x"));
}

#[test]
fn a_file_without_events_opens_the_map() {
    let state = made_json();
    let start = state.find("\"device_traces\"").unwrap();
    let json = format!("{}\"device_traces\": [[]]}}", &state[..start]);
    let mut only = Session::open_bytes(json.as_bytes(), SMALL);
    only.shows("2.00 MiB reserved").shows("largest hole").press(&["1"]).shows("600 B requested");
}

#[test]
fn a_selected_bar_is_as_long_as_the_others_without_colors() {
    let mut pools = open("cudagraph_pools.pickle.xz", SMALL);
    pools.press(&["8"]);
    let mut screen = Terminal::new(TestBackend::new(SMALL.0, SMALL.1)).unwrap();
    screen.draw(|frame| draw(frame, &pools.app)).unwrap();
    let row: Vec<_> = (0..SMALL.0).map(|x| &screen.backend().buffer()[(x, 4)]).collect();
    assert!(row[5].modifier.contains(Modifier::REVERSED), "the first pool is selected");
    let bar: Vec<_> = row.iter().filter(|cell| cell.symbol() == "█").collect();
    assert!(bar.len() > 3 && bar.iter().all(|cell| !cell.modifier.contains(Modifier::REVERSED)));
}

#[test]
fn the_insight_about_retries_opens_the_first_one() {
    let mut oom = open("oom.pickle.xz", (140, 42));
    // Before event 9 050, which acquires 512 MiB, segments are released: `vramscope events` lists them.
    oom.press(&["5", "Down"]).shows("memory nearly ran out 2 times").press(&["Enter"]).shows("event 9 050");
}

#[test]
fn help_says_where_a_key_works_and_what_colors_mean() {
    let mut oom = open("oom.pickle.xz", SMALL);
    oom.press(&["?"]);
    assert!(oom.screen()[22].ends_with("more below: Down ─┘"), "{}", oom.text());
    oom.press(&["another limit"]).shows("in whatif").hides("other views");
    oom.press(&["Esc", "3", "?", "color"]).shows("a line of the program: the same one in segments");
    oom.press(&["Esc", "4", "?", "part"]).hides("█").press(&["Esc", "?", "in use"]).shows("█ ▓ ▒ ░ ·");
}

#[test]
fn the_footer_says_what_going_back_does() {
    let names = ["llama_python.pickle.xz", "leak_graph.pickle.xz"];
    let mut files = Session::open(&names, false, (140, 42), PLAIN);
    files.shows("q quit").press(&["6", "Down", "x"]).shows("q close B").press(&["q"]).shows("q quit");
    // Two that were asked for from the beginning stay two.
    Session::open(&names, true, (140, 42), PLAIN).shows("q quit");
    // A file without events begins with its segments.
    open("no_recording.pickle.xz", SMALL).press(&["1"]).shows("158 MiB requested  start").shows("q back");
}

#[test]
fn a_comparison_names_both_moments_on_a_narrow_screen() {
    let names = ["llama_python.pickle.xz", "leak_graph.pickle.xz"];
    let mut both = Session::open(&names, true, SMALL, PLAIN);
    both.press(&["9"]).shows("+552 MiB requested  A event 3 248 (442 MiB) → B event 8 920 (994 MiB)");
    both.resize(140, 42).shows("llama_python.pickle.xz event 3 248 (442 MiB) → leak_graph.pickle.xz");
}

#[test]
fn segments_say_their_order_and_stand_apart() {
    let mut oom = open("oom.pickle.xz", (140, 42));
    oom.press(&["4", "Down"])
        .shows("sorted by free bytes (S)")
        .press(&["S", "Down"])
        .shows("sorted by address (S)");
    // 52 segments have no room for a line between them: each bar leaves a hairline above it.
    oom.shows("▇▇▇▇").hides("████");
    oom.press(&["z"]).shows("████");
}

#[test]
fn headings_notes_and_the_whole_run_can_be_clicked() {
    let mut oom = open("oom.pickle.xz", (140, 42));
    let click = |session: &mut Session, column: u16, row: usize| {
        let (kind, modifiers) = (MouseEventKind::Down(MouseButton::Left), KeyModifiers::NONE);
        session.app.mouse(MouseEvent { kind, column, row: row as u16, modifiers });
    };
    let row_of = |session: &mut Session, words: &str| {
        session.screen().iter().position(|line| line.contains(words)).unwrap()
    };
    let row = row_of(&mut oom, "5: 3 insights");
    click(&mut oom, 20, row);
    oom.shows("lack of memory").press(&["4"]);
    let row = row_of(&mut oom, "what pins it");
    click(&mut oom, 20, row);
    oom.shows("sorted by address");
    // The last eighth of the run is shown, and a click on the middle of the whole shows the middle: event 5 911 of 11 822.
    oom.press(&["1", "+", "+", "+"]);
    assert!(oom.screen()[3].contains('▁'), "{}", oom.text());
    click(&mut oom, 75, 3);
    oom.shows("5 800").shows("6 200").hides("11 600").shows("event 11 822");
}

#[test]
fn the_smallest_screen_has_the_file_the_view_and_the_verdict() {
    let mut oom = open("oom.pickle.xz", (40, 10));
    for (key, view) in
        [("1", "timeline"), ("2", "tree"), ("4", "segments"), ("5", "insights"), ("0", "whatif")]
    {
        let title = oom.press(&[key]).screen().remove(0);
        assert!(title.starts_with("oom.pickle.xz  cuda:0"), "{title}");
        assert!(title.contains(view) && title.contains('●'), "{title}");
    }
}
