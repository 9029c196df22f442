//! Every change can be encoded and decoded.

use super::*;
use crate::limits::Holds;
use crate::volume::{Birth, Origin};
use proptest::prelude::*;
use std::collections::BTreeSet;
use twox_hash::XxHash3_64;

fn receive(name: &str, receiving: Option<Receiving>) -> Change {
    Change::Receive {
        volume: VolumeId(300),
        name: name.to_owned(),
        identity: SnapshotId { pool: [3; 16], volume: VolumeId(4), created_s: 1 << 33 },
        source: receiving.is_none().then_some(VolumeId(3)),
        created_s: receiving.is_none().then_some(1 << 32),
        receiving,
    }
}

fn one_of_each() -> Vec<Change> {
    let volume = VolumeId(300);
    let pbn = Pbn::new(70_000).unwrap();
    let name = String::from("a name");
    vec![
        Change::Store {
            volume,
            lbn: Lbn(1 << 36),
            pbn,
            fingerprint: Fingerprint::of_hash(5 << 90),
            checksum: Checksum(77),
        },
        Change::Share { volume, lbn: Lbn(0), pbn, checksum: Checksum(u32::MAX) },
        Change::Suspect { pbn, is_suspect: true },
        Change::Lose { volume, first: Lbn(3), count: 4 },
        Change::Unmap { volume, first: Lbn(7), count: 1 << 30 },
        Change::Create(VolumeRecord {
            id: volume,
            name: name.clone(),
            size_bytes: 1 << 50,
            mode: DedupMode::Inline,
            compression: Compression::Lz4,
            read_only: true,
            is_hidden: false,
            receiving: None,
            padding_bytes: 0,
            limits: VolumeLimits { burst_ms: Some(9), ..VolumeLimits::default() },
            rollbacks: 0,
            holds: Holds::of(["a", "b"]),
            birth: Birth { created_s: Some(1 << 31), origin: Origin::Empty },
        }),
        Change::Remove { volume },
        Change::Rename { volume, name: name.clone() },
        Change::Resize { volume, size_bytes: 512, padding_bytes: 511 },
        Change::Clone {
            source: VolumeId(1),
            volume,
            name: name.clone(),
            read_only: true,
            created_s: Some(1_700_000_000),
        },
        receive(&name, None),
        receive(&name, Some(Receiving { base: None, received_bytes: 1 << 20, seen_s: 1 << 32 })),
        Change::Hide { volume },
        Change::Rollback { volume, source: VolumeId(2), left: VolumeId(301) },
        Change::Hold { volume, tag: "backup".into(), is_held: true },
        Change::SetLimits {
            volume,
            limits: VolumeLimits {
                operations_per_s: Some(500),
                bytes_per_s: Some(1 << 27),
                burst_ms: Some(250),
                quota_bytes: Some(1 << 41),
                reserve_bytes: Some(1 << 30),
            },
        },
        Change::Shrink { volume, size_bytes: 1024, padding_bytes: 0 },
        Change::SetMode { volume, mode: DedupMode::Off },
        Change::SetCompression { volume, compression: Compression::Zstd(3) },
        Change::Grow { data_blocks: 9 },
        Change::Cut { data_blocks: 1 << 33 },
        Change::Move { from: pbn, to: Pbn::new(5).unwrap(), checksum: Checksum(7) },
        Change::Identify { pbn, fingerprint: Fingerprint::of_hash(6 << 80) },
        Change::JournalData { pbn, content: vec![7; 600] },
    ]
}

#[test]
fn every_change_comes_back_and_no_cut_one_does() {
    let mut payload = Vec::new();
    for change in one_of_each() {
        let mut one = Vec::new();
        change.encode(&mut one);
        for end in 1..one.len() {
            let cut = Change::decode_all(&one[..end], Pbn::new);
            assert_eq!(cut, Err(BadChange::Malformed), "{change:?} cut at {end}");
        }
        payload.extend(one);
    }
    assert_eq!(Change::decode_all(&payload, Pbn::new), Ok(one_of_each()));
}

/// Tag and digest of each change of [`one_of_each`]. Those of a release stay as they are.
const FROZEN: [&str; 24] = [
    "1 a5a4b30e5a90c313",
    "2 3431df6a3852b06e",
    "17 97e9abb1379a80c4",
    "18 1ffd659608b501a5",
    "3 5a2df27ccc33ebd6",
    "4 343c697dba19c001",
    "5 67ddeeec49f203a9",
    "6 ac0a1d23f09c2646",
    "7 1bef16ed2f20eea1",
    "8 31ddba4a5dc54cff",
    "21 246822d719e6b22c",
    "21 c63e708d852ffabb",
    "11 8fd10b6fa2237114",
    "22 73a50a4aae194440",
    "23 ea316a028381a448",
    "24 866996c2bf7f992d",
    "15 499410fa1f127d6b",
    "9 ea80971a828eb348",
    "20 958a1da0f8878c65",
    "10 3082cde0a4ae4416",
    "26 138a3ed10cc5b5f1",
    "25 7d7a20631b04dadb",
    "16 60401f17ca30ec78",
    "19 bfa250f11c57f805",
];

#[test]
fn the_bytes_of_each_change_stay() {
    let digest = |change: Change| {
        let mut one = Vec::new();
        change.encode(&mut one);
        format!("{} {:016x}", one[0], XxHash3_64::oneshot(&one))
    };
    let found: Vec<String> = one_of_each().into_iter().map(digest).collect();
    assert_eq!(found, FROZEN);
}

#[test]
fn a_change_of_a_later_program_is_named_and_no_known_one_is() {
    let known = one_of_each().into_iter().map(|change| {
        let mut one = Vec::new();
        change.encode(&mut one);
        one[0]
    });
    let known: BTreeSet<u8> = known.collect();
    for tag in 0..=u8::MAX {
        let mut payload = Vec::new();
        Change::Grow { data_blocks: 9 }.encode(&mut payload);
        payload.extend([tag, 1, 1]);
        let said = Change::decode_all(&payload, Pbn::new);
        assert_eq!(said == Err(BadChange::Unknown { tag }), !known.contains(&tag), "{tag}");
    }
}

#[test]
fn a_flag_is_zero_or_one() {
    let changes: [(&[u8], &[u8]); 3] =
        [(&[17, 7], &[]), (&[23, 3, 1, 0, b'a'], &[]), (&[8, 3, 4, 1, 0, b'a'], &[0])];
    for (head, tail) in changes {
        for flag in 0..4 {
            let said = Change::decode_all(&[head, &[flag], tail].concat(), Pbn::new);
            assert_eq!(said.is_ok(), flag < 2, "change {}, flag {flag}: {said:?}", head[0]);
        }
    }
}

#[test]
fn a_carried_content_takes_few_bytes_besides_its_own() {
    for bytes in [512, 4096, 1 << 20] {
        let mut encoded = Vec::new();
        let pbn = Pbn::new((1 << 36) - 1).unwrap();
        Change::encode_journal_data(pbn, &vec![1; bytes], &mut encoded);
        assert!(encoded.len() <= bytes + Change::JOURNAL_DATA_HEAD_BYTES);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
        let _ = Change::decode_all(&bytes, Pbn::new);
    }
}
