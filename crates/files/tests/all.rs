//! All tests of this crate in one program: a program for each file would take longer to link than to run.
#![allow(missing_docs, reason = "tests")]

mod cache;
mod ends;
mod folders;
mod names;
mod npu;
mod profiles;
mod sidecar;
