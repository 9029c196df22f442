//! The loads of the DEDISbench paper (Paulo, Reis, Pereira, Sousa 2012, section 3.4), in its order.
//! All of them run on the files of the first.

use crate::bench::ResolveError;
use crate::options::{JobOptions, OperationChoice, VerifyChoice};
use gemelo_pattern::Pattern;

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

/// Returns the options of the eight jobs. All of them get `options`.
///
/// # Errors
/// Fails if the options name an operation or a pattern, which the suite decides.
pub fn jobs(options: &JobOptions) -> Result<Vec<JobOptions>, ResolveError> {
    let load = &options.load;
    let own = [(load.operation.is_some(), "--operation"), (load.pattern.is_some(), "--pattern")];
    if let Some((_, option)) = own.into_iter().find(|(is_given, _)| *is_given) {
        return Err(ResolveError::OfSuite { option });
    }
    let jobs = LOADS.into_iter().map(|(name, operation, pattern)| {
        let mut job = JobOptions { name: Some(name.to_owned()), ..JobOptions::default() };
        job.load.operation = Some(operation);
        job.load.pattern = Some(pattern);
        let mut job = job.or(options.clone());
        if operation == WRITE {
            // A job that only writes has no reads to check during the run.
            job.load.verify = job.load.verify.map(|verify| match verify {
                VerifyChoice::Online => VerifyChoice::None,
                VerifyChoice::Both => VerifyChoice::Final,
                other => other,
            });
        }
        job
    });
    Ok(jobs.collect())
}
