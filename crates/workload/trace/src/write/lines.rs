//! Writes one record as a line, or a binary record, of each format.

use super::digits::{push_hash, push_milliseconds, push_seconds, push_whole};
use super::{TraceWriter, WriteError};
use crate::format::{SECTOR_BYTES, VERSION_2, VERSION_3, scsi};
use crate::record::{Names, Record, TraceOperation};
use crate::trace_format::TraceFormat;
use std::io::Write;

/// The parts of a record that were written without loss.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fits {
    pub(super) process: bool,
    pub(super) device: bool,
    pub(super) time: bool,
    pub(super) place: bool,
}

impl Fits {
    const ALL: Self = Self { process: true, device: true, time: true, place: true };
}

/// Returns the first line of a file of the format.
pub(super) const fn header(format: TraceFormat) -> &'static [u8] {
    match format {
        TraceFormat::FioV2 => b"fio version 2 iolog\n",
        TraceFormat::FioV3 => b"fio version 3 iolog\n",
        TraceFormat::Systor => b"Timestamp,Response,IOType,LUN,Offset,Size\n",
        _ => b"",
    }
}

const _: () = assert!(VERSION_2.len() + 1 == header(TraceFormat::FioV2).len());
const _: () = assert!(VERSION_3.len() + 1 == header(TraceFormat::FioV3).len());

/// Returns whether the format has operations of this kind.
pub(super) const fn has_operation(format: TraceFormat, operation: TraceOperation) -> bool {
    match operation {
        TraceOperation::Read | TraceOperation::Write => true,
        TraceOperation::Trim | TraceOperation::Flush => matches!(
            format,
            TraceFormat::Blkparse
                | TraceFormat::FioV2
                | TraceFormat::FioV3
                | TraceFormat::CloudPhysics
                | TraceFormat::CloudPhysicsCsv
        ),
    }
}

/// Returns the first sector, the number of sectors, and whether the place consists of whole
/// sectors.
const fn sectors(record: &Record) -> (u64, u64, bool) {
    let first = record.offset_bytes / SECTOR_BYTES;
    let end = record.end_bytes().div_ceil(SECTOR_BYTES);
    let is_whole = record.offset_bytes.is_multiple_of(SECTOR_BYTES)
        && record.length_bytes.is_multiple_of(SECTOR_BYTES);
    (first, end - first, is_whole)
}

/// Splits a name of the form `major,minor`.
fn major_minor(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let comma = name.iter().position(|byte| *byte == b',')?;
    let (major, minor) = (name.get(..comma)?, name.get(comma + 1..)?);
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    (is_number(major) && is_number(minor)).then_some((major, minor))
}

/// Appends text with separators replaced.
fn push_word(out: &mut Vec<u8>, text: &[u8], is_separator: impl Fn(u8) -> bool) {
    if text.is_empty() {
        out.push(b'-');
    }
    out.extend(
        text.iter().map(|byte| if is_separator(*byte) || *byte < b' ' { b'_' } else { *byte }),
    );
}

impl<W: Write> TraceWriter<W> {
    /// Appends the record to the buffer.
    #[inline]
    pub(super) fn append(&mut self, record: &Record, names: &Names) -> Result<Fits, WriteError> {
        match self.format {
            TraceFormat::Fiu => self.fiu(record, names, None),
            TraceFormat::Xmu => self.fiu(record, names, Some(b'-')),
            TraceFormat::Blkparse => Ok(self.blkparse(record, names)),
            TraceFormat::FioV2 | TraceFormat::FioV3 => Ok(self.fio(record, names)),
            TraceFormat::Msr => Ok(self.msr(record, names)),
            TraceFormat::Alibaba
            | TraceFormat::Tencent
            | TraceFormat::Systor
            | TraceFormat::Spc => Ok(self.numbered(record, names)),
            TraceFormat::MqSim | TraceFormat::DiskSim => Ok(self.disksim(record, names)),
            TraceFormat::OracleGeneral => Err(WriteError::ReadOnly { format: self.format }),
            TraceFormat::CloudPhysics => self.vscsi(record),
            TraceFormat::CloudPhysicsCsv => Ok(self.cloud_physics(record)),
        }
    }

    fn fiu(
        &mut self,
        record: &Record,
        names: &Names,
        joint: Option<u8>,
    ) -> Result<Fits, WriteError> {
        let format = self.format;
        if record.hashes.is_empty() {
            return Err(WriteError::NoHashes { format });
        }
        if !matches!(record.hash_bytes, 512 | 4096) {
            return Err(WriteError::HashSize { format, hash_bytes: record.hash_bytes });
        }
        let (first, count, place) = sectors(record);
        let out = &mut self.buffer;
        push_whole(out, record.time_ns);
        out.push(b' ');
        push_whole(out, u64::from(record.process));
        out.push(b' ');
        push_word(out, names.command_name(record.command), |byte| byte == b' ');
        out.push(b' ');
        push_whole(out, first);
        out.push(b' ');
        push_whole(out, count);
        out.extend_from_slice(if record.operation == TraceOperation::Write {
            b" W "
        } else {
            b" R "
        });
        let device = push_major_minor(out, record, names, b' ');
        out.push(b' ');
        for (index, hash) in record.hashes.iter().enumerate() {
            if index > 0 {
                out.extend(joint);
            }
            push_hash(out, *hash);
        }
        out.push(b'\n');
        Ok(Fits { device, place, ..Fits::ALL })
    }

