//! Tables of many snapshots: as Arrow batches, as a Parquet dataset, and named queries over both.
//!
//! [`Key`] says which run, step and rank a file is. [`write`](write()) turns files into a dataset that Spark, DuckDB and
//! polars read: `OUT/TABLE/run=…/step=…/rank=…/device=…/data.parquet`. [`Source`] reads the same tables from snapshots or from a
//! dataset, a file at a time. [`VIEWS`] are queries that every engine runs unchanged.

mod batches;
mod key;
mod manifest;
mod source;
mod views;
mod write;

pub use batches::{Batches, keyed, schema};
pub use key::{KEYS, Key, keys};
pub use manifest::MANIFEST;
pub use source::{Chunk, Found, Problem, Source, Wanted, columns};
pub use views::{VIEWS, View, view};
pub use write::{Written, write};

use std::path::PathBuf;

/// Why a dataset could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] vramscope_files::WriteError),
    /// The file system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Another version wrote the dataset.
    #[error(
        "{}: written by vramscope {version}, this is {}; choose another folder, or remove this one",
        path.display(),
        env!("CARGO_PKG_VERSION")
    )]
    OtherVersion {
        /// The dataset.
        path: PathBuf,
        /// Which version.
        version: String,
    },
    /// There are files that are not of a dataset.
    #[error("{}: has files that are not a dataset; choose an empty or a new folder", path.display())]
    NotADataset {
        /// Which folder.
        path: PathBuf,
    },
    /// A file of a dataset is damaged.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Rows could not be put into columns.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Columns could not be packed.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
}
