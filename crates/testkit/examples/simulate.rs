//! Writes the snapshot of a simulated training run, for tests of a reader of one's own.
//! `cargo run -p vramscope-testkit --example simulate run.pickle`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use vramscope_testkit::{Dialect, Options, Program, write};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a file")?;
    let program = Program::new(Options { events: 10_000, streams: 2, pools: 1, ..Options::default() });
    let written = write::write(&program, Dialect::Protocol(4), BufWriter::new(File::create(path)?))?;
    println!("events of each device: {:?}", written.events);
    Ok(())
}
