//! The memory timeline of a recording as a picture.
//! `cargo run -p vramscope-engine --example poster testdata/recordings/oom.pickle.xz timeline.png`

use std::error::Error;

use vramscope_analysis::Device;
use vramscope_engine::color::Ground;
use vramscope_engine::{OpenFile, Session, paint};
use vramscope_snapshot::Reader;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (input, output) = args.next().zip(args.next()).ok_or("name a snapshot and a picture")?;
    let bytes = std::fs::read(&input)?;
    let mut reader = Reader::new();
    reader.feed(&bytes)?;
    let snapshot = std::sync::Arc::new(reader.finish()?);
    let devices = Device::all(&snapshot);
    let mut session = Session::default();
    let devices = session.add(OpenFile::new(input, "", bytes.len() as u64, snapshot, devices));
    let device = *devices.first().ok_or("no device has events")?;
    let picture = paint::poster(&session, device, (1400, 420), Ground::DARK).ok_or("nothing to draw")?;
    std::fs::write(output, picture)?;
    Ok(())
}
