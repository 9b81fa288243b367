//! The window in a few lines, for a program that wants to show a recording itself.
//! `cargo run -p vramscope-viewer --example window testdata/recordings/oom.pickle.xz`

use vramscope_viewer::{NoWindow, Options, run};

fn main() -> Result<(), NoWindow> {
    run(Options { paths: std::env::args_os().skip(1).map(Into::into).collect(), ..Options::default() })
}
