//! Fills a large table, and says how many page faults that took. Without the line with the allocator there are
//! hundreds of times as many. `cargo run --release -p vramscope-memory --example table`

#[global_allocator]
static MEMORY: vramscope_memory::Memory = vramscope_memory::Memory;

fn main() {
    let faults = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(7).and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    let before = faults();
    let table: Vec<u64> = (0..64 << 20).collect();
    println!("{} rows, {} page faults", table.len(), faults() - before);
}
