//! The `vramscope` command.

#[cfg(target_os = "linux")]
mod memory;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

fn main() -> ExitCode {
    vramscope_cli::main()
}
