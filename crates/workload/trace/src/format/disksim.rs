//! The ASCII traces of the simulators DiskSim and MQSim:
//! `arrival device sector sectors type`, where type is 0 for a write and 1 for a read.
//!
//! Both have the same columns. DiskSim gives the time in milliseconds with a fraction, and the type
//! as flags in hexadecimal digits whose lowest bit is set for a read (manual of DiskSim 4.0,
//! "The ASCII format"). MQSim gives a whole number whose unit is in the configuration and not in
//! the trace: nanoseconds, as in its examples, are assumed.

use super::{Parsed, check_end, device, sectors};
use crate::error::Malformed;
use crate::fields::{Words, milliseconds_as_ns, whole};
use crate::record::{Names, Record, TraceOperation};

/// The unit of time, by which the formats differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds with a fraction: DiskSim.
    Milliseconds,
    /// Whole nanoseconds: MQSim.
    Nanoseconds,
}

#[inline]
pub(crate) fn parse(
    unit: Unit,
    line: &[u8],
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    let mut words = Words::new(line);
    let time = words.field();
    record.time_ns = match unit {
        Unit::Milliseconds => milliseconds_as_ns(time)
            .ok_or(Malformed::new("time", "milliseconds with a fraction, such as 12.345"))?,
        Unit::Nanoseconds => {
            whole(time).ok_or(Malformed::new("time", "a whole number of nanoseconds"))?
        }
    };
    let number = words.field();
    whole(number).ok_or(Malformed::new("device", "a whole number"))?;
    record.offset_bytes = sectors(whole(words.field()), "sector")?;
    record.length_bytes = sectors(whole(words.field()), "sectors")?;
    record.operation = match (unit, words.field()) {
        (_, b"0") => TraceOperation::Write,
        (_, b"1") => TraceOperation::Read,
        (Unit::Milliseconds, flags) => of_flags(flags)?,
        _ => return Err(Malformed::new("type", "0 (write) or 1 (read)")),
    };
    if !words.rest().is_empty() {
        return Err(Malformed::new("end of line", "no further columns"));
    }
    record.device = device(names, number)?;
    check_end(record)
}

/// Flags of DiskSim; further ones say that a request is asynchronous or waited for.
fn of_flags(flags: &[u8]) -> Result<TraceOperation, Malformed> {
    let flags = std::str::from_utf8(flags).ok();
    let flags = flags.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match flags {
        Some(flags) if flags & 1 == 1 => Ok(TraceOperation::Read),
        Some(_) => Ok(TraceOperation::Write),
        None => Err(Malformed::new("flags", "hexadecimal digits: 0 writes and 1 reads")),
    }
}
