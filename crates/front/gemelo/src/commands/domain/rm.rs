//! `gemelo domain rm`.

use super::{DomainArguments, PATIENCE};
use crate::context::Context;
use crate::exit::{Failure, Outcome};
use clap::Args;
use gemelo_base::units::format_counted;
use gemelo_member::remove_domain;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    domain: DomainArguments,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let uri = arguments.domain.uri();
    let removed = remove_domain(&uri, PATIENCE);
    let removed = removed.map_err(|error| Failure::from(error).context(uri.to_string()))?;
    context.print(&format!("{uri}: removed, {}\n", format_counted(removed, "object")))?;
    Ok(Outcome::Done)
}
