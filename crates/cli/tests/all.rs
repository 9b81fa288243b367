//! All tests of this crate in one program: a program for each file would take longer to link than to run.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agents;
mod answers;
mod cache;
mod cli;
mod common;
mod fleet;
mod fuzz;
mod install;
mod limits;
mod outputs;
mod queries;
mod record;
mod scale;
mod schema;
mod surfaces;
mod tui;
mod web;
mod whatif;
