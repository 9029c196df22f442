//! The program `gemelo`, which calls the library of the same crate.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::process::ExitCode;

fn main() -> ExitCode {
    gemelo::main()
}
