//! `gemelo volume`: the volumes of a pool.

mod create;
mod name;

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
    /// Make a volume; it takes no space before it is written
    Create(create::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match &arguments.action {
        Action::Create(arguments) => create::run(arguments, context),
    }
}
