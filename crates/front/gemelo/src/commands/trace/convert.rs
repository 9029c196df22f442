//! `gemelo trace convert` writes a trace in another format and warns of information that the format
//! cannot hold.

use super::input::for_each;
use super::output::TraceOutput;
use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_base::units::format_counted;
use gemelo_job::TraceInput;
use gemelo_trace::{RecordSource, TraceFormat};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: TraceInput,
    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    to: TraceFormat,
    #[command(flatten)]
    output: TraceOutput,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.output.check()?;
    let mut trace = arguments.input.open()?;
    let mut writer = arguments.output.writer(arguments.to)?;
    let is_complete =
        for_each(&mut trace, context, ("converting", arguments.input.limit), |record, trace| {
            Ok(writer.write(record, trace.names())?)
        })?;
    trace.source().check_devices()?;
    for remark in TraceInput::remarks(trace.source()).iter().chain(&writer.loss().in_words()) {
        context.monitor.warn(remark);
    }
    let content = format!("{} as {}", format_counted(writer.records(), "record"), arguments.to);
    arguments.output.finish(writer, is_complete, &content, context)
}
