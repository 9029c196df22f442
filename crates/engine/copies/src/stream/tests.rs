//! Streams come back as they were written, and no other bytes are taken for one.

use super::*;
use crate::exchange::Asked;
use gemelo_format::{Compression, Fingerprint, SnapshotId, VolumeId};
use proptest::prelude::*;

const BLOCK: usize = 512;
/// Contents of two earlier blocks.
const EARLIER: [u8; 2 * BLOCK] = [9; 2 * BLOCK];

fn head(since: bool) -> Head {
    let identity = |created_s| SnapshotId { pool: [7; 16], volume: VolumeId(3), created_s };
    Head {
        block_bytes: BLOCK as u32,
        size_bytes: 100 * BLOCK as u64,
        padding_bytes: 7,
        identity: identity(5),
        source: since.then_some(VolumeId(2)),
        created_s: Some(5),
        name: "größer".to_owned(),
        since: since.then(|| identity(4)),
        is_compressed: true,
        is_exchange: since,
        has_compressed_frames: since,
    }
}

fn records(contents: &[u8]) -> Vec<Record<'_>> {
    vec![
        Record::Plain { first: 0, contents },
        Record::Zeros { first: 5, count: 9 },
        Record::Compressed {
            block: 14,
            algorithm: Compression::Lz4.algorithm(),
            bytes: &contents[..100],
        },
        Record::Compressed {
            block: 20,
            algorithm: Compression::Zstd(1).algorithm(),
            bytes: &contents[..1],
        },
        Record::Copies { first: 97, count: 3, from: 0 },
    ]
}

fn written(head: &Head, frames: &[Vec<Record<'_>>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = StreamWriter::begin(&mut out, head).unwrap();
    for frame in frames {
        frame.iter().for_each(|record| stream.add(record).unwrap());
        stream.write_records().unwrap();
    }
    stream.finish().unwrap();
    out
}

/// The head, and the records as texts.
fn read(mut bytes: &[u8]) -> Result<(Head, Vec<String>), StreamError> {
    let (head, mut stream) = StreamReader::begin(&mut bytes)?;
    let mut all = Vec::new();
    while let Some(frame) = stream.next_frame()? {
        match frame {
            Frame::Records(records) => {
                all.extend(records.iter().map(|record| format!("{record:?}")));
            }
            Frame::Ask(asked) => all.extend(asked.iter().map(|asked| format!("{asked:?}"))),
            Frame::Compressed(frame) => {
                let records = stream.decompress(&frame, &EARLIER)?;
                all.extend(records.iter().map(|record| format!("{record:?}")));
            }
        }
    }
    Ok((head, all))
}

fn sample() -> (Vec<u8>, Vec<u8>) {
    let contents: Vec<u8> = (0..4 * BLOCK).map(|at| at as u8).collect();
    let all = records(&contents);
    let frames: Vec<Vec<Record<'_>>> = all.chunks(2).map(<[_]>::to_vec).collect();
    let bytes = written(&head(true), &frames);
    (contents, bytes)
}

#[test]
fn a_stream_comes_back() {
    let (contents, bytes) = sample();
    let expected = records(&contents).iter().map(|record| format!("{record:?}")).collect();
    assert_eq!(read(&bytes).unwrap(), (head(true), expected));
    let empty = written(&head(false), &[]);
    assert_eq!(read(&empty).unwrap(), (head(false), Vec::new()));
}

#[test]
fn a_stream_that_is_cut_off_tells_where() {
    let (_, bytes) = sample();
    for end in 0..bytes.len() {
        match read(&bytes[..end]) {
            Err(StreamError::CutOff { at }) => assert_eq!(at, end as u64),
            Err(StreamError::NotAStream) if end < MAGIC.len() => {}
            other => panic!("cut at {end}: {other:?}"),
        }
    }
    let more = [&*bytes, &[0]].concat();
    let Err(StreamError::Damaged { from, .. }) = read(&more) else { panic!("more bytes") };
    assert_eq!(from, bytes.len() as u64);
}

#[test]
fn every_changed_byte_is_found_at_its_place() {
    let (_, bytes) = sample();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        match read(&changed) {
            Err(StreamError::Damaged { from, to, .. }) => {
                assert!((from..to).contains(&(at as u64)), "{at} is not in {from}..{to}");
            }
            // A length that grew.
            Err(StreamError::CutOff { .. } | StreamError::Unknown { .. }) => {}
            Err(StreamError::NotAStream) if at < MAGIC.len() => {}
            other => panic!("changed at {at}: {other:?}"),
        }
    }
}

