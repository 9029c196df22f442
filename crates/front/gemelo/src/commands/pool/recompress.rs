//! `gemelo pool recompress`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::{format_count, format_size};
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolRequest, Reply};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Most data to store again a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let request = PoolRequest::Recompress { max_bytes_per_s: arguments.rate.map(|rate| rate.0) };
    let Reply::Recompressed(report) = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    context.print(&format!(
        "{} blocks looked at: {} stored again, from {} to {}; {} overwritten meanwhile or \
         unreadable, {} cannot be moved\n",
        format_count(report.examined_blocks),
        format_count(report.moved_blocks),
        format_size(report.bytes_before),
        format_size(report.bytes_after),
        format_count(report.left_blocks),
        format_count(report.fixed_blocks)
    ))?;
    if report.is_short_of_room {
        context.print(
            "some contents stay as they are, because the pool has too little free space: grow it, \
             or remove something\n",
        )?;
    }
    Ok(Outcome::Done)
}
