//! `gemelo pool gc`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::format_count;
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolRequest, Reply};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Most space to return a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let request = PoolRequest::Collect { max_bytes_per_s: arguments.rate.map(|rate| rate.0) };
    let Reply::Collected(report) = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    context.print(&format!(
        "{} freed blocks made usable, {} free blocks given back to the system\n",
        format_count(report.reclaimed_blocks),
        format_count(report.discarded_blocks)
    ))?;
    Ok(Outcome::Done)
}
