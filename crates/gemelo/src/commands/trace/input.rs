//! The options by which every command reads traces, and the loop over their records.

use crate::context::Context;
use crate::values::Span;
use clap::Args;
use gemelo_base::Unit;
use gemelo_trace::{
    DeviceRule, Format, Merged, ReadOptions, Record, RecordSource, Stretch, Window,
};
use serde::Serialize;
use std::path::PathBuf;

/// Which traces are read, and what of them.
#[derive(Debug, Clone, Args)]
pub(crate) struct TraceInput {
    /// Trace files, plain, gzip or zstd; several are one trace, in order of time; - is standard input
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// fiu, xmu, blkparse, fio2, fio3, msr, alibaba, tencent, systor, cloudphysics or cloudphysics-csv
    /// [default: what the content says]
    #[arg(long, value_name = "FORMAT", help_heading = "Trace")]
    pub(crate) format: Option<Format>,
    /// Take this device only, or under another name; may be repeated [default: all]
    #[arg(long = "device", value_name = "NAME[=NEW]", help_heading = "Trace")]
    pub(crate) devices: Vec<DeviceRule>,
    /// Count malformed lines and leave them out, instead of failing
    #[arg(long, help_heading = "Trace")]
    pub(crate) skip_malformed: bool,
    /// Leave out so many records at the start
    #[arg(
        long,
        value_name = "RECORDS",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Trace"
    )]
    pub(crate) skip: u64,
    /// Take at most so many records
    #[arg(long, value_name = "RECORDS", help_heading = "Trace")]
    pub(crate) limit: Option<u64>,
    /// Take so much time of the trace
    #[arg(long, value_name = "DURATION", help_heading = "Trace")]
    pub(crate) time: Option<Span>,
}

/// The input as results repeat it.
#[derive(Debug, Serialize)]
pub(crate) struct ReadTrace {
    traces: Vec<PathBuf>,
    formats: Vec<String>,
    devices: Vec<String>,
    skip: u64,
    limit: Option<u64>,
    time_ns: Option<u64>,
    malformed_skipped: u64,
}

/// Records between two looks at the stop flag, and reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

impl TraceInput {
    pub(crate) fn open(&self) -> anyhow::Result<Window<Merged>> {
        let options = ReadOptions {
            format: self.format,
            skips_malformed: self.skip_malformed,
            devices: self.devices.clone(),
        };
        let merged = Merged::open(&self.traces, options)?;
        Ok(Window::new(merged, self.stretch()))
    }

    pub(crate) fn stretch(&self) -> Stretch {
        let time_ns = self.time.map(|time| u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX));
        Stretch { skip: self.skip, limit: self.limit, time_ns }
    }

    pub(crate) fn as_read(&self, trace: &Merged) -> ReadTrace {
        ReadTrace {
            traces: self.traces.clone(),
            formats: trace.formats().iter().map(ToString::to_string).collect(),
            devices: self
                .devices
                .iter()
                .map(|rule| format!("{}={}", rule.device, rule.becomes))
                .collect(),
            skip: self.skip,
            limit: self.limit,
            time_ns: self.stretch().time_ns,
            malformed_skipped: trace.malformed(),
        }
    }

    /// What was left out or odd, in words, once the trace was read.
    pub(crate) fn remarks(trace: &Merged) -> Vec<String> {
        let said = [
            (trace.malformed(), "malformed lines were left out"),
            (trace.unknown(), "records do not say whether they read or write; they were left out"),
            (trace.out_of_order(), "records have a time before that of the record before them"),
        ];
        said.iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

/// Gives every record to `each`. Returns whether the trace came to its end, rather than to Ctrl-C.
pub(crate) fn for_each<Source: RecordSource>(
    source: &mut Source,
    context: &Context,
    (phase, total): (&str, Option<u64>),
    mut each: impl FnMut(&Record, &Source) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    context.monitor.begin(phase, Unit::Items, total);
    let mut record = Record::new();
    let mut unreported = 0;
    while source.next_record(&mut record)? {
        each(&record, source)?;
        unreported += 1;
        if unreported == REPORT_EVERY {
            context.monitor.advance(unreported);
            unreported = 0;
            if context.stop.is_raised() {
                return Ok(false);
            }
        }
    }
    context.monitor.finish();
    Ok(true)
}
