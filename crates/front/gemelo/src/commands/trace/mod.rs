//! `gemelo trace`: statistics, conversion and synthesis of traces of block I/O.

mod convert;
pub(crate) mod input;
mod output;
pub(super) mod stat;
mod stat_text;
mod synthesize;

use crate::context::Context;
use crate::exit::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Compute the statistics of a trace, and derive a distribution and a job from it
    Stat(stat::Arguments),
    /// Convert a trace to another format
    Convert(convert::Arguments),
    Synthesize(synthesize::Arguments),
}

pub(crate) fn run(action: &Action, context: &Context) -> crate::Result<Outcome> {
    match action {
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Convert(arguments) => convert::run(arguments, context),
        Action::Synthesize(arguments) => synthesize::run(arguments, context),
    }
}