    fn blkparse(&mut self, record: &Record, names: &Names) -> Fits {
        let (first, count, place) = sectors(record);
        let out = &mut self.buffer;
        out.extend_from_slice(b"  ");
        let device = push_major_minor(out, record, names, b',');
        out.extend_from_slice(b"    0 ");
        push_whole(out, self.records + 1);
        out.push(b' ');
        push_seconds(out, record.time_ns);
        out.push(b' ');
        push_whole(out, u64::from(record.process));
        out.extend_from_slice(match record.operation {
            TraceOperation::Read => b"  Q   R ",
            TraceOperation::Write => b"  Q   W ",
            TraceOperation::Trim => b"  Q   D ",
            TraceOperation::Flush => b"  Q   F ",
        });
        if record.operation != TraceOperation::Flush {
            push_whole(out, first);
            out.extend_from_slice(b" + ");
            push_whole(out, count);
            out.push(b' ');
        }
        out.push(b'[');
        out.extend_from_slice(names.command_name(record.command));
        out.extend_from_slice(b"]\n");
        Fits { device, place, ..Fits::ALL }
    }

    fn fio(&mut self, record: &Record, names: &Names) -> Fits {
        const MICROSECOND_NS: u64 = 1000;
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        let time_us = record.time_ns.saturating_sub(first_ns) / MICROSECOND_NS;
        let waited_us = self.last_ns.saturating_sub(first_ns) / MICROSECOND_NS;
        let is_version_3 = self.format == TraceFormat::FioV3;
        let out = &mut self.buffer;
        let name = names.device_name(record.device);
        let begin = |out: &mut Vec<u8>| {
            if is_version_3 {
                push_whole(out, time_us);
                out.push(b' ');
            }
            push_word(out, name, |byte| byte.is_ascii_whitespace());
        };
        let index = record.device as usize;
        if self.opened.len() <= index {
            self.opened.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.opened[index], true) {
            for action in [&b" add\n"[..], b" open\n"] {
                begin(out);
                out.extend_from_slice(action);
            }
        }
        if !is_version_3 && time_us > waited_us {
            begin(out);
            out.extend_from_slice(b" wait ");
            push_whole(out, time_us - waited_us);
            out.extend_from_slice(b" 0\n");
        }
        self.last_ns = self.last_ns.max(record.time_ns);
        begin(out);
        out.extend_from_slice(match record.operation {
            TraceOperation::Read => b" read ",
            TraceOperation::Write => b" write ",
            TraceOperation::Trim => b" trim ",
            TraceOperation::Flush => b" sync ",
        });
        push_whole(out, record.offset_bytes);
        out.push(b' ');
        push_whole(out, record.length_bytes);
        out.push(b'\n');
        let time = record.time_ns.saturating_sub(first_ns).is_multiple_of(MICROSECOND_NS);
        Fits { process: false, time, ..Fits::ALL }
    }

    fn msr(&mut self, record: &Record, names: &Names) -> Fits {
        use crate::format::{FILETIME_NS, UNIX_IN_FILETIME};
        let name = names.device_name(record.device);
        let comma = name.iter().rposition(|byte| *byte == b',');
        let parts = comma.and_then(|comma| Some((name.get(..comma)?, name.get(comma + 1..)?)));
        let parts = parts.filter(|(host, disk)| {
            !host.is_empty() && !disk.is_empty() && disk.iter().all(u8::is_ascii_digit)
        });
        let (host, disk) = parts.unwrap_or((name, b"0"));
        let out = &mut self.buffer;
        push_whole(out, record.time_ns / FILETIME_NS + UNIX_IN_FILETIME);
        out.push(b',');
        push_word(out, host, |byte| byte == b',');
        out.push(b',');
        out.extend_from_slice(disk);
        out.extend_from_slice(if record.operation == TraceOperation::Write {
            b",Write,"
        } else {
            b",Read,"
        });
        push_whole(out, record.offset_bytes);
        out.push(b',');
        push_whole(out, record.length_bytes);
        out.extend_from_slice(b",0\n");
        let time = record.time_ns.is_multiple_of(FILETIME_NS);
        Fits { process: false, device: parts.is_some(), time, place: true }
    }

