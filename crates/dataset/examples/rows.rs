//! Counts the rows of a table over snapshots, folders of ranks or a dataset, as Arrow batches:
//! `cargo run -p vramscope-dataset --example rows testdata/recordings`.

use std::error::Error;

use vramscope_analysis::tables::Whole;
use vramscope_dataset::{Source, Wanted};
use vramscope_files::Cache;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let (source, errors) = Source::new(&paths, Cache::of_user())?;
    errors.iter().for_each(|error| eprintln!("{error}"));
    // Only the columns that are asked for are made.
    let columns = |name: &str| matches!(name, "action" | "size");
    for chunk in source.read(source.files(), Whole::Events, &Wanted::default(), &columns, &())? {
        println!("rank {:?}, device {}: {} events", chunk.key.rank, chunk.device, chunk.batch.num_rows());
    }
    Ok(())
}
