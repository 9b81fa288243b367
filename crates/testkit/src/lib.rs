//! Builds snapshots for tests and benchmarks: pickle writers, a simulated allocator, damaged files.
//!
//! - [`value`]: hand-written snapshots in a few lines; [`mod@pickle`] and [`mod@json`] turn them into bytes.
//! - [`allocator`]: PyTorch's caching allocator, simulated, with its own counters: the judge of a replay.
//! - [`program`]: a random training run on that allocator; [`recording`] keeps a small one in memory with the
//!   counters after every event, [`mod@write`] streams one of any size to a file.
//! - [`mod@damage`] and [`attacks`]: files that are broken by accident and on purpose.
//! - [`shapes`]: inputs that grow in one direction each, for tests of scaling; [`sqlite`] writes databases,
//!   `child` runs a program and measures it, `scale` compares what sizes cost; [`verbs`] lists every command line that a file can be asked.
//!
//! Nothing here depends on the crates under test, so a shared mistake cannot hide.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failure here is a failed test"
)]

pub mod allocator;
pub mod attacks;
#[cfg(target_os = "linux")]
pub mod child;
pub mod damage;
mod encode;
pub mod json;
pub mod pickle;
pub mod program;
pub mod recording;
pub mod rng;
#[cfg(target_os = "linux")]
pub mod scale;
pub mod shapes;
pub mod sqlite;
pub mod stacks;
pub mod trace;
pub mod value;
pub mod verbs;
pub mod write;

pub use damage::{damage, mutate};
pub use json::json;
pub use pickle::{Dialect, pickle};
pub use program::{Options, Program};
pub use recording::{Recording, record};
pub use rng::Rng;
pub use value::Value;
