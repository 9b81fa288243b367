//! The data of a report: a snapshot that can be analyzed and written again, or an error.

use vramscope_snapshot::embedded;

use super::driver;

/// Reads bytes as the data of a report. Says whether there was a snapshot.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(snapshot) = embedded::decode(bytes) else { return false };
    driver::check_snapshot(&snapshot, bytes.len() as u64);
    true
}
