//! The first screen of the terminal UI as plain text, without a terminal.
//! `cargo run -p vramscope-tui --example screen testdata/recordings/oom.pickle.xz`

use std::error::Error;
use std::path::PathBuf;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use vramscope_files::{find, open};
use vramscope_tui::{App, Colors, Document, Effect, Ground, News, Theme, draw};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let theme = Theme { colors: Colors::True, ground: Ground::Dark, ascii: false };
    let mut app = App::new(find(&paths).0, false, theme, false);
    app.resize(120, 36);
    // The program says what it wants done; the caller does it, here at once.
    for effect in app.effects() {
        if let Effect::Load(job) = effect {
            let opened = open(&job.input, None, &())?;
            app.receive([News::Loaded(job, Ok(Box::new(Document::new(opened))))]);
        }
    }
    app.settle();
    let mut screen = Terminal::new(TestBackend::new(120, 36))?;
    screen.draw(|frame| draw(frame, &app))?;
    println!("{}", screen.backend());
    Ok(())
}
