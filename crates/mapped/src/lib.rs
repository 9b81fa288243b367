//! Columns that lie in memory or in a mapped file, and the file that they are stored in.
//!
//! A [`Buffer`] is a `Vec`, or a part of a file that is mapped: questions read it the same way. A mapped one is checked
//! in pieces of [`CHUNK`] bytes before they are first handed out, so that opening a file costs the same whatever its size. If
//! a piece is not as it was written, its columns come from a store that the caller makes anew ([`Check::WhenTouched`]).
//!
//! Files are the user's own, written once and renamed into place, and never changed afterwards. A program that cuts or
//! rewrites one while it is mapped is not defended against.

mod buffer;
mod chunks;
mod store;

pub use buffer::Buffer;
pub use bytemuck::Pod;
pub use chunks::CHUNK;
pub use store::{Check, Mend, Store, StoreError, Writer};
