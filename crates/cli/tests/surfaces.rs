//! Every surface says the same thing: for every recording, the command line's text and JSON, the terminal UI, reports and
//! the engine behind the window and the page have the same numbers and the same words.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Value;
use vramscope_analysis::{Counter, Line, Moment, Peak};
use vramscope_engine::{
    AskInsights, AskMoment, AskReport, AskSummary, AskTree, OpenFile, ReportOf, Session, Source, Weigh,
};
use vramscope_files::{Opened, find, open};
use vramscope_format::{bytes, count, html, pool, size};
use vramscope_tui::{App, Colors, Document, Effect, Ground, News, Theme, draw};

/// All recordings of the repository that can be opened.
fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".pickle.xz"));
    paths.sort();
    assert!(paths.len() > 50, "{} recordings", paths.len());
    paths
}

fn opened(path: &Path) -> Opened {
    let (inputs, errors) = find(&[path.to_owned()]);
    assert!(errors.is_empty(), "{errors:?}");
    open(&inputs[0], None, &()).unwrap()
}

/// What the command line prints.
fn printed(args: &[&str]) -> String {
    let mut out = Vec::new();
    // A report is never shortened.
    let line = ["vramscope", "--budget", "0"].iter().chain(args).copied();
    vramscope_cli::answer(line, &mut out).unwrap_or_else(|error| panic!("{args:?}: {error}"));
    String::from_utf8(out).unwrap()
}

/// The terminal UI on one file, wide and high enough that nothing is left out.
struct Screen(App);

impl Screen {
    const SIZE: (u16, u16) = (400, 120);

    fn open(path: &Path) -> Self {
        let (inputs, _) = find(&[path.to_owned()]);
        let theme = Theme { colors: Colors::None, ground: Ground::Dark, ascii: false };
        let mut app = App::new(inputs, false, theme, false);
        app.resize(Self::SIZE.0, Self::SIZE.1);
        for effect in app.effects() {
            if let Effect::Load(job) = effect {
                let opened = open(&job.input, None, &()).unwrap();
                app.receive([News::Loaded(job, Ok(Box::new(Document::new(opened))))]);
            }
        }
        app.settle();
        Self(app)
    }

    /// What is shown after these keys.
    fn press(&mut self, keys: &str) -> String {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            self.0.update(KeyEvent::new(code, KeyModifiers::NONE));
            self.0.settle();
        }
        let mut terminal = Terminal::new(TestBackend::new(Self::SIZE.0, Self::SIZE.1)).unwrap();
        terminal.draw(|frame| draw(frame, &self.0)).unwrap();
        terminal.backend().to_string()
    }
}

/// What a report on all recordings says of each: the caption of its pictures, and the summary.
fn reported(paths: &[PathBuf]) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "<html><body><!--data--></body></html>").unwrap();
    std::fs::write(folder.path().join("vramscope.wasm.gz"), b"\x1f\x8b").unwrap();
    let file = folder.path().join("report.html");
    let mut report = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    report
        .env("VRAMSCOPE_WEB", folder.path())
        .arg("report")
        .args(paths)
        .arg("-o")
        .arg(&file)
        .arg("--no-cache");
    let output = report.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(file).unwrap();
    let parts = page.split("<h2>").skip(1);
    let part = |part: &str| {
        let (pictures, rest) = part.split_once("<pre>").unwrap();
        (pictures.to_owned(), rest.split_once("</pre>").unwrap().0.to_owned())
    };
    parts.map(part).collect()
}

/// What the command line prints about pools at the peak, or at the end of a file without a history.
fn printed_pools(name: &str, is_state: bool) -> String {
    printed(&["pools", name, "--no-cache", if is_state { "--end" } else { "--peak" }])
}

fn session(path: &Path) -> (Session, Vec<Source>) {
    let opened = opened(path);
    let mut session = Session::default();
    let name = path.display().to_string();
    let file = OpenFile::new(name, "", opened.bytes, Arc::clone(&opened.snapshot), opened.devices.clone());
    let sources = session.add(file);
    (session, sources)
}

