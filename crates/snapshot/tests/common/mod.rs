//! The recordings in `testdata`, for the tests of this crate.

use std::path::Path;

use vramscope_snapshot::{ReadError, Reader, Snapshot};

/// Every recording, by name, as it lies in the repository (packed with xz).
pub(crate) fn recordings() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "xz"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    assert!(found.len() > 90);
    found
}

/// Reads bytes in one piece.
pub(crate) fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new();
    reader.feed(bytes)?;
    reader.finish()
}
