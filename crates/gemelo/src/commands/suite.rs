//! `gemelo suite`: the loads of the DEDISbench paper, in its order, on the same files.

use super::bench;
use crate::context::Context;
use crate::exit::{Outcome, by_kind};
use clap::Args;
use gemelo_job::{JobOptions, suite};
use std::path::PathBuf;

/// Sequential write, rewrite, read and reread, uniform read and write, NURand read and write: the order in which the
/// DEDISbench paper (Paulo, Reis, Pereira, Sousa 2012, section 4) measures storage. All run on the files of the first.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: JobOptions,
    /// Write the results with all histograms to this file; - is standard output
    #[arg(long, value_name = "FILE", help_heading = "Measurement")]
    json: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let jobs = suite::jobs(&arguments.options).map_err(by_kind)?;
    bench::run_jobs(jobs, arguments.json.as_deref(), context)
}
