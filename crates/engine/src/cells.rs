//! Cells on the wire: runs of equal ones, since a picture is mostly bands.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer ones are no picture.
const MOST_CELLS: usize = 1 << 26;

pub(crate) fn serialize<S: Serializer>(cells: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    let runs: Vec<(u32, u32)> =
        cells.chunk_by(|a, b| a == b).filter_map(|run| Some((*run.first()?, run.len() as u32))).collect();
    runs.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let runs = Vec::<(u32, u32)>::deserialize(deserializer)?;
    let mut cells = Vec::new();
    for (cell, count) in runs {
        if cells.len() + count as usize > MOST_CELLS {
            return Err(serde::de::Error::custom("a picture of too many cells"));
        }
        cells.resize(cells.len() + count as usize, cell);
    }
    Ok(cells)
}
