//! `gemelo log`: a log of operations as CSV.

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use anyhow::Context as _;
use clap::Args;
use gemelo_load::{LogRecord, read_log};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

/// Prints the log that `gemelo bench --log` wrote: a line for each operation, times in nanoseconds.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The log
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, _context: &Context) -> anyhow::Result<Outcome> {
    let name = || arguments.file.display().to_string();
    let file =
        File::open(&arguments.file).with_context(|| format!("cannot read {}", name())).or_bad_input()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    // Nothing is printed of a file that is no log.
    let mut header = Some("process,operation,block,start_ns,service_ns,waited_ns");
    let read = read_log(&mut BufReader::new(file), |record: LogRecord| {
        if let Some(header) = header.take() {
            written = writeln!(out, "{header}");
        }
        let LogRecord { process, is_write, block, start_ns, service_ns, waited_ns } = record;
        let operation = if is_write { "write" } else { "read" };
        if written.is_ok() {
            written = writeln!(out, "{process},{operation},{block},{start_ns},{service_ns},{waited_ns}");
        }
    });
    if let (Ok(_), Some(header)) = (&read, header) {
        written = writeln!(out, "{header}");
    }
    written.and_then(|()| out.flush()).context("cannot write to standard output")?;
    read.with_context(name).or_bad_input()?;
    Ok(Outcome::Done)
}
