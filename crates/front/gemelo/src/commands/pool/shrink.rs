//! `gemelo pool shrink`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::{format_counted, format_size};
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolRequest, Reply};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// New size of the data store
    #[arg(long, alias = "size", value_name = "SIZE")]
    capacity: Size,
    /// Most data to move a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
    /// Only say what has to be moved, and about how long that takes
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request = PoolRequest::Shrink {
        capacity_bytes: arguments.capacity.0,
        max_bytes_per_s: arguments.rate.map(|rate| rate.0),
        is_dry: arguments.dry_run,
    };
    let Reply::Shrunk(report) = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    let (pool, capacity) = (&arguments.pool, format_size(arguments.capacity.0));
    context.print(&match report.estimated_s {
        None => format!(
            "{pool}: a capacity of {capacity}, {} moved\n",
            format_counted(report.moved_contents, "content")
        ),
        Some(seconds) => format!(
            "{pool}: {} in use beyond {capacity}, which takes about {} to move\n",
            format_counted(report.used_blocks, "block"),
            format_counted(seconds, "second")
        ),
    })?;
    Ok(Outcome::Done)
}
