//! A checkpoint is a picture of one instant, and what is loaded from it is what was frozen.

mod sharing;

use super::LogBackend;
use crate::tests::record;
use crate::{
    BackendContext, Checkpoint, Damage, LoadOptions, LocalPages, Map, MetadataBackend, NewMetadata,
    PageWrites, Repair, Sealed, SlotSpace, Totals,
};
use gemelo_disk::{Disk, FileDisk};
use gemelo_format::{
    BackendKind, Change, Checksum, Fingerprint, FingerprintKind, Lbn, MapEntry, Pbn, Root,
    Superblock, VolumeId,
};
use std::sync::Arc;

const VOLUME: VolumeId = VolumeId(1);

fn superblock() -> Superblock {
    Superblock {
        header_copy: None,
        store: gemelo_format::StoreKind::Plain,
        words: gemelo_format::WordForm::Narrow,
        block_bytes: 512,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint: FingerprintKind::Blake3,
        ring_pages: 8,
    }
}

fn new_backend(data_blocks: u64) -> LogBackend {
    let new = NewMetadata { data_blocks, next_volume: 1, cache_bytes: 0 };
    LogBackend::new(&superblock(), &SlotSpace::default(), new, false)
}

fn backend() -> LogBackend {
    let mut backend = new_backend(10_000);
    let create = Change::Create(record(VOLUME.0, 512 * 5000));
    backend.apply(&[create], &mut Vec::new()).unwrap();
    backend
}

fn store(lbn: u64, pbn: u64) -> Change {
    let fingerprint = Fingerprint::of_hash(u128::from(pbn) << 64 | u128::from(pbn));
    Change::Store {
        volume: VOLUME,
        lbn: Lbn(lbn),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint,
        checksum: Checksum(pbn as u32),
    }
}

fn place(backend: &LogBackend, lbn: u64) -> MapEntry {
    let mut places = Vec::new();
    backend.look_up(VOLUME, &[Lbn(lbn)], &mut places).unwrap();
    places[0]
}

fn stored(pbn: u64) -> MapEntry {
    MapEntry::Stored(Pbn::new(pbn).unwrap(), Checksum(pbn as u32))
}

/// Writes the gathered pages and the table.
fn write_checkpoint(backend: &mut LogBackend, disk: &FileDisk) -> Sealed {
    let mut writes = PageWrites::new();
    while backend.gather(1, &mut writes).unwrap() {}
    let table = backend.seal(&mut writes).unwrap();
    for (slot, page) in writes {
        for offset in superblock().regions().slot(slot) {
            disk.write_at(offset, page.as_slice()).unwrap();
        }
    }
    table
}

fn load(disk: &Arc<FileDisk>, sealed: Sealed, totals: Totals) -> LogBackend {
    let Sealed { table, table_bytes } = sealed;
    let root = Root {
        backend: BackendKind::Log,
        generation: 1,
        next_commit: 1,
        journal_offset: 0,
        table,
        table_bytes,
        data_blocks: totals.data_blocks,
        next_volume: totals.next_volume,
        references: totals.references,
        physical: totals.physical,
    };
    let superblock = superblock();
    let mut damage = Damage::default();
    let home = BackendContext::new(Arc::clone(disk) as Arc<dyn Disk>, &superblock);
    let options = LoadOptions { cache_bytes: 0, salvages: false };
    let mut backend = LogBackend::load(&home, &root, false, options, &mut damage).unwrap();
    backend.settle().unwrap();
    assert_eq!((damage.lost, damage.harmless), (Vec::new(), Vec::new()));
    backend
}

fn disk() -> (tempfile::TempDir, Arc<FileDisk>) {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::create(&directory.path().join("metadata")).unwrap();
    (directory, Arc::new(disk))
}

#[test]
fn changes_after_the_freeze_are_not_in_the_checkpoint() {
    let (_directory, disk) = disk();
    let mut backend = backend();
    let mut freed = Vec::new();
    backend.apply(&[store(0, 1), store(4000, 2), store(1, 3)], &mut freed).unwrap();
    let frozen = backend.totals();
    backend.freeze();
    backend.apply(&[store(0, 4), store(2000, 5)], &mut freed).unwrap();
    let unmap = Change::Unmap { volume: VOLUME, first: Lbn(4000), count: 1 };
    backend.apply(&[unmap], &mut freed).unwrap();
    let table = write_checkpoint(&mut backend, &disk);
    backend.finish();
    let loaded = load(&disk, table, frozen);
    let places = [0, 1, 2000, 4000].map(|lbn| place(&loaded, lbn));
    assert_eq!(places, [stored(1), stored(3), MapEntry::Unmapped, stored(2)]);
    let totals = loaded.totals();
    assert_eq!((totals.references, totals.physical, totals.index_entries), (3, 3, 3));
    assert_eq!(loaded.prove(9).unwrap(), Vec::<String>::new());

    backend.freeze();
    let table = write_checkpoint(&mut backend, &disk);
    backend.finish();
    let loaded = load(&disk, table, backend.totals());
    let places = [0, 1, 2000, 4000].map(|lbn| place(&loaded, lbn));
    assert_eq!(places, [stored(4), stored(3), stored(5), MapEntry::Unmapped]);
}

