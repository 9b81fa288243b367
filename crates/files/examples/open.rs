//! Opens files and folders of ranks, all at once, through the user's cache.
//! `cargo run -p vramscope-files --example open testdata/recordings`

use std::path::PathBuf;

use vramscope_files::{Cache, find, open};

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (inputs, errors) = find(&paths);
    for error in errors {
        eprintln!("{error}");
    }
    let cache = Cache::of_user();
    for input in inputs {
        match open(&input, cache.as_ref(), &()) {
            Ok(opened) => {
                let events: u64 = opened.snapshot.traces.iter().map(|trace| trace.events.len() as u64).sum();
                println!("{}: {} devices, {events} events", opened.path.display(), opened.devices.len());
            }
            Err(error) => eprintln!("{error}"),
        }
    }
}
