//! The program `gemelo`, which calls the library of the same crate.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Many threads serve requests, and each needs memory while it holds a lock. With glibc's allocator
/// they wait for one another: a random write costs a sixth more.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    gemelo::main()
}
