//! The command line `gemelo`. It reads arguments, calls the library that does the work, and prints.
//!
//! This is the only crate that prints. The module [`exit`] decides the exit status.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod commands;
mod confirm;
mod context;
mod dates;
mod exit;
mod files;
mod json;
mod kind;
mod pools;
mod progress;
mod report_option;
mod result_options;
mod stored;
mod table;
mod values;

use std::process::ExitCode;

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match commands::Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    arguments.use_rights();
    let context = match context::Context::new(arguments.verbosity()) {
        Ok(context) => context,
        Err(error) => return exit::exit_code(&Err(error)),
    };
    exit::end_at_loss();
    exit::exit_code(&commands::run(arguments, &context))
}
