//! The index of a sample: what it finds, what it misses, and that it never leads to another
//! content.

use super::pair::Pair;
use super::{checksum_of, conform_to};
use crate::IndexSampling;
use gemelo_base::random::{Random, mix64};
use gemelo_format::{Change, Fingerprint, Lbn, Pbn, Policy, VolumeId};

const BLOCKS: u64 = 60_000;
const RATE: u32 = 32;
/// Look-ups of a write.
const BATCH: u64 = 64;
/// Neighbours of some twenty groups of PBNs fit in a sixteenth of it.
const CACHE_BYTES: u64 = 4 << 20;

fn fingerprint_of(content: u64) -> Fingerprint {
    let bits = |salt| u128::from(mix64(content ^ salt));
    Fingerprint::of_hash(bits(0) << 64 | bits(1 << 60))
}

fn store(lbn: u64, pbn: u64, content: u64) -> Change {
    let (pbn, volume) = (Pbn::new(pbn).unwrap(), VolumeId(1));
    let checksum = checksum_of(pbn.number());
    Change::Store { volume, lbn: Lbn(lbn), pbn, fingerprint: fingerprint_of(content), checksum }
}

/// A backend with a sampled index that has each content at the PBN of its number, just opened.
fn filled() -> Pair {
    let mut pair = Pair::new(Policy::Compact, 1);
    pair.create(1);
    (0..BLOCKS).for_each(|lbn| drop(pair.apply(&store(lbn, lbn + 1, lbn + 1))));
    reopened(pair)
}

fn reopened(mut pair: Pair) -> Pair {
    pair.backend.freeze();
    let root = pair.write();
    pair.backend.finish();
    pair.generation += 1;
    pair.sampling = IndexSampling::one_in(RATE).unwrap();
    pair.reload_with(&root, CACHE_BYTES);
    while pair.backend.catch_up().unwrap() {}
    pair
}

/// Looks up contents, and returns the number of those that are found. Each has its own PBN.
fn find(pair: &Pair, contents: impl Iterator<Item = u64>) -> u64 {
    let contents: Vec<u64> = contents.collect();
    let wanted: Vec<Fingerprint> = contents.iter().map(|one| fingerprint_of(*one)).collect();
    let mut found = Vec::new();
    pair.backend.find(&wanted, &mut found).unwrap();
    assert_eq!(found.len(), wanted.len());
    for (content, known) in contents.iter().zip(&found) {
        assert!(known.is_none_or(|known| known.pbn.number() == *content), "{content}: {known:?}");
    }
    found.iter().flatten().count() as u64
}

fn find_in_order(pair: &Pair) -> u64 {
    let batch = |first: u64| find(pair, first..(first + BATCH).min(BLOCKS + 1));
    (1..=BLOCKS).step_by(BATCH as usize).map(batch).sum()
}

#[test]
fn contents_that_come_in_order_are_found_and_others_as_the_sample_has_them() {
    let pair = filled();
    let totals = pair.backend.totals();
    let expected = BLOCKS / u64::from(RATE);
    assert!((expected * 9 / 10..expected * 11 / 10).contains(&totals.index_entries), "{totals:?}");
    let found = find_in_order(&pair);
    assert!(found >= BLOCKS * 99 / 100, "{found} of {BLOCKS}");
    let mut random = Random::new(5);
    let looked_up = 20_000;
    let found: u64 =
        (0..looked_up).map(|_| find(&pair, [1 + random.below(BLOCKS)].into_iter())).sum();
    // A sixth of the contents lie in the groups that are remembered.
    assert!((looked_up / 64..looked_up / 3).contains(&found), "{found} of {looked_up}");
    assert_eq!(pair.backend.prove(9).unwrap(), Vec::<String>::new());
}

/// Blocks get other contents while their neighbours are remembered. What is gone is not found, and
/// what came is found in the delta, and after a checkpoint by its neighbours.
#[test]
fn a_remembered_neighbour_that_has_changed_is_not_found() {
    let mut pair = filled();
    assert!(find(&pair, 1..=512) > 500);
    (256..512).for_each(|pbn| drop(pair.apply(&store(pbn - 1, BLOCKS + pbn, BLOCKS + pbn))));
    assert_eq!(find(&pair, 256..512), 0, "they are freed");
    assert_eq!(find(&pair, BLOCKS + 256..BLOCKS + 512), 256);
    let pair = reopened(pair);
    assert_eq!(find(&pair, 256..512), 0);
    assert!(find(&pair, BLOCKS + 256..BLOCKS + 512) > 250);
    assert_eq!(pair.backend.prove(9).unwrap(), Vec::<String>::new());
}

/// A group that is remembered is read again when the index leads there from a content that it had
/// not.
#[test]
fn contents_that_came_to_a_remembered_group_later_are_found() {
    let mut pair = filled();
    assert!(find(&pair, 1..=512) > 500);
    for pbn in 256..512 {
        pair.apply(&Change::Unmap { volume: VolumeId(1), first: Lbn(pbn - 1), count: 1 });
        pair.apply(&store(pbn - 1, pbn, BLOCKS + pbn));
    }
    pair.backend.freeze();
    pair.write();
    pair.backend.finish();
    let wanted: Vec<Fingerprint> = (256..512).map(|pbn| fingerprint_of(BLOCKS + pbn)).collect();
    let mut found = Vec::new();
    pair.backend.find(&wanted, &mut found).unwrap();
    let right = (256..512)
        .zip(found)
        .filter(|(pbn, found)| found.map(|known| known.pbn) == Pbn::new(*pbn))
        .count();
    assert!(right > 250, "{right} are found");
}

#[test]
fn a_backend_with_a_sampled_index_conforms() {
    for (seed, rate) in [(0, 4), (1, 1024)] {
        let mut pair = Pair::new(Policy::Compact, seed);
        pair.sampling = IndexSampling::one_in(rate).unwrap();
        conform_to(pair);
    }
}
