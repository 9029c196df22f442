//! `gemelo serve`: the volumes of a pool over NBD.

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use clap::Args;
use gemelo_nbd::server::ListenAddress;
use gemelo_serve::ServeOptions;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// Where to listen: unix:PATH or tcp:ADDRESS:PORT; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<ListenAddress>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let options = ServeOptions { listen: arguments.listen.clone(), ..ServeOptions::default() };
    let monitor = Arc::clone(&context.monitor);
    let ready = |addresses: &[ListenAddress]| {
        for address in addresses {
            // Nobody may be reading; the server serves all the same.
            let _ = context.print(&format!("listening at {address}\n"));
        }
    };
    gemelo_serve::serve(&arguments.pool, &options, monitor, &context.stop, ready).or_bad_input()?;
    Ok(Outcome::Done)
}
