//! Tables: every value fits its column, and the documents say what the definition says.

use crate::common;
use std::path::Path;

use vramscope_analysis::tables::{
    DeviceTables, Everything, File, Record, TABLES, TOTALS, Whole, markdown, schema, total,
};
use vramscope_analysis::{Counter, Device, Sum};
use vramscope_format::table::{Column, Value};

fn check(columns: &[Column], row: &[Value<'_>]) {
    assert_eq!(columns.len(), row.len());
    for (column, value) in columns.iter().zip(row) {
        assert!(
            value.fits(column),
            "{value:?} does not fit `{}`: {:?}, {:?}",
            column.name,
            column.kind,
            column.null
        );
    }
}

#[test]
fn every_value_of_every_recording_fits_its_column() {
    let files = std::fs::read_dir(common::recordings()).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "xz")) {
        let snapshot = common::recording_at(&path);
        for stack in snapshot.stacks.ids() {
            check(&TOTALS, &total(&snapshot, stack, Sum::default(), 0));
        }
        for device in snapshot.devices() {
            let replay = Device::new(snapshot.clone(), device);
            let rows = DeviceTables::new(&replay, File::default());
            for table in Whole::ALL {
                let mut take = |row: &[Value<'_>]| {
                    check(table.columns(), row);
                    Ok::<_, ()>(())
                };
                rows.each_row(table, &Everything(replay.end()), &mut take).unwrap();
            }
        }
    }
}

/// What is live at the peak adds up to the peak, and the tables of a whole file are among all tables.
#[test]
fn tables_of_ranks_agree_with_the_counters() {
    let snapshot = common::recording("llama_python");
    let replay = Device::new(snapshot.clone(), snapshot.devices()[0]);
    let rows = DeviceTables::new(&replay, File::default());
    let mut live = 0;
    let mut take = |row: &[Value<'_>]| {
        let Value::Unsigned(requested) = row[6] else { panic!("bytes") };
        live += requested;
        Ok::<_, ()>(())
    };
    rows.each_row(Whole::AtPeak, &Everything(replay.end()), &mut take).unwrap();
    assert_eq!(live as i64, replay.peak(Counter::Requested).bytes);
    for table in Whole::ALL {
        let listed = TABLES.iter().find(|listed| listed.name == table.name()).unwrap();
        assert_eq!(listed.columns.len(), table.columns().len());
    }
}

#[test]
fn a_row_is_an_object_with_the_names_of_its_columns() {
    let row = [Value::from("expandable_segments"), Value::from("true")];
    let object = serde_json::to_string(&Record(&vramscope_analysis::tables::SETTINGS, &row)).unwrap();
    assert_eq!(object, r#"{"setting":"expandable_segments","value":"true"}"#);
}

#[test]
fn names_are_words_in_lower_case_and_stand_once_in_a_table() {
    for table in TABLES {
        let mut names: Vec<_> = table.columns.iter().map(|column| column.name).collect();
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.columns.len(), "{}", table.name);
    }
}

/// `UPDATE_DOCS=1 cargo test -p vramscope-analysis --test tables` writes what is to be said.
#[test]
fn the_documents_say_what_the_definition_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let wanted = format!("{:#}\n", schema());
    let path = docs.join("schema/tables.json");
    if update {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), wanted, "UPDATE_DOCS=1 writes it");

    let path = docs.join("tables.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, _) = text.split_once("## Columns\n").unwrap();
    let wanted = format!("{head}## Columns\n\n{}", markdown());
    let wanted = format!("{}\n", wanted.trim_end());
    if update {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), wanted, "UPDATE_DOCS=1 writes it");
}
