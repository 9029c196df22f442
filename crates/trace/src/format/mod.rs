//! The formats: their names, how each is recognised, and one parser for each.
//!
//! A parser turns a line into a record. It allocates nothing, and says which field is wrong. `docs/traces.md` has the
//! columns of every format, with their sources.

mod blkparse;
mod csv;
mod fio;
mod fiu;
mod vscsi;

use crate::error::Malformed;
use crate::record::{Names, Operation, Record};
use std::fmt;
use std::str::FromStr;

pub(crate) use blkparse::Blkparse;
pub(crate) use csv::{FILETIME_NS, UNIX_IN_FILETIME};
pub(crate) use fio::{Fio, VERSION_2, VERSION_3};
pub(crate) use vscsi::{Vscsi, scsi};

/// Bytes of a sector: what block addresses count on Linux, and in most traces.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// FIU IODedup: web-vm, mail and homes, with an MD5 for every 4096 or 512 bytes, one after the other.
    Fiu,
    /// XMU mobile: as FIU, with `-` between the hashes.
    Xmu,
    /// What blkparse prints of a blktrace.
    Blkparse,
    /// fio's iolog, version 2.
    FioV2,
    /// fio's iolog, version 3.
    FioV3,
    /// Microsoft Research Cambridge, CSV.
    Msr,
    /// Alibaba block traces, CSV.
    Alibaba,
    /// Tencent cloud block storage, CSV.
    Tencent,
    /// SYSTOR '17 virtual desktops, CSV.
    Systor,
    /// CloudPhysics, as VMware's vscsiStats writes it, version 1 or 2, binary.
    CloudPhysics,
    /// CloudPhysics, as libCacheSim distributes it, CSV.
    CloudPhysicsCsv,
}

impl Format {
    /// All formats, in the order in which they are tried.
    pub const ALL: [Self; 11] = [
        Self::FioV2,
        Self::FioV3,
        Self::CloudPhysics,
        Self::Fiu,
        Self::Xmu,
        Self::Blkparse,
        Self::Msr,
        Self::Alibaba,
        Self::Systor,
        Self::CloudPhysicsCsv,
        Self::Tencent,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fiu => "fiu",
            Self::Xmu => "xmu",
            Self::Blkparse => "blkparse",
            Self::FioV2 => "fio2",
            Self::FioV3 => "fio3",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Systor => "systor",
            Self::CloudPhysics => "cloudphysics",
            Self::CloudPhysicsCsv => "cloudphysics-csv",
        }
    }

    /// All names, for messages.
    #[must_use]
    pub fn known() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
        names.join(", ")
    }

    /// Whether the format has hashes of the data.
    #[must_use]
    pub const fn carries_hashes(self) -> bool {
        matches!(self, Self::Fiu | Self::Xmu)
    }

    /// Whether its first line may name the columns.
    const fn may_have_header(self) -> bool {
        matches!(
            self,
            Self::Msr | Self::Alibaba | Self::Tencent | Self::Systor | Self::CloudPhysicsCsv
        )
    }

    /// The format of a file that begins like this: the one that understands most of the first lines.
    pub(crate) fn of_head(head: &[u8]) -> Option<Self> {
        let mut best = None;
        let mut best_score = 0;
        for format in Self::ALL {
            let score = Parser::new(format, head).understood(head);
            if score > best_score {
                (best, best_score) = (Some(format), score);
            }
        }
        best.map(
            |format| if format == Self::Fiu && joins_hashes(head) { Self::Xmu } else { format },
        )
    }
}

/// Whether the last word of some line has a dash in it.
fn joins_hashes(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').take(SAMPLED_LINES).any(|line| {
        let line = line.trim_ascii_end();
        let start = line.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
        line.get(start..).is_some_and(|word| word.contains(&b'-'))
    })
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("'{text}' is no format of traces: {}", Self::known()))
    }
}

/// What a line turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// An operation.
    Record,
    /// A line that belongs to the format and is no operation: a header, an event of another kind.
    Nothing,
    /// An operation of which the trace does not say what it did.
    Unknown,
}

/// The parser of one file: formats that count on earlier lines remember them.
#[derive(Debug, Clone)]
pub(crate) enum Parser {
    Fiu,
    Blkparse(Blkparse),
    Fio(Fio),
    Csv(Format),
    Vscsi(Vscsi),
}

/// Lines by which a format is recognised.
const SAMPLED_LINES: usize = 64;

