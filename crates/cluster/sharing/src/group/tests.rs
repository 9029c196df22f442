//! Tests of the values of groups.

use super::*;
use crate::recode_ledger_value;
use proptest::prelude::*;

/// The member whose groups they are. No other place has its number.
const OWN: MemberId = MemberId(0);

fn kinds() -> impl Strategy<Value = BlockState> {
    let place = || (1..=u32::MAX, 1..u32::MAX);
    let place = move || {
        place().prop_map(|(home, pbn)| {
            let place = (MemberId(home), Pbn::new(pbn.into()).unwrap());
            Elsewhere::of((OWN, Pbn::FIRST), place).unwrap()
        })
    };
    prop_oneof![
        Just(BlockState::Published),
        Just(BlockState::Lent),
        place().prop_map(BlockState::Borrowed),
        place().prop_map(BlockState::Restored),
        Just(BlockState::Alone),
    ]
}

/// The last group lacks its last block, and the first one its first.
fn numbers(blocks: u32) -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX / blocks), 0..u32::MAX / blocks]
}

proptest! {
    #[test]
    fn kinds_are_read_back_and_a_changed_byte_is_detected(
        number in numbers(KIND_BLOCKS),
        set in prop::collection::btree_map(0..KIND_BLOCKS, kinds(), 1..=KIND_BLOCKS as usize),
        place: prop::sample::Index, flip in 1..=255_u8,
    ) {
        let mut group = Kinds::new(number);
        for (at, kind) in set {
            Kinds::pbn(number, at).into_iter().for_each(|pbn| group.set(pbn, Some(kind)));
        }
        prop_assume!(group.iter().next().is_some());
        let key = Kinds::key(number);
        prop_assert_eq!(Kinds::number_of_key(&key), Some(number));
        let mut value = group.encode().unwrap();
        prop_assert_eq!(Kinds::decode(OWN, number, &value), Ok(group.clone()));
        prop_assert_eq!(recode_ledger_value(&key, &value), Ok(value.clone()));
        prop_assert!(Kinds::decode(OWN, number ^ 1, &value).is_err());
        let place = place.index(value.len());
        value[place] ^= flip;
        prop_assert!(Kinds::decode(OWN, number, &value).is_err());
    }

    #[test]
    fn fingerprints_are_read_back_and_a_changed_byte_is_detected(
        number in numbers(FINGERPRINT_BLOCKS),
        set in prop::collection::btree_map(0..FINGERPRINT_BLOCKS, 1_u128.., 1..=32_usize),
        place: prop::sample::Index, flip in 1..=255_u8,
    ) {
        let mut group = Fingerprints::new(number);
        for (at, hash) in set {
            let pbn = Fingerprints::pbn(number, at);
            pbn.into_iter().for_each(|pbn| group.set(pbn, Some(Fingerprint::of_hash(hash))));
        }
        prop_assume!(group.iter().next().is_some());
        let key = Fingerprints::key(number);
        prop_assert_eq!(Fingerprints::number_of_key(&key), Some(number));
        let mut value = group.encode().unwrap();
        prop_assert_eq!(Fingerprints::decode(number, &value), Ok(group.clone()));
        prop_assert_eq!(recode_ledger_value(&key, &value), Ok(value.clone()));
        let place = place.index(value.len());
        value[place] ^= flip;
        prop_assert!(Fingerprints::decode(number, &value).is_err());
    }

    /// The checksum is right, and the rest is anything.
    #[test]
    fn damaged_values_are_refused_without_a_panic(
        number in numbers(FINGERPRINT_BLOCKS), tag: u8,
        bytes in prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..700),
    ) {
        for key in [Kinds::key(number / 8), Fingerprints::key(number), Kinds::key(u32::MAX)] {
            let value = Writer::new(tag).bytes(&bytes).finish(&key);
            if let Ok(again) = recode_ledger_value(&key, &value) {
                prop_assert_eq!(again.len(), value.len());
            }
        }
    }
}

#[test]
fn a_group_of_published_blocks_takes_little() {
    let (mut kinds, mut fingerprints) = (Kinds::new(1), Fingerprints::new(1));
    assert_eq!((kinds.encode(), fingerprints.encode()), (None, None));
    for at in 0..KIND_BLOCKS {
        kinds.set(Kinds::pbn(1, at).unwrap(), Some(BlockState::Published));
    }
    for at in 0..FINGERPRINT_BLOCKS {
        let pbn = Fingerprints::pbn(1, at).unwrap();
        fingerprints.set(pbn, Some(Fingerprint::of_hash(7)));
    }
    assert_eq!(kinds.encode().unwrap().len(), 4 + 32 + 4);
    assert_eq!(fingerprints.encode().unwrap().len(), 4 + 4 + 32 * 16 + 4);
}

#[test]
fn a_block_with_two_kinds_and_a_kind_without_blocks_are_refused() {
    let key = Kinds::key(1);
    let value = |sets: &[[u8; SET_BYTES]]| {
        let writer = Writer::new(0b110).bytes(&sets.concat());
        Kinds::decode(OWN, 1, &writer.finish(&key))
    };
    let [mut one, none] = [[0; SET_BYTES]; 2];
    one[3] = 1;
    assert_eq!(value(&[one, one]), Err(REPEATED));
    assert_eq!(value(&[one, none]), Err("a kind has no block"));
    let zero = Writer::new(0).u32(1).bytes(&[7; 16]).finish(&Fingerprints::key(0));
    assert_eq!(Fingerprints::decode(0, &zero), Err(NO_BLOCK));
    for key in ["k.1", "k.+0000001", "k.0000000G", "00000001", "f.000000001", "k.000000A0"] {
        assert_eq!(Kinds::number_of_key(key), None, "{key}");
        assert_eq!(Fingerprints::number_of_key(key), None, "{key}");
    }
}

#[test]
fn a_block_is_never_borrowed_from_itself() {
    let (own, other) = ((MemberId(7), Pbn::FIRST), (MemberId(8), Pbn::FIRST));
    assert_eq!(Elsewhere::of(own, own), None);
    let mut group = Kinds::new(0);
    group.set(Pbn::FIRST, Elsewhere::of(other, own).map(BlockState::Borrowed));
    let value = group.encode().unwrap();
    assert_eq!(Kinds::decode(MemberId(8), 0, &value), Ok(group));
    assert_eq!(Kinds::decode(MemberId(7), 0, &value), Err("a block is borrowed from itself"));
}
