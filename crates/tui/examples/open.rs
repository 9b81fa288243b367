//! Opens the files and folders that are named, without the rest of the command line:
//! `cargo run -p vramscope-tui --example open -- snapshot.pickle`.

use std::path::PathBuf;
use std::process::ExitCode;

use vramscope_tui::{Options, Theme};

fn main() -> std::io::Result<ExitCode> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (inputs, errors) = vramscope_files::find(&paths);
    if let (true, Some(error)) = (inputs.is_empty(), errors.first()) {
        return Err(std::io::Error::other(error.to_string()));
    }
    let options = Options {
        inputs,
        compare: false,
        theme: Theme::of_environment(),
        mouse: true,
        dims: vramscope_analysis::shapes::Dims::default(),
        ignore_frames: None,
        cache: None,
    };
    vramscope_tui::run(options).map(ExitCode::from)
}
