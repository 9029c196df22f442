//! `gemelo pool scrub`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::{format_count, format_counted};
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolRequest, Reply};
use gemelo_volume::DamagedContent;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Most data to read a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let request = PoolRequest::Scrub { max_bytes_per_s: arguments.rate.map(|rate| rate.0) };
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
