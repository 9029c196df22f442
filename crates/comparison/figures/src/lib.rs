//! Stats, latency curves and time series from result files.
//!
//! [`read`] takes a result file of `bench`, `suite`, `replay`, `filebench`, `scan` or `pool stat`,
//! or the JSON output of `fio`, and gives [`Stats`](gemelo_record::Stats) with names that are
//! the same for all kinds: a figure of one kind can be compared with that of another. A file with
//! several jobs has the figures of each job with the job's name and a dot in front.
//!
//! The functions `of_...` do the same for results in memory.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bench;
mod error;
mod filebench;
mod fio;
mod hosts;
mod parts;
mod pool;
mod prefix;
mod read;
mod repeated;
mod replay;
mod scan;
mod timing;
mod unit;
mod written;

pub use bench::{of_bench, of_run};
pub use error::FiguresError;
pub use filebench::of_filebench;
pub use hosts::{HostResult, Slowest, slowest_host, throughputs};
pub use parts::{NameParts, is_counted, name_parts};
pub use read::{AnyResult, Kind, MAX_FILE_BYTES, RawResult, parse, read};
pub use repeated::{FigureSummary, REPEATED_SCHEMA, Repeated, RepeatedFile, RepeatedRun};
pub use replay::of_replay;
pub use unit::{Measure, Unit, significant};
