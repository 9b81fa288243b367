//! How amounts, times and places are written: `cargo run -p vramscope-format --example words`.

use vramscope_format::{Units, count, duration, elide_place, parse_bytes, plural, size};

fn main() -> Result<(), String> {
    let bytes = parse_bytes("3.99GiB")?;
    println!("{} is {} bytes, or {}", size(bytes), count(bytes), Units::Decimal.size(bytes));
    println!("{} in {}", plural(11_823_u32, "event"), duration(1_360_000));
    // Where there is little room the file is shortened, and the line stays.
    for room in [40, 24, 16] {
        println!("{room:>3}  {}", elide_place("transformers/models/modeling_llama.py:175 forward", room));
    }
    Ok(())
}