impl Parser {
    /// A parser for a file that begins with `head`.
    pub(crate) fn new(format: Format, head: &[u8]) -> Self {
        match format {
            Format::Fiu | Format::Xmu => Self::Fiu,
            Format::Blkparse => Self::Blkparse(Blkparse::new(head)),
            Format::FioV2 => Self::Fio(Fio::new(VERSION_2)),
            Format::FioV3 => Self::Fio(Fio::new(VERSION_3)),
            Format::CloudPhysics => Self::Vscsi(Vscsi::new(head)),
            _ => Self::Csv(format),
        }
    }

    /// Bytes of a record, if the format has no lines.
    pub(crate) const fn record_bytes(&self) -> Option<usize> {
        match self {
            Self::Vscsi(vscsi) => Some(vscsi.record_bytes()),
            _ => None,
        }
    }

    /// Reads one line; `number` counts from 1. A record's hashes and names are cleared first.
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
            Self::Csv(format) => {
                let is_header = number == 1 && line.first().is_some_and(u8::is_ascii_alphabetic);
                if is_header && format.may_have_header() {
                    return Ok(Parsed::Nothing);
                }
                csv::parse(*format, line, names, record)
            }
        }
    }

    /// How many of the first lines are of this format; 0 if none is an operation or most are malformed.
    fn understood(mut self, head: &[u8]) -> usize {
        if let Self::Vscsi(vscsi) = &self {
            return if vscsi.is_recognised() { usize::MAX } else { 0 };
        }
        let (mut names, mut record) = (Names::default(), Record::new());
        let (mut good, mut operations, mut bad) = (0, 0, 0);
        // The last line may be cut.
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
        // A file of fio without any operation is still one of fio.
        let is_named = matches!(self, Self::Fio(_)) && good > 0 && bad == 0;
        if (operations > 0 || is_named) && good > bad { good } else { 0 }
    }
}

/// An offset or length in sectors, as bytes.
#[inline]
pub(crate) fn sectors(count: Option<u64>, field: &'static str) -> Result<u64, Malformed> {
    count
        .and_then(|count| count.checked_mul(SECTOR_BYTES))
        .ok_or(Malformed::new(field, "a whole number of sectors of 512 bytes"))
}

/// The number of a device.
#[inline]
pub(crate) fn device(names: &mut Names, name: &[u8]) -> Result<u32, Malformed> {
    if name.is_empty() {
        return Err(Malformed::new("device", "a name or number"));
    }
    names.device(name).ok_or(Malformed::new("device", "no more than a million different devices"))
}

/// The most bytes of a read or write: more is a misread column. The longest requests known are of 64 MiB.
const MOST_REQUEST_BYTES: u64 = 1 << 30;
/// The most bytes of a trim, which can be of a whole device.
const MOST_TRIM_BYTES: u64 = 16 << 40;

/// Refuses stretches that reach beyond 64 bits or are too long.
#[inline]
pub(crate) fn check_end(record: &Record) -> Result<Parsed, Malformed> {
    if record.length_bytes > MOST_REQUEST_BYTES {
        if record.operation != Operation::Trim {
            return Err(Malformed::new("length", "a gigabyte at most"));
        }
        if record.length_bytes > MOST_TRIM_BYTES {
            return Err(Malformed::new("length", "16 terabytes at most"));
        }
    }
    if record.offset_bytes.checked_add(record.length_bytes).is_none() {
        return Err(Malformed::new("length", "a length that ends below 2^64 bytes"));
    }
    Ok(Parsed::Record)
}

/// Reads bytes as every format and as the one they look like, for fuzzing.
///
/// # Panics
/// If a parser does, or gives a record that reaches beyond 64 bits.
pub fn fuzz(bytes: &[u8]) {
    let recognised = Format::of_head(bytes);
    for format in Format::ALL.into_iter().chain(recognised) {
        let mut parser = Parser::new(format, bytes);
        let (mut names, mut record) = (Names::default(), Record::new());
        let lines: Box<dyn Iterator<Item = &[u8]>> = match parser.record_bytes() {
            Some(size) => Box::new(bytes.chunks(size)),
            None => Box::new(bytes.split(|byte| *byte == b'\n')),
        };
        for (line, number) in lines.zip(1..) {
            if parser.parse(line, number, &mut names, &mut record) == Ok(Parsed::Record) {
                assert!(
                    record.offset_bytes.checked_add(record.length_bytes).is_some(),
                    "{format}: {record:?}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
