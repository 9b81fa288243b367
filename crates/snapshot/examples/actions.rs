//! What a file says: devices, and how often each kind of event happened.
//! `cargo run -p vramscope-snapshot --example actions testdata/recordings/oom.pickle.xz`

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Read;

use vramscope_snapshot::Reader;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a snapshot")?;
    let mut file = File::open(path)?;
    let mut reader = Reader::new();
    // In chunks of any size: a browser, a pipe and a disk look the same.
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            len => reader.feed(&chunk[..len])?,
        }
    }
    let snapshot = reader.finish()?;
    for (device, trace) in snapshot.traces.iter().enumerate() {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for action in trace.events.actions() {
            *counts.entry(format!("{action:?}")).or_default() += 1;
        }
        println!("trace {device}: {} events {counts:?}", trace.events.len());
    }
    Ok(())
}
