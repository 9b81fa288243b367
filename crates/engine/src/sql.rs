//! SQL over the files that are open. The engine that answers needs more than a browser has, so a host brings it
//! ([`Sql`]); without one, there is no SQL.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::Device;
use vramscope_snapshot::Snapshot;

use crate::answers::Page;

/// Answers queries.
pub trait Sql: Send + Sync {
    /// What can be asked.
    fn catalog(&self) -> SqlCatalog;

    /// Runs a query over some files and keeps its result for a while. `None` if `go_on` said to stop.
    fn run(&self, files: Vec<OpenSnapshot>, query: &str, go_on: &dyn Fn() -> bool) -> Option<SqlResult>;

    /// Rows of a result in words. `None` if it is not kept any more.
    fn rows(&self, result: u64, first: u32, count: u32) -> Option<SqlRows>;

    /// The same as lines of CSV, of which the first has the names of the columns.
    fn csv(&self, result: u64, first: u32, count: u32) -> Option<Page<String>>;
}

/// An open file, as a query reads it.
#[derive(Clone, Debug)]
pub struct OpenSnapshot {
    /// Its path, or what stands for it.
    pub name: String,
    /// What the file says.
    pub snapshot: Arc<Snapshot>,
    /// The devices, replayed.
    pub devices: Vec<Arc<Device>>,
}

/// What can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlCatalog {
    /// Queries with a name.
    pub views: Vec<SqlView>,
    /// Tables, each with its columns.
    pub tables: Vec<(String, Vec<String>)>,
}

/// A query with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlView {
    /// Its name.
    pub name: String,
    /// What it answers.
    pub about: String,
    /// The query.
    pub sql: String,
}

/// What came of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlResult {
    /// What its rows are asked for by.
    pub result: u64,
    /// The columns.
    pub columns: Vec<SqlColumn>,
    /// Rows.
    pub total: u32,
    /// Whether there are more rows than are kept.
    pub is_cut: bool,
    /// Files that were asked.
    pub files: u32,
    /// How long it took, in milliseconds.
    pub millis: u32,
    /// Why there is no answer.
    pub problem: Option<String>,
}

/// A column of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlColumn {
    /// Its name.
    pub name: String,
    /// Whether it has text, which stands at the left.
    pub is_text: bool,
    /// The longest of its values in letters, with its name.
    pub width: u32,
}

/// Rows of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlRows {
    /// The first of them.
    pub first: u32,
    /// A text per column.
    pub rows: Vec<Vec<String>>,
}
