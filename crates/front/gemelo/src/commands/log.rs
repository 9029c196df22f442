//! `gemelo log` prints a log of operations as CSV.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_load::{LogError, LogRecord, read_log};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

/// Print the log that `gemelo bench --log` wrote.
///
/// Each operation is a line of comma-separated values. Times are in nanoseconds.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The log file
    file: PathBuf,
}

const HEADER: &str = "process,operation,block,start_ns,service_ns,waited_ns\n";

fn row(out: &mut impl Write, record: &LogRecord, is_first: bool) -> std::io::Result<()> {
    if is_first {
        out.write_all(HEADER.as_bytes())?;
    }
    let LogRecord { process, is_write, block, start_ns, service_ns, waited_ns } = *record;
    let operation = if is_write { "write" } else { "read" };
    writeln!(out, "{process},{operation},{block},{start_ns},{service_ns},{waited_ns}")
}

pub(crate) fn run(arguments: &Arguments, _context: &Context) -> crate::Result<Outcome> {
    let name = || arguments.file.shown().to_string();
    let file = File::open(&arguments.file)
        .with_context(|| format!("cannot read {}", name()))
        .or_bad_input()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    // The header is printed with the first record, so that a file that is not a log prints nothing.
    let mut rows = 0u64;
    let mut written = Ok(());
    let read = read_log(&mut BufReader::new(file), |record: LogRecord| {
        if written.is_ok() {
            written = row(&mut out, &record, rows == 0);
        }
        rows += 1;
    });
    match read {
        // The records before the damage are good, because each chunk has a checksum.
        Ok(_) | Err(LogError::Cut { .. } | LogError::Damaged { .. }) => (),
        Err(error) => return Err(error).with_context(name).or_bad_input(),
    }
    if rows == 0 {
        written = out.write_all(HEADER.as_bytes());
    }
    written.and_then(|()| out.flush()).context("cannot write to standard output")?;
    read.with_context(|| format!("{} is not complete", name()))?;
    Ok(Outcome::Done)
}
