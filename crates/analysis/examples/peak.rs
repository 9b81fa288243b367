//! What was live at the peak, by the user's own lines.
//! `cargo run -p vramscope-analysis --example peak testdata/recordings/oom.pickle.xz`

use std::error::Error;

use vramscope_analysis::{Counter, Device, by_line, live_weights};
use vramscope_snapshot::Reader;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a snapshot")?;
    let mut reader = Reader::new();
    reader.feed(&std::fs::read(path)?)?;
    let snapshot = std::sync::Arc::new(reader.finish()?);
    for replay in Device::all(&snapshot) {
        let peak = replay.peak(Counter::Requested);
        println!("peak {} bytes after {} events", peak.bytes, peak.at.0);
        let weights = live_weights(&replay.state(peak.at), |_, _| true);
        let mut lines: Vec<_> = by_line(&snapshot, &weights).into_iter().collect();
        lines.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        for (line, sum) in lines.iter().take(10) {
            println!("{:>15}  {}", sum.bytes, line.short());
        }
    }
    Ok(())
}
