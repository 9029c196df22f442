//! `gemelo pool gc`, `defrag`, `recompress` and `scrub`, which go through a whole pool at a
//! limited rate.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::{format_count, format_counted, format_size};
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolRequest, Reply};
use gemelo_volume::DamagedContent;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Most data to read, move or give back a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
}

impl Arguments {
    fn max_bytes_per_s(&self) -> Option<u64> {
        self.rate.map(|rate| rate.0)
    }
}

pub(super) fn collect(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request = PoolRequest::Collect { max_bytes_per_s: arguments.max_bytes_per_s() };
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

pub(super) fn arrange(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request = PoolRequest::Arrange { max_bytes_per_s: arguments.max_bytes_per_s() };
    let Reply::Arranged(report) = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    context.print(&format!(
        "{} blocks looked at: {} moved, {} overwritten meanwhile or unreadable; \
         {} runs before, {} now\n",
        format_count(report.examined_blocks),
        format_count(report.moved_blocks),
        format_count(report.overtaken_blocks),
        format_count(report.runs_before),
        format_count(report.runs_after)
    ))?;
    if report.is_short_of_room {
        context.print(
            "some blocks stay scattered, because the pool has too little free space in a row: \
             grow it, or remove something\n",
        )?;
    }
    Ok(Outcome::Done)
}

pub(super) fn recompress(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request = PoolRequest::Recompress { max_bytes_per_s: arguments.max_bytes_per_s() };
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

pub(super) fn scrub(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request = PoolRequest::Scrub { max_bytes_per_s: arguments.max_bytes_per_s() };
    let Reply::Scrubbed(report) = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    let line = |problem: &DamagedContent| match problem.can_be_healed {
        true => {
            format!("damaged: {}: another copy is whole, but it cannot be written\n", problem.what)
        }
        false => format!("lost: {}\n", problem.what),
    };
    let mut text: String = report.problems.iter().map(line).collect();
    if report.more_problems > 0 {
        text += &format!("and {} more\n", format_count(report.more_problems));
    }
    text += &format!(
        "{} compared with their checksums, {} healed from other copies\n",
        format_counted(report.checked_contents, "content"),
        format_count(report.healed_contents)
    );
    if !report.is_clean() {
        text += &format!(
            "reads of damaged blocks fail until their contents are written again or restored; \
             'gemelo pool check {} --data --repair' gives them up\n",
            arguments.pool
        );
    }
    context.print(&text)?;
    Ok(if report.is_clean() { Outcome::Done } else { Outcome::FoundDamage })
}
