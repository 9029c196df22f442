//! `gemelo pool dedup`.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::{format_count, format_counted, format_size};
use gemelo_base::values::Size;
use gemelo_place::PoolPlace;
use gemelo_serve::{DomainShare, FoundReport, PoolRequest, Purpose, Reply};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Pause the finder of the process that serves the pool; the next start resumes it
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Resume the finder of the process that serves the pool
    #[arg(long)]
    resume: bool,
    /// Estimate from a sample what the search would save, and change nothing
    #[arg(long, conflicts_with_all = ["pause", "resume"])]
    estimate: bool,
    /// Most data to read for the estimate
    #[arg(long, value_name = "SIZE", default_value = "256m", requires = "estimate")]
    sample: Size,
    /// Seed of the choice of the sample
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "estimate")]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    if arguments.estimate {
        estimate(arguments, context)
    } else if arguments.pause || arguments.resume {
        pause(arguments, context)
    } else {
        find(arguments, context)
    }
}

fn estimate(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request =
        PoolRequest::EstimateFind { sample_bytes: arguments.sample.0, seed: arguments.seed };
    let access = pools::open(&arguments.pool, Purpose::Read, context)?;
    let Reply::Estimated(found) = pools::ask(&access, &request, context)? else {
        return Err(pools::other_version());
    };
    access.close()?;
    let size = |blocks: u64| format_size(blocks * u64::from(found.block_bytes));
    context.print(&format!(
        "{} wait ({}), {} of them were read\n\
         a search would free about {}, at 95 % between {} and {}\n",
        format_counted(found.blocks, "block"),
        size(found.blocks),
        format_count(found.sampled_blocks),
        size(found.saved_blocks),
        size(found.saved_low_blocks),
        size(found.saved_high_blocks)
    ))?;
    Ok(Outcome::Done)
}

fn pause(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let request = PoolRequest::PauseFinder { is_paused: arguments.pause };
    let Reply::Done = pools::change(&arguments.pool, &request, context)? else {
        return Err(pools::other_version());
    };
    let state = if arguments.pause { "paused" } else { "resumed" };
    context.print(&format!("{}: the finder is {state}\n", arguments.pool))?;
    Ok(Outcome::Done)
}

fn find(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Reply::Found(FoundReport { blocks: report, domain }) =
        pools::change(&arguments.pool, &PoolRequest::Find, context)?
    else {
        return Err(pools::other_version());
    };
    let mut text = format!(
        "{} blocks looked at: {} shared with others, {} with contents of their own, \
         {} overwritten meanwhile or unreadable\n",
        format_count(report.examined_blocks),
        format_count(report.shared_blocks),
        format_count(report.identified_blocks),
        format_count(report.aborted_blocks)
    );
    if let Some(DomainShare { shared, published }) = domain {
        text += &format!(
            "{} shared with other members of the domain, {} made known to them\n",
            format_counted(shared, "content"),
            format_count(published)
        );
    }
    context.print(&text)?;
    Ok(Outcome::Done)
}
