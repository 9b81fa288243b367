//! What a key of the terminal UI costs: the change of state and the drawing, as the program does both, on a screen
//! in memory.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use vramscope_files::{find, open};
use vramscope_tui::keys::View;
use vramscope_tui::{App, Colors, Document, Effect, Ground, News, Theme, draw};

use crate::{generate, process_time};

/// A large screen: a small one costs less.
const SIZE: (u16, u16) = (200, 60);
/// Each key is pressed so often; the worst and the middle are shown.
const PRESSES: usize = 40;

/// Limits of the issue that asked for the terminal UI.
const KEY: Duration = Duration::from_millis(5);
const OPEN: Duration = Duration::from_millis(50);
const EXPAND: Duration = Duration::from_millis(100);

pub(crate) fn run(file: Option<&Path>, events: u64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let generated = folder.path().join("generated.pickle");
    let file = match file {
        Some(file) => file,
        None => {
            generate::quietly(&generated, events)?;
            &generated
        }
    };
    println!("keys on {}, {} × {} cells; CPU time", file.display(), SIZE.0, SIZE.1);
    let mut session = Session::new(file)?;
    session.keys()?;
    drop(session);
    let many = folder.path().join("many.json");
    fs::write(&many, many_live(200_000))?;
    println!("\na moment with 200 000 live allocations of 20 000 stacks");
    let mut session = Session::new(&many)?;
    session.time("open the moment", 1, OPEN, |session| session.press(KeyCode::Enter))?;
    session.time("expand all", 1, EXPAND, |session| session.press(KeyCode::Char('E')))?;
    session.time("one row down", PRESSES, KEY, |session| session.press(KeyCode::Down))?;
    session.time("page down", PRESSES, KEY, |session| session.press(KeyCode::PageDown))?;
    session.time("show internal", 1, OPEN, |session| session.press(KeyCode::Char('h')))?;
    session.time("list of allocations", 1, OPEN, |session| session.press(KeyCode::Char('a')))?;
    Ok(())
}

struct Session {
    app: App,
    screen: Terminal<TestBackend>,
}

impl Session {
    fn new(file: &Path) -> anyhow::Result<Self> {
        let (inputs, _) = find(&[file.to_owned()]);
        let theme = Theme { colors: Colors::True, ground: Ground::Dark, ascii: false };
        let mut app = App::new(inputs, false, theme, false);
        app.resize(SIZE.0, SIZE.1);
        for effect in app.effects() {
            if let Effect::Load(job) = effect {
                let opened = open(&job.input, None, &())?;
                app.receive([News::Loaded(job, Ok(Box::new(Document::new(opened))))]);
            }
        }
        let mut session = Self { app, screen: Terminal::new(TestBackend::new(SIZE.0, SIZE.1))? };
        session.draw()?;
        Ok(session)
    }

    fn press(&mut self, code: KeyCode) -> anyhow::Result<()> {
        self.app.update(KeyEvent::new(code, KeyModifiers::NONE));
        self.draw()
    }

    /// Fails if the keys have led elsewhere.
    fn show(&self, view: View) -> anyhow::Result<()> {
        ensure!(self.app.view() == view, "the keys have led to {}", self.app.view().name());
        Ok(())
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.screen.draw(|frame| draw(frame, &self.app))?;
        Ok(())
    }

