//! `gemelo`, the command line: reads arguments, calls the library that does the work, prints.
//!
//! This is the only crate that prints. Exit status: 0 done, 1 done in part or failed midway, 2 bad input, refused
//! before anything was touched.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod commands;
mod context;
mod exit;
mod files;
mod pools;
mod progress;
mod stored;
mod table;
mod values;

use clap::Parser;
use std::process::ExitCode;

/// The program: reads the arguments of this process and does what they say.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match commands::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let context = match context::Context::new() {
        Ok(context) => context,
        Err(error) => return exit::failed(&error),
    };
    match commands::run(arguments, &context) {
        Ok(outcome) => exit::ended(outcome),
        Err(error) => exit::failed(&error),
    }
}
