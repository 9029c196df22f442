//! The bytes of format version 1 stay as they are: pools of users have them, and programs that came
//! before read them. What is new is written with the bit of a feature, and gets a line here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gemelo_format::{
    Birth, COMMIT_HEADER_BYTES, CommitOrder, Compression, DedupMode, Features, FingerprintKind,
    FlushMark, FlushMarks, Holds, NewCommit, Node, NodeRef, Origin, Part, Pbn, Policy, PoolSeed,
    Receiving, Root, Slot, SnapshotId, StoreKind, StoreTable, StoreVolume, Superblock, Tree,
    VolumeId, VolumeLimits, VolumeRecord, WordForm, build_commit, data_header,
};
use twox_hash::XxHash3_64;

const FROZEN: [(&str, &str); 14] = [
    ("superblock", "0d5151a96a063e06"),
    ("packed superblock", "ddf6a2ee0fbc9373"),
    ("wide superblock", "7ceb464af0ec075b"),
    ("header of the data store", "70d25e5dce966d87"),
    ("root of the policy compact", "f32714c918ebc6a0"),
    ("root of the policy inram", "fd5eef1d11999fa5"),
    ("root of the policy dtb", "28b35c0596920a94"),
    ("root of the policy cbt", "e722f59e8d8f760c"),
    ("flush mark", "b693dc347b614ee2"),
    ("commit after its contents", "4b48604a253b470c"),
    ("commit beside its contents", "aecc5b97f9c7956f"),
    ("table", "f57904a9c168ae43"),
    ("node", "8361789acd11a5e7"),
    ("places", "83b7b76ea65b8bb7"),
];

fn superblock() -> Superblock {
    Superblock {
        block_bytes: 4096,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint: FingerprintKind::Blake3,
        ring_pages: 8,
        header_copy: Pbn::new(7),
        store: StoreKind::Plain,
        words: WordForm::Narrow,
        unknown: Features::NONE,
    }
}

fn link(number: u32) -> NodeRef {
    NodeRef { slot: Slot::new(number).unwrap(), checksum: 1 << 60 | u64::from(number) }
}

fn root(policy: Policy) -> Root {
    Root {
        generation: 3,
        next_commit: 4,
        journal_offset: 4096,
        policy,
        table: Some(link(5)),
        table_bytes: 6,
        data_blocks: 7,
        next_volume: 8,
        references: 9,
        physical: 10,
    }
}

fn record(id: u32, origin: Origin, receiving: Option<Receiving>) -> VolumeRecord {
    VolumeRecord {
        id: VolumeId(id),
        name: format!("volume {id}"),
        size_bytes: 1 << 30,
        padding_bytes: 11,
        mode: [DedupMode::Off, DedupMode::Inline, DedupMode::Offline][id as usize % 3],
        compression: [Compression::Off, Compression::Lz4, Compression::Zstd(9)][id as usize % 3],
        read_only: id.is_multiple_of(2),
        is_hidden: id == 3,
        receiving,
        limits: VolumeLimits {
            operations_per_s: Some(1),
            bytes_per_s: None,
            burst_ms: Some(300),
            quota_bytes: Some(1 << 40),
            reserve_bytes: Some(1 << 20),
        },
        rollbacks: 12,
        holds: Holds::of(["a", "hold"]),
        birth: Birth { created_s: (id != 1).then_some(1 << 31), origin },
    }
}

fn table() -> StoreTable {
    let identity = SnapshotId { pool: [3; 16], volume: VolumeId(4), created_s: 1 << 33 };
    let receiving = |base| Some(Receiving { base, received_bytes: 1 << 20, seen_s: 1 << 32 });
    let received = |source| Origin::Received { identity, source };
    let records = [
        record(1, Origin::Empty, None),
        record(2, Origin::Imported, None),
        record(3, Origin::Clone { volume: VolumeId(1), name: "volume 1".to_owned() }, None),
        record(4, received(Some(VolumeId(9))), None),
        record(5, received(None), receiving(None)),
        record(6, received(None), receiving(Some(identity))),
    ];
    let tree = |number: u32| Tree { root: Some(link(number)), height: number as u8 % 3 };
    let volume = |record: VolumeRecord| StoreVolume {
        mapped: 20,
        stored: 10,
        follows: (record.id.0 > 3).then_some(VolumeId(record.id.0 - 1)),
        left: 5,
        map: tree(record.id.0),
        record,
    };
    StoreTable {
        volumes: records.into_iter().map(volume).collect(),
        counts: tree(20),
        many: tree(21),
        fingerprints: Tree::default(),
        index: tree(22),
        buckets: 64,
        index_entries: 1 << 33,
    }
}

fn commit(order: CommitOrder, seed: PoolSeed) -> Vec<u8> {
    let mut bytes = vec![0; COMMIT_HEADER_BYTES];
    bytes.extend(b"changes");
    build_commit(&mut bytes, NewCommit { number: 5, generation: 3, order }, seed);
    bytes
}

/// The places of pages, which follow from the length of the journal.
fn places(superblock: &Superblock) -> Vec<u8> {
    let regions = superblock.regions();
    let slots = [1, 500, 1 << 20].map(|number| regions.slot(Slot::new(number).unwrap()));
    let heads = [Superblock::offsets(), Root::offsets(2), Root::offsets(3), FlushMarks::OFFSETS];
    let pages = slots.into_iter().chain(heads).flatten();
    pages.chain([regions.ring_bytes()]).flat_map(u64::to_le_bytes).collect()
}

#[test]
fn the_bytes_of_version_1_stay() {
    let plain = superblock();
    let packed = Superblock { store: StoreKind::Packed(Compression::Zstd(3)), ..superblock() };
    let wide = Superblock {
        words: WordForm::Wide,
        unknown: Features { read_compatible: 2, compatible: 4, ..Features::NONE },
        ..superblock()
    };
    let seed = PoolSeed::of(&plain);
    let mark = FlushMark { commit: 13, generation: 14 };
    let entries = [(1, 2), (3, u128::from(u64::MAX))];
    let mut found = vec![
        plain.encode().to_vec(),
        packed.encode().to_vec(),
        wide.encode().to_vec(),
        data_header(&plain).to_vec(),
    ];
    found.extend(Policy::ALL.map(|policy| root(policy).encode(&plain, seed).to_vec()));
    found.extend([
        mark.encode(&plain.pool_id, seed).to_vec(),
        commit(CommitOrder::AfterContents, seed),
        commit(CommitOrder::BesideContents, seed),
        table().encode(),
        Node::page(Part::Map, 0, &entries).to_vec(),
        places(&plain),
    ]);
    let digest = |bytes: &Vec<u8>| format!("{:016x}", XxHash3_64::oneshot(bytes));
    let found: Vec<String> = found.iter().map(digest).collect();
    let found: Vec<(&str, &str)> =
        FROZEN.iter().zip(&found).map(|((name, _), digest)| (*name, &**digest)).collect();
    assert_eq!(found, FROZEN);
}
