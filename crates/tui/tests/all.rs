//! All tests of this crate in one program: a program for each file would take longer to link than to run.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod chart;
mod common;
mod inputs;
mod keys;
mod pictures;
mod screens;
mod stories;
mod whatif;
