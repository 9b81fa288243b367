//! The `vramscope` command.
fn main() {}
