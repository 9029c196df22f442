//! The recognition of trace formats, and a parser for each.
//!
//! A parser turns a line into a record. It allocates nothing, and its error names the malformed
//! field. `docs/reference/traces.md` lists the columns of every format with their sources.

mod blkparse;
mod csv;
mod disksim;
mod fio;
mod fiu;
mod oracle;
mod vscsi;

use crate::error::Malformed;
use crate::reader::Oddities;
use crate::record::{Names, Record, TraceOperation};
use crate::trace_format::TraceFormat;

pub(crate) use blkparse::Blkparse;
pub(crate) use csv::{FILETIME_NS, UNIX_IN_FILETIME};
pub(crate) use disksim::Unit as DiskSimUnit;
pub(crate) use fio::{Fio, VERSION_2, VERSION_3};
pub(crate) use oracle::{Oracle, RECORD_BYTES as ORACLE_BYTES};
pub(crate) use vscsi::{Vscsi, scsi};

/// Bytes of a sector, the unit of block addresses on Linux and in most traces.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Recognises the format from the start of a file: the one that parses most of the first lines.
pub(crate) fn recognise(head: &[u8]) -> Option<TraceFormat> {
    let mut best = None;
    let mut best_score = 0;
    for format in TraceFormat::ALL {
        let score = Parser::new(format, head).understood(head);
        if score > best_score {
            (best, best_score) = (Some(format), score);
        }
    }
    best.map(|format| {
        if format == TraceFormat::Fiu && joins_hashes(head) { TraceFormat::Xmu } else { format }
    })
}

/// Returns whether the last word of any of the first lines contains a dash.
fn joins_hashes(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').take(SAMPLED_LINES).any(|line| {
        let line = line.trim_ascii_end();
        let start = line.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
        line.get(start..).is_some_and(|word| word.contains(&b'-'))
    })
}

/// The result of parsing a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// An operation.
    Record,
    /// A valid line without an operation: a header or an event of another kind.
    Nothing,
    /// An operation of a kind that the trace does not tell.
    Unknown,
}

/// Parses the lines of one file. Some formats depend on earlier lines and keep state.
#[derive(Debug, Clone)]
pub(crate) enum Parser {
    Fiu,
    Blkparse(Blkparse),
    Fio(Fio),
    Csv(TraceFormat),
    DiskSim(DiskSimUnit),
    Vscsi(Vscsi),
    Oracle(Oracle),
}

/// Number of first lines used to recognise a format.
const SAMPLED_LINES: usize = 64;

impl Parser {
    /// Creates a parser for a file that begins with `head`.
    pub(crate) fn new(format: TraceFormat, head: &[u8]) -> Self {
        match format {
            TraceFormat::Fiu | TraceFormat::Xmu => Self::Fiu,
            TraceFormat::Blkparse => Self::Blkparse(Blkparse::new(head)),
            TraceFormat::FioV2 => Self::Fio(Fio::new(VERSION_2)),
            TraceFormat::FioV3 => Self::Fio(Fio::new(VERSION_3)),
            TraceFormat::CloudPhysics => Self::Vscsi(Vscsi::new(head)),
            TraceFormat::OracleGeneral => Self::Oracle(Oracle::new(head)),
            TraceFormat::DiskSim => Self::DiskSim(DiskSimUnit::Milliseconds),
            TraceFormat::MqSim => Self::DiskSim(DiskSimUnit::Nanoseconds),
            _ => Self::Csv(format),
        }
    }

    /// Returns the bytes of a record of a binary format, or `None` for text.
    pub(crate) const fn record_bytes(&self) -> Option<usize> {
        match self {
            Self::Vscsi(vscsi) => Some(vscsi.record_bytes()),
            Self::Oracle(_) => Some(ORACLE_BYTES),
            _ => None,
        }
    }

    /// Returns what the parser itself found beside operations.
    pub(crate) fn oddities(&self) -> Oddities {
        match self {
            Self::Blkparse(blkparse) => blkparse.oddities(),
            _ => Oddities::default(),
        }
    }

