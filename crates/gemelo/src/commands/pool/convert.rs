//! `gemelo pool convert`.

use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use crate::values::pool_place_parser;
use anyhow::anyhow;
use clap::{Args, ValueHint};
use gemelo_base::units::format_counted;
use gemelo_place::PoolPlace;
use gemelo_serve::RequestFailure;
use gemelo_volume::Pool;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory; no other process may use the pool meanwhile
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let name = &arguments.pool;
    let Some(directory) = name.directory() else {
        return Err(bad_input(anyhow!("{name}: a member of a domain never had format version 1")));
    };
    let about = |error| RequestFailure::from(error).about(&name.to_string());
    let converted = Pool::convert(directory, &*context.monitor, &context.stop).map_err(about)?;
    let mut text = format!("{name}: converted to format version 2\n");
    if let Some(old) = &converted.old_metadata {
        text += &format!(
            "the new metadata are in the pool's directory; the old metadata stay in {}\n",
            old.display()
        );
    }
    if converted.lost_blocks > 0 {
        let blocks = format_counted(converted.lost_blocks, "block");
        text += &format!(
            "{blocks} of volumes did not match their fingerprints: they were damaged before the \
             conversion, and reads of them fail\n"
        );
    }
    context.print(&text)?;
    Ok(if converted.lost_blocks > 0 { Outcome::Partial } else { Outcome::Done })
}
