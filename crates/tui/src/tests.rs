//! Every recording in every view at the sizes that people have: no text is written over another one, and what is cut
//! ends in an ellipsis.

use std::cell::RefCell;
use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use crate::{App, Colors, Effect, Ground, Loader, News, Theme, draw};

thread_local! {
    /// What was written wrongly since the last look.
    static WRONG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Looks at a text that is about to be written in some columns of a row.
pub(crate) fn written(buffer: &Buffer, (x, y): (u16, u16), shown: &str, whole: &str) {
    let wrong = |words: String| WRONG.with_borrow_mut(|all| all.push(words));
    if shown.trim_end() != whole.trim_end() && !shown.ends_with('…') {
        wrong(format!("{whole:?} is cut without a mark: {shown:?}"));
    }
    for (column, new) in (x..).zip(shown.chars()) {
        let old = buffer.cell((column, y)).and_then(|cell| cell.symbol().chars().next()).unwrap_or(' ');
        // Lines and blocks may lie below a text, and spaces above one leave nothing of it.
        if old.is_alphanumeric() && !new.is_whitespace() {
            wrong(format!("{shown:?} is written over {old:?} at {column}, {y}"));
            return;
        }
    }
}

/// An app on a file, and a terminal's threads.
struct Session(App);

impl Session {
    fn open(path: &Path) -> Self {
        let (inputs, _) = vramscope_files::find(&[path.to_owned()]);
        let theme = Theme { colors: Colors::True, ground: Ground::Dark, ascii: false };
        let mut session = Self(App::new(inputs, false, theme, false));
        session.perform();
        session
    }

    fn perform(&mut self) {
        loop {
            let effects = self.0.effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    Effect::Load(job) => {
                        let read = Loader::default().document(&job.input, &());
                        let read = read.map(Box::new).map_err(|error| error.to_string());
                        self.0.receive([News::Loaded(job, read)]);
                    }
                    Effect::Analyze(doc) => {
                        doc.analyze();
                        self.0.receive([News::Analyzed(doc)]);
                    }
                    Effect::Rank(inputs) => {
                        for (row, input) in inputs {
                            let figures =
                                Loader::default().figures(&input).map_err(|error| error.to_string());
                            self.0.receive([News::Ranked(row, figures)]);
                        }
                    }
                    // Simulations are looked at in tests of their own.
                    _ => {}
                }
            }
        }
    }

    fn press(&mut self, keys: &str) {
        for c in keys.chars() {
            let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
            self.0.update(KeyEvent::new(code, KeyModifiers::NONE));
            self.perform();
        }
    }
}

/// Keys that lead through all views, and through what else they show.
const VIEWS: [&str; 20] = [
    "1", "p", ".", "t", "+", "cn", "2j", "\nE", "a", "i", "3", "4j", "zt", "5", "6", "7n", "8", "9E", "0",
    "?",
];

#[test]
fn what_is_written_wrongly_is_seen() {
    use ratatui::{layout::Rect, style::Style};
    let area = Rect::new(0, 0, 8, 1);
    let mut buffer = Buffer::empty(area);
    let mut put = |x, text: &str| crate::views::put(&mut buffer, area, x, 0, text, Style::new());
    put(0, "12 MiB");
    put(6, "allocated");
    assert_eq!(WRONG.take(), Vec::<String>::new());
    put(3, "GiB");
    assert_eq!(WRONG.take(), ["\"GiB\" is written over 'M' at 3, 0"]);
    written(&buffer, (6, 0), "al", "allocated");
    assert_eq!(WRONG.take().len(), 2, "over what is there, and cut");
}

#[test]
fn no_recording_is_overprinted_or_cut_in_any_view() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let files = std::fs::read_dir(folder).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "xz")).collect();
    assert!(files.len() > 40, "{} recordings", files.len());
    for path in files {
        let mut session = Session::open(&path);
        for keys in VIEWS {
            session.press(keys);
            for (width, height) in [(80, 24), (140, 42), (200, 60)] {
                session.0.resize(width, height);
                session.0.settle();
                WRONG.take();
                let mut screen = Terminal::new(TestBackend::new(width, height)).unwrap();
                screen.draw(|frame| draw(frame, &session.0)).unwrap();
                let wrong = WRONG.take();
                assert!(
                    wrong.is_empty(),
                    "{} after {keys} at {width}x{height}:\n{}",
                    path.display(),
                    wrong.join("\n")
                );
            }
        }
    }
}
