//! `gemelo volume prune`: removes copies of earlier snapshots by a rule.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_place::VolumePath;
use gemelo_serve::{KeepRule, PoolRequest, Reply};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A copy, which stays: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/COPY", value_parser = volume_path_parser())]
    copy: VolumePath,
    /// The copies that stay: the last one of each of so many hours, days, weeks, months and years,
    /// such as '24h,7d,4w'; a number alone keeps that many of the last ones
    #[arg(long, value_name = "RULE")]
    keep: KeepRule,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let VolumePath { pool, name } = &arguments.copy;
    let (name, keep) = (name.clone(), arguments.keep.to_string());
    let request = PoolRequest::PruneCopies { name, keep };
    let Reply::Ticked(report) = pools::change(pool, &request, context)? else {
        return Err(pools::other_version());
    };
    for (name, why) in &report.left {
        context.monitor.warn(&format!("{pool}/{name} stays: {why}"));
    }
    let lines = report.removed.iter().map(|name| format!("{pool}/{name}: removed\n"));
    context.print(&lines.collect::<String>())?;
    Ok(Outcome::Done)
}
