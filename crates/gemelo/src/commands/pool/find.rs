//! `gemelo pool find`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use clap::Args;
use gemelo_base::units::format_count;
use gemelo_serve::{PoolRequest, Reply};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// Pause the finder of the process that serves the pool; the next start resumes it
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Resume the finder of the process that serves the pool
    #[arg(long)]
    resume: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    if arguments.pause || arguments.resume {
        pause(arguments, context)
    } else {
        find(arguments, context)
    }
}

fn pause(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let request = PoolRequest::PauseFinder { is_paused: arguments.pause };
    let Reply::Done = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    let state = if arguments.pause { "paused" } else { "resumed" };
    context.print(&format!("{}: the finder is {state}\n", arguments.pool.display()))?;
    Ok(Outcome::Done)
}

fn find(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let Reply::Found(report) = pools::change(&arguments.pool, &PoolRequest::Find, context)? else {
        return Err(pools::other_version());
    };
    context.print(&format!(
        "{} blocks looked at: {} shared with others, {} with contents of their own, \
         {} overwritten meanwhile or unreadable\n",
        format_count(report.examined_blocks),
        format_count(report.shared_blocks),
        format_count(report.identified_blocks),
        format_count(report.aborted_blocks)
    ))?;
    Ok(Outcome::Done)
}
