//! `gemelo distribution`.

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use crate::files;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use gemelo_content::Distribution;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the summary figures and the table of duplicates per content
    Show {
        /// A distribution file
        file: PathBuf,
    },
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match arguments.action {
        Action::Show { file } => {
            let text = files::read_text(&file)?;
            let distribution =
                Distribution::parse(&text).with_context(|| file.display().to_string()).or_bad_input()?;
            context.print(&format!("{:?}\n", distribution.summary()))?;
            Ok(Outcome::Done)
        }
    }
}
