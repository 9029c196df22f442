//! `gemelo distribution compare` prints the differences of distributions.

use super::columns::{Column, Columns};
use super::{Figures, Input, KIND};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::json::JsonOption;
use clap::Args;
use gemelo_job::distributions;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The distribution with which the others are compared
    #[arg(value_name = "NAME|FILE")]
    first: String,
    /// The other distributions
    #[arg(required = true, value_name = "NAME|FILE")]
    others: Vec<String>,
    #[command(flatten)]
    json: JsonOption,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check(arguments.force)?;
    let names: Vec<String> =
        std::iter::once(&arguments.first).chain(&arguments.others).cloned().collect();
    print(&names, &arguments.json, arguments.force, context)
}

/// Prints the distributions side by side.
pub(super) fn print(
    names: &[String],
    json: &JsonOption,
    force: bool,
    context: &Context,
) -> crate::Result<Outcome> {
    let columns = names
        .iter()
        .map(|name| {
            Ok(Column::of(short(name), &distributions::load(name).or_bad_input()?.distribution))
        })
        .collect::<crate::Result<Vec<_>>>()?;
    let columns = Columns::new(columns);
    let made = KIND.made(Input::Shown(names), Figures::Compared(&columns), Vec::new());
    json.write(force, context, made)?;
    if !json.is_standard_output() {
        context.print(&columns.to_text())?;
    }
    Ok(Outcome::Done)
}

/// Returns the name of a file without its directory.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name)
}
