//! The data of a report: a snapshot or an error, and one that can be written again.

use vramscope_snapshot::ipc;

/// Reads bytes as the data of a report.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(snapshot) = ipc::decode(bytes) else { return false };
    let mut again = Vec::new();
    assert!(ipc::encode(&snapshot, &mut again).is_ok(), "a vector takes all bytes");
    assert!(ipc::decode(again.as_slice()).as_ref() == Ok(&snapshot), "what was written is read");
    true
}
