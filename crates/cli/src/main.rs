//! The `vramscope` command.

use std::process::ExitCode;

#[global_allocator]
static MEMORY: vramscope_memory::Memory = vramscope_memory::Memory;

fn main() -> ExitCode {
    vramscope_cli::main()
}
