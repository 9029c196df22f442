//! The format oracleGeneral of libCacheSim, in which many block traces are distributed: records of
//! 24 bytes, little-endian, without padding.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | time in seconds |
//! | 4..12 | id of the object: of a block trace, its sector |
//! | 12..16 | size in bytes |
//! | 16..24 | number of the request that accesses the object next, or -1 |
//!
//! The format is made for simulators of caches, so it does not say whether a request reads or
//! writes. All are taken as reads.

use super::{Parsed, check_end, device, sectors};
use crate::error::Malformed;
use crate::record::{Names, Record, TraceOperation};

/// Name of the only device in such a trace.
const DEVICE: &[u8] = b"disk";
pub(crate) const RECORD_BYTES: usize = 24;
/// The next access of a record that has none.
const NO_NEXT_ACCESS: i64 = -1;
const SECOND_NS: u64 = 1_000_000_000;
/// Number of first records used to recognise the format.
const SAMPLED_RECORDS: usize = 64;
/// Most bytes of a request of a trace that is recognised.
const MAX_SAMPLED_BYTES: u32 = 1 << 30;

/// Whether a file has this format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oracle {
    is_recognised: bool,
}

impl Oracle {
    /// Looks at the start of a file. Times must not go back, and each next access must be that of a
    /// later request; other binary files do not satisfy this by chance.
    pub(crate) fn new(head: &[u8]) -> Self {
        let mut earlier_s = 0;
        let fits = |(index, record): (usize, &[u8])| {
            let (time_s, _, size, next) = fields(record);
            let is_later = next == NO_NEXT_ACCESS
                || next == i64::MAX
                || usize::try_from(next).is_ok_and(|next| next > index);
            let is_ordered = time_s >= earlier_s;
            earlier_s = time_s;
            is_later && is_ordered && (1..=MAX_SAMPLED_BYTES).contains(&size)
        };
        let mut records =
            head.chunks_exact(RECORD_BYTES).take(SAMPLED_RECORDS).enumerate().peekable();
        let is_text = head.iter().take(RECORD_BYTES).all(|byte| byte.is_ascii() && *byte > 0);
        let is_recognised = !is_text && records.peek().is_some() && records.all(fits);
        Self { is_recognised }
    }

    pub(crate) const fn is_recognised(&self) -> bool {
        self.is_recognised
    }
}

#[inline]
pub(crate) fn parse(
    bytes: &[u8],
    names: &mut Names,
    record: &mut Record,
) -> Result<Parsed, Malformed> {
    if bytes.len() != RECORD_BYTES {
        return Err(Malformed::new("record", "24 bytes: the file was cut short"));
    }
    let (time_s, object, size, _) = fields(bytes);
    record.time_ns = u64::from(time_s) * SECOND_NS;
    record.offset_bytes = sectors(Some(object), "object").map_err(|_| HASHED)?;
    record.length_bytes = u64::from(size);
    record.operation = TraceOperation::Read;
    record.device = device(names, DEVICE)?;
    check_end(record)
}

const HASHED: Malformed =
    Malformed::new("object", "a sector, below 2^55: a trace whose ids are hashes has no places");

/// Returns seconds, object, bytes and next access.
fn fields(bytes: &[u8]) -> (u32, u64, u32, i64) {
    fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
    }
    (
        u32::from_le_bytes(part(bytes, 0)),
        u64::from_le_bytes(part(bytes, 4)),
        u32::from_le_bytes(part(bytes, 12)),
        i64::from_le_bytes(part(bytes, 16)),
    )
}
