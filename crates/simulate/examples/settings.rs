//! A recording under other settings: `cargo run -p vramscope-simulate --example settings FILE expandable_segments:True`.

use std::error::Error;

use vramscope_simulate::{End, Study};
use vramscope_snapshot::{DeviceId, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (path, wanted) = (args.next().ok_or("name a snapshot")?, args.next().unwrap_or_default());
    let mut reader = Reader::new();
    reader.feed(&std::fs::read(path)?)?;
    let snapshot = reader.finish()?;

    let study = Study::new(&snapshot, DeviceId(0), None)?;
    println!("under its own settings: {}", study.agreement);
    let answer = study.simulator.answer(&study.settings(&wanted)?, &mut (), || true).ok_or("cancelled")?;
    println!("{wanted}: peak reserved {:?} bytes, {} retries", answer.reserved_peak, answer.retries.1);
    match (answer.outcome.out_of_memory, answer.outcome.end) {
        (Some(oom), _) => println!("out of memory after {} events", oom.moment),
        (None, End::PastFailure(moment)) => println!("gets past the error after {moment} events"),
        _ => println!("runs"),
    }
    Ok(())
}
