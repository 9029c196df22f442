//! Frames whose records are compressed together, by Zstandard, against what the receiver has.
//!
//! A changed block is often nearly what it was: a page of a database, the end of a log, a table of
//! inodes. So before it compresses a frame, the sender gives Zstandard the contents that the
//! earlier snapshot has at the same places, as if they came just before the records. What is equal
//! costs a reference of a few bytes then. The receiver, which has the earlier snapshot, gives the
//! same contents to the decompressor.
//!
//! The frame names the earlier blocks, so how a sender chooses them is not a part of the format.
//! The checksum of the stream covers the compressed bytes alone: that the records come out as they
//! went in, although the earlier contents are read on two machines, a second checksum proves.

use super::bytes::{Bytes, put_varint};
use super::{CHECK_BYTES, MAX_PAYLOAD_BYTES};
use std::io;
use std::ops::Range;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, ErrorCode, compress_bound, get_error_name};

/// Most bytes of the earlier contents of a frame: a payload has no more contents.
const EARLIER_BYTES: usize = MAX_PAYLOAD_BYTES;
/// The logarithm of the distance in bytes over which contents are found again: records and earlier
/// contents lie within it.
const WINDOW_LOG: u32 = 22;

/// Records that are compressed.
#[derive(Debug)]
pub struct CompressedFrame {
    /// Blocks of the earlier snapshot, in order, with whose contents they were compressed.
    earlier: Vec<Range<u64>>,
    /// Length of the records.
    length: usize,
    check: [u8; CHECK_BYTES],
    /// A frame of Zstandard.
    bytes: Vec<u8>,
}

fn check_of(records: &[u8]) -> [u8; CHECK_BYTES] {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(records).as_bytes();
    [a, b, c, d, e, f, g, h]
}

