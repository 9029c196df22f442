//! The FIU IODedup traces, and those of XMU, which separate hashes by `-`:
//! `time_ns pid process lba_sectors size_sectors R\|W major minor hashes`.

use super::{Parsed, SECTOR_BYTES, check_end, device, sectors};
use crate::error::Malformed;
use crate::fields::{Words, hashes, whole, whole32};
use crate::record::{Names, Record, TraceOperation};

/// Bytes of data for each hash in the web and mail traces.
const PAGE_BYTES: u64 = 4096;

#[inline]
pub(crate) fn parse(
    line: &[u8],
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    let mut words = Words::new(line);
    record.time_ns =
        whole(words.field()).ok_or(Malformed::new("time", "a whole number of nanoseconds"))?;
    record.process =
        whole32(words.field()).ok_or(Malformed::new("process id", "a whole number"))?;
    record.command = names.command(words.field());
    record.offset_bytes = sectors(whole(words.field()), "block address")?;
    record.length_bytes = sectors(whole(words.field()), "size")?;
    record.operation = match words.field() {
        b"W" | b"w" => TraceOperation::Write,
        b"R" | b"r" => TraceOperation::Read,
        _ => return Err(Malformed::new("operation", "R or W")),
    };
    let (major, minor) = (words.field(), words.field());
    record.device = major_minor(major, minor, names)?;
    let text = words.field();
    hashes(text, &mut record.hashes)
        .ok_or(Malformed::new("hashes", "hexadecimal digits, 32 for each hash"))?;
    if !words.rest().is_empty() {
        return Err(Malformed::new("end of line", "nothing after the hashes"));
    }
    record.hash_bytes = hash_unit(record.length_bytes, record.hashes.len())
        .ok_or(Malformed::new("hashes", "one for every 4096 or every 512 bytes of the size"))?;
    check_end(record)
}

/// Joins both numbers into a device name like that of blkparse.
#[inline]
fn major_minor(major: &[u8], minor: &[u8], names: &mut Names) -> Result<u32, Malformed> {
    const MAX_DIGITS: usize = 20;
    let is_number = |text: &[u8]| (1..=MAX_DIGITS).contains(&text.len()) && whole(text).is_some();
    if !is_number(major) || !is_number(minor) {
        return Err(Malformed::new("device", "a major and a minor number"));
    }
    let mut name = [b','; 2 * MAX_DIGITS + 1];
    let end = major.len() + 1 + minor.len();
    name[..major.len()].copy_from_slice(major);
    name[major.len() + 1..end].copy_from_slice(minor);
    device(names, &name[..end])
}

/// Returns the bytes for each of `count` hashes over `length` bytes. The last stretch of 4096 bytes
/// may be shorter.
#[inline]
fn hash_unit(length: u64, count: usize) -> Option<u32> {
    let count = count as u64;
    if count == 0 || length == 0 {
        None
    } else if length.div_ceil(PAGE_BYTES) == count && length != SECTOR_BYTES {
        Some(PAGE_BYTES as u32)
    } else if length / SECTOR_BYTES == count {
        Some(SECTOR_BYTES as u32)
    } else {
        None
    }
}
