//! `gemelo pool grow`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_serve::PoolRequest;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// New size of the data store; a device must have this size already
    #[arg(long, value_name = "SIZE")]
    capacity: Size,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    pools::change(
        &arguments.pool,
        &PoolRequest::Grow { capacity_bytes: arguments.capacity.0 },
        context,
    )?;
    context.print(&format!(
        "{}: a capacity of {}\n",
        arguments.pool.display(),
        format_size(arguments.capacity.0)
    ))?;
    Ok(Outcome::Done)
}
