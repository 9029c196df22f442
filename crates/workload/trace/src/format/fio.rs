//! The iologs of fio. The first line tells the version. Version 2 has lines of `file action [offset
//! length]`; its action `wait` has microseconds in place of the offset. Version 3 has a time in
//! microseconds first, and no `wait`.

use super::{Parsed, check_end, device};
use crate::error::Malformed;
use crate::fields::{Words, whole};
use crate::record::{Names, Record, TraceOperation};

/// The first line of version 2.
pub(crate) const VERSION_2: &[u8] = b"fio version 2 iolog";
/// The first line of version 3.
pub(crate) const VERSION_3: &[u8] = b"fio version 3 iolog";

const MICROSECOND_NS: u64 = 1000;

/// Parses the lines of one file.
#[derive(Debug, Clone)]
pub(crate) struct Fio {
    header: &'static [u8],
    /// Sum of all waits so far (version 2).
    waited_ns: u64,
}

impl Fio {
    pub(crate) const fn new(header: &'static [u8]) -> Self {
        Self { header, waited_ns: 0 }
    }

    #[inline]
    pub(crate) fn parse(
        &mut self,
        line: &[u8],
        number: u64,
        names: &mut Names,
        record: &mut Record,
    ) -> Result<Parsed, Malformed> {
        if number == 1 {
            let is_header = line.trim_ascii() == self.header;
            return if is_header { Ok(Parsed::Nothing) } else { Err(NO_HEADER) };
        }
        let mut words = Words::new(line);
        record.time_ns = self.waited_ns;
        if self.header == VERSION_3 {
            record.time_ns = microseconds(words.field())?;
        }
        let (file, action) = (words.field(), words.field());
        record.operation = match action {
            b"read" => TraceOperation::Read,
            b"write" => TraceOperation::Write,
            b"trim" => TraceOperation::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => TraceOperation::Flush,
            b"add" | b"open" | b"close" => return Ok(Parsed::Nothing),
            b"wait" if self.header == VERSION_2 => {
                let wait_ns = microseconds(words.field())?;
                self.waited_ns = self.waited_ns.saturating_add(wait_ns);
                return Ok(Parsed::Nothing);
            }
            _ => {
                return Err(Malformed::new(
                    "action",
                    "read, write, trim, sync, datasync, add, open, close",
                ));
            }
        };
        record.device = device(names, file)?;
        if record.operation == TraceOperation::Flush {
            (record.offset_bytes, record.length_bytes) = (0, 0);
            return Ok(Parsed::Record);
        }
        record.offset_bytes =
            whole(words.field()).ok_or(Malformed::new("offset", "a whole number of bytes"))?;
        record.length_bytes =
            whole(words.field()).ok_or(Malformed::new("length", "a whole number of bytes"))?;
        check_end(record)
    }
}

const NO_HEADER: Malformed =
    Malformed::new("first line", "'fio version 2 iolog' or 'fio version 3 iolog'");

#[inline]
fn microseconds(text: &[u8]) -> Result<u64, Malformed> {
    whole(text)
        .and_then(|count| count.checked_mul(MICROSECOND_NS))
        .ok_or(Malformed::new("time", "a whole number of microseconds"))
}
