//! The options by which jobs and commands read traces.

use clap::Args;
use gemelo_base::units::{format_counted, format_duration_ns};
use gemelo_base::values::Span;
use gemelo_trace::{DeviceRule, Merged, ReadOptions, Stretch, TraceError, TraceFormat, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Time without records from which a trace is said to jump: a day.
const LONG_GAP_NS: u64 = 86_400_000_000_000;

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
    /// cloudphysics, cloudphysics-csv, spc, oracle-general, mqsim or disksim [default: recognised
    /// by the content]
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
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReadTrace {
    /// The trace files, which are read in this order.
    #[serde(with = "gemelo_base::names::paths")]
    #[schemars(with = "Vec<String>")]
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
            malformed_skipped: trace.oddities().malformed,
        }
    }

    /// Returns remarks on skipped lines and on oddities of a trace that was read.
    #[must_use]
    pub fn remarks(trace: &Merged) -> Vec<String> {
        let odd = trace.oddities();
        let said = [
            (odd.malformed, "malformed line", "skipped"),
            (odd.unknown, "record", "skipped, because it is not told whether they read or write"),
            (
                trace.out_of_order(),
                "record",
                "earlier than the record before, in a replay due with it",
            ),
            (
                odd.before_start,
                "record",
                "from before the start of the trace, taken as at its start",
            ),
            (
                odd.further_outputs,
                "further output",
                "of blkparse in the same file, each taken to begin where the one before ends",
            ),
            (
                odd.silent_outputs,
                "output",
                "of blkparse left out, because it has no events of the kind that stands for an \
                 operation in the first one: give each output as a file of its own",
            ),
        ];
        let mut remarks: Vec<String> = said
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, thing, what)| format!("{} {what}", format_counted(*count, thing)))
            .collect();
        let gap = trace.longest_gap();
        if gap.length_ns >= LONG_GAP_NS {
            let (records, length) =
                (format_counted(gap.after_records, "record"), format_duration_ns(gap.length_ns));
            remarks.push(format!(
                "the time jumps by {length} after {records}; to leave a part out, give --skip, \
                 --limit or --time"
            ));
        }
        for format in trace.formats().iter().filter(|format| !format.tells_operations()) {
            remarks.push(format!(
                "{format} traces do not tell whether a request reads or writes: all were taken as \
                 reads"
            ));
        }
        remarks
    }
}
