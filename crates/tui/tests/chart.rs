//! The chart: colors that mean categories, ranges, and where a part of the run lies in the whole.

use crate::common::{PLAIN, Session};
use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use vramscope_tui::{Colors, Theme, draw};

const TRUE: Theme = Theme { colors: Colors::True, ..PLAIN };

/// How many cells have a color, in front or behind.
fn cells_of(session: &Session, [r, g, b]: [u8; 3], (width, height): (u16, u16)) -> usize {
    let mut screen = Terminal::new(TestBackend::new(width, height)).unwrap();
    screen.draw(|frame| draw(frame, &session.app)).unwrap();
    let color = Color::Rgb(r, g, b);
    let content = &screen.backend().buffer().content;
    content.iter().filter(|cell| cell.fg == color || cell.bg == color).count()
}

#[test]
fn colors_mean_categories_and_the_legend_says_their_bytes() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, (140, 42), TRUE);
    // The largest first, as `vramscope categories` has them at the failure.
    oom.shows("■ activations 3.34 GiB  ■ temporary 354 MiB");
    let of = |category: u32| {
        let color = vramscope_engine::color::of_category(category);
        cells_of(&oom, color, (140, 42))
    };
    let (parameters, optimizer, activations) = (of(0), of(2), of(3));
    assert!(activations > 300, "{activations} cells of activations");
    assert!(
        parameters > 50 && optimizer > 10,
        "{parameters} cells of parameters, {optimizer} of optimizer state"
    );
    // Only requested bytes have categories.
    oom.press(&["c"]).hides("■ activations");
}

#[test]
fn without_colors_there_is_no_legend() {
    Session::open(&["oom.pickle.xz"], false, (140, 42), PLAIN).hides("■").hides("activations 3.34");
}

#[test]
fn a_mark_stays_on_the_axis_and_the_status_says_the_change() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, (140, 42), TRUE);
    oom.press(&["x"]).hides("since A").press(&["Left", "Left", "Left", "Left", "Left"]).shows("since A");
    assert!(oom.screen().iter().any(|line| line.contains("━") && line.trim_end().ends_with('A')));
}

#[test]
fn a_drag_marks_a_range() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, (140, 42), TRUE);
    let mouse = |kind, column| MouseEvent { kind, column, row: 15, modifiers: KeyModifiers::NONE };
    oom.app.mouse(mouse(MouseEventKind::Down(MouseButton::Left), 60));
    for column in 61..90 {
        oom.app.mouse(mouse(MouseEventKind::Drag(MouseButton::Left), column));
    }
    oom.app.mouse(mouse(MouseEventKind::Up(MouseButton::Left), 89));
    oom.shows("since A");
    let axis = oom.screen().into_iter().find(|line| line.contains("A━")).unwrap();
    let (from, to) =
        (axis.chars().position(|c| c == 'A').unwrap(), axis.chars().rev().position(|c| c == '━').unwrap());
    assert_eq!(from, 60, "from where the button went down");
    assert!(axis.chars().count() - to <= 91, "to where the pointer is");
}

#[test]
fn a_part_of_the_run_is_shown_in_the_whole() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, (140, 42), TRUE);
    let rows = |session: &mut Session| session.screen().iter().filter(|line| line.contains('▁')).count();
    let before = rows(&mut oom);
    oom.press(&["+", "+"]);
    assert!(rows(&mut oom) > before, "the whole run has a row of its own");
    oom.press(&["z"]);
    assert_eq!(rows(&mut oom), before);
}

/// The screen in some colors, as cells.
fn cells(session: &mut Session, (width, height): (u16, u16)) -> ratatui::buffer::Buffer {
    session.app.settle();
    let mut screen = Terminal::new(TestBackend::new(width, height)).unwrap();
    screen.draw(|frame| draw(frame, &session.app)).unwrap();
    screen.backend().buffer().clone()
}

#[test]
fn the_cursor_shows_in_a_full_bar_without_colors() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, (80, 24), PLAIN);
    let screen = cells(&mut oom, (80, 24));
    // The last column is at its highest where memory runs out: the bar goes from the top of the chart to its bottom.
    let column: Vec<_> = (4..11).map(|y| &screen[(79, y)]).collect();
    let is_marked = |cell: &&ratatui::buffer::Cell| cell.symbol() == "┊";
    assert!(column.iter().filter(|cell| is_marked(cell)).count() >= 6, "{column:?}");
    let beside: Vec<_> = (4..11).map(|y| &screen[(78, y)]).collect();
    assert!(!beside.iter().any(is_marked));
}

