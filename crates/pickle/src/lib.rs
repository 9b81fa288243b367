//! Bytes to pickle operations, incrementally and safely.
//!
//! A pickle is a program for a small stack machine. This crate only reads the program: [`decode`]
//! takes the next operation off the front of a byte slice and says how long it was. It runs nothing,
//! allocates nothing, and knows nothing of memory snapshots. Who gives the operations a meaning, and
//! who refuses those that would execute code, is the caller.
//!
//! [`walk`] steps over a whole pickle without looking at the operands: the yardstick that readers
//! are measured against.

mod decode;
pub mod opcode;
pub mod text;
mod walk;

pub use decode::{DecodeError, Op, decode, little_endian_int};
pub use walk::{Walk, walk};