#[test]
fn frames_in_another_order_or_twice_or_of_another_stream_are_found() {
    let contents: Vec<u8> = (0..4 * BLOCK).map(|at| at as u8).collect();
    let frame = |number: u64| vec![Record::Plain { first: number * 4, contents: &contents }];
    let whole = written(&head(false), &[frame(0), frame(1), frame(2)]);
    let start = written(&head(false), &[]).len() - end_bytes(&written(&head(false), &[]));
    let length = (whole.len() - start - end_bytes(&whole)) / 3;
    let part = |number: usize| &whole[start + number * length..start + (number + 1) * length];
    let (before, end) = (&whole[..start], &whole[start + 3 * length..]);
    for order in [vec![0, 2, 1], vec![0, 1, 1, 2], vec![0, 2], vec![1, 2], vec![0, 1, 2, 2]] {
        let parts: Vec<u8> = order.iter().flat_map(|number| part(*number)).copied().collect();
        let read = read(&[before, &parts, end].concat());
        assert!(matches!(read, Err(StreamError::Damaged { .. })), "{order:?}: {read:?}");
    }
    let other = written(&head(true), &[frame(0), frame(1), frame(2)]);
    let mixed = [&other[..other.len() - length - end.len()], part(2), end].concat();
    assert!(matches!(read(&mixed), Err(StreamError::Damaged { .. })));
}

/// A stream with one compressed frame.
fn compressed() -> (Vec<String>, Vec<u8>) {
    let contents: Vec<u8> = (0..4 * BLOCK).map(|at| at as u8).collect();
    let all = records(&contents);
    let mut out = Vec::new();
    let mut stream = StreamWriter::begin(&mut out, &head(true)).unwrap();
    all[..2].iter().for_each(|record| stream.add(record).unwrap());
    stream.write_compressed((vec![1..2, 99..100], &EARLIER), 3).unwrap();
    all[2..].iter().for_each(|record| stream.add(record).unwrap());
    stream.finish().unwrap();
    (all.iter().map(|record| format!("{record:?}")).collect(), out)
}

#[test]
fn compressed_frames_come_back_where_a_stream_may_have_them() {
    let (expected, bytes) = compressed();
    assert_eq!(read(&bytes).unwrap(), (head(true), expected));
    let start = written(&head(true), &[]).len() - end_bytes(&written(&head(true), &[]));
    let length = u32::from_le_bytes(bytes[start + 1..start + FRAME_HEAD_BYTES].try_into().unwrap());
    let frame = &bytes[start..start + FRAME_HEAD_BYTES + length as usize];
    let without = |since, has_compressed_frames| {
        let head = Head { has_compressed_frames, ..head(since) };
        let before = written(&head, &[]);
        let before = &before[..before.len() - end_bytes(&before)];
        let mut running = Running::default();
        running.add(before);
        running.add(frame);
        read(&[before, frame, &running.check()].concat()).unwrap_err().to_string()
    };
    assert!(without(true, false).ends_with("a frame is of an unknown kind"));
    let error = without(false, true);
    assert!(error.ends_with("a compressed frame makes no sense"), "no earlier snapshot: {error}");
}

/// Bytes of the last frame.
fn end_bytes(stream: &[u8]) -> usize {
    // Four sums of a byte each, and the hash.
    let length = FRAME_HEAD_BYTES + 4 + HASH_BYTES + CHECK_BYTES;
    assert_eq!(stream[stream.len() - length], END);
    length
}

#[test]
fn an_end_with_the_sums_or_the_hash_of_another_stream_is_refused() {
    let (_, bytes) = sample();
    let start = bytes.len() - end_bytes(&bytes);
    let end = &bytes[start..bytes.len() - CHECK_BYTES];
    let with = |at: usize, by: u8| {
        let mut end = end.to_vec();
        end[at] = end[at].wrapping_add(by);
        let mut running = Running::default();
        running.add(&bytes[..start]);
        running.add(&end);
        read(&[&bytes[..start], &end, &running.check()].concat())
    };
    assert!(with(FRAME_HEAD_BYTES, 0).is_ok());
    for at in FRAME_HEAD_BYTES..end.len() {
        let error = with(at, 1).unwrap_err().to_string();
        assert!(error.ends_with("the sums at its end are of another stream"), "{at}: {error}");
    }
}

