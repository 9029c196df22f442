//! Buckets, nodes and tables can be encoded and decoded.

use super::*;
use crate::limits::{Holds, VolumeLimits};
use crate::packed::Compression;
use crate::types::{DedupMode, VolumeId};
use crate::volume::{Birth, Origin, Receiving};
use proptest::prelude::*;

#[test]
fn buckets_are_split_one_after_another() {
    for buckets in 1..200 {
        for tag in 0..5000u32 {
            let (before, after) = (bucket_of(tag, buckets), bucket_of(tag, buckets + 1));
            assert!(before < buckets);
            assert!(after == before || after == buckets, "{tag} moved from {before} to {after}");
        }
    }
}

#[test]
fn a_node_comes_back() {
    let entries = [(3u64, 7u128), (1 << 37, 9)];
    let page = Node::page(Part::Map, 0, &entries);
    let node = Node::of(&page, Part::Map, 0).unwrap();
    assert_eq!(node.entries().collect::<Vec<_>>(), entries);
    assert_eq!([3, 4, u64::MAX].map(|key| node.keys_below(key)), [0, 1, 2]);
    assert!(Node::of(&page, Part::Map, 1).is_none());
    assert_eq!(bucket_entries(&bucket_page(&[1, 5])), Some(vec![1, 5]));
}

#[test]
fn a_table_comes_back_and_no_cut_one_does() {
    let root = Some(NodeRef { slot: Slot::new(9).unwrap(), checksum: 77 });
    let tree = Tree { root, height: 2 };
    let record = VolumeRecord {
        id: VolumeId(3),
        name: "größer".into(),
        size_bytes: 1 << 40,
        mode: DedupMode::Inline,
        compression: Compression::Off,
        read_only: true,
        is_hidden: true,
        padding_bytes: 0,
        receiving: Some(Receiving::default()),
        limits: VolumeLimits::default(),
        rollbacks: 0,
        holds: Holds::of(["a"]),
        birth: Birth { created_s: Some(1_700_000_000), origin: Origin::Imported },
    };
    let volume = StoreVolume {
        record,
        mapped: 1 << 33,
        stored: 1 << 32,
        follows: Some(VolumeId(7)),
        left: 1 << 31,
        map: tree,
    };
    let table =
        StoreTable { volumes: vec![volume], counts: tree, buckets: 3, ..StoreTable::default() };
    let stream = table.encode();
    assert_eq!(StoreTable::decode(&stream), Some(table));
    assert!((0..stream.len()).all(|end| StoreTable::decode(&stream[..end]).is_none()));
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
        let _ = StoreTable::decode(&bytes);
        let mut page = [0; PAGE_BYTES];
        page.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        let _ = bucket_entries(&page);
        for level in 0..3 {
            let node = Node::of(&page, Part::Fingerprints, level);
            let _ = node.map(|node| (node.keys_below(7), node.entries().count()));
        }
    }
}
