//! Inputs that are no snapshots, for the tests of this crate.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::Read;
use std::path::{Path, PathBuf};

use vramscope_snapshot::{ReadError, Reader, Snapshot};

/// Where the inputs lie.
pub(crate) fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs")
}

/// One of them, as it lies in the repository.
pub(crate) fn input(path: &str) -> Vec<u8> {
    std::fs::read(inputs().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Takes the xz packing off.
pub(crate) fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(packed, true).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads bytes in one piece.
pub(crate) fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new();
    reader.feed(bytes)?;
    reader.finish()
}
