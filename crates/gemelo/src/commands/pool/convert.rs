//! `gemelo pool convert`.

use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_base::units::format_counted;
use gemelo_serve::RequestFailure;
use gemelo_volume::Pool;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory; no other process may use the pool meanwhile
    #[arg(value_name = "POOL")]
    pool: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let name = arguments.pool.display();
    let about = |error| RequestFailure::from(error).about(&name.to_string());
    let converted =
        Pool::convert(&arguments.pool, &*context.monitor, &context.stop).map_err(about)?;
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
