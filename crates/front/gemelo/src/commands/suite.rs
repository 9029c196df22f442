//! `gemelo suite` runs the loads of the DEDISbench paper in its order, on the same files.

use super::bench;
use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_job::{JobOptions, suite};

/// Measure storage under the eight loads of the DEDISbench paper, in its order.
///
/// The loads are sequential write, rewrite, read and reread, uniform read and write, and NURand
/// read and write (Paulo, Reis, Pereira and Sousa, 2012, section 4). All use the files of the first
/// load.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: JobOptions,
    #[command(flatten, next_help_heading = "Measurement")]
    outputs: bench::Outputs,
    #[command(flatten)]
    places: bench::Places,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let jobs = suite::jobs(&arguments.options)?;
    bench::run_jobs(jobs, &arguments.outputs, &arguments.places, context)
}
