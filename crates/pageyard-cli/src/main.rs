//! The `pageyard` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// musl's own allocator gives freed memory back at once, and the kernel clears every page of it again.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pageyard_cli::run()
}
