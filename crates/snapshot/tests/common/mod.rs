//! The recordings in `testdata`, for the tests of this crate.
#![allow(dead_code, reason = "each test uses a part of it")]

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

/// A recording as PyTorch wrote it.
pub(crate) fn recording(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    unpack(&std::fs::read(folder.join(format!("{name}.xz"))).unwrap())
}

/// Takes the xz packing off.
pub(crate) fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(packed, true), &mut bytes).unwrap();
    bytes
}

/// Reads bytes in one piece.
pub(crate) fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new();
    reader.feed(bytes)?;
    reader.finish()
}
