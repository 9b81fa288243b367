//! All tests of this crate in one program: a program for each file would take longer to link than to run.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
mod embedded;
mod extras;
mod fields;
mod sidecar;
