//! The allocator of every program of this workspace, so that benchmarks measure what ships.

#[cfg(target_os = "linux")]
mod pages;

#[cfg(target_os = "linux")]
pub use pages::Memory;
/// Other systems have no advice to give for large tables.
#[cfg(not(target_os = "linux"))]
pub use std::alloc::System as Memory;