#[test]
fn records_outside_of_the_snapshot_or_of_its_past_are_refused() {
    let at = || record::Position { next: 10, block_bytes: BLOCK as u32, blocks: 20 };
    let parsed = |bytes: &[u8]| {
        let mut bytes = bytes::Bytes::new(bytes);
        Record::from(&mut bytes, &mut at()).map(|record| format!("{record:?}"))
    };
    assert!(parsed(&[0, 0, 10]).is_some() && parsed(&[9, 4, 1, 18]).is_some());
    for wrong in [
        &[0, 0, 11][..],
        &[0, 0, 0],
        &[10, 0, 1],
        &[0, 4, 1, 10],
        &[0, 4, 5, 6],
        &[0, 5, 1],
        &[0, 2, 0],
        &[0, 1, 1, 7],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 1],
        &[],
    ] {
        assert_eq!(parsed(wrong), None, "{wrong:?}");
    }
    let long = [&[0, 3, 0x80, 4][..], &[1; BLOCK]].concat();
    assert_eq!(parsed(&long), None, "a compressed content is shorter than a block");
}

/// A stream with this description, which ends after its head.
fn headed(description: &[u8]) -> Vec<u8> {
    let mut running = Running::default();
    let length = (description.len() as u32).to_le_bytes();
    let out = [&MAGIC[..], &VERSION.to_le_bytes(), &length, description].concat();
    running.add(&out);
    [&out[..], &running.check()].concat()
}

#[test]
fn an_unknown_feature_is_refused_or_may_add_to_the_head() {
    let begun = |at: usize, more: &[u8]| {
        let mut description = [&head(true).encode()[..], more].concat();
        description[at] |= 1;
        StreamReader::begin(&mut &headed(&description)[..]).map(|(head, _)| head)
    };
    let (incompatible, read_compatible, compatible) = (5, 8, 23);
    assert_eq!(
        begun(incompatible, &[]).unwrap_err().to_string(),
        "the stream has the incompatible feature 40, which this version of gemelo does not know"
    );
    for place in [read_compatible, compatible] {
        assert_eq!(begun(place, &[]).unwrap(), head(true));
        assert_eq!(begun(place, &[1, 2]).unwrap(), head(true));
    }
    let lz4 = 0;
    assert_eq!(begun(lz4, &[]).unwrap(), head(true));
    let error = begun(lz4, &[1]).unwrap_err().to_string();
    assert!(error.ends_with("its head makes no sense"), "{error}");
}

#[test]
fn an_unknown_version_is_refused_and_a_sender_that_gives_up_is_heard() {
    let (_, mut bytes) = sample();
    bytes[MAGIC.len()] = 9;
    assert_eq!(
        read(&bytes).unwrap_err().to_string(),
        "the stream has version 9, which this version of gemelo does not know"
    );
    let mut out = Vec::new();
    StreamWriter::begin(&mut out, &head(false)).unwrap().give_up("the disk\nfails").unwrap();
    let error = read(&out).unwrap_err().to_string();
    assert_eq!(error, r"the sender gave up: the disk\nfails");
}

#[test]
fn questions_come_back_and_stay_within_the_snapshot_and_their_number() {
    let asked = |block| Asked { block, fingerprint: Fingerprint::from_bytes([9; 16]) };
    let made = |asked: &[Asked]| {
        let mut out = Vec::new();
        let mut stream = StreamWriter::begin(&mut out, &head(false)).unwrap();
        stream.ask(asked).unwrap();
        stream.finish().unwrap();
        out
    };
    let all: Vec<Asked> = [0, 5, 6, 99].map(asked).to_vec();
    let expected: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
    assert_eq!(read(&made(&all)).unwrap().1, expected);
    let (before, question) = (written(&head(false), &[]), [&[100][..], &[9; 16]].concat());
    let start = before.len() - end_bytes(&before);
    let mut running = Running::default();
    let frame = [&[ASK][..], &17u32.to_le_bytes(), &question].concat();
    running.add(&before[..start]);
    running.add(&frame);
    let bytes = [&before[..start], &frame, &running.check()].concat();
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.ends_with("questions that make no sense"), "beyond the end: {error}");
    let wide = Head { size_bytes: 4096 * BLOCK as u64, ..head(false) };
    let mut out = Vec::new();
    let mut stream = StreamWriter::begin(&mut out, &wide).unwrap();
    let many: Vec<Asked> = (0..=(ASKED_BYTES / BLOCK) as u64).map(asked).collect();
    stream.ask(&many).unwrap();
    let error = read(&out).unwrap_err().to_string();
    assert!(error.ends_with("questions that make no sense"), "too many: {error}");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, at: prop::sample::Index) {
        let _ = read(&bytes);
        let (_, mut stream) = sample();
        let at = at.index(stream.len());
        stream.splice(at..at, bytes);
        let _ = read(&stream);
    }
}
