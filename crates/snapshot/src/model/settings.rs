//! The allocator's settings at the time of the snapshot.

use serde::{Deserialize, Serialize};
/// `allocator_settings`: those that change how sizes are computed by type, and all of them as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Largest block that may be split; `None` for no limit.
    pub max_split_size: Option<u64>,
    /// `roundup_power2_divisions` as (size class in MiB, divisions), by size class.
    pub roundup_divisions: Vec<(u64, u64)>,
    /// Whether new segments are expandable.
    pub expandable_segments: bool,
    /// Every setting as it is written: name and value, in the file's order.
    pub all: Vec<(String, String)>,
}

impl Settings {
    /// Whether the file has settings at all (PyTorch 2.3 and later).
    pub fn is_present(&self) -> bool {
        !self.all.is_empty()
    }
}
