//! Recordings and other inputs, for the tests of this crate.

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

/// Reads bytes that are a snapshot.
pub(crate) fn snapshot(bytes: &[u8]) -> Snapshot {
    read(bytes).unwrap()
}

/// Where the recordings lie, each with PyTorch's counters beside it.
pub(crate) fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings")
}

/// One of them.
pub(crate) fn recording(name: &str) -> Snapshot {
    recording_at(&recordings().join(format!("{name}.pickle.xz")))
}

/// The recording at a path.
pub(crate) fn recording_at(path: &Path) -> Snapshot {
    snapshot(&std::fs::read(path).unwrap())
}
