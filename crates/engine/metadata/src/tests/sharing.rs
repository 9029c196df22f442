//! Clones of the cached backends that share maps: random changes beside a model, and exact
//! accounting of what a clone costs.

use super::pair::Pair;
use super::{VOLUME_BLOCKS, checksum_of, record, stored};
use crate::Pressure;
use gemelo_base::random::{Random, mix64};
use gemelo_format::{Change, Fingerprint, Lbn, MapEntry, Pbn, Policy, Root, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const BLOCKS: u64 = 5000;
/// The most bytes of the table for a clone with a short name that is never written.
const CLONE_BYTES: u64 = 100;

/// Clones, removals and checkpoints of all outcomes come at any time, also within each other.
fn conform(kind: Policy, seed: u64) {
    let (mut pair, mut chance) = (Pair::new(kind, seed), Random::new(seed));
    pair.create(1);
    pair.create(2);
    let mut steps = |pair: &mut Pair, steps: u64| {
        for _ in 0..steps {
            if chance.below(60) == 0 { pair.change_volume() } else { pair.step(false) }
        }
    };
    for round in 0..12 {
        steps(&mut pair, 500);
        if (round + seed).is_multiple_of(5) {
            pair.move_blocks();
        }
        pair.backend.freeze();
        let at_freeze = pair.model.clone();
        let totals = pair.backend.totals();
        steps(&mut pair, 150);
        if (round + seed) % 5 == 1 {
            pair.move_blocks();
        }
        let root = Root { references: totals.references, ..pair.write() };
        let root = Root { physical: totals.physical, next_volume: totals.next_volume, ..root };
        steps(&mut pair, 150);
        match (round + seed) % 4 {
            0 => pair.backend.abandon(),
            1 | 2 => {
                pair.backend.finish();
                pair.generation += 1;
            }
            // The next process begins with the frozen state.
            _ => {
                pair.model = at_freeze;
                pair.backend.finish();
                pair.reload(&root);
                pair.compare();
                pair.free_unused();
            }
        }
        pair.compare();
        pair.compare_differences();
    }
    // No slot is lost: what is in use is what the next process finds.
    for _ in 0..2 {
        checkpoint(&mut pair);
    }
    let root = checkpoint(&mut pair);
    let pages = pair.backend.totals().pages;
    pair.reload(&root);
    assert_eq!(pair.backend.totals().pages, pages, "{kind:?} {seed}");
    pair.compare();
}

#[test]
fn table_shares_maps_as_the_model_does() {
    (0..4).for_each(|seed| conform(Policy::Dtb, seed));
}

#[test]
fn compact_shares_maps_as_the_model_does() {
    (4..8).for_each(|seed| conform(Policy::Compact, seed));
}

fn checkpoint(pair: &mut Pair) -> Root {
    pair.backend.freeze();
    let root = pair.write();
    pair.backend.finish();
    pair.generation += 1;
    root
}

fn store(volume: VolumeId, lbn: u64, pbn: u64) -> Change {
    let bits = u128::from(mix64(pbn));
    Change::Store {
        volume,
        lbn: Lbn(lbn),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint: Fingerprint::of_hash(bits << 64 | bits),
        checksum: checksum_of(pbn),
    }
}

fn clone_of(source: VolumeId, volume: u32) -> Change {
    Change::Clone {
        source,
        volume: VolumeId(volume),
        name: format!("clone-{volume}"),
        read_only: true,
        created_s: Some(1_700_000_000),
    }
}

/// A backend with a volume of 5000 blocks, of which a checkpoint was written.
fn filled(kind: Policy) -> (Pair, Root) {
    let mut pair = Pair::new(kind, 1);
    pair.apply(&Change::Create(record(VOLUME.0, VOLUME_BLOCKS * 512)));
    for lbn in 0..BLOCKS {
        pair.apply(&store(VOLUME, lbn, lbn + 1));
    }
    let root = checkpoint(&mut pair);
    (pair, root)
}

fn is_sound(pair: &Pair) {
    assert_eq!(pair.backend.prove(9).unwrap(), Vec::<String>::new());
}

fn place(pair: &Pair, volume: u32, lbn: u64) -> MapEntry {
    let mut places = Vec::new();
    pair.backend.look_up(VolumeId(volume), &[Lbn(lbn)], &mut places).unwrap();
    places[0]
}

#[test]
fn clones_that_are_never_written_cost_their_record() {
    for (kind, clones) in Policy::ALL.into_iter().flat_map(|kind| [(kind, 100), (kind, 10_000)]) {
        let (mut pair, before) = filled(kind);
        let (pages, memory) = (pair.backend.totals().pages, pair.backend.totals().memory_bytes);
        let pages_before = pages;
        (2..clones + 2).for_each(|volume| drop(pair.apply(&clone_of(VOLUME, volume))));
        assert!(pair.backend.totals().memory_bytes - memory < 4096, "one page has more parents");
        let root = checkpoint(&mut pair);
        let table_bytes = root.table_bytes - before.table_bytes;
        assert!(table_bytes <= u64::from(clones) * CLONE_BYTES, "{table_bytes} bytes");
        let table_pages = |root: &Root| root.table_bytes.div_ceil(4084);
        let added = pair.backend.totals().pages - pages;
        assert_eq!(added, table_pages(&root) - table_pages(&before), "{kind:?}");
        let pages = pair.backend.totals().pages;
        pair.reload(&root);
        let totals = pair.backend.totals();
        assert_eq!((totals.pages, totals.physical), (pages, BLOCKS));
        assert_eq!(totals.references, BLOCKS * u64::from(clones + 1));
        for volume in 2..clones + 2 {
            let remove = Change::Remove { volume: VolumeId(volume) };
            pair.backend.check_change(&remove).unwrap();
            assert!(pair.apply(&remove).is_empty());
        }
        is_sound(&pair);
        assert_eq!(pair.apply(&Change::Remove { volume: VOLUME }).len(), BLOCKS as usize);
        assert_eq!((pair.backend.totals().references, pair.backend.totals().physical), (0, 0));
        checkpoint(&mut pair);
        let root = checkpoint(&mut pair);
        pair.reload(&root);
        // Ten leaves of the map with the page above, and one of the counts, are gone.
        assert!(pair.backend.totals().pages <= pages_before - 12, "{kind:?}");
    }
}

#[test]
fn a_chain_of_snapshots_costs_what_differs() {
    const SNAPSHOTS: u32 = 1000;
    for kind in Policy::ALL {
        let (mut pair, _) = filled(kind);
        let pages = pair.backend.totals().pages;
        let mut words = Vec::new();
        for number in 0..SNAPSHOTS {
            pair.apply(&clone_of(VOLUME, number + 2));
            let lbn = u64::from(number) * 7 % BLOCKS;
            words.push((lbn, place(&pair, VOLUME.0, lbn)));
            pair.apply(&store(VOLUME, lbn, 5001 + u64::from(number)));
            if number % 100 == 50 {
                checkpoint(&mut pair);
            }
        }
        is_sound(&pair);
        checkpoint(&mut pair);
        let root = checkpoint(&mut pair);
        // A leaf and the node above it, and the pages of counts, fingerprints, index and table.
        let added = pair.backend.totals().pages - pages;
        assert!(added < u64::from(SNAPSHOTS) * 2 + 60, "{kind:?}: {added} pages");
        pair.reload(&root);
        is_sound(&pair);
        for (number, (lbn, right)) in (2..).zip(&words) {
            assert_eq!(place(&pair, number, *lbn), *right, "snapshot {number}");
        }
        for number in (2..SNAPSHOTS + 2).step_by(2) {
            pair.apply(&Change::Remove { volume: VolumeId(number) });
        }
        is_sound(&pair);
        for number in (3..SNAPSHOTS + 2).step_by(2).chain([VOLUME.0]) {
            pair.apply(&Change::Remove { volume: VolumeId(number) });
        }
        is_sound(&pair);
        assert_eq!((pair.backend.totals().references, pair.backend.totals().physical), (0, 0));
    }
}

/// Snapshots of a volume that is written ask for a checkpoint, and wait for it at last.
#[test]
fn the_layers_over_a_map_are_bounded() {
    for kind in Policy::ALL {
        let (mut pair, root) = filled(kind);
        pair.reload_with(&root, 64 << 20);
        let mut pressures = Vec::new();
        for number in 0..300 {
            pair.apply(&store(VOLUME, 0, 6000 + u64::from(number)));
            pair.apply(&clone_of(VOLUME, number + 2));
            pressures.push(pair.backend.pressure());
        }
        let first = |wanted| pressures.iter().position(|pressure| *pressure == wanted);
        assert_eq!(
            (first(Pressure::High), first(Pressure::Full)),
            (Some(15), Some(255)),
            "{kind:?}"
        );
        checkpoint(&mut pair);
        assert_eq!(pair.backend.pressure(), Pressure::Low, "{kind:?}");
        is_sound(&pair);
    }
}

#[test]
fn a_removal_gives_up_what_no_other_volume_has() {
    for kind in Policy::ALL {
        let (mut pair, _) = filled(kind);
        pair.apply(&clone_of(VOLUME, 2));
        pair.apply(&store(VOLUME, 700, 6000));
        pair.apply(&store(VOLUME, 1 << 30, 6001));
        checkpoint(&mut pair);
        let pieces = pair.remove_in_pieces(1);
        assert!(pieces <= 4, "{kind:?}: {pieces} pieces for two leaves");
        is_sound(&pair);
        let totals = pair.backend.totals();
        assert_eq!((totals.references, totals.physical), (BLOCKS, BLOCKS));
        assert_eq!(place(&pair, 2, 700), stored(701));
    }
}

/// A hold of the state's lock is bounded by the counts that change, and not by the leaves that are
/// compared.
#[test]
fn a_piece_of_a_removal_is_as_long_as_its_changes_are_few() {
    for kind in Policy::ALL {
        for step in [1, 512] {
            let (mut pair, _) = filled(kind);
            (2..4).for_each(|volume| drop(pair.apply(&clone_of(VOLUME, volume))));
            let middle = VolumeId(3);
            for lbn in (0..BLOCKS).step_by(step) {
                pair.apply(&share(middle, lbn, (lbn + 7) % BLOCKS + 1));
            }
            pair.hide(middle.0);
            let piece = pair.backend.next_piece(middle, Lbn(0), 1024).unwrap();
            match step {
                1 => assert!((512..=1024).contains(&piece.unwrap().end.0), "{kind:?}"),
                _ => assert_eq!(piece, None, "{kind:?}: the removal takes all leaves at once"),
            }
            pair.remove_in_pieces(middle.0);
            is_sound(&pair);
        }
    }
}

fn counts<const N: usize>(pair: &Pair, pbns: [u64; N]) -> [u32; N] {
    let mut counts = Vec::new();
    let pbns = pbns.map(|pbn| Pbn::new(pbn).unwrap());
    pair.backend.counts(&pbns, &mut counts).unwrap();
    counts.try_into().unwrap()
}

#[test]
fn equal_entries_of_neighbours_are_one_reference() {
    for kind in Policy::ALL {
        let (mut pair, _) = filled(kind);
        // The order is 2, 3, 4, 5, 1.
        (2..6).for_each(|volume| drop(pair.apply(&clone_of(VOLUME, volume))));
        assert_eq!(counts(&pair, [1, 2, 513]), [1, 1, 1]);
        assert!(pair.backend.is_in_shared_part(VOLUME, Lbn(0)));
        pair.apply(&store(VolumeId(3), 0, 6000));
        assert_eq!(counts(&pair, [1, 2, 513, 6000]), [2, 1, 1, 1], "volume 2, and 4 to 1");
        assert!(!pair.backend.is_in_shared_part(VolumeId(3), Lbn(0)));
        assert!(!pair.backend.is_in_shared_part(VolumeId(2), Lbn(0)));
        assert!(pair.backend.is_in_shared_part(VolumeId(3), Lbn(1)), "only one LBN differs");
        // An end of a run adds no reference, and a run that ends takes none that goes on.
        assert!(pair.apply(&store(VOLUME, 0, 6001)).is_empty());
        assert_eq!(counts(&pair, [1, 2, 6001]), [2, 1, 1]);
        assert_eq!(pair.apply(&share(VolumeId(3), 0, 1)), [6000], "both runs are one again");
        assert_eq!(counts(&pair, [1]), [1]);
        is_sound(&pair);
        let unmap = Change::Unmap { volume: VolumeId(4), first: Lbn(0), count: 512 };
        pair.backend.check_change(&unmap).unwrap();
        assert!(pair.apply(&unmap).is_empty());
        assert_eq!(counts(&pair, [1, 2, 513]), [2, 2, 1], "on both sides of volume 4");
        for volume in [1, 2, 4] {
            pair.apply(&Change::Remove { volume: VolumeId(volume) });
        }
        assert_eq!(counts(&pair, [1, 2, 513]), [1, 1, 1]);
        assert!(pair.apply(&store(VolumeId(5), 0, 6002)).is_empty());
        assert_eq!(pair.apply(&store(VolumeId(3), 0, 6003)), [1], "its last reference goes");
        is_sound(&pair);
    }
}

fn share(volume: VolumeId, lbn: u64, pbn: u64) -> Change {
    let (lbn, pbn_) = (Lbn(lbn), Pbn::new(pbn).unwrap());
    Change::Share { volume, lbn, pbn: pbn_, checksum: checksum_of(pbn) }
}

/// Volumes leave their family piece by piece, while others change, and after openings in between.
#[test]
fn a_family_changes_while_a_volume_leaves_it() {
    for (kind, seed) in Policy::ALL.into_iter().zip([1, 2]) {
        let (mut pair, mut chance) = (Pair::new(kind, seed), Random::new(seed));
        pair.create(1);
        (0..1000).for_each(|_| pair.step(false));
        for round in 0..3 {
            for _ in 0..200 {
                if chance.below(20) == 0 { pair.change_volume() } else { pair.step(false) }
            }
            let leaving: Vec<u32> = (0..2).map(|_| pair.hide_any()).collect();
            let mut next = vec![Some(Lbn(0)); leaving.len()];
            while next.iter().any(Option::is_some) {
                for (id, next) in leaving.iter().zip(&mut next) {
                    *next = next.and_then(|from| pair.unmap_piece(*id, from, 2048));
                    (0..30).for_each(|_| pair.step(false));
                    if chance.below(8) == 0 {
                        pair.change_volume();
                    }
                }
                if let (Some(Some(first)), 0) = (next.first().copied(), chance.below(4)) {
                    // A piece that ends within a leaf.
                    let volume = VolumeId(leaving[0]);
                    pair.apply(&Change::Unmap { volume, first, count: 700 });
                    next[0] = Some(Lbn(first.0 + 700));
                    is_sound(&pair);
                }
                if chance.below(4) == 0 {
                    pair.backend.freeze();
                    let totals = pair.backend.totals();
                    let root = Root { references: totals.references, ..pair.write() };
                    pair.backend.finish();
                    pair.generation += 1;
                    pair.reload(&root);
                    is_sound(&pair);
                    // The removal begins again, or is one change.
                    next = vec![Some(Lbn(0)).filter(|_| round > 0); leaving.len()];
                }
            }
            for id in leaving {
                pair.apply(&Change::Remove { volume: VolumeId(id) });
            }
            pair.compare();
        }
    }
}

/// The first changes of the leaves of a scattered volume after a snapshot read no counts but those
/// of the blocks that lose a reference.
#[test]
fn a_change_after_a_snapshot_reads_the_counts_of_its_own_blocks() {
    for kind in Policy::ALL {
        let mut pair = Pair::new(kind, 1);
        pair.apply(&Change::Create(record(VOLUME.0, VOLUME_BLOCKS * 512)));
        // The blocks of one leaf have their counts in as many pages.
        let pbn = |lbn: u64| lbn % 150 * 1024 + lbn / 150 + 1;
        (0..BLOCKS).for_each(|lbn| drop(pair.apply(&store(VOLUME, lbn, pbn(lbn)))));
        checkpoint(&mut pair);
        pair.apply(&clone_of(VOLUME, 2));
        let root = checkpoint(&mut pair);
        pair.reload_with(&root, 64 << 20);
        let misses = |pair: &Pair| pair.backend.totals().cache.misses;
        while pair.backend.catch_up().unwrap() {}
        let (before, memory) = (misses(&pair), pair.backend.totals().memory_bytes);
        for leaf in 0..9 {
            assert!(pair.apply(&store(VOLUME, leaf * 512, 1000 + leaf)).is_empty());
        }
        // The pages above the leaves, and nine leaves. The snapshot has every old block.
        assert!(misses(&pair) - before <= 12, "{kind:?}: {}", misses(&pair) - before);
        let added = pair.backend.totals().memory_bytes - memory;
        assert!(added < 20 * 4096, "{kind:?}: {added} bytes");
        is_sound(&pair);
    }
}
