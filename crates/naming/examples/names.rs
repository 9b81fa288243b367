//! What paths say of the files at them: `cargo run -p vramscope-naming --example names runs/*/*.pickle`.

fn main() {
    let examples = ["iteration_10/rank7_memory_snapshot.pickle", "1790000000.123-TP-1-memory-DECODE.pickle"];
    let given: Vec<String> = std::env::args().skip(1).collect();
    let paths = if given.is_empty() { examples.map(str::to_owned).to_vec() } else { given };
    for path in paths {
        let name = vramscope_naming::name(&path);
        println!("{path}\n  {}, step {:?}, out of memory: {}", name.rank_text(), name.step, name.oom);
    }
}
