//! The program `gemelo`; see the library of the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    gemelo::main()
}
