//! Traces with comma-separated columns: MSR Cambridge, Alibaba, Tencent, SYSTOR '17, SPC, and
//! CloudPhysics as text.

use super::{Parsed, check_end, device, scsi, sectors};
use crate::error::Malformed;
use crate::fields::{Commas, seconds_as_ns, whole};
use crate::record::{Names, Record, TraceOperation};
use crate::trace_format::TraceFormat;

#[inline]
pub(crate) fn parse(
    format: TraceFormat,
    line: &[u8],
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    let mut fields = Commas::new(line);
    let parsed = match format {
        TraceFormat::Msr => msr(&mut fields, names, record),
        TraceFormat::Alibaba => alibaba(&mut fields, names, record),
        TraceFormat::Tencent => tencent(&mut fields, names, record),
        TraceFormat::Systor => systor(&mut fields, names, record),
        TraceFormat::Spc => return spc(&mut fields, names, record),
        _ => cloud_physics(&mut fields, names, record),
    }?;
    if !fields.is_at_end() {
        return Err(Malformed::new("end of line", "no further columns"));
    }
    check_end(record)?;
    Ok(parsed)
}

/// Takes a required field.
#[inline]
fn take<'a>(fields: &mut Commas<'a>) -> Result<&'a [u8], Malformed> {
    fields.field().ok_or(Malformed::new("columns", "another column"))
}

#[inline]
fn bytes(text: &[u8], field: &'static str) -> Result<u64, Malformed> {
    whole(text).ok_or(Malformed::new(field, "a whole number of bytes"))
}

/// The time 1970-01-01 in units of 100 ns since 1601-01-01.
pub(crate) const UNIX_IN_FILETIME: u64 = 116_444_736_000_000_000;
/// Nanoseconds in a unit of Windows file time.
pub(crate) const FILETIME_NS: u64 = 100;

/// Parses `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; the device is
/// `Hostname,DiskNumber`.
#[inline]
fn msr(
    fields: &mut Commas<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    record.time_ns = whole(take(fields)?)
        .and_then(|time| time.checked_sub(UNIX_IN_FILETIME))
        .and_then(|time| time.checked_mul(FILETIME_NS))
        .ok_or(Malformed::new("time", "Windows file time, in units of 100 ns since 1601"))?;
    let (host, disk) = (take(fields)?, take(fields)?);
    record.device = host_and_disk(host, disk, names)?;
    record.operation = match take(fields)? {
        b"Read" | b"read" | b"R" => TraceOperation::Read,
        b"Write" | b"write" | b"W" => TraceOperation::Write,
        _ => return Err(Malformed::new("type", "Read or Write")),
    };
    record.offset_bytes = bytes(take(fields)?, "offset")?;
    record.length_bytes = bytes(take(fields)?, "size")?;
    whole(take(fields)?).ok_or(Malformed::new("response time", "a whole number"))?;
    Ok(Parsed::Record)
}

#[inline]
fn host_and_disk(host: &[u8], disk: &[u8], names: &mut Names) -> Result<u32, Malformed> {
    const MAX_BYTES: usize = 256;
    let mut name = [b','; MAX_BYTES];
    let end = host.len() + 1 + disk.len();
    if host.is_empty() || whole(disk).is_none() || end > MAX_BYTES {
        return Err(Malformed::new("device", "a host name and the number of a disk"));
    }
    name[..host.len()].copy_from_slice(host);
    name[host.len() + 1..end].copy_from_slice(disk);
    device(names, &name[..end])
}

/// Parses `device_id,opcode,offset,length,timestamp` in bytes and microseconds.
#[inline]
fn alibaba(
    fields: &mut Commas<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    const MICROSECOND_NS: u64 = 1000;
    let number = take(fields)?;
    whole(number).ok_or(Malformed::new("device", "a whole number"))?;
    record.operation = match take(fields)? {
        b"R" => TraceOperation::Read,
        b"W" => TraceOperation::Write,
        _ => return Err(Malformed::new("opcode", "R or W")),
    };
    record.offset_bytes = bytes(take(fields)?, "offset")?;
    record.length_bytes = bytes(take(fields)?, "length")?;
    record.time_ns = whole(take(fields)?)
        .and_then(|time| time.checked_mul(MICROSECOND_NS))
        .ok_or(Malformed::new("time", "a whole number of microseconds"))?;
    record.device = device(names, number)?;
    Ok(Parsed::Record)
}

