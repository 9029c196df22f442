//! The options by which jobs and commands read traces.

use clap::Args;
use gemelo_base::values::Span;
use gemelo_trace::{DeviceRule, Merged, ReadOptions, Stretch, TraceError, TraceFormat, Window};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The traces to read, and the parts of them.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct TraceInput {
    /// Trace files, plain or compressed with gzip or zstd; several files are merged in order of
    /// time;
    /// - is standard input
    #[arg(required = true, value_name = "TRACE")]
    #[serde(with = "gemelo_base::names::paths")]
    pub traces: Vec<PathBuf>,
    /// Format of the traces: fiu, xmu, blkparse, fio2, fio3, msr, alibaba, tencent, systor,
    /// cloudphysics or cloudphysics-csv [default: recognised by the content]
    #[arg(long, value_name = "FORMAT", help_heading = "Trace")]
    pub format: Option<TraceFormat>,
    /// Read only the records of this device, and rename it with =NEW; may be given several times
    /// [default: all devices]
    #[arg(long = "device", value_name = "NAME[=NEW]", help_heading = "Trace")]
    pub devices: Vec<DeviceRule>,
    /// Skip and count malformed lines instead of failing
    #[arg(long, help_heading = "Trace")]
    pub skip_malformed: bool,
    /// Skip this number of records at the start [default: 0]
    #[arg(
        long,
        value_name = "RECORDS",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Trace"
    )]
    pub skip: u64,
    /// Most records to read [default: all]
    #[arg(long, value_name = "RECORDS", help_heading = "Trace")]
    pub limit: Option<u64>,
    /// Length of the part of the trace to read [default: all]
    #[arg(long, value_name = "DURATION", help_heading = "Trace")]
    pub time: Option<Span>,
}

/// The traces that were read, as results keep them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadTrace {
    /// The trace files, which are read in this order.
    #[serde(with = "gemelo_base::names::paths")]
    pub traces: Vec<PathBuf>,
    /// The format of each trace.
    pub formats: Vec<String>,
    /// The devices that were read, and their new names.
    pub devices: Vec<String>,
    /// Records skipped at the start.
    pub skip: u64,
    /// Largest number of records that were to be read; all if absent.
    pub limit: Option<u64>,
    /// Length of the part that was read, in nanoseconds of the trace.
    pub time_ns: Option<u64>,
    /// Malformed lines that were skipped.
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

    /// Returns remarks on skipped lines and on oddities of a trace that was read.
    #[must_use]
    pub fn remarks(trace: &Merged) -> Vec<String> {
        let said = [
            (trace.malformed(), "malformed lines were skipped"),
            (
                trace.unknown(),
                "records were skipped because they do not say whether they read or write",
            ),
            (trace.out_of_order(), "records have an earlier time than the record before them"),
        ];
        said.iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}
