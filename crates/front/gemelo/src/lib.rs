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
mod help;
mod json;
mod kind;
mod pipes;
mod pools;
mod progress;
mod report_option;
mod result_options;
mod setting_options;
mod stored;
mod table;
mod values;

pub use commands::{list, settings};
pub(crate) use exit::Result;

use commands::Arguments;
use context::Context;
use exit::Outcome;
use std::process::ExitCode;

/// Runs the program with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::read();
    arguments.use_rights();
    let ended = run(arguments);
    exit::exit_code(&ended)
}

fn run(arguments: Arguments) -> Result<Outcome> {
    let context = Context::new(arguments.verbosity())?;
    exit::end_at_loss();
    commands::run(arguments, &context)
}
