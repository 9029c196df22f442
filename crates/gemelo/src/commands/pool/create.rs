//! `gemelo pool create`.

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use crate::values::Size;
use clap::Args;
use gemelo_volume::{Pool, PoolOptions};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory; made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Size of the data store, a sparse file that takes the space of what is stored
    #[arg(long, value_name = "SIZE", default_value = "64g")]
    capacity: Size,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let options = PoolOptions { capacity_bytes: arguments.capacity.0, ..PoolOptions::default() };
    Pool::create(&arguments.directory, &options).or_bad_input()?;
    context.print(&format!("made {}\n", arguments.directory.display()))?;
    Ok(Outcome::Done)
}
