//! A program without a terminal: keys in, screens out.

use std::path::PathBuf;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use vramscope_tui::{App, Colors, Document, Effect, Ground, Loader, News, Question, Theme, Watched, draw};

pub(crate) const PLAIN: Theme = Theme { colors: Colors::None, ground: Ground::Dark, ascii: false };

pub(crate) const SMALL: (u16, u16) = (80, 24);

/// Four allocations: `big` of 1000 bytes and `deep` of 500 in `main`, freed one after the other; a spike of 9000
/// between them that lives for one event; and at the very end one of 100. Event N happens N ms after the first.
pub(crate) fn made_json() -> String {
    let frame = |name: &str, line: u32| {
        format!(r#"{{"name": "{name}", "filename": "/src/train.py", "line": {line}}}"#)
    };
    let stack = |names: &[(&str, u32)]| {
        let frames: Vec<_> = names.iter().map(|(name, line)| frame(name, *line)).collect();
        format!(r#""frames": [{}]"#, frames.join(","))
    };
    let main = ("main", 1);
    let event = |number: usize, action: &str, addr: u64, size: u64, stack: &str| {
        let time = 1_000_000 + number * 1000;
        format!(
            r#"{{"action": "{action}", "addr": {addr}, "size": {size}, "stream": 0, "time_us": {time}, {stack}}}"#
        )
    };
    let (big, deep, spike, last) = (
        stack(&[("big", 10), main]),
        stack(&[("deepest", 30), ("deeper", 21), ("deep", 20), main]),
        stack(&[("spike", 40), main]),
        stack(&[("last", 50), main]),
    );
    let events = [
        event(0, "segment_alloc", 0, 2 << 20, &big),
        event(1, "alloc", 0, 1000, &big),
        event(2, "alloc", 1024, 500, &deep),
        event(3, "alloc", 1536, 9000, &spike),
        event(4, "free_requested", 1536, 9000, &spike),
        event(5, "free_completed", 1536, 9000, &spike),
        event(6, "free_requested", 0, 1000, &big),
        event(7, "free_completed", 0, 1000, &big),
        event(8, "alloc", 0, 100, &last),
    ]
    .join(",");
    let block = |addr: u64, size: u64, requested: u64| {
        format!(
            r#"{{"address": {addr}, "size": {size}, "requested_size": {requested}, "state": "active_allocated"}}"#
        )
    };
    let free =
        |addr: u64, size: u64| format!(r#"{{"address": {addr}, "size": {size}, "state": "inactive"}}"#);
    // The last allocation takes the first half of the block that `big` had.
    let blocks =
        [block(0, 512, 100), free(512, 512), block(1024, 512, 500), free(1536, (2 << 20) - 1536)].join(",");
    format!(
        r#"{{"segments": [{{"device": 0, "address": 0, "total_size": 2097152, "allocated_size": 1024, "active_size": 1024,
        "requested_size": 600, "stream": 0, "segment_type": "small", "blocks": [{blocks}]}}],
        "device_traces": [[{events}]]}}"#
    )
}

/// A recording of the repository.
pub(crate) fn recording(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings").join(name)
}

pub(crate) struct Session {
    pub(crate) app: App,
    size: (u16, u16),
    /// What was asked of the terminal, apart from reading files.
    pub(crate) effects: Vec<Effect>,
    /// Files whose changes are to be told.
    pub(crate) watched: Vec<Watched>,
    loader: Loader,
    /// Requests that no thread has taken up yet, while they are held back.
    pub(crate) held: Option<Vec<Question>>,
    /// Files about which no conclusions are drawn yet, while that is held back.
    pub(crate) unanalyzed: Option<Vec<Arc<Document>>>,
}

impl Session {
    pub(crate) fn open(names: &[&str], compare: bool, size: (u16, u16), theme: Theme) -> Self {
        let paths: Vec<PathBuf> = names.iter().map(|name| recording(name)).collect();
        Self::open_paths(&paths, compare, size, theme)
    }

    pub(crate) fn open_paths(paths: &[PathBuf], compare: bool, size: (u16, u16), theme: Theme) -> Self {
        Self::open_with(paths, compare, size, theme, Loader::default())
    }

    pub(crate) fn open_with(
        paths: &[PathBuf],
        compare: bool,
        size: (u16, u16),
        theme: Theme,
        loader: Loader,
    ) -> Self {
        let (inputs, _) = vramscope_files::find(paths);
        let app = App::new(inputs, compare, theme, true);
        let mut session = Self {
            app,
            size,
            effects: Vec::new(),
            watched: Vec::new(),
            loader,
            held: None,
            unanalyzed: None,
        };
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
        let mut effects = std::collections::VecDeque::from(self.app.effects());
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Load(job) => {
                    let result = self.loader.document(&job.input, &());
                    let result = result.map(Box::new).map_err(|error| error.to_string());
                    self.app.receive([News::Loaded(job, result)]);
                }
                Effect::Rank(inputs) => {
                    for (row, input) in inputs {
                        let figures = self.loader.figures(&input).map_err(|error| error.to_string());
                        self.app.receive([News::Ranked(row, figures)]);
                    }
                }
                Effect::Analyze(doc) => match &mut self.unanalyzed {
                    Some(docs) => docs.push(doc),
                    None => {
                        doc.analyze();
                        self.app.receive([News::Analyzed(doc)]);
                    }
                },
                Effect::Ask(question) => match &mut self.held {
                    Some(held) => held.push(question),
                    None => {
                        let answer = question.answer();
                        self.app.receive([News::Answered(question, answer)]);
                    }
                },
                Effect::Watch(watched) => self.watched.push(watched),
                other => self.effects.push(other),
            }
            effects.extend(self.app.effects());
        }
    }

    /// Lets the threads answer what was held back.
    pub(crate) fn answer_held(&mut self) {
        for question in self.held.take().unwrap_or_default() {
            let answer = question.answer();
            self.app.receive([News::Answered(question, answer)]);
            self.perform();
        }
    }

    /// Lets the threads draw the conclusions that were held back.
    pub(crate) fn analyze_held(&mut self) {
        for doc in self.unanalyzed.take().unwrap_or_default() {
            doc.analyze();
            self.app.receive([News::Analyzed(doc)]);
            self.perform();
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
                    x += vramscope_format::width(symbol).max(1) as u16;
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