#[test]
fn an_abandoned_checkpoint_is_written_again() {
    let (_directory, disk) = disk();
    let mut backend = backend();
    let mut freed = Vec::new();
    backend.apply(&[store(0, 1), store(2000, 2)], &mut freed).unwrap();
    backend.freeze();
    assert!(backend.gather(1, &mut PageWrites::new()).unwrap());
    backend.apply(&[store(0, 3)], &mut freed).unwrap();
    backend.abandon();
    backend.freeze();
    let table = write_checkpoint(&mut backend, &disk);
    backend.finish();
    let loaded = load(&disk, table, backend.totals());
    assert_eq!([0, 2000].map(|lbn| place(&loaded, lbn)), [stored(3), stored(2)]);
}

#[test]
fn slots_do_not_pile_up() {
    let (_directory, disk) = disk();
    let mut backend = backend();
    let mut most = 0;
    for round in 1..50 {
        backend.apply(&[store(0, round), store(3000, 1000 + round)], &mut Vec::new()).unwrap();
        backend.freeze();
        write_checkpoint(&mut backend, &disk);
        backend.finish();
        most = most.max(backend.totals().pages);
    }
    assert!(most <= 8, "{most} pages for two map pages, two record pages and a table");
    backend.apply(&[Change::Remove { volume: VOLUME }], &mut Vec::new()).unwrap();
    backend.freeze();
    write_checkpoint(&mut backend, &disk);
    backend.finish();
    assert!(backend.totals().pages < most);
}

#[test]
fn a_clone_shares_pages_until_they_change() {
    let (_directory, disk) = disk();
    let mut backend = backend();
    let mut freed = Vec::new();
    let stores: Vec<Change> = (0..5000).map(|lbn| store(lbn, lbn + 1)).collect();
    backend.apply(&stores, &mut freed).unwrap();
    let bytes_before = backend.totals().memory_bytes;
    let copy = VolumeId(2);
    let clone = Change::Clone {
        source: VOLUME,
        volume: copy,
        name: "b".into(),
        read_only: false,
        created_s: None,
    };
    backend.apply(&[clone], &mut freed).unwrap();
    let totals = backend.totals();
    assert_eq!((totals.references, totals.physical), (10_000, 5000));
    assert!(totals.memory_bytes - bytes_before < 10_000, "a map is two hundred thousand bytes");

    backend.apply(&[store(7, 6000)], &mut freed).unwrap();
    assert_eq!(freed, [], "the clone has it");
    let mut places = Vec::new();
    backend.look_up(copy, &[Lbn(7), Lbn(8)], &mut places).unwrap();
    assert_eq!(places, [stored(8), stored(9)]);
    assert_eq!(backend.prove(9).unwrap(), Vec::<String>::new());
    let totals = backend.totals();
    assert_eq!((totals.references, totals.physical), (10_000, 5001));

    backend.freeze();
    let table = write_checkpoint(&mut backend, &disk);
    backend.finish();
    let loaded = load(&disk, table, backend.totals());
    assert_eq!(loaded.totals().references, 10_000);
    assert_eq!(loaded.prove(9).unwrap(), Vec::<String>::new());

    backend.apply(&[Change::Remove { volume: VOLUME }], &mut freed).unwrap();
    assert_eq!(freed, [Pbn::new(6000).unwrap()], "all else is the clone's as well");
    assert_eq!(backend.prove(9).unwrap(), Vec::<String>::new());
    backend.apply(&[Change::Remove { volume: copy }], &mut freed).unwrap();
    assert_eq!(freed.len(), 5001);
    assert_eq!(backend.prove(9).unwrap(), Vec::<String>::new());
    assert_eq!((backend.totals().references, backend.totals().physical), (0, 0));
}

#[test]
fn a_full_count_stays_full() {
    let mut backend = backend();
    let mut freed = Vec::new();
    backend.apply(&[store(0, 1), store(1, 2)], &mut freed).unwrap();
    let pbn = Pbn::new(1).unwrap();
    *backend.blocks.records.count_mut(pbn) = u32::MAX - 1;
    let share = |lbn| Change::Share { volume: VOLUME, lbn: Lbn(lbn), pbn, checksum: Checksum(1) };
    backend.apply(&[share(1), share(2), share(3)], &mut freed).unwrap();
    backend
        .apply(&[Change::Unmap { volume: VOLUME, first: Lbn(0), count: 9 }], &mut freed)
        .unwrap();
    assert_eq!(freed, [Pbn::new(2).unwrap()], "how many references the full one has is not known");
    backend.settle().unwrap();
    assert_eq!(backend.totals().physical, 0, "counted again");
}

#[test]
fn a_mapped_block_takes_less_than_forty_bytes() {
    let mut backend = new_backend(1 << 20);
    let blocks = 600_000;
    let create = Change::Create(record(VOLUME.0, 512 * blocks));
    backend.apply(&[create], &mut Vec::new()).unwrap();
    for lbn in 0..blocks {
        let bits = gemelo_base::random::mix64(lbn);
        let fingerprint = Fingerprint::of_hash(u128::from(bits) << 64 | u128::from(bits));
        let change = Change::Store {
            volume: VOLUME,
            lbn: Lbn(lbn),
            pbn: Pbn::new(lbn + 1).unwrap(),
            fingerprint,
            checksum: Checksum(7),
        };
        backend.apply(&[change], &mut Vec::new()).unwrap();
    }
    let bytes = backend.totals().memory_bytes as f64 / blocks as f64;
    assert!(bytes < 40.0, "{bytes} bytes");
}
