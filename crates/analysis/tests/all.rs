//! All tests of this crate in one program: a program for each file would take longer to link than to run.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod ascend;
mod backward;
mod categories;
mod causes;
mod columns;
mod common;
mod contradictions;
mod diagnosis;
mod elsewhere;
mod experts;
mod findings;
mod insights;
mod kineto;
mod modules;
mod oracle;
mod picture;
mod pinned;
mod pools;
mod robust;
mod roles;
mod shapes;
mod simulated;
mod steps;
mod tables;
mod timeline;
