//! `gemelo pool grow`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::PoolRequest;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// New size of the data store; a device must have this size already
    #[arg(long, alias = "size", value_name = "SIZE")]
    capacity: Size,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    pools::change(
        &arguments.pool,
        &PoolRequest::Grow { capacity_bytes: arguments.capacity.0 },
        context,
    )?;
    context.print(&format!(
        "{}: a capacity of {}\n",
        arguments.pool,
        format_size(arguments.capacity.0)
    ))?;
    Ok(Outcome::Done)
}
