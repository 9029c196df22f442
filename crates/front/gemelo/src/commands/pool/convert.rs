//! `gemelo pool convert`.

use super::create::backend_parser;
use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_format::BackendKind;
use gemelo_place::PoolPlace;
use gemelo_serve::PoolRequest;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Backend to move the metadata to
    #[arg(long, value_name = "KIND", value_parser = backend_parser())]
    backend: BackendKind,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let request = PoolRequest::Convert { backend: arguments.backend };
    pools::change(&arguments.pool, &request, context)?;
    context.print(&format!("backend {}\n", arguments.backend.name()))?;
    Ok(Outcome::Done)
}
