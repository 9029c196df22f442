//! `gemelo trace`: what block I/O traces say, in other formats, and made from figures.

mod convert;
pub(crate) mod input;
mod output;
mod stat;
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
    /// Count what a trace writes, reads and repeats; make a distribution and a job of it
    Stat(stat::Arguments),
    /// Write a trace in another format
    Convert(convert::Arguments),
    /// Make a trace from a distribution, a pattern, a read share and an arrival process
    Synthesize(synthesize::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match &arguments.action {
        Action::Stat(arguments) => stat::run(arguments, context),
        Action::Convert(arguments) => convert::run(arguments, context),
        Action::Synthesize(arguments) => synthesize::run(arguments, context),
    }
}
