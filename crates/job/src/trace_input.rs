//! The options by which jobs and commands read traces.

use clap::Args;
use gemelo_base::values::Span;
use gemelo_trace::{DeviceRule, Format, Merged, ReadOptions, Stretch, TraceError, Window};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The traces to read, and the parts of them.
#[derive(Debug, Clone, Args)]
pub struct TraceInput {
    /// Trace files, plain, gzip or zstd; several are one trace, in order of time; - is standard input
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// fiu, xmu, blkparse, fio2, fio3, msr, alibaba, tencent, systor, cloudphysics or cloudphysics-csv
    /// [default: what the content says]
    #[arg(long, value_name = "FORMAT", help_heading = "Trace")]
    pub format: Option<Format>,
    /// Take this device only, or under another name; may be repeated [default: all]
    #[arg(long = "device", value_name = "NAME[=NEW]", help_heading = "Trace")]
    pub devices: Vec<DeviceRule>,
    /// Count malformed lines and leave them out, instead of failing
    #[arg(long, help_heading = "Trace")]
    pub skip_malformed: bool,
    /// Leave out so many records at the start
    #[arg(
        long,
        value_name = "RECORDS",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Trace"
    )]
    pub skip: u64,
    /// Take at most so many records
    #[arg(long, value_name = "RECORDS", help_heading = "Trace")]
    pub limit: Option<u64>,
    /// Take so much time of the trace
    #[arg(long, value_name = "DURATION", help_heading = "Trace")]
    pub time: Option<Span>,
}

/// The traces that were read, as results keep them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadTrace {
    /// The trace files.
    pub traces: Vec<PathBuf>,
    /// The format of each trace.
    pub formats: Vec<String>,
    /// The devices that were taken, and their new names.
    pub devices: Vec<String>,
    /// Records left out at the start.
    pub skip: u64,
    /// Most records taken.
    pub limit: Option<u64>,
    /// Longest time taken, in nanoseconds of the trace.
    pub time_ns: Option<u64>,
    /// Malformed lines that were left out.
    pub malformed_skipped: u64,
}

impl TraceInput {
    /// Opens the traces as one, in order of time.
    ///
    /// # Errors
    /// Fails if a trace cannot be opened, or its format is not recognised.
    pub fn open(&self) -> Result<Window<Merged>, TraceError> {
        let options = ReadOptions {
            format: self.format,
            skips_malformed: self.skip_malformed,
            devices: self.devices.clone(),
        };
        let merged = Merged::open(&self.traces, options)?;
        Ok(Window::new(merged, self.stretch()))
    }

    /// Returns the part of the trace that is read.
    #[must_use]
    pub fn stretch(&self) -> Stretch {
        let time_ns = self.time.map(|time| u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX));
        Stretch { skip: self.skip, limit: self.limit, time_ns }
    }

    /// Returns the traces as results keep them.
    #[must_use]
    pub fn as_read(&self, trace: &Merged) -> ReadTrace {
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

    /// Returns remarks on a trace that was read: what was left out, and what was odd.
    #[must_use]
    pub fn remarks(trace: &Merged) -> Vec<String> {
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