    /// Times something several times, and fails if the middle one is over the limit.
    fn time(
        &mut self,
        name: &str,
        times: usize,
        limit: Duration,
        mut work: impl FnMut(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut taken = Vec::new();
        for _ in 0..times {
            let before = process_time();
            work(self)?;
            taken.push(process_time().saturating_sub(before));
        }
        taken.sort_unstable();
        let middle = taken.get(taken.len() / 2).copied().context("at least one")?;
        let worst = taken.last().copied().unwrap_or(middle);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("  {name:28}{:>9.2} ms   worst {:>7.2} ms", ms(middle), ms(worst));
        ensure!(middle <= limit, "{name} takes {:.2} ms, {:.0} are allowed", ms(middle), ms(limit));
        Ok(())
    }

    fn keys(&mut self) -> anyhow::Result<()> {
        let key = |c: char| KeyCode::Char(c);
        let timeline = [
            ("move", KeyCode::Left),
            ("move by 15 columns", key('b')),
            ("zoom in", key('+')),
            ("zoom out", key('-')),
            ("fit", key('z')),
            ("pan", key('a')),
            ("raise the floor", KeyCode::Up),
            ("another counter", key('c')),
            ("another axis", key('t')),
            ("peak", key('p')),
            ("next mark", key('.')),
        ];
        for (name, code) in timeline {
            self.time(&format!("timeline: {name}"), PRESSES, KEY, |session| session.press(code))?;
        }
        self.press(key('p'))?;
        self.time("timeline: what is live here", 1, OPEN, |session| {
            session.app.settle();
            session.draw()
        })?;
        self.time("open the moment", 1, OPEN, |session| session.press(KeyCode::Enter))?;
        for (name, code) in [
            ("down", KeyCode::Down),
            ("open and close", KeyCode::Enter),
            ("sibling", key(']')),
            ("parent", KeyCode::Left),
            ("child", KeyCode::Right),
            ("show and hide internal", key('h')),
            ("invert", key('v')),
            ("focus", key('f')),
        ] {
            // Wherever the last keys have led: back to the first row of the tree.
            for back in [key('2'), key('r')] {
                self.press(back)?;
            }
            self.time(&format!("tree: {name}"), PRESSES, KEY, |session| session.press(code))?;
            self.show(View::Tree)?;
        }
        while self.app.view() == View::Tree {
            self.press(key('q'))?;
        }
        self.press(key('2'))?;
        self.time("tree: expand all", 1, EXPAND, |session| session.press(key('E')))?;
        for c in "/forward".chars() {
            self.time(&format!("tree: search, typing {c}"), 1, KEY, |session| session.press(key(c)))?;
        }
        self.press(KeyCode::Enter)?;
        self.time("tree: next match", PRESSES, KEY, |session| session.press(key('n')))?;
        for (view, name) in
            [('3', "flame"), ('4', "segments"), ('7', "events"), ('8', "pools"), ('5', "insights")]
        {
            self.time(&format!("{name}: open"), 1, OPEN, |session| session.press(key(view)))?;
            self.time(&format!("{name}: down"), PRESSES, KEY, |session| session.press(KeyCode::Down))?;
            ensure!(self.app.view().name() == name, "the keys have led from {name} elsewhere");
        }
        self.time("diff: open", 1, OPEN, |session| session.press(key('9')))?;
        self.time("diff: down", PRESSES, KEY, |session| session.press(KeyCode::Down))?;
        Ok(())
    }
}

/// A recording in which everything stays: `count` allocations, ten of each stack, and stacks of 24 frames.
fn many_live(count: u64) -> String {
    let mut json = String::from(r#"{"segments": [], "device_traces": [["#);
    for number in 0..count {
        let stack = number / 10;
        let mut frames = Vec::new();
        for depth in 0..24 {
            // Deeper calls differ more: the tree is narrow at its root and wide at its leaves.
            let variants = 1_u64 << (depth / 2).min(14);
            let function = stack % variants;
            frames.push(format!(
                r#"{{"name": "f{depth}_{function}", "filename": "/src/m{depth}.py", "line": {function}}}"#
            ));
        }
        frames.reverse();
        let comma = if number > 0 { "," } else { "" };
        let size = 512 * (1 + number % 64);
        // Writing to a string cannot fail.
        let _ = write!(
            json,
            r#"{comma}{{"action": "alloc", "addr": {}, "size": {size}, "stream": 0, "time_us": {number}, "frames": [{}]}}"#,
            number * 65536,
            frames.join(",")
        );
    }
    json.push_str("]]}");
    json
}
