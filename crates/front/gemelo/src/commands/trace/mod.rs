//! `gemelo trace`: statistics, conversion and synthesis of traces of block I/O.

mod convert;
pub(crate) mod input;
mod output;
pub(super) mod stat;
mod stat_text;
mod synthesize;

use crate::context::Context;
use crate::exit::Outcome;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Compute the statistics of a trace, and derive a distribution and a job from it
    Stat(stat::Arguments),
    /// Convert a trace to another format
    Convert(convert::Arguments),
    Synthesize(synthesize::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    match &arguments.action {
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Convert(arguments) => convert::run(arguments, context),
        Action::Synthesize(arguments) => synthesize::run(arguments, context),
    }
}
