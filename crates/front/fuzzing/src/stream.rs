//! A fuzz target for streams of snapshots.
//!
//! A fuzzer does not guess checksums, so the input has the description of the head and the frames
//! without them, and they are made here. It is read as it is, too.

use gemelo_copies::Asked;
use gemelo_copies::stream::{Frame, Head, Record, StreamReader, StreamWriter};
use gemelo_format::{Fingerprint, SnapshotId, VolumeId};

const MAGIC: &[u8; 8] = b"GEMELOST";
/// Bytes of a checksum.
const CHECK_BYTES: usize = 8;
/// Bytes of the head before its description: the magic, the version and a length.
const HEAD_BYTES: usize = 16;
const BLOCK_BYTES: u32 = 512;
const BLOCKS: u64 = 64;

/// Reads a stream.
pub(crate) fn stream(bytes: &[u8]) {
    read(bytes);
    read(&forged(bytes));
}

fn read(mut bytes: &[u8]) {
    let Ok((head, mut stream)) = StreamReader::begin(&mut bytes) else { return };
    let mut next = 0;
    while let Ok(Some(frame)) = stream.next_frame() {
        let records = match frame {
            Frame::Records(records) => records,
            Frame::Ask(asked) => {
                assert!(asked.iter().all(|asked| asked.block < head.blocks()));
                continue;
            }
            Frame::Compressed(frame) => {
                let blocks = frame.earlier().iter().map(|run| run.end - run.start).sum::<u64>();
                assert!(frame.earlier().iter().all(|run| run.end <= head.blocks()));
                let contents = vec![5; blocks as usize * head.block_bytes as usize];
                match stream.decompress(&frame, &contents) {
                    Ok(records) => records,
                    Err(_) => return,
                }
            }
        };
        for record in records {
            let (first, count) = match record {
                Record::Zeros { first, count } => (first, count),
                Record::Copies { first, count, from } => {
                    assert!(from + count <= first, "a copy is of what came before");
                    (first, count)
                }
                Record::Plain { first, contents } => {
                    (first, contents.len() as u64 / u64::from(head.block_bytes))
                }
                Record::Compressed { block, bytes, .. } => {
                    assert!(bytes.len() < head.block_bytes as usize);
                    (block, 1)
                }
            };
            assert!(first >= next && count > 0 && first + count <= head.blocks());
            next = first + count;
        }
    }
}

/// A stream of the parts that the input has: each has a length of two bytes before it.
fn forged(input: &[u8]) -> Vec<u8> {
    let mut stream = MAGIC.to_vec();
    stream.extend_from_slice(&1u32.to_le_bytes());
    let mut rest = input;
    let mut is_head = true;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (part, after) = after.split_at(length);
        rest = after;
        if is_head {
            stream.extend_from_slice(&(part.len() as u32).to_le_bytes());
            stream.extend_from_slice(part);
        } else if let Some((kind, payload)) = part.split_first() {
            stream.push(*kind);
            stream.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            stream.extend_from_slice(payload);
        }
        is_head = false;
        let hash = blake3::hash(&stream);
        stream.extend(hash.as_bytes().iter().take(CHECK_BYTES));
    }
    stream
}

pub(crate) fn stream_seeds() -> Vec<Vec<u8>> {
    let identity = |created_s| SnapshotId { pool: [7; 16], volume: VolumeId(3), created_s };
    let contents = vec![5; 2 * BLOCK_BYTES as usize];
    let records = [
        Record::Plain { first: 0, contents: &contents },
        Record::Zeros { first: 5, count: 9 },
        Record::Compressed { block: 14, algorithm: 1, bytes: &[3; 40] },
        Record::Copies { first: 60, count: 2, from: 0 },
    ];
    let asked = Asked { block: 3, fingerprint: Fingerprint::from_bytes([9; 16]) };
    let of = |since| {
        let head = Head {
            block_bytes: BLOCK_BYTES,
            size_bytes: BLOCKS * u64::from(BLOCK_BYTES),
            padding_bytes: 7,
            identity: identity(5),
            source: Some(VolumeId(2)),
            created_s: Some(5),
            name: "a name".to_owned(),
            since,
            is_compressed: true,
            is_exchange: true,
            has_compressed_frames: true,
        };
        let mut out = Vec::new();
        let written = StreamWriter::begin(&mut out, &head).and_then(|mut stream| {
            stream.ask(&[asked])?;
            let (some, rest) = records.split_at(2);
            some.iter().try_for_each(|record| stream.add(record))?;
            let earlier: Vec<_> = since.iter().map(|_| 3..5).collect();
            let bytes = earlier.len() * contents.len();
            stream.write_compressed((earlier, contents.get(..bytes).unwrap_or_default()), 1)?;
            rest.iter().try_for_each(|record| stream.add(record))?;
            stream.finish()
        });
        assert!(written.is_ok(), "a vector takes all");
        out
    };
    let whole = of(None);
    vec![whole.clone(), of(Some(identity(4))), parts(&whole)]
}

/// The input from which a stream is forged.
fn parts(stream: &[u8]) -> Vec<u8> {
    let (mut input, mut rest) = (Vec::new(), stream.get(HEAD_BYTES - 4..).unwrap_or_default());
    let mut is_head = true;
    loop {
        let kind = if is_head { None } else { rest.split_first() };
        let (kind, after) = match kind {
            Some((kind, after)) => (Some(*kind), after),
            None if is_head => (None, rest),
            None => return input,
        };
        let Some((length, after)) = after.split_first_chunk::<4>() else { return input };
        let length = (u32::from_le_bytes(*length) as usize).min(after.len());
        let (payload, after) = after.split_at(length);
        let bytes = payload.len() + kind.iter().len();
        input.extend_from_slice(&u16::try_from(bytes).unwrap_or(u16::MAX).to_le_bytes());
        input.extend(kind);
        input.extend_from_slice(payload);
        rest = after.get(CHECK_BYTES..).unwrap_or_default();
        is_head = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_forged_as_it_was_written() {
        let seeds = stream_seeds();
        assert!(forged(&seeds[2]) == seeds[0]);
    }
}
