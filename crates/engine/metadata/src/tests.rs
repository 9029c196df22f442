//! Conformance of every backend: it gets the same random changes as a plain model. Checkpoints in
//! between succeed, fail, or are the state that the next process begins with.

mod estimate;
mod kept;
mod model;
mod pair;
mod reading;
mod sampled;
mod sharing;
mod stale;
mod writing;

use crate::error::MetadataError;
use crate::{BackendContext, CacheSize, Damage, LoadOptions, NewMetadata, load};
use gemelo_base::random::mix64;
use gemelo_format::{
    Birth, Change, Checksum, Compression, DedupMode, Fingerprint, FingerprintKind, Holds, Lbn,
    MapEntry, Origin, Pbn, Policy, Root, Superblock, VolumeId, VolumeLimits, VolumeRecord,
    WordForm,
};
use pair::Pair;

const DATA_BLOCKS: u64 = 200_000;
const VOLUME_BLOCKS: u64 = 1 << 33;
const NEW: NewMetadata =
    NewMetadata { data_blocks: DATA_BLOCKS, next_volume: 1, cache: CacheSize::Given(CACHE_BYTES) };
/// A small cache, so that pages are evicted and read again all the time.
const CACHE_BYTES: u64 = 64 << 10;

pub(crate) fn superblock() -> Superblock {
    let fingerprint = FingerprintKind::Blake3;
    Superblock {
        block_bytes: 512,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint,
        ring_pages: 8,
        header_copy: None,
        store: gemelo_format::StoreKind::Plain,
        words: WordForm::Narrow,
        unknown: gemelo_format::Features::NONE,
    }
}

/// The record of a volume named after its id.
pub(super) fn record(id: u32, size_bytes: u64) -> VolumeRecord {
    VolumeRecord {
        id: VolumeId(id),
        name: format!("v{id}"),
        size_bytes,
        mode: DedupMode::Inline,
        compression: Compression::Off,
        read_only: false,
        is_hidden: false,
        receiving: None,
        padding_bytes: 0,
        limits: VolumeLimits::default(),
        rollbacks: 0,
        holds: Holds::default(),
        birth: Birth { created_s: Some(1_700_000_000), origin: Origin::Empty },
    }
}

/// The place of a block, with a checksum that follows from its number.
fn stored(pbn: u64) -> MapEntry {
    MapEntry::Stored(Pbn::new(pbn).unwrap(), checksum_of(pbn))
}

/// A checksum that fits in words of either form.
fn checksum_of(pbn: u64) -> Checksum {
    Checksum(mix64(pbn) as u32 & WordForm::Wide.checksum_mask())
}

fn conform(kind: Policy) {
    (0..2).for_each(|seed| conform_to(Pair::new(kind, seed)));
}

fn conform_to(mut pair: Pair) {
    pair.create(1);
    pair.create(2);
    pair.backend.freeze();
    let root = pair.write();
    pair.reload(&root);
    for round in 0..8 {
        (0..3000).for_each(|_| pair.step(true));
        pair.move_blocks();
        pair.backend.freeze();
        let at_freeze = pair.model.clone();
        // The totals of the root are those at the instant of the freeze.
        let root = pair.write();
        (0..1500).for_each(|_| pair.step(true));
        if round > 3 {
            pair.move_blocks();
        }
        match round % 3 {
            0 => {
                pair.backend.abandon();
                pair.compare();
            }
            1 => {
                pair.backend.finish();
                pair.generation += 1;
                pair.compare();
            }
            // The next process begins with the frozen state.
            _ => {
                pair.model = at_freeze;
                pair.backend.finish();
                let pages = pair.backend.totals().pages;
                pair.reload(&root);
                assert_eq!(pair.backend.totals().pages, pages, "no slot is lost");
                pair.compare();
                pair.free_unused();
            }
        }
    }
}

gemelo_format::test_each_policy!(conforms_to_the_model, conform);

#[test]
fn compact_conforms_where_pbns_have_more_than_32_bits() {
    for (seed, first_pbn) in [(0, 5 << 32), (1, (1 << 32) - 3000)] {
        conform_to(Pair::wide(seed, first_pbn));
    }
}

