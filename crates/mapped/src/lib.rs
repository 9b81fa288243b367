//! Columns that lie in memory or in a mapped file, and the file that they are stored in.
//!
//! A [`Buffer`] is a `Vec`, or a part of a file that is mapped: questions read it the same way. A mapped one is checked
//! in pieces of [`CHUNK`] bytes when they are first touched, so that opening a file costs the same whatever its size.
//!
//! What happens when a file turns out to be damaged, or is cut while it is mapped: the piece reads as zeros from then on,
//! and [`is_damaged`] says so. A program asks that before it prints an answer, and discards the answer. This way a damaged file
//! can neither crash the program nor go unnoticed, and no look-up has to return an error.

mod buffer;
mod chunks;
#[cfg(unix)]
mod map;
mod store;

pub use buffer::Buffer;
pub use bytemuck::Pod;
pub use chunks::{CHUNK, forget_damage, is_damaged};
pub use store::{Access, Store, StoreError, Writer};
