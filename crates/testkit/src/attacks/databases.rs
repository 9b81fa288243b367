//! Databases that are small and ask for much: rows that are one row, texts that lie on top of each other, names that
//! are referred to again and again.

use crate::sqlite::{Cell, Database};

const OPERATOR: [&str; 3] = ["name", "size", "allocationTime"];

fn operator(i: i64) -> Vec<Cell> {
    vec![Cell::Int(1), Cell::Int(512), Cell::Int(1000 * i)]
}

fn names(database: &mut Database, texts: &[&str]) {
    let rows = texts.iter().zip(1..).map(|(text, id)| vec![Cell::Int(id), Cell::text(text)]);
    database.table("STRING_IDS", &["id", "value"], rows);
}

pub(super) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();

    // Each of 30 000 references in the schema is one table of 250 columns.
    let columns: Vec<String> = (0..250).map(|column| format!("c{column}")).collect();
    let sql = format!("CREATE TABLE T({})", columns.join(","));
    let mut database = Database::new(65_536);
    database.aliased_schema(&sql, 8);
    all.push(("a database whose schema is one table, again and again", database.bytes()));

    let mut database = Database::new(4096);
    database.aliased(
        "OP_MEMORY",
        &["size", "allocationTime", "releaseTime"],
        &[Cell::Int(0), Cell::Int(0), Cell::Int(1)],
        500,
    );
    all.push(("a database whose operators are one row", database.bytes()));

    let mut database = Database::new(65_536);
    database.aliased("STRING_IDS", &["id", "value"], &[Cell::Null, Cell::Text(vec![b'x'; 30_000])], 16);
    database.table("OP_MEMORY", &OPERATOR, (0..10).map(operator));
    all.push(("a database whose texts are one text", database.bytes()));

    let mut database = Database::new(4096);
    database.overlapping("STRING_IDS", &["id", "value"], 300);
    database.table("OP_MEMORY", &OPERATOR, (0..10).map(operator));
    all.push(("a database whose texts lie on top of each other", database.bytes()));

    // 256 frames of 100 000 characters in each of a thousand call stacks.
    let long = "f".repeat(100_000);
    let mut database = Database::new(4096);
    names(&mut database, &["aten::mul", &long]);
    database.table("OP_MEMORY", &OPERATOR, (0..10).map(operator));
    let frames = (0..100_000).map(|i| vec![Cell::Int(i / 100), Cell::Int(2), Cell::Int(i)]);
    database.table("PYTORCH_CALLCHAINS", &["id", "stack", "stackDepth"], frames);
    let call = |i: i64| vec![Cell::Int(1000 * i), Cell::Int(1000 * i + 900), Cell::Int(1), Cell::Int(i)];
    database.table("PYTORCH_API", &["startNs", "endNs", "name", "callchainId"], (0..1000).map(call));
    all.push(("a database of call stacks of one long name", database.bytes()));

    // The name of a component is longer than all of its rows together.
    let mut database = Database::new(4096);
    names(&mut database, &["aten::mul", &"c".repeat(400_000)]);
    let record = |i: i64| vec![Cell::Int(2), Cell::Int(1000 * i), Cell::Int(1), Cell::Int(1)];
    let columns = ["component", "timestamp", "totalAllocated", "totalReserved"];
    database.table("MEMORY_RECORD", &columns, (0..40_000).map(record));
    all.push(("a database of a component with a long name", database.bytes()));

    // One tree under every name that is looked for.
    let mut database = Database::new(4096);
    let columns = ["id", "value", "startNs", "endNs", "size", "allocationTime", "timestamp", "timestampNs"];
    let row = |i: i64| (0..8).map(|column| Cell::Int(i + column)).collect();
    let root = database.table("OP_MEMORY", &columns, (0..30_000).map(row));
    for name in
        ["STRING_IDS", "MEMORY_RECORD", "NPU_MODULE_MEM", "MSTX_EVENTS", "STEP_TIME", "PYTORCH_CALLCHAINS"]
    {
        database.name(name, &columns, root);
    }
    all.push(("a database of one table under many names", database.bytes()));
    all
}
