//! SQL over the tables of snapshots and datasets, in the process: SQLite with virtual tables over our columns.
//!
//! `events` and `allocations` are virtual: rows are made when SQLite asks for them, a file per core at a time, and only
//! the columns that the query mentions. The other tables are small; those that a query mentions are copied into memory
//! first, since SQLite indexes its own tables where a join needs it. Queries only read: nothing can be written, attached
//! or loaded, and memory is limited.

mod database;
mod open_files;
mod table;
mod words;

pub use database::{Cell, Database, Error, Rows};
pub use open_files::OpenFiles;
pub use words::is_size;