/// Parses `Timestamp,Offset,Size,IOType,VolumeID` in seconds and sectors of 512 bytes.
#[inline]
fn tencent(
    fields: &mut Commas<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    record.time_ns = seconds_as_ns(take(fields)?).ok_or(Malformed::new("time", "seconds"))?;
    record.offset_bytes = sectors(whole(take(fields)?), "offset")?;
    record.length_bytes = sectors(whole(take(fields)?), "size")?;
    record.operation = match take(fields)? {
        b"0" => TraceOperation::Read,
        b"1" => TraceOperation::Write,
        _ => return Err(Malformed::new("I/O type", "0 (read) or 1 (write)")),
    };
    let volume = take(fields)?;
    whole(volume).ok_or(Malformed::new("volume", "a whole number"))?;
    record.device = device(names, volume)?;
    Ok(Parsed::Record)
}

/// Parses `Timestamp,Response,IOType,LUN,Offset,Size` in seconds and bytes. The type is empty if no
/// response was recorded.
#[inline]
fn systor(
    fields: &mut Commas<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    record.time_ns = seconds_as_ns(take(fields)?).ok_or(Malformed::new("time", "seconds"))?;
    let response = take(fields)?;
    if !response.is_empty() && seconds_as_ns(response).is_none() {
        return Err(Malformed::new("response time", "seconds, or nothing"));
    }
    let parsed = match take(fields)? {
        b"R" => {
            record.operation = TraceOperation::Read;
            Parsed::Record
        }
        b"W" => {
            record.operation = TraceOperation::Write;
            Parsed::Record
        }
        b"" => Parsed::Unknown,
        _ => return Err(Malformed::new("I/O type", "R, W or nothing")),
    };
    record.device = device(names, take(fields)?)?;
    record.offset_bytes = bytes(take(fields)?, "offset")?;
    record.length_bytes = bytes(take(fields)?, "size")?;
    Ok(parsed)
}

/// Parses `ASU,LBA,Size,Opcode,Timestamp` in blocks of 512 bytes, bytes and seconds. The
/// specification permits further columns, and white space in all.
#[inline]
fn spc(
    fields: &mut Commas<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    let unit = take(fields)?;
    whole(unit).ok_or(Malformed::new("ASU", "the whole number of a storage unit"))?;
    record.offset_bytes = sectors(whole(take(fields)?), "LBA")?;
    record.length_bytes = bytes(take(fields)?, "size")?;
    record.operation = match take(fields)? {
        b"R" | b"r" => TraceOperation::Read,
        b"W" | b"w" => TraceOperation::Write,
        _ => return Err(Malformed::new("opcode", "R or W")),
    };
    record.time_ns = seconds_as_ns(take(fields)?).ok_or(Malformed::new("time", "seconds"))?;
    record.device = device(names, unit)?;
    check_end(record)
}

/// Parses `version,seconds,SCSI command,bytes,sector`. The command is in hexadecimal digits.
#[inline]
fn cloud_physics(
    fields: &mut Commas<'_>,
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    if !matches!(take(fields)?, b"1" | b"2") {
        return Err(Malformed::new("version", "1 or 2"));
    }
    record.time_ns = seconds_as_ns(take(fields)?).ok_or(Malformed::new("time", "seconds"))?;
    let command = std::str::from_utf8(take(fields)?).ok();
    let command = command.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let command =
        command.ok_or(Malformed::new("SCSI command", "hexadecimal digits, such as 2a"))?;
    record.length_bytes = bytes(take(fields)?, "size")?;
    record.offset_bytes = sectors(whole(take(fields)?), "sector")?;
    record.device = device(names, super::vscsi::DEVICE)?;
    let Some(operation) = scsi::operation(command) else { return Ok(Parsed::Nothing) };
    record.operation = operation;
    if operation == TraceOperation::Flush {
        (record.offset_bytes, record.length_bytes) = (0, 0);
    }
    Ok(Parsed::Record)
}