#[test]
fn every_surface_has_the_same_numbers_and_the_same_words() {
    let mut compared = 0;
    let reported = reported(&recordings());
    for path in recordings() {
        let name = path.to_string_lossy();
        let text = printed(&["summary", &name, "--no-cache"]);
        let json: Value =
            serde_json::from_str(&printed(&["summary", &name, "--no-cache", "--json"])).unwrap();
        let devices = json["files"][0]["devices"].as_array().unwrap();
        let mut screen = (!devices.is_empty()).then(|| Screen::open(&path));
        let heading = format!("{} · ", html(&name));
        let found = reported.iter().find(|(_, summary)| summary.starts_with(&heading));
        let (captions, report) = found.unwrap_or_else(|| panic!("{name} is not in the report"));
        assert_eq!(report.trim_end(), html(text.trim_end()), "{name}: the report's summary is another");
        let (session, sources) = session(&path);
        for (device, &of) in devices.iter().zip(&sources) {
            let summary = session.ask(AskSummary { of }).unwrap();
            let at = format!("{name} {}", summary.device);
            let says = |words: &str| {
                assert!(text.contains(words), "{at}: the summary does not say {words:?}:\n{text}");
            };
            // The terminal opens one device; keys go to the next one.
            let screen = screen.as_mut().unwrap();
            for _ in &sources {
                if screen.press("1").lines().next().unwrap_or_default().contains(&summary.device) {
                    break;
                }
                screen.press(">");
            }

            // What the device is called, and whether the recording is complete.
            assert_eq!(device["name"], summary.device, "{at}");
            says(&summary.device);
            let peak = bytes(summary.peak(Counter::Requested).bytes);
            assert!(
                captions.contains(&html(&summary.device)) && captions.contains(&peak),
                "{at}: {captions}"
            );
            assert_eq!(device["verdict"]["sentence"], summary.verdict, "{at}");
            says(&summary.verdict);
            let notes: Vec<Value> = summary.notes.iter().map(|note| note.as_str().into()).collect();
            assert_eq!(device["verdict"]["notes"], Value::Array(notes), "{at}");

            // The counters.
            for counter in Counter::ALL {
                let peak = summary.peak(counter);
                let stated = &device["peak"][counter.name()];
                if stated.is_null() {
                    continue;
                }
                assert_eq!(stated["bytes"], peak.bytes, "{at} {}", counter.name());
                assert_eq!(stated["event"].as_u64(), peak.at.event().map(|event| event.0.into()), "{at}");
                // Without a history the only moment is the end.
                let is_state = summary.status == "state only";
                says(&bytes(if is_state { summary.end[counter] } else { peak.bytes }));
            }
            let peak = summary.peak(Counter::Requested);
            let is_state = summary.status == "state only";
            let peak = match is_state {
                true => Peak { bytes: summary.end.requested, at: Moment(summary.events) },
                false => peak,
            };
            let timeline = screen.press(if is_state { "1e" } else { "1p" });
            let shows = |view: &str, words: &str| {
                assert!(view.contains(words), "{at}: the terminal does not show {words:?}:\n{view}");
            };
            shows(&timeline, &summary.device);
            shows(&timeline, &summary.status);
            shows(&timeline, &bytes(peak.bytes));

            // What is live at the peak, by line: the window's call tree from the inside out has the same.
            let tree = AskTree { of, weigh: Weigh::Live(peak.at), inverted: true, own: true };
            let tree = session.ask(tree).unwrap();
            if let (Some(first), Some(&child)) =
                (device["live_at_peak"].get(0), tree.nodes[0].children.first())
            {
                let line = Line {
                    file: first["file"].as_str().unwrap().into(),
                    line: first["line"].as_u64().unwrap() as u32,
                    name: first["name"].as_str().unwrap().into(),
                };
                says(&line.short());
                let node = &tree.nodes[child as usize];
                let label = &tree.labels[node.label as usize];
                if label.at == line {
                    assert_eq!(node.bytes, first["bytes"].as_u64().unwrap(), "{at}: {}", line.short());
                }
            }
            for row in device["live_at_peak"].as_array().unwrap() {
                let line = Line {
                    file: row["file"].as_str().unwrap().into(),
                    line: row["line"].as_u64().unwrap() as u32,
                    name: row["name"].as_str().unwrap().into(),
                };
                let held = size(row["bytes"].as_u64().unwrap());
                let is_row = |shown: &&str| shown.contains(&line.short()) && shown.contains(&held);
                assert!(
                    timeline.lines().any(|shown| is_row(&shown)),
                    "{at}: {held} {}:\n{timeline}",
                    line.short()
                );
            }

            // The gap by cause.
            if !device["gap_at_peak"].is_null() && summary.events > 0 {
                let moment = session.ask(AskMoment { of, at: peak.at, whole: true }).unwrap();
                let segments = screen.press("4");
                for (cause, held) in &moment.gap {
                    let words = format!("{cause} {}", size(*held));
                    says(&words);
                    shows(&segments, &words);
                }
            }

            // Pools: the same names and bytes in a row of each surface.
            if !device["gap_at_peak"].is_null() {
                let pools = session.ask(AskReport { of, what: ReportOf::Pools, at: peak.at }).unwrap();
                let (printed, shown) = (printed_pools(&name, is_state), screen.press("8"));
                for row in pools.rows.iter().filter(|row| row.cells[0].0 > 0) {
                    let held = &row.cells[0].1;
                    let is_row = |line: &str| line.contains(&row.name) && line.contains(held);
                    assert!(printed.lines().any(is_row), "{at}: {held} {}:\n{printed}", row.name);
                    let (pool, stream) = row.name.split_once(", stream ").unwrap();
                    let held = size(row.cells[0].0 as u64);
                    let is_row =
                        |line: &str| [pool, stream, &held].into_iter().all(|word| line.contains(word));
                    assert!(shown.lines().any(is_row), "{at}: {held} {}:\n{shown}", row.name);
                }
            }

            // Phases are called the same, and findings are the same sentences in the same order.
            let spans: Vec<&str> = summary.spans.iter().map(|span| span.name.as_str()).collect();
            for phase in device["phases"].as_array().unwrap() {
                let phase = phase["name"].as_str().unwrap();
                let is_one = |span: &&str| *span == phase || span.starts_with(&format!("{phase}#"));
                assert!(spans.iter().any(&is_one), "{at}: {phase} is not in {spans:?}");
                says(phase);
            }
            let phases = session.ask(AskReport { of, what: ReportOf::Phases, at: peak.at }).unwrap();
            for (row, stated) in phases.rows.iter().zip(device["phases"].as_array().unwrap()) {
                assert_eq!(stated["name"], row.name, "{at}");
                assert_eq!(stated["peak"], row.cells[0].0, "{at}: {}", row.name);
                let times = stated["count"].as_u64().unwrap();
                let found = screen.press(&format!("1/^{}$\n", regex_lite::escape(&row.name)));
                shows(&found, &format!("of {}", count(times)));
                screen.press("\u{1b}");
            }
            let insights = session.ask(AskInsights { of }).unwrap();
            let titles: Vec<Value> =
                insights.found.iter().map(|insight| insight.title.as_str().into()).collect();
            let findings: Vec<Value> = device["findings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|finding| finding["what"].clone())
                .collect();
            assert_eq!(findings, titles, "{at}");
            let shown = screen.press("5");
            for insight in &insights.found {
                shows(&shown, &insight.title);
            }
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared} devices");
}

#[test]
fn a_pool_has_one_name() {
    let path = recordings().into_iter().find(|path| path.ends_with("cudagraph_pools.pickle.xz")).unwrap();
    let name = path.to_string_lossy();
    let (session, sources) = session(&path);
    let summary = session.ask(AskSummary { of: sources[0] }).unwrap();
    let text = printed(&["pools", &name, "--no-cache"]);
    for numbers in [(1, 0), (2, 0), (3, 0), (0, 0)] {
        let called = pool(Some(numbers));
        assert!(summary.pools.contains(&called), "{called} is not in {:?}", summary.pools);
        assert!(text.contains(&called), "{called}: {text}");
    }
}

/// The terms that surfaces use are in the glossary.
#[test]
fn the_glossary_has_every_term() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/glossary.md");
    let glossary = std::fs::read_to_string(path).unwrap();
    let terms = Counter::ALL.iter().map(|counter| counter.name().to_owned());
    let gap = vramscope_analysis::Gap::default();
    let causes = gap.words().into_iter().map(|(words, _)| words.to_owned());
    let verdicts = [
        "exact",
        "late start",
        "ring overflow",
        "events skipped",
        "settings changed",
        "truncated",
        "state only",
    ];
    for term in terms.chain(causes).chain(verdicts.map(str::to_owned)) {
        assert!(glossary.contains(&format!("**{term}**")), "{term} is not in docs/glossary.md");
    }
}