    /// Parses one line; `number` counts from 1. The record's hashes and names are cleared first.
    #[inline]
    pub(crate) fn parse(
        &mut self,
        line: &[u8],
        number: u64,
        names: &mut Names,
        record: &mut Record,
    ) -> Result<Parsed, Malformed> {
        record.clear();
        match self {
            Self::Fiu => fiu::parse(line, names, record),
            Self::Blkparse(blkparse) => blkparse.parse(line, names, record),
            Self::Fio(fio) => fio.parse(line, number, names, record),
            Self::Vscsi(vscsi) => vscsi.parse(line, names, record),
            Self::Oracle(_) => oracle::parse(line, names, record),
            Self::DiskSim(unit) => disksim::parse(*unit, line, names, record),
            Self::Csv(format) => {
                let is_header = number == 1 && line.first().is_some_and(u8::is_ascii_alphabetic);
                if is_header && format.may_have_header() {
                    return Ok(Parsed::Nothing);
                }
                csv::parse(*format, line, names, record)
            }
        }
    }

    /// Returns the number of first lines that match the format, or 0 if no line is an operation or
    /// most are malformed.
    fn understood(mut self, head: &[u8]) -> usize {
        let is_binary = match &self {
            Self::Vscsi(vscsi) => Some(vscsi.is_recognised()),
            Self::Oracle(oracle) => Some(oracle.is_recognised()),
            _ => None,
        };
        if let Some(is_recognised) = is_binary {
            return if is_recognised { usize::MAX } else { 0 };
        }
        let (mut names, mut record) = (Names::default(), Record::new());
        let (mut good, mut operations, mut bad) = (0, 0, 0);
        // The last line may be incomplete.
        let whole = memchr::memrchr(b'\n', head).and_then(|end| head.get(..end)).unwrap_or(head);
        let lines = whole.split(|byte| *byte == b'\n').enumerate();
        for (index, line) in
            lines.filter(|(_, line)| !line.trim_ascii().is_empty()).take(SAMPLED_LINES)
        {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match self.parse(line, index as u64 + 1, &mut names, &mut record) {
                Ok(Parsed::Record) => {
                    good += 1;
                    operations += 1;
                }
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
        // A file with the header of fio is recognised even without operations.
        let is_named = matches!(self, Self::Fio(_)) && good > 0 && bad == 0;
        if (operations > 0 || is_named) && good > bad { good } else { 0 }
    }
}

/// Converts an offset or length from sectors to bytes.
#[inline]
pub(crate) fn sectors(count: Option<u64>, field: &'static str) -> Result<u64, Malformed> {
    count
        .and_then(|count| count.checked_mul(SECTOR_BYTES))
        .ok_or(Malformed::new(field, "a whole number of sectors of 512 bytes"))
}

/// Returns the number of a device.
#[inline]
pub(crate) fn device(names: &mut Names, name: &[u8]) -> Result<u32, Malformed> {
    if name.is_empty() {
        return Err(Malformed::new("device", "a name or number"));
    }
    names.device(name).ok_or(Malformed::new("device", "at most 1,048,576 different devices"))
}

/// Most bytes of a read or write. A larger value is a misread column, as the longest known requests
/// are 64 MiB.
const MAX_REQUEST_BYTES: u64 = 1 << 30;
/// Most bytes of a trim, which can cover a whole device.
const MAX_TRIM_BYTES: u64 = 16 << 40;

/// Refuses operations that are too long or end beyond 2^64 bytes.
#[inline]
pub(crate) fn check_end(record: &Record) -> Result<Parsed, Malformed> {
    if record.length_bytes > MAX_REQUEST_BYTES {
        if record.operation != TraceOperation::Trim {
            return Err(Malformed::new("length", "at most 1 GiB"));
        }
        if record.length_bytes > MAX_TRIM_BYTES {
            return Err(Malformed::new("length", "at most 16 TiB"));
        }
    }
    if record.offset_bytes.checked_add(record.length_bytes).is_none() {
        return Err(Malformed::new("length", "a length that ends below 2^64 bytes"));
    }
    Ok(Parsed::Record)
}

#[cfg(test)]
mod collections;
#[cfg(test)]
mod tests;