impl CompressedFrame {
    /// Compresses records against the contents of these earlier blocks.
    pub(super) fn of(
        records: &[u8],
        (earlier, contents): (Vec<Range<u64>>, &[u8]),
        level: u8,
    ) -> io::Result<Self> {
        let failed = |code: ErrorCode| io::Error::other(get_error_name(code));
        // In one piece, because a stream of Zstandard would take a window of memory beside it.
        let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let level = CParameter::CompressionLevel(level.into());
        context.set_parameter(level).map_err(failed)?;
        context.set_parameter(CParameter::WindowLog(WINDOW_LOG)).map_err(failed)?;
        context.ref_prefix(contents).map_err(failed)?;
        let mut bytes = Vec::with_capacity(compress_bound(records.len()));
        context.compress2(&mut bytes, records).map_err(failed)?;
        Ok(Self { earlier, length: records.len(), check: check_of(records), bytes })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 64);
        put_varint(&mut out, self.length as u64);
        out.extend_from_slice(&self.check);
        put_varint(&mut out, self.earlier.len() as u64);
        let mut next = 0;
        for Range { start, end } in &self.earlier {
            put_varint(&mut out, start - next);
            put_varint(&mut out, end - start);
            next = *end;
        }
        out.extend_from_slice(&self.bytes);
        out
    }

    /// Reads a payload. Returns [`None`] if it is malformed, or names too many earlier blocks or
    /// one from `blocks` on.
    pub(super) fn decode(payload: &[u8], block_bytes: u32, blocks: u64) -> Option<Self> {
        let mut payload = Bytes::new(payload);
        let length = payload.varint().and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| (1..=MAX_PAYLOAD_BYTES).contains(length))?;
        let check = payload.array()?;
        let most = (EARLIER_BYTES as u64 / u64::from(block_bytes)).max(1);
        let (mut earlier, mut next, mut count) = (Vec::new(), 0_u64, 0_u64);
        for _ in 0..payload.varint().filter(|runs| *runs <= most)? {
            let start = next.checked_add(payload.varint()?)?;
            let run = payload.varint().filter(|run| (1..=most).contains(run))?;
            next = start.checked_add(run).filter(|end| *end <= blocks)?;
            count += run;
            earlier.push(start..next);
        }
        let bytes = payload.rest().to_vec();
        (count <= most).then_some(Self { earlier, length, check, bytes })
    }

    /// Blocks of the earlier snapshot, in order, whose contents [`StreamReader::decompress`] needs.
    ///
    /// [`StreamReader::decompress`]: super::StreamReader::decompress
    #[must_use]
    pub fn earlier(&self) -> &[Range<u64>] {
        &self.earlier
    }

    /// Returns the records; [`None`] if these are not the contents with which they were compressed,
    /// or if the frame is malformed.
    pub(super) fn decompress(&self, contents: &[u8]) -> Option<Vec<u8>> {
        let mut context = DCtx::try_create()?;
        context.ref_prefix(contents).ok()?;
        let mut records = Vec::with_capacity(self.length);
        context.decompress(&mut records, &self.bytes).ok()?;
        let is_as_sent = records.len() == self.length && check_of(&records) == self.check;
        is_as_sent.then_some(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    const BLOCK: usize = 512;

    /// Random contents, and the same with some bytes changed in each block.
    fn contents() -> (Vec<u8>, Vec<u8>) {
        let mut random = Random::new(3);
        let before: Vec<u8> = (0..64 * BLOCK).map(|_| random.next_u64() as u8).collect();
        let mut after = before.clone();
        after.iter_mut().step_by(BLOCK).for_each(|byte| *byte ^= 1);
        (before, after)
    }

    fn run(blocks: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(blocks).collect()
    }

    fn decoded(frame: &CompressedFrame, blocks: u64) -> Option<CompressedFrame> {
        CompressedFrame::decode(&frame.encode(), BLOCK as u32, blocks)
    }

    #[test]
    fn what_is_nearly_as_it_was_takes_few_bytes_and_comes_back() {
        let (before, after) = contents();
        let earlier = vec![3..40, 99..126];
        let alone = CompressedFrame::of(&after, (Vec::new(), &[]), 3).unwrap();
        assert_eq!(decoded(&alone, 0).unwrap().decompress(&[]).unwrap(), after);
        for level in [1, 3, 6] {
            let frame = CompressedFrame::of(&after, (earlier.clone(), &before), level).unwrap();
            assert!(frame.encode().len() < after.len() / 20, "level {level}");
            let read = decoded(&frame, 126).unwrap();
            assert_eq!(read.earlier(), earlier);
            assert_eq!(read.decompress(&before).unwrap(), after);
        }
        assert!(alone.encode().len() > after.len());
    }

    #[test]
    fn records_do_not_come_out_of_other_earlier_contents() {
        let (before, after) = contents();
        let frame = CompressedFrame::of(&after, (run(0..64), &before), 3).unwrap();
        for at in (0..before.len()).step_by(97) {
            let mut other = before.clone();
            other[at] ^= 4;
            let records = frame.decompress(&other);
            assert!(records.is_none_or(|records| records == after), "byte {at}");
        }
        assert!(frame.decompress(&[]).is_none());
        assert!(frame.decompress(&before[BLOCK..]).is_none());
    }

    #[test]
    fn a_dictionary_of_zstandard_among_earlier_contents_is_none() {
        let (mut before, after) = contents();
        before[..4].copy_from_slice(&0xec30_a437_u32.to_le_bytes());
        let frame = CompressedFrame::of(&after, (run(0..64), &before), 3).unwrap();
        assert_eq!(frame.decompress(&before).unwrap(), after);
    }

    #[test]
    fn lengths_and_blocks_out_of_bounds_are_refused() {
        let (before, after) = contents();
        let frame = |earlier| CompressedFrame::of(&after, (earlier, &before), 1).unwrap();
        let most = EARLIER_BYTES as u64 / BLOCK as u64;
        assert!(decoded(&frame(run(0..64)), 64).is_some());
        assert!(decoded(&frame(run(0..64)), 63).is_none(), "behind the end");
        assert!(decoded(&frame(run(0..most)), most).is_some());
        assert!(decoded(&frame(vec![0..most - 1, most..most + 2]), u64::MAX).is_none());
        let with_length = |length| CompressedFrame { length, ..frame(Vec::new()) };
        assert!(decoded(&with_length(0), 64).is_none());
        assert!(decoded(&with_length(MAX_PAYLOAD_BYTES + 1), 64).is_none());
        for length in [after.len() - 1, after.len() + 1] {
            assert!(decoded(&with_length(length), 64).unwrap().decompress(&before).is_none());
        }
        let bytes = frame(Vec::new()).bytes;
        let more = CompressedFrame { bytes: [&*bytes, &[0]].concat(), ..frame(Vec::new()) };
        assert!(more.decompress(&before).is_none(), "bytes behind the frame");
        let encoded = frame(run(0..64)).encode();
        for end in 0..12 {
            assert!(CompressedFrame::decode(&encoded[..end], BLOCK as u32, 64).is_none());
        }
    }
}