#[test]
fn the_selected_box_of_a_flame_graph_looks_like_no_other() {
    for colors in [Colors::None, Colors::Sixteen, Colors::Indexed, Colors::True] {
        let mut oom = Session::open(&["oom.pickle.xz"], false, (80, 24), Theme { colors, ..PLAIN });
        oom.press(&["3", "Down", "Down", "Down"]);
        let screen = cells(&mut oom, (80, 24));
        let look = |y: u16| {
            let cell = &screen[(1, y)];
            // Reversed, the color in front is the one behind.
            match cell.modifier.contains(ratatui::style::Modifier::REVERSED) {
                true => (cell.fg, true),
                false => (cell.bg, false),
            }
        };
        let selected =
            (3..20).find(|&y| screen[(1, y)].modifier.contains(ratatui::style::Modifier::BOLD)).unwrap();
        for other in (3..16).filter(|&y| y != selected && screen[(1, y)].symbol() != " ") {
            assert_ne!(look(selected), look(other), "{colors:?}, lines {selected} and {other}");
        }
    }
}

#[test]
fn an_event_has_one_mark_however_far_it_is_zoomed() {
    let mut oom = Session::open(&["oom.pickle.xz"], false, (80, 24), PLAIN);
    oom.press(&["+"; 14]);
    // One on the axis, one before the insight below it.
    assert_eq!(oom.text().matches('▲').count(), 2, "{}", oom.text());
}

/// Allocations of a byte, one per event, and 1 GiB at some of the events, freed by the two events after it.
fn made(events: usize, is_large: impl Fn(usize) -> bool, is_freed: bool) -> String {
    let event = |row: usize| {
        let large = |action: &str| format!(r#""action": "{action}", "addr": 0, "size": 1073741824"#);
        let before = |rows: usize| is_freed && row.checked_sub(rows).is_some_and(&is_large);
        let what = match row {
            _ if is_large(row) => large("alloc"),
            _ if before(1) => large("free_requested"),
            _ if before(2) => large("free_completed"),
            _ => format!(r#""action": "alloc", "addr": {}, "size": 1"#, (1_u64 << 31) + row as u64 * 512),
        };
        format!(r#"{{{what}, "time_us": {row}}}"#)
    };
    let events: Vec<_> = (0..events).map(event).collect();
    format!(r#"{{"segments": [], "device_traces": [[{}]]"#, events.join(","))
}

#[test]
fn a_column_shows_both_of_its_halves() {
    // 1 400 moments on 70 columns: the right half of column 35 begins at moment 710, which is after event 709.
    let json = made(1399, |row| row == 709, false) + "}";
    let mut made = Session::open_bytes(json.as_bytes(), (80, 24));
    let row: Vec<char> = made.screen()[7].chars().collect();
    // The numbers of the axis have 10 columns.
    assert_eq!(row[45..48], ['▐', '█', '█'], "{}", made.text());
    assert_ne!(row[44], '█');
}

#[test]
fn what_is_there_at_times_is_told_from_what_mostly_is() {
    // Of every ten moments, two have 1 GiB: a mean of 205 MiB, a fifth of the chart.
    let json = made(1399, |row| row % 10 == 5, true) + "}";
    let mut made = Session::open_bytes(json.as_bytes(), (80, 24));
    let screen = made.screen();
    let at = |row: usize| screen[row].chars().nth(30).unwrap();
    // Zero stands beside the axis, in the row below the bars.
    let bottom = screen.iter().rposition(|line| line.contains("0 B ")).unwrap() - 1;
    assert!(screen[bottom + 1].contains("0 B ─"), "{}", screen.join("\n"));
    assert_eq!((at(bottom), at(bottom - 3)), ('▓', '░'), "{}", screen.join("\n"));
}

#[test]
fn phases_that_are_shorter_than_a_column_are_counted() {
    // 466 phases of three events each, on 70 columns.
    let phase = |row: usize, stage: &str| {
        let time = row * 3 + usize::from(stage == "END") * 2;
        format!(r#"{{"name": "step", "stage": "{stage}", "device": 0, "time_us": {time}}}"#)
    };
    let phases: Vec<_> = (0..466).flat_map(|row| ["START", "END"].map(|stage| phase(row, stage))).collect();
    let json =
        made(1399, |_| false, false) + &format!(r#", "external_annotations": [{}]}}"#, phases.join(","));
    let mut made = Session::open_bytes(json.as_bytes(), (80, 24));
    made.shows(" phases, too short to show: zoom in");
    made.press(&["+"; 6]).hides("too short").shows("▏step");
}