/// An index in memory is computed while the metadata change. Parts of the reading come before,
/// during and after merges.
#[test]
fn an_index_that_catches_up_while_changes_go_on_has_every_block_once() {
    for seed in 0..2 {
        let mut pair = Pair::new(Policy::Compact, seed);
        pair.create(1);
        (0..30_000).for_each(|_| pair.step(false));
        pair.backend.freeze();
        let root = pair.write();
        pair.backend.finish();
        pair.reload(&root);
        pair.free_unused();
        let (mut parts, mut is_behind) = (0, true);
        while is_behind {
            for turn in 0..3 {
                (0..700).for_each(|_| pair.step(false));
                match turn {
                    0 => pair.backend.freeze(),
                    1 => drop(pair.write()),
                    _ => drop(pair.backend.finish()),
                }
                if (parts + turn + seed) % 2 == 0 {
                    is_behind = pair.backend.catch_up().unwrap();
                }
            }
            parts += 1;
        }
        assert!(parts > 3, "the index was complete after {parts} parts");
        pair.backend.freeze();
        pair.write();
        pair.backend.finish();
        assert_eq!(pair.backend.totals().index_entries, pair.live_fingerprints());
        pair.compare();
    }
}

/// A checkpoint that has a block free is given up, and then the block has the same content again.
/// The index is complete before, or becomes so while the checkpoint is written.
#[test]
fn an_index_has_a_block_that_a_checkpoint_without_it_was_given_up_for() {
    for kind in Policy::ALL {
        for (is_reloaded, is_merged) in [(false, true), (true, true), (true, false)] {
            let mut pair = Pair::new(kind, 1);
            pair.create(1);
            let (volume, lbn, pbn) = (VolumeId(1), Lbn(7), Pbn::new(5).unwrap());
            let (fingerprint, checksum) = (Fingerprint::of_hash(3 << 64 | 9), Checksum(1));
            let store = Change::Store { volume, lbn, pbn, fingerprint, checksum };
            pair.apply(&store);
            pair.backend.freeze();
            let root = pair.write();
            pair.backend.finish();
            if is_reloaded {
                pair.reload(&root);
            }
            pair.apply(&Change::Unmap { volume, first: lbn, count: 1 });
            let mut found = Vec::new();
            pair.backend.find(&[fingerprint], &mut found).unwrap();
            assert_eq!(found, [None], "{kind:?}");
            pair.backend.freeze();
            if is_merged {
                pair.write();
            }
            while pair.backend.catch_up().unwrap() {}
            pair.backend.abandon();
            pair.apply(&store);
            pair.backend.freeze();
            pair.write();
            pair.backend.finish();
            found.clear();
            pair.backend.find(&[fingerprint], &mut found).unwrap();
            let found = found[0].map(|known| known.pbn);
            assert_eq!(found, Some(pbn), "{kind:?} {is_reloaded} {is_merged}");
            assert_eq!(pair.backend.prove(10).unwrap(), Vec::<String>::new(), "{kind:?}");
        }
    }
}

#[test]
fn a_wide_pool_has_its_index_in_memory() {
    let mut pair = Pair::wide(1, 1);
    pair.backend.freeze();
    let root = pair.write();
    let home = BackendContext::new(pair.metadata(), &pair.superblock);
    let options = LoadOptions { cache: CacheSize::Given(CACHE_BYTES), salvages: false };
    for policy in Policy::ALL {
        let loaded = load(&home, &Root { policy, ..root.clone() }, options, &mut Damage::default());
        let why = loaded.err().map(|error| error.to_string());
        assert_eq!(why.is_none(), policy.has_words(WordForm::Wide));
        assert!(why.is_none_or(|why| why.contains("2^32 blocks") && why.contains(policy.name())));
    }
}

#[test]
fn what_does_not_fit_the_state_is_an_error() {
    for kind in Policy::ALL {
        let mut pair = Pair::new(kind, 1);
        pair.create(1);
        let (volume, missing, lbn) = (VolumeId(1), VolumeId(9), Lbn(0));
        let pbn = Pbn::new(DATA_BLOCKS).unwrap();
        let wrong = [
            Change::Share { volume, lbn, pbn, checksum: Checksum(1) },
            Change::Share {
                volume,
                lbn: Lbn(VOLUME_BLOCKS),
                pbn: Pbn::FIRST,
                checksum: Checksum(1),
            },
            Change::Remove { volume: missing },
            Change::Unmap { volume: missing, first: lbn, count: 1 },
            Change::Rename { volume: missing, name: "x".into() },
            Change::Clone {
                source: missing,
                volume: VolumeId(5),
                name: "x".into(),
                read_only: true,
                created_s: None,
            },
            Change::Create(record(volume.0, 512)),
            Change::Grow { data_blocks: WordForm::Narrow.end() + 1 },
        ];
        for change in wrong {
            let result = pair.backend.apply(std::slice::from_ref(&change), &mut Vec::new());
            assert!(matches!(result, Err(MetadataError::Damaged { .. })), "{kind:?}: {change:?}");
        }
        let mut places = Vec::new();
        assert!(pair.backend.look_up(missing, &[lbn], &mut places).is_err());
    }
}
