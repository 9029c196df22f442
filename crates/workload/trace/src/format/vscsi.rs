//! CloudPhysics traces in their original form: little-endian records of VMware's vscsiStats, of 32
//! bytes in version 1 and 40 bytes in version 2. The version is in the high byte of a field whose
//! offset depends on the version.

use super::{Parsed, check_end, device, sectors};
use crate::error::Malformed;
use crate::record::{Names, Record, TraceOperation};

/// Name of the only virtual disk in such a trace.
pub(crate) const DEVICE: &[u8] = b"disk";

const MICROSECOND_NS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Parses the records of one file.
#[derive(Debug, Clone)]
pub(crate) struct Vscsi {
    version: Version,
    is_recognised: bool,
}

/// Number of first records used to recognise a version.
const SAMPLED_RECORDS: usize = 2;

impl Vscsi {
    pub(crate) fn new(head: &[u8]) -> Self {
        let fits = |version: Version| {
            let mut records =
                head.chunks_exact(version.record_bytes()).take(SAMPLED_RECORDS).peekable();
            records.peek().is_some() && records.all(|record| version.is_of(record))
        };
        let version = if fits(Version::Two) { Version::Two } else { Version::One };
        Self { version, is_recognised: fits(version) }
    }

    pub(crate) const fn is_recognised(&self) -> bool {
        self.is_recognised
    }

    pub(crate) const fn record_bytes(&self) -> usize {
        self.version.record_bytes()
    }

    #[inline]
    pub(crate) fn parse(
        &self,
        bytes: &[u8],
        names: &mut Names,
        record: &mut Record,
    ) -> Result<Parsed, Malformed> {
        let version = self.version;
        if bytes.len() != version.record_bytes() {
            return Err(Malformed::new(
                "record",
                "as many bytes as the other records have: the file was cut short",
            ));
        }
        if !version.is_of(bytes) {
            return Err(Malformed::new("version", "the version of the first record"));
        }
        let (command, length, sector, time) = version.fields(bytes);
        record.length_bytes = u64::from(length);
        record.offset_bytes = sectors(Some(sector), "sector")?;
        record.time_ns = time
            .checked_mul(MICROSECOND_NS)
            .ok_or(Malformed::new("time", "microseconds below 2^64 ns"))?;
        let Some(operation) = scsi::operation(command) else { return Ok(Parsed::Nothing) };
        record.operation = operation;
        record.device = device(names, DEVICE)?;
        if operation == TraceOperation::Flush {
            (record.offset_bytes, record.length_bytes) = (0, 0);
        }
        check_end(record)
    }
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    fn is_of(self, bytes: &[u8]) -> bool {
        let (at, number) = match self {
            Self::One => (14, 1),
            Self::Two => (2, 2),
        };
        short(bytes, at) >> 8 == number
    }

    /// Returns command, bytes, sector and microseconds.
    ///
    /// Version 1 has serial 4, length 4, segments 4, command 2, version 2, sector 8 and time 8
    /// bytes.
    /// Version 2 has command 2, version 2, serial 4, length 4, segments 4, sector 8, time 8 and
    /// response time 8 bytes.
    fn fields(self, bytes: &[u8]) -> (u16, u32, u64, u64) {
        match self {
            Self::One => (short(bytes, 12), word(bytes, 4), long(bytes, 16), long(bytes, 24)),
            Self::Two => (short(bytes, 0), word(bytes, 8), long(bytes, 16), long(bytes, 24)),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Operation codes of SCSI (SBC-4, table 25).
pub(crate) mod scsi {
    use crate::record::TraceOperation;

    pub(crate) const READ_10: u16 = 0x28;
    pub(crate) const WRITE_10: u16 = 0x2a;
    pub(crate) const UNMAP: u16 = 0x42;
    pub(crate) const SYNCHRONIZE_CACHE_10: u16 = 0x35;

    /// Returns the operation of a command, or `None` if the command does not change or read data.
    pub(crate) const fn operation(command: u16) -> Option<TraceOperation> {
        match command {
            // READ of 6, 10, 12 and 16 bytes.
            0x08 | READ_10 | 0xa8 | 0x88 => Some(TraceOperation::Read),
            // WRITE, WRITE AND VERIFY and WRITE SAME of 6 to 16 bytes.
            0x0a | WRITE_10 | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => {
                Some(TraceOperation::Write)
            }
            UNMAP => Some(TraceOperation::Trim),
            SYNCHRONIZE_CACHE_10 | 0x91 => Some(TraceOperation::Flush),
            _ => None,
        }
    }
}
