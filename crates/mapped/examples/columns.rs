//! Stores a column in a file and maps it again: `cargo run -p vramscope-mapped --example columns`.

use std::error::Error;
use std::fs::File;

use vramscope_mapped::{Check, Store, Writer};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("columns-{}", std::process::id()));
    let squares: Vec<u64> = (0..1_000_000).map(|n| n * n).collect();
    let mut writer = Writer::new(File::create(&path)?, u64::MAX)?;
    writer.put("squares", &squares)?;
    let bytes = writer.finish(b"an example")?;

    // All of it is checked here; `Check::WhenTouched` reads only what is asked for.
    let store = Store::open(&File::open(&path)?, Check::Now, |label| label == b"an example")?;
    let column = store.ok_or("another label")?.get::<u64>("squares")?;
    println!("{bytes} bytes; row 999 is {}", column[999]);
    Ok(std::fs::remove_file(path)?)
}
