//! Opens paths: files, folders of ranks, standard input, and the cache of what was opened before.
//!
//! The layers below take bytes and know no paths, clocks or threads, so that they run in a browser
//! too. This crate brings them to a machine with a file system: [`find`] turns what the user named into
//! a list of inputs, [`open`] reads and replays one, and [`open_each`] does so for many in parallel.
//! Whatever the program writes goes through [`write`](write()).

mod cache;
mod fetch;
mod find;
mod folders;
mod json;
mod open;
mod profile;
mod regular;
mod sidecar;
mod walk;
mod write;

pub use cache::{Answer, Cache, Entry, Question};
pub use find::{Input, as_written, find, find_until};
pub use folders::config_folder;
pub use json::{escape_json, json};
pub use open::{OpenError, Opened, Progress, findings, open, open_bytes, open_each};
pub use regular::{Links, read_regular};
pub use walk::LeftOut;
pub use write::{
    Existing, WriteError, is_descriptor, is_temporary, remove_abandoned, remove_unfinished,
    remove_unfinished_on_signals, write, write_new,
};
