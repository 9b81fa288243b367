//! The view of SQL, with somebody behind it who answers as SQLite would.

use std::sync::{Arc, Mutex};

use egui::{Key, Modifiers};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vramscope_analysis::Moment;
use vramscope_engine::{OpenSnapshot, Page, Sql, SqlCatalog, SqlColumn, SqlResult, SqlRows, SqlView};
use vramscope_format::{count, duration};

use super::{Direct, bytes_of, drawn, open, settle};
use crate::App;
use crate::views::Tab;

/// More rows than anybody could lay out.
const ROWS: u32 = 1_000_000;

/// Answers every query with the same rows, unless it is about a table that is not there.
pub(super) struct Fake;

fn row(number: u32) -> Vec<String> {
    let line = format!("/srv/train/models/llama/modeling_llama.py:{}", 100 + number % 7);
    vec![number.to_string(), format!("{} MiB", 1 + number % 900), "–".into(), line]
}

impl Sql for Fake {
    fn catalog(&self) -> SqlCatalog {
        let view = |(name, about): (&str, &str)| SqlView {
            name: name.into(),
            about: about.into(),
            sql: format!("-- {about}\nselect event, requested, pool, line\nfrom {name}\norder by event"),
        };
        let views = [
            ("peak_by_line", "What is live at the peak of each rank, by line, over all ranks"),
            ("top_allocations", "The 100 largest allocations of all ranks"),
            ("ooms", "Failed allocations, with what was free"),
        ];
        let tables = vec![("events".into(), vec!["rank".into(), "event".into()])];
        SqlCatalog { views: views.map(view).into(), tables }
    }

    fn run(&self, files: Vec<OpenSnapshot>, query: &str, _: &dyn Fn() -> bool) -> Option<SqlResult> {
        let answer = SqlResult { files: files.len() as u32, millis: 12, ..SqlResult::default() };
        if query.contains("nowhere") {
            return Some(SqlResult { problem: Some("no such table: nowhere".into()), ..answer });
        }
        let column =
            |(name, is_text, width): (&str, bool, u32)| SqlColumn { name: name.into(), is_text, width };
        let columns = [("event", false, 6), ("requested", false, 10), ("pool", false, 4), ("line", true, 46)];
        let total = if query.contains("ooms") { 0 } else { ROWS };
        Some(SqlResult { result: 7, columns: columns.map(column).into(), total, ..answer })
    }

    fn rows(&self, result: u64, first: u32, count: u32) -> Option<SqlRows> {
        assert_eq!(result, 7);
        assert!(count < 2_000, "{count} rows are more than a window shows");
        Some(SqlRows { first, rows: (first..ROWS.min(first + count)).map(row).collect() })
    }

    fn csv(&self, _: u64, first: u32, count: u32) -> Option<Page<String>> {
        let heading = (first == 0).then(|| "event,line\n".to_owned());
        let lines = (1..).map(|n: u32| format!("{n},a.py\n")).take(4);
        let rows: Vec<String> =
            heading.into_iter().chain(lines).skip(first as usize).take(count as usize).collect();
        Some(Page { total: 5, bytes: 0, first, rows, problem: None })
    }
}

/// The window with the view in front, and what its host has done.
pub(super) fn window() -> (Harness<'static, App>, Arc<Mutex<super::Done>>) {
    let mut host = Direct::default();
    host.session.set_sql(Some(Arc::new(Fake)));
    host.add("oom", "", &bytes_of("oom"));
    let done = Arc::clone(&host.done);
    let mut harness = open(host);
    harness.key_press(Key::Q);
    settle(&mut harness);
    (harness, done)
}

pub(super) fn run(harness: &mut Harness<'static, App>, query: &str) {
    query.clone_into(&mut harness.state_mut().settings.sql);
    settle(harness);
    harness.get_by_label("SQL query").focus();
    settle(harness);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    settle(harness);
}

