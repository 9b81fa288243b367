//! The terminal surface: explore snapshots with the keyboard, over SSH.
//!
//! `App` is the program as plain data: `App::update` changes it as a key asks, and [`draw`] puts it on a screen.
//! Neither knows a terminal, so tests and benchmarks press keys and look at cells. `terminal` brings the two to a
//! real one: it reads keys, draws, loads files on other threads, and gives the terminal back as it was.

mod app;
mod branches;
mod calls;
mod document;
mod draw;
mod export;
mod files;
mod insight;
pub mod keys;
mod list;
mod live;
mod load;
mod means;
mod mouse;
mod outline;
mod pane;
mod prompt;
mod ranks;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod views;
mod whatif;

use vramscope_analysis::query::Pattern;
use vramscope_analysis::shapes::Dims;
use vramscope_files::{Cache, Input};

pub use app::{App, Effect};
pub use document::Document;
pub use draw::draw;
pub use load::{Job, Loader, News, Purpose, Question, Tracker, Watched};
pub use theme::{Colors, Ground, Theme};

/// How the program starts.
#[derive(Debug)]
pub struct Options {
    /// What is opened: the first is shown, the others are in the list of ranks.
    pub inputs: Vec<Input>,
    /// Whether the first two are shown side by side.
    pub compare: bool,
    /// How things look.
    pub theme: Theme,
    /// Whether to take the mouse.
    pub mouse: bool,
    /// The dimensions of the model, as far as they are known: they explain byte counts as tensors.
    pub dims: Dims,
    /// Frames that are passed over: they are neither the user's own line nor part of call trees.
    pub ignore_frames: Option<Pattern>,
    /// What was read before.
    pub cache: Option<Cache>,
}

/// Runs the terminal UI until the user leaves it; returns the exit code.
pub fn run(options: Options) -> std::io::Result<u8> {
    let Options { inputs, compare, theme, mouse, dims, ignore_frames, cache } = options;
    let app = App::new(inputs, compare, theme, mouse).with_dims(&dims);
    terminal::run(app, &Loader { cache, ignore_frames })
}
