//! The session behind a viewer: requests in, answers out.
//!
//! A [`Session`] owns opened snapshots and answers a [`Request`] with a [`Response`]. It knows no thread,
//! path or clock: a transport carries the messages, on a thread of the same process, in a Web Worker or over
//! HTTP, and every one of them serialises. [`Queue`] is what all transports share: the newest question is
//! answered first, and one that has been asked again in the meantime is not answered at all.
//!
//! Indices that a question needs are built when it is first asked and kept.

mod answers;
mod cells;
pub mod color;
mod details;
mod device;
mod lifetimes;
mod map;
mod news;
mod overview;
pub mod paint;
mod protocol;
mod queue;
mod rows;
mod search;
mod session;
mod tiles;
mod tree;
mod wire;

pub use answers::*;
pub use news::News;
pub use overview::rank_insights;
pub use protocol::*;
pub use queue::{Ask, Queue};
pub use session::{OpenFile, Session};
pub use wire::{decode, encode};
