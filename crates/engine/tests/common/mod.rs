//! Recordings, for the tests of this crate.

use std::path::PathBuf;

use vramscope_snapshot::{Reader, Snapshot};

/// A recording of the repository.
pub(crate) fn read(name: &str) -> Snapshot {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recordings/{name}.pickle.xz"));
    let mut reader = Reader::new();
    reader.feed(&std::fs::read(path).unwrap()).unwrap();
    reader.finish().unwrap()
}
