//! `gemelo trace convert` writes a trace in another format and warns of information that the format
//! cannot hold.

use super::input::for_each;
use super::output::TraceFile;
use crate::context::Context;
use crate::exit::Outcome;
use crate::files;
use clap::Args;
use gemelo_base::units::{format_counted, format_line};
use gemelo_job::TraceInput;
use gemelo_trace::{RecordSource, TraceFormat, TraceWriter};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: TraceInput,
    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    to: TraceFormat,
    /// The file to write, compressed if its name ends in .gz or .zst; - is standard output
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    files::check_new(&arguments.output, arguments.force)?;
    let mut trace = arguments.input.open()?;
    let mut writer =
        TraceWriter::new(arguments.to, TraceFile::create(&arguments.output, arguments.force)?);
    let is_complete =
        for_each(&mut trace, context, ("converting", arguments.input.limit), |record, trace| {
            Ok(writer.write(record, trace.names())?)
        })?;
    trace.source().check_devices()?;
    let (records, loss) = (writer.records(), writer.loss());
    let file = writer.finish()?;
    if is_complete || files::is_standard_output(&arguments.output) {
        file.finish()?;
    }
    for remark in TraceInput::remarks(trace.source()).iter().chain(&loss.in_words()) {
        context.monitor.warn(remark);
    }
    if !is_complete {
        let output = arguments.output.display();
        context.monitor.warn(&format!("interrupted: {output} is incomplete and was removed"));
        return Ok(Outcome::Partial);
    }
    if !files::is_standard_output(&arguments.output) {
        let what = format!("{} as {}", format_counted(records, "record"), arguments.to);
        context
            .print(&format!("{}: {what}\n", format_line(&arguments.output.to_string_lossy())))?;
    }
    Ok(Outcome::Done)
}
