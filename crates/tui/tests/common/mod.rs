//! A program without a terminal: keys in, screens out.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use unicode_width::UnicodeWidthStr;
use vramscope_tui::{App, Colors, Document, Effect, Figures, Ground, News, Theme, draw};

pub(crate) const PLAIN: Theme = Theme { colors: Colors::None, ground: Ground::Dark, ascii: false };

/// A recording of the repository.
pub(crate) fn recording(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings").join(name)
}

pub(crate) struct Session {
    pub(crate) app: App,
    size: (u16, u16),
    /// What was asked of the terminal, apart from reading files.
    pub(crate) effects: Vec<Effect>,
}

impl Session {
    pub(crate) fn open(names: &[&str], compare: bool, size: (u16, u16), theme: Theme) -> Self {
        let paths: Vec<PathBuf> = names.iter().map(|name| recording(name)).collect();
        Self::open_paths(&paths, compare, size, theme)
    }

    pub(crate) fn open_paths(paths: &[PathBuf], compare: bool, size: (u16, u16), theme: Theme) -> Self {
        let (inputs, _) = vramscope_files::find(paths);
        let mut session = Self { app: App::new(inputs, compare, theme, true), size, effects: Vec::new() };
        session.app.resize(size.0, size.1);
        session.perform();
        session
    }

    /// A file that is in memory already.
    pub(crate) fn open_bytes(bytes: &[u8], size: (u16, u16)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made.json");
        std::fs::write(&path, bytes).unwrap();
        Self::open_paths(&[path], false, size, PLAIN)
    }

    /// Does what the terminal's threads would do.
    fn perform(&mut self) {
        for effect in self.app.effects() {
            match effect {
                Effect::Load(job) => {
                    let opened = vramscope_files::open(&job.input, None, &());
                    let result =
                        opened.map(|opened| Box::new(Document::new(opened))).map_err(|e| e.to_string());
                    self.app.receive(News::Loaded(job, result));
                }
                Effect::Rank(inputs) => {
                    for (row, input) in inputs {
                        let opened = vramscope_files::open(&input, None, &());
                        let figures = opened.map(|opened| Figures::new(&opened)).map_err(|e| e.to_string());
                        self.app.receive(News::Ranked(row, figures));
                    }
                }
                other => self.effects.push(other),
            }
        }
    }

    /// Presses keys: `Enter`, `Left`, `Ctrl-d` and the like by name, anything else character by character.
    pub(crate) fn press(&mut self, keys: &[&str]) -> &mut Self {
        for name in keys {
            let code = match *name {
                "Enter" => Some(KeyCode::Enter),
                "Esc" => Some(KeyCode::Esc),
                "Left" => Some(KeyCode::Left),
                "Right" => Some(KeyCode::Right),
                "Up" => Some(KeyCode::Up),
                "Down" => Some(KeyCode::Down),
                "PgDn" => Some(KeyCode::PageDown),
                "Tab" => Some(KeyCode::Tab),
                "Backspace" => Some(KeyCode::Backspace),
                _ => None,
            };
            match (code, name.strip_prefix("Ctrl-")) {
                (Some(code), _) => self.key(KeyEvent::new(code, KeyModifiers::NONE)),
                (None, Some(letter)) => {
                    let letter = letter.chars().next().unwrap();
                    self.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
                }
                (None, None) => {
                    for c in name.chars() {
                        self.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
                    }
                }
            }
        }
        self
    }

    fn key(&mut self, key: KeyEvent) {
        self.app.update(key);
        self.perform();
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        self.size = (width, height);
        self.app.resize(width, height);
        self
    }

    /// The screen, line by line.
    pub(crate) fn screen(&mut self) -> Vec<String> {
        self.app.settle();
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        terminal.draw(|frame| draw(frame, &self.app)).unwrap();
        let buffer = terminal.backend().buffer();
        (0..self.size.1)
            .map(|y| {
                let mut line = String::new();
                let mut x = 0;
                while x < self.size.0 {
                    let symbol = buffer.cell((x, y)).unwrap().symbol();
                    line.push_str(symbol);
                    // A wide character takes the cell after it.
                    x += symbol.width().max(1) as u16;
                }
                line.trim_end().to_owned()
            })
            .collect()
    }

    pub(crate) fn text(&mut self) -> String {
        self.screen().join("\n")
    }

    /// Fails with the screen if it does not show this.
    #[track_caller]
    pub(crate) fn shows(&mut self, what: &str) -> &mut Self {
        let text = self.text();
        assert!(text.contains(what), "{what:?} is not on the screen:\n{text}");
        self
    }

    #[track_caller]
    pub(crate) fn hides(&mut self, what: &str) -> &mut Self {
        let text = self.text();
        assert!(!text.contains(what), "{what:?} is on the screen:\n{text}");
        self
    }
}
