//! SQL over snapshots: `cargo run -p vramscope-sql --example query FILE "SELECT action, count(*) FROM events GROUP BY 1"`.

use std::error::Error;
use std::sync::Arc;

use vramscope_dataset::Source;
use vramscope_sql::{Cell, Database, Rows};

/// Prints what comes.
struct Printed;

impl Rows for Printed {
    fn columns(&mut self, names: &[String]) {
        println!("{}", names.join("\t"));
    }

    fn row(&mut self, row: Vec<Cell>) -> bool {
        println!("{}", row.iter().map(Cell::plain).collect::<Vec<_>>().join("\t"));
        true
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (file, query) = (args.next().ok_or("name a snapshot")?, args.next().ok_or("ask something")?);
    let (source, errors) = Source::new(&[file.into()], None)?;
    errors.iter().for_each(|error| eprintln!("{error}"));
    let mut database = Database::new(Arc::new(source), 1 << 30, Arc::default(), Arc::new(()))?;
    Ok(database.query(&query, &mut Printed)?)
}
