//! Counts the operations of a pickle, without running any: `cargo run -p vramscope-pickle --example operations FILE`.

use std::collections::BTreeMap;
use std::error::Error;

use vramscope_pickle::{Op, decode};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a pickle")?;
    let bytes = std::fs::read(path)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut rest = bytes.as_slice();
    while let Some((op, len)) = decode(rest)? {
        let text = format!("{op:?}");
        let name = text.split(['(', ' ']).next().unwrap_or_default().to_owned();
        *counts.entry(name).or_default() += 1;
        rest = rest.get(len..).unwrap_or_default();
        if op == Op::Stop {
            break;
        }
    }
    for (name, count) in counts {
        println!("{count:>12}  {name}");
    }
    Ok(())
}
