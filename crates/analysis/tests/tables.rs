//! Tables: every value fits its column, and the documents say what the definition says.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use std::path::Path;

use vramscope_analysis::pools::Pools;
use vramscope_analysis::tables::{
    ALLOCATIONS, ANNOTATIONS, EVENTS, FRAMES, Record, Rows, SEGMENTS, TABLES, TOTALS, frame, markdown,
    schema, total,
};
use vramscope_analysis::{Conclusions, Moment, Replay, Sum, spans};
use vramscope_format::table::{Column, Value};
use vramscope_snapshot::{EventIdx, FrameId};

fn check<const N: usize>(columns: &[Column; N], row: [Value<'_>; N]) {
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
        for id in (0..snapshot.stacks.frame_count() as u32).map(FrameId) {
            check(&FRAMES, frame(&snapshot, id));
        }
        for stack in snapshot.stacks.ids() {
            check(&TOTALS, total(&snapshot, stack, Sum::default(), 0));
        }
        for device in snapshot.devices() {
            let replay = Replay::new(&snapshot, device);
            let pools = Pools::all(&snapshot, &replay);
            let conclusions = Conclusions::new(&snapshot, &replay);
            let rows = Rows::new(&snapshot, &replay, &pools);
            for (index, _) in replay.allocations().iter() {
                check(&ALLOCATIONS, rows.allocation(index, &conclusions));
            }
            for row in 0..snapshot.events(device).len() {
                let event = EventIdx::from_index(row);
                check(&EVENTS, rows.event(event, replay.counters(Moment::after(event))));
            }
            for segment in snapshot.segments_of(device) {
                check(&SEGMENTS, rows.segment(segment));
            }
            for span in spans(&snapshot, device) {
                check(&ANNOTATIONS, rows.annotation(&span));
            }
        }
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
