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
