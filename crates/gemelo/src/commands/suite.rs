//! `gemelo suite`: the loads of the DEDISbench paper, in its order, on the same files.

use super::bench;
use super::bench::options::{JobOptions, OperationChoice, VerifyChoice};
use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use anyhow::anyhow;
use clap::Args;
use gemelo_pattern::Pattern;
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

const WRITE: OperationChoice = OperationChoice::Write;
const READ: OperationChoice = OperationChoice::Read;
const NURAND: Pattern = Pattern::NuRand { a: None };

/// Name, operation and pattern of each load.
const LOADS: [(&str, OperationChoice, Pattern); 8] = [
    ("sequential-write", WRITE, Pattern::Sequential),
    ("sequential-rewrite", WRITE, Pattern::Sequential),
    ("sequential-read", READ, Pattern::Sequential),
    ("sequential-reread", READ, Pattern::Sequential),
    ("uniform-read", READ, Pattern::Uniform),
    ("uniform-write", WRITE, Pattern::Uniform),
    ("nurand-read", READ, NURAND),
    ("nurand-write", WRITE, NURAND),
];

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let load = &arguments.options.load;
    for (is_given, option) in
        [(load.operation.is_some(), "--operation"), (load.pattern.is_some(), "--pattern")]
    {
        if is_given {
            return Err(bad_input(anyhow!(
                "the loads of the suite have their own {option}: leave it out"
            )));
        }
    }
    let jobs = LOADS.map(|(name, operation, pattern)| {
        let mut job = JobOptions { name: Some(name.to_owned()), ..JobOptions::default() };
        job.load.operation = Some(operation);
        job.load.pattern = Some(pattern);
        let mut job = job.or(arguments.options.clone());
        if operation == WRITE {
            // A load that only writes reads nothing that could be checked meanwhile.
            job.load.verify = job.load.verify.map(|verify| match verify {
                VerifyChoice::Online => VerifyChoice::None,
                VerifyChoice::Both => VerifyChoice::Final,
                other => other,
            });
        }
        job
    });
    bench::run_jobs(jobs.to_vec(), arguments.json.as_deref(), context)
}
