//! A snapshot as Arrow IPC: what the cache holds, and what goes over a wire.
//!
//! Each table is one Arrow stream with its name in the schema's metadata, and a snapshot is these
//! streams one after another; any Arrow library can read them. What comes back is checked: a number
//! of a row that does not exist makes [`decode`] fail, never a later look-up.

mod read;
mod tables;
mod write;

pub use tables::VERSION;

use std::io::{self, BufRead, Write};

use crate::model::Snapshot;

/// Why bytes are not a snapshot that this version wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpcError {
    /// Arrow cannot read them.
    #[error("not Arrow IPC: {0}")]
    Arrow(String),
    /// Another version wrote them.
    #[error("written by another version")]
    Version,
    /// A table or column is missing or of another type.
    #[error("no column {0}")]
    Missing(String),
    /// A row refers to one that does not exist.
    #[error("a row of {0} refers to nothing")]
    Dangling(&'static str),
}

/// Writes a snapshot.
pub fn encode(snapshot: &Snapshot, out: impl Write) -> io::Result<()> {
    write::write(snapshot, out).map_err(io::Error::other)
}

/// Reads what [`encode`] wrote.
pub fn decode(source: impl BufRead) -> Result<Snapshot, IpcError> {
    read::read(source)
}
