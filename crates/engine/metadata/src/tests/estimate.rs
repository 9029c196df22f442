//! The estimated needs of a pool beside those of backends that were filled.

use super::pair::Pair;
use super::{DATA_BLOCKS, checksum_of};
use crate::{CacheSize, IndexSampling, Needs, PlannedPool, estimate};
use gemelo_base::random::{Random, mix64};
use gemelo_format::{COPIES, Change, Fingerprint, Lbn, PAGE_BYTES, Pbn, Policy, VolumeId};

const USED_BLOCKS: u64 = 180_000;
const VOLUME: VolumeId = VolumeId(1);
/// Holds all pages that the overwrites need, but not all pages.
const CACHE_BYTES: u64 = 4 << 20;
const OVERWRITES: u64 = 60;

fn store(lbn: u64, pbn: u64) -> Change {
    let bits = u128::from(mix64(pbn));
    Change::Store {
        volume: VOLUME,
        lbn: Lbn(lbn),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint: Fingerprint::of_hash(bits << 64 | bits),
        checksum: checksum_of(pbn),
    }
}

/// A backend with a volume of unique contents, just opened.
fn filled(backend: Policy) -> Pair {
    let mut pair = Pair::new(backend, 1);
    pair.create(VOLUME.0);
    let mut root = None;
    for first in (0..USED_BLOCKS).step_by(20_000) {
        for lbn in first..first + 20_000 {
            pair.apply(&store(lbn, lbn + 1));
        }
        pair.backend.freeze();
        root = Some(pair.write());
        pair.backend.finish();
        pair.generation += 1;
    }
    pair.reload_with(&root.unwrap(), CACHE_BYTES);
    pair
}

fn needs(backend: Policy, sampling: IndexSampling) -> Needs {
    let pool = PlannedPool {
        data_blocks: DATA_BLOCKS,
        used_blocks: USED_BLOCKS,
        mapped_blocks: USED_BLOCKS,
        cache: CacheSize::Given(CACHE_BYTES),
        sampling,
    };
    estimate(backend, &pool)
}

#[track_caller]
fn assert_near(what: &str, real: u64, estimated: u64) {
    let ratio = estimated as f64 / real as f64;
    assert!((0.95..1.4).contains(&ratio), "{what}: {estimated} is estimated, and {real} needed");
}

#[test]
fn a_filled_backend_needs_what_was_estimated() {
    for backend in Policy::ALL {
        let (pair, needs) = (filled(backend), needs(backend, IndexSampling::ALL));
        while pair.backend.catch_up().unwrap() {}
        let totals = pair.backend.totals();
        let disk_bytes = totals.pages * (PAGE_BYTES * COPIES) as u64;
        assert_near(&format!("{backend:?}: disk"), disk_bytes, needs.disk_bytes);
        assert!(totals.memory_bytes <= needs.memory_bytes, "{backend:?}: {totals:?}");
    }
}

#[test]
fn an_overwrite_reads_and_writes_as_many_pages_as_estimated() {
    for backend in [Policy::Dtb, Policy::Compact] {
        let (mut pair, mut random) = (filled(backend), Random::new(3));
        let needs = needs(backend, IndexSampling::ALL);
        let before = pair.backend.totals().cache.misses;
        for number in 0..OVERWRITES {
            let (lbn, pbn) = (random.below(USED_BLOCKS), USED_BLOCKS + 1 + number);
            let Change::Store { fingerprint, .. } = store(lbn, pbn) else { unreachable!() };
            let (mut places, mut found) = (Vec::new(), Vec::new());
            pair.backend.look_up(VOLUME, &[Lbn(lbn)], &mut places).unwrap();
            pair.backend.find(&[fingerprint], &mut found).unwrap();
            pair.backend.prefetch(VOLUME, &[Lbn(lbn)], &places).unwrap();
            pair.apply(&store(lbn, pbn));
        }
        pair.backend.freeze();
        let written = pair.backend.merge().unwrap()().unwrap();
        let read = pair.backend.totals().cache.misses - before;
        // Directories are few, and some overwrites have a page in common.
        for (pages, estimated) in
            [(read, needs.overwrite_page_reads), (written, needs.overwrite_page_writes)]
        {
            let each = pages as f64 / OVERWRITES as f64;
            let error = each - f64::from(estimated);
            assert!(error.abs() < 0.6, "{backend:?}: {each} pages, {estimated} estimated");
        }
    }
}