#[test]
fn a_view_answers_with_one_click_and_ctrl_enter_runs_what_is_typed() {
    let (mut harness, _) = window();
    assert!(drawn(&harness, "QUERIES THAT ARE READY") && drawn(&harness, "The 100 largest allocations"));
    harness.get_by_label("top_allocations").click();
    settle(&mut harness);
    assert!(
        drawn(&harness, &format!("{} rows · 1 open file · {}", count(ROWS), duration(12_000))),
        "what came, of what"
    );
    assert!(drawn(&harness, "modeling_llama.py:100"), "of a path the end is shown");
    let first = "0, 1 MiB, –, /srv/train/models/llama/modeling_llama.py:100";
    let spoken = format!("\nQuery: {} rows of event, requested, pool, line\n{first}\n", count(ROWS));
    assert!(harness.state().words().contains(&spoken), "for screen readers");
    run(&mut harness, "select * from ooms");
    assert!(drawn(&harness, "No row"));
    assert!(!harness.state().settings.sql.contains("\n\n"), "the key that runs it is not typed");
    run(&mut harness, "select * from nowhere");
    assert!(drawn(&harness, "no such table: nowhere"));
    assert!(harness.state().words().ends_with("\nQuery: no such table: nowhere"));
}

#[test]
fn a_query_that_comes_in_one_frame_with_its_key_is_run_whole() {
    let (mut harness, _) = window();
    harness.get_by_label("SQL query").focus();
    settle(&mut harness);
    harness.event(egui::Event::Text("select * from ooms".into()));
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    settle(&mut harness);
    assert!(drawn(&harness, "No row"), "what Fake answers about ooms");
}

#[test]
fn a_million_rows_are_scrolled_through_page_by_page() {
    let (mut harness, _) = window();
    run(&mut harness, "select * from events");
    let place = harness.ctx.content_rect().lerp_inside(egui::vec2(0.6, 0.9));
    for _ in 0..6 {
        harness.hover_at(place);
        harness.event(egui::Event::MouseWheel {
            unit: egui::MouseWheelUnit::Point,
            delta: egui::vec2(0.0, -1e8),
            modifiers: Modifiers::NONE,
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
        });
        harness.run_steps(20);
    }
    assert!(drawn(&harness, "999999"), "the last row");
}

#[test]
fn a_query_that_takes_long_can_be_canceled() {
    let (mut harness, done) = window();
    done.lock().unwrap().is_lost = true;
    run(&mut harness, "select * from events");
    assert!(drawn(&harness, "Running"));
    harness.get_by_label("Cancel").click();
    settle(&mut harness);
    assert!(drawn(&harness, "Canceled"));
    done.lock().unwrap().is_lost = false;
    settle(&mut harness);
    assert!(drawn(&harness, "Canceled"), "what comes late is not shown");
    harness.get_by_label("Run").click();
    settle(&mut harness);
    assert!(drawn(&harness, &format!("{} rows", count(ROWS))), "the same query again");
}

#[test]
fn the_result_is_saved_and_an_event_is_gone_to() {
    let (mut harness, done) = window();
    run(&mut harness, "select * from events");
    harness.get_by_label("save CSV").click();
    settle(&mut harness);
    let saved = done.lock().unwrap().saved.clone();
    let text = "event,line\n1,a.py\n2,a.py\n3,a.py\n4,a.py\n";
    assert_eq!(saved, [("query.csv".to_owned(), text.to_owned())]);
    // The third row is about event 2, whose moment is after it.
    let cell = harness.output().shapes.iter().find_map(|clipped| match &clipped.shape {
        egui::Shape::Text(text) if text.galley.text() == "2" && clipped.clip_rect.top() > 500.0 => {
            Some(text.visual_bounding_rect().center())
        }
        _ => None,
    });
    super::click(&mut harness, cell.unwrap());
    assert_eq!(harness.state().selection.cursor, Moment(3));
}

#[test]
fn without_sql_there_is_no_tab() {
    let mut harness = super::window(&[("oom", "")]);
    assert!(harness.query_by_label("SQL").is_none());
    harness.state_mut().open_tab(Tab::Sql);
    settle(&mut harness);
    assert!(drawn(&harness, "SQL is not built into this vramscope"));
}
