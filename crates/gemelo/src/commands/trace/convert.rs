//! `gemelo trace convert`: a trace in another format, and what that format could not carry.

use super::input::{failed, for_each};
use super::output::TraceFile;
use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use crate::files;
use clap::Args;
use gemelo_base::units::{format_counted, format_line};
use gemelo_job::TraceInput;
use gemelo_trace::{Format, RecordSource, TraceWriter, WriteError};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: TraceInput,
    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// The file to write, compressed if it ends in .gz or .zst; - is standard output
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

/// An error of writing, marked as bad input if the trace has not what the format needs.
pub(super) fn not_written(error: WriteError) -> anyhow::Error {
    match error {
        WriteError::Io(_) => error.into(),
        _ => bad_input(error.into()),
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    files::check_new(&arguments.output, arguments.force)?;
    let mut trace = arguments.input.open().map_err(failed)?;
    let mut writer =
        TraceWriter::new(arguments.to, TraceFile::create(&arguments.output, arguments.force)?);
    let is_complete =
        for_each(&mut trace, context, ("converting", arguments.input.limit), |record, trace| {
            writer.write(record, trace.names()).map_err(not_written)
        })?;
    trace.source().check_devices().map_err(failed)?;
    let (records, loss) = (writer.records(), writer.loss());
    let file = writer.finish().map_err(not_written)?;
    if is_complete || files::is_standard_output(&arguments.output) {
        file.finish()?;
    }
    for remark in TraceInput::remarks(trace.source()).iter().chain(&loss.in_words()) {
        context.monitor.warn(remark);
    }
    if !is_complete {
        let output = arguments.output.display();
        context
            .monitor
            .warn(&format!("interrupted: {output} was not written to its end, and is not kept"));
        return Ok(Outcome::Partial);
    }
    if !files::is_standard_output(&arguments.output) {
        let what = format!("{} as {}", format_counted(records, "record"), arguments.to);
        context
            .print(&format!("{}: {what}\n", format_line(&arguments.output.to_string_lossy())))?;
    }
    Ok(Outcome::Done)
}