    /// Appends a record of a format whose device names are numbers.
    fn numbered(&mut self, record: &Record, names: &Names) -> Fits {
        const MICROSECOND_NS: u64 = 1000;
        const SECOND_NS: u64 = 1_000_000_000;
        let name = names.device_name(record.device);
        let device = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        let index = record.device.to_string();
        let name = if device { name } else { index.as_bytes() };
        let is_write = record.operation == TraceOperation::Write;
        let out = &mut self.buffer;
        let (mut time, mut place) = (true, true);
        match self.format {
            TraceFormat::Alibaba => {
                out.extend_from_slice(name);
                out.extend_from_slice(if is_write { b",W," } else { b",R," });
                push_whole(out, record.offset_bytes);
                out.push(b',');
                push_whole(out, record.length_bytes);
                out.push(b',');
                push_whole(out, record.time_ns / MICROSECOND_NS);
                time = record.time_ns.is_multiple_of(MICROSECOND_NS);
            }
            TraceFormat::Tencent => {
                let (first, count, is_whole) = sectors(record);
                push_whole(out, record.time_ns / SECOND_NS);
                out.push(b',');
                push_whole(out, first);
                out.push(b',');
                push_whole(out, count);
                out.extend_from_slice(if is_write { b",1," } else { b",0," });
                out.extend_from_slice(name);
                time = record.time_ns.is_multiple_of(SECOND_NS);
                place = is_whole;
            }
            TraceFormat::Spc => {
                out.extend_from_slice(name);
                out.push(b',');
                push_whole(out, record.offset_bytes / SECTOR_BYTES);
                out.push(b',');
                push_whole(out, record.length_bytes);
                out.extend_from_slice(if is_write { b",W," } else { b",R," });
                push_seconds(out, record.time_ns);
                place = record.offset_bytes.is_multiple_of(SECTOR_BYTES);
            }
            _ => {
                push_seconds(out, record.time_ns);
                out.extend_from_slice(if is_write {
                    b",0.000000000,W,"
                } else {
                    b",0.000000000,R,"
                });
                out.extend_from_slice(name);
                out.push(b',');
                push_whole(out, record.offset_bytes);
                out.push(b',');
                push_whole(out, record.length_bytes);
            }
        }
        out.push(b'\n');
        Fits { process: false, device, time, place }
    }

    /// Appends a record of a simulator.
    fn disksim(&mut self, record: &Record, names: &Names) -> Fits {
        let (first, count, place) = sectors(record);
        let name = names.device_name(record.device);
        let device = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        let out = &mut self.buffer;
        match self.format {
            TraceFormat::MqSim => push_whole(out, record.time_ns),
            _ => push_milliseconds(out, record.time_ns),
        }
        out.push(b' ');
        if device {
            out.extend_from_slice(name);
        } else {
            push_whole(out, u64::from(record.device));
        }
        for number in [first, count] {
            out.push(b' ');
            push_whole(out, number);
        }
        let is_write = record.operation == TraceOperation::Write;
        out.extend_from_slice(if is_write { b" 0\n" } else { b" 1\n" });
        Fits { process: false, device, time: true, place }
    }

    /// Appends a record of version 2 of the binary format.
    fn vscsi(&mut self, record: &Record) -> Result<Fits, WriteError> {
        const MICROSECOND_NS: u64 = 1000;
        const VERSION_2: u16 = 2 << 8;
        let (first, count, place) = sectors(record);
        let bytes = count * SECTOR_BYTES;
        let length = u32::try_from(bytes).map_err(|_| WriteError::Range {
            format: self.format,
            what: "a length in bytes",
            value: bytes,
        })?;
        self.serial = self.serial.wrapping_add(1);
        let out = &mut self.buffer;
        out.extend_from_slice(&command(record.operation).to_le_bytes());
        out.extend_from_slice(&VERSION_2.to_le_bytes());
        out.extend_from_slice(&self.serial.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&(record.time_ns / MICROSECOND_NS).to_le_bytes());
        out.extend_from_slice(&0u64.to_le_bytes());
        let time = record.time_ns.is_multiple_of(MICROSECOND_NS);
        Ok(Fits { process: false, device: record.device == 0, time, place })
    }

    fn cloud_physics(&mut self, record: &Record) -> Fits {
        let (first, count, place) = sectors(record);
        let out = &mut self.buffer;
        out.extend_from_slice(b"2,");
        push_seconds(out, record.time_ns);
        out.extend_from_slice(match record.operation {
            TraceOperation::Read => b",28,",
            TraceOperation::Write => b",2a,",
            TraceOperation::Trim => b",42,",
            TraceOperation::Flush => b",35,",
        });
        push_whole(out, count * SECTOR_BYTES);
        out.push(b',');
        push_whole(out, first);
        out.push(b'\n');
        Fits { process: false, device: record.device == 0, time: true, place }
    }
}

const fn command(operation: TraceOperation) -> u16 {
    match operation {
        TraceOperation::Read => scsi::READ_10,
        TraceOperation::Write => scsi::WRITE_10,
        TraceOperation::Trim => scsi::UNMAP,
        TraceOperation::Flush => scsi::SYNCHRONIZE_CACHE_10,
    }
}

/// Appends the device's two numbers, or 0 and its index if its name has none. Returns whether the
/// name had them.
fn push_major_minor(out: &mut Vec<u8>, record: &Record, names: &Names, between: u8) -> bool {
    if let Some((major, minor)) = major_minor(names.device_name(record.device)) {
        out.extend_from_slice(major);
        out.push(between);
        out.extend_from_slice(minor);
        return true;
    }
    out.push(b'0');
    out.push(between);
    push_whole(out, u64::from(record.device));
    false
}
