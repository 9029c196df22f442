//! `gemelo distribution show` prints the figures of one distribution, or of several side by side.

use super::{Figures, Input, KIND, compare, figures::DistributionFigures};
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::json::JsonOption;
use crate::values::BlockSize;
use clap::Args;
use gemelo_job::distributions::{self, USUAL_BLOCK_BYTES};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A distribution, or several to show side by side
    #[arg(required = true, value_name = "NAME|FILE")]
    distributions: Vec<String>,
    /// Size of a block, from which the size of the data follows [default: the profile's, or 4k]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<BlockSize>,
    #[command(flatten)]
    json: JsonOption,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check(arguments.force)?;
    let [name] = arguments.distributions.as_slice() else {
        return compare::print(&arguments.distributions, &arguments.json, arguments.force, context);
    };
    let named = distributions::load(name).or_bad_input()?;
    let asked = arguments.block_size.map(|size| size.0);
    let block_bytes = asked.or(named.block_bytes()).unwrap_or(USUAL_BLOCK_BYTES);
    let source = named.profile.as_ref().map(|profile| profile.source.as_str());
    let figures = DistributionFigures::of(name, source, &named.distribution, block_bytes);
    let warnings: Vec<String> =
        named.notes.iter().map(|note| distributions::formats::note_at(name, note)).collect();
    for warning in &warnings {
        context.monitor.warn(warning);
    }
    let (input, result) = (Input::Shown(&arguments.distributions), Figures::Alone([&figures]));
    let made = KIND.made(input, result, warnings);
    arguments.json.write(arguments.force, context, made)?;
    if !arguments.json.is_standard_output() {
        context.print(&figures.to_text())?;
    }
    Ok(Outcome::Done)
}
