//! Commits that are written beside their contents, on disks with durable writes: a crash before
//! both are complete leaves nothing of such a commit, then and later.

use crate::common::simulated::{DATA, Fault, Simulation};
use crate::common::{BLOCK, content, flush, kinds, open, options_of, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{
    CommitHeader, CommitOrder, DedupMode, FlushMark, FlushMarks, PAGE_BYTES, Policy, PoolSeed,
};
use gemelo_volume::{LossChoice, Pool, PoolOptions, RepairOptions, Tuning, Volume, repair};

/// Blocks of the volume, and those that a flush writes.
const BLOCKS: u64 = 64;
const WRITTEN: u64 = 12;
/// The most calls of a flush.
const MAX_CALLS: u64 = 20;

fn tuned() -> Tuning {
    Tuning { max_journal_data_bytes: Some(0), write_buffer_bytes: 1 << 20, ..tuning() }
}

struct World {
    simulation: Simulation,
    pool: Pool,
    volume: Volume,
}

/// A pool with an empty volume.
fn world(kind: crate::common::Kind) -> World {
    let simulation = Simulation::new(1).with_durable_writes(true);
    Pool::format(&simulation.disks(), &options_of(kind, 100)).unwrap();
    let pool = open(&simulation.disks(), tuned()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.checkpoint().unwrap();
    let volume = pool.volume("a").unwrap();
    World { simulation, pool, volume }
}

fn plain() -> World {
    world((Policy::Compact, None))
}

fn put_all(volume: &Volume) {
    (0..WRITTEN)
        .for_each(|lbn| write(volume, lbn * BLOCK as u64, &content(lbn + 1, BLOCK)).unwrap());
}

/// Returns whether all blocks have the contents of [`put_all`], or all none.
fn is_written(pool: &Pool) -> bool {
    let volume = pool.volume("a").unwrap();
    let has =
        |lbn: u64, id: u64| read(&volume, lbn * BLOCK as u64, BLOCK).unwrap() == content(id, BLOCK);
    let written = (0..WRITTEN).filter(|lbn| has(*lbn, lbn + 1)).count() as u64;
    let empty = (0..WRITTEN).filter(|lbn| has(*lbn, 0)).count() as u64;
    assert!([written, empty].contains(&WRITTEN), "{written} blocks are new and {empty} old");
    written > 0
}

/// The newest commit in the journal.
fn newest(simulation: &Simulation) -> CommitHeader {
    let superblock = simulation.disks().read_superblock(&mut Vec::new()).unwrap();
    let [_, metadata] = simulation.images();
    let headers = metadata.chunks(PAGE_BYTES);
    let headers = headers.filter_map(|page| CommitHeader::decode(page, PoolSeed::of(&superblock)));
    headers.max_by_key(|header| header.number).unwrap()
}

/// Returns the places of the contents of [`put_all`] on the data disk.
fn places(simulation: &Simulation) -> Vec<u64> {
    let [data, _] = simulation.images();
    let contents: Vec<Vec<u8>> = (0..WRITTEN).map(|lbn| content(lbn + 1, BLOCK)).collect();
    let blocks = (0u64..).zip(data.chunks(BLOCK));
    let found = blocks.filter(|(_, block)| contents.iter().any(|content| content == block));
    found.map(|(number, _)| number * BLOCK as u64).collect()
}

fn assert_clean(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// The disks after each crash of a flush that leaves the commit without all contents.
fn incomplete(kind: crate::common::Kind) -> Vec<Simulation> {
    let crashes = (1..MAX_CALLS).filter_map(|call| {
        let World { simulation, pool, volume } = world(kind);
        put_all(&volume);
        let before = newest(&simulation).number;
        simulation.set_fault(Fault::CrashAt(call));
        let flushed = flush(&volume);
        drop((pool, volume));
        let after = simulation.after_crash(call);
        let header = newest(&after);
        (flushed.is_err() && header.number > before).then(|| {
            assert_eq!(header.order, CommitOrder::BesideContents);
            after
        })
    });
    crashes.collect()
}

#[test]
fn a_flush_of_many_contents_writes_the_commit_beside_them() {
    for kind in kinds() {
        let world = world(kind);
        put_all(&world.volume);
        flush(&world.volume).unwrap();
        assert_eq!(newest(&world.simulation).order, CommitOrder::BesideContents);
        assert_eq!(world.pool.stat().unwrap().activity.journal_data_commits, 0);
        let after = world.simulation.after_worst_crash();
        assert_clean(&after);
        let pool = open(&after.disks(), tuned()).unwrap();
        assert!(is_written(&pool), "{kind:?}");
        assert_eq!(pool.damage(), Vec::<String>::new());
    }
}

#[test]
fn a_commit_without_its_contents_does_not_count_and_never_will() {
    let mut dropped = 0;
    for kind in kinds() {
        for after in incomplete(kind) {
            assert_clean(&after);
            let number = newest(&after).number;
            let pool = open(&after.disks(), tuned()).unwrap();
            if is_written(&pool) {
                continue;
            }
            dropped += 1;
            assert!(newest(&after.durable()).number < number, "the commit is erased durably");
            // The same contents get to the data disk, and nothing is flushed.
            put_all(&pool.volume("a").unwrap());
            drop(pool);
            let later = after.after_worst_crash();
            assert_clean(&later);
            assert!(!is_written(&open(&later.disks(), tuned()).unwrap()), "{kind:?}");
        }
    }
    assert!(dropped > 20, "{dropped} crashes left a commit without its contents");
}

#[test]
fn a_reader_and_a_repair_leave_an_incomplete_commit_out() {
    for after in incomplete((Policy::Compact, None)) {
        let read_only = Tuning { read_only: true, ..tuned() };
        let before = is_written(&open(&after.disks(), read_only).unwrap());
        let options = RepairOptions { data: true, choice: LossChoice::RollBack };
        repair(&after.disks(), options, &Silent, &StopFlag::new()).unwrap();
        let pool = open(&after.disks(), tuned()).unwrap();
        assert_eq!(is_written(&pool), before);
        put_all(&pool.volume("a").unwrap());
        flush(&pool.volume("a").unwrap()).unwrap();
        let later = after.after_worst_crash();
        assert_clean(&later);
        assert!(is_written(&open(&later.disks(), tuned()).unwrap()));
    }
}

/// The metadata of a pool with a flush mark of the newest commit.
fn marked(simulation: &Simulation) -> Vec<u8> {
    let disks = simulation.disks();
    let superblock = disks.read_superblock(&mut Vec::new()).unwrap();
    let seed = PoolSeed::of(&superblock);
    let CommitHeader { number, generation, .. } = newest(simulation);
    let mark = FlushMark { commit: number, generation };
    let at = FlushMarks::read(&*disks.metadata, &superblock, seed).next_offset as usize;
    let [_, mut metadata] = simulation.images();
    metadata[at..at + PAGE_BYTES].copy_from_slice(&*mark.encode(&superblock.pool_id, seed));
    metadata
}

/// A commit that a later one or a flush mark follows was complete: damage costs one block.
#[test]
fn a_damaged_content_of_a_commit_that_was_complete_costs_one_block() {
    for is_marked in [false, true] {
        let World { simulation, pool, volume } = plain();
        put_all(&volume);
        flush(&volume).unwrap();
        assert_eq!(newest(&simulation).order, CommitOrder::BesideContents);
        let metadata = if is_marked {
            marked(&simulation)
        } else {
            pool.create_volume("b", BLOCK as u64, DedupMode::Off).unwrap();
            let [_, metadata] = simulation.images();
            metadata
        };
        let [mut data, _] = simulation.images();
        data[places(&simulation)[0] as usize] ^= 1;
        let after = Simulation::of_images(1, [data, metadata]).with_durable_writes(true);
        let pool = open(&after.disks(), tuned()).unwrap();
        let volume = pool.volume("a").unwrap();
        let reads = (0..WRITTEN).map(|lbn| read(&volume, lbn * BLOCK as u64, BLOCK));
        assert_eq!(reads.filter(Result::is_err).count(), 1, "marked: {is_marked}");
    }
}

#[test]
fn a_commit_that_others_follow_counts_although_the_next_one_is_lost() {
    let World { simulation, pool, volume } = plain();
    put_all(&volume);
    flush(&volume).unwrap();
    let complete = newest(&simulation);
    assert_eq!(complete.order, CommitOrder::BesideContents);
    for name in ["b", "c"] {
        pool.create_volume(name, BLOCK as u64, DedupMode::Off).unwrap();
    }
    let superblock = simulation.disks().read_superblock(&mut Vec::new()).unwrap();
    let [mut data, mut metadata] = simulation.images();
    data[places(&simulation)[0] as usize] ^= 1;
    for page in metadata.chunks_mut(PAGE_BYTES) {
        let header = CommitHeader::decode(page, PoolSeed::of(&superblock));
        if header.is_some_and(|header| header.number == complete.number + 1) {
            page.fill(0);
        }
    }
    let after = Simulation::of_images(1, [data, metadata]).with_durable_writes(true);
    assert!(open(&after.disks(), tuned()).is_err(), "a commit is lost");
    let options = RepairOptions { choice: LossChoice::RollBack, data: false };
    repair(&after.disks(), options, &Silent, &StopFlag::new()).unwrap();
    let volume = open(&after.disks(), tuned()).unwrap().volume("a").unwrap();
    let is_good = |lbn: &u64| {
        let read = read(&volume, lbn * BLOCK as u64, BLOCK);
        read.is_ok_and(|bytes| bytes == content(lbn + 1, BLOCK))
    };
    assert_eq!((0..WRITTEN).filter(is_good).count() as u64, WRITTEN - 1);
}

#[test]
fn a_content_that_cannot_be_read_does_not_undo_its_commit() {
    let World { simulation, pool, volume } = plain();
    put_all(&volume);
    flush(&volume).unwrap();
    drop((pool, volume));
    let [data, metadata] = simulation.after_worst_crash().images();
    let after =
        || Simulation::of_images(1, [data.clone(), metadata.clone()]).with_durable_writes(true);
    let bad = after();
    let at = places(&bad)[0];
    bad.make_unreadable(DATA, at..at + BLOCK as u64);
    assert!(open(&bad.disks(), tuned()).is_err());
    assert!(bad.images() == after().images(), "nothing was written");
    assert!(is_written(&open(&after().disks(), tuned()).unwrap()));
}

#[test]
fn contents_without_space_become_journal_data_of_a_commit_that_was_beside_them() {
    for kind in kinds() {
        // The commit with its contents is longer, and finds its place elsewhere now and then.
        for commits in 0..12 {
            let World { simulation, pool, volume } = world(kind);
            for number in 0..commits {
                pool.create_volume(&format!("v{number}"), BLOCK as u64, DedupMode::Off).unwrap();
            }
            pool.checkpoint().unwrap();
            simulation.thin_out();
            simulation.set_full(true);
            put_all(&volume);
            flush(&volume).unwrap();
            assert_eq!(newest(&simulation).order, CommitOrder::AfterContents, "{kind:?}");
            assert_eq!(pool.stat().unwrap().activity.journal_data_commits, 1);
            let after = simulation.after_worst_crash();
            assert_clean(&after);
            let pool = open(&after.disks(), tuned()).unwrap();
            assert!(is_written(&pool), "{kind:?} after {commits} commits");
        }
    }
}

/// A block that a commit stores and frees may have another content before the next commit.
#[test]
fn a_block_that_a_commit_stores_and_frees_is_not_looked_for() {
    for kind in kinds() {
        let World { simulation, pool, volume } = world(kind);
        (0..WRITTEN).for_each(|lbn| {
            write(&volume, lbn * BLOCK as u64, &content(100 + lbn, BLOCK)).unwrap();
        });
        put_all(&volume);
        flush(&volume).unwrap();
        assert_eq!(newest(&simulation).order, CommitOrder::BesideContents);
        // All blocks get contents of no commit.
        for id in 1000..1090 {
            let _full = write(&volume, (id % 40 + 20) * BLOCK as u64, &content(id, BLOCK));
        }
        drop((volume, pool));
        let after = simulation.after_worst_crash();
        assert_clean(&after);
        assert!(is_written(&open(&after.disks(), tuned()).unwrap()), "{kind:?}");
    }
}

/// A damaged block is written again in its place, and no change names its content.
#[test]
fn a_commit_that_heals_a_block_comes_after_its_content() {
    for is_damaged in [false, true] {
        let World { simulation, pool, volume } = plain();
        put_all(&volume);
        flush(&volume).unwrap();
        pool.create_volume("b", BLOCK as u64, DedupMode::Off).unwrap();
        drop((pool, volume));
        let [mut data, metadata] = simulation.images();
        data[places(&simulation)[0] as usize] ^= u8::from(is_damaged);
        let simulation = Simulation::of_images(1, [data, metadata]).with_durable_writes(true);
        let pool = open(&simulation.disks(), tuned()).unwrap();
        let volume = pool.volume("a").unwrap();
        (0..WRITTEN).for_each(|lbn| drop(read(&volume, lbn * BLOCK as u64, BLOCK)));
        pool.flush().unwrap();
        put_all(&volume);
        (20..30).for_each(|lbn| write(&volume, lbn * BLOCK as u64, &content(lbn, BLOCK)).unwrap());
        flush(&volume).unwrap();
        let order = [CommitOrder::BesideContents, CommitOrder::AfterContents];
        assert_eq!(newest(&simulation).order, order[usize::from(is_damaged)]);
        assert!(is_written(&pool));
    }
}

#[test]
fn a_commit_of_very_many_contents_comes_after_them() {
    let simulation = Simulation::new(1).with_durable_writes(true);
    let blocks = 12_000;
    let kind = (Policy::Compact, None);
    let options = PoolOptions { journal_bytes: Some(8 << 20), ..options_of(kind, blocks + 100) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let tuning = Tuning { write_buffer_bytes: 16 << 20, cache_bytes: Some(64 << 20), ..tuned() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("a", blocks * BLOCK as u64, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    for (written, order) in
        [(WRITTEN, CommitOrder::BesideContents), (blocks, CommitOrder::AfterContents)]
    {
        let bytes: Vec<u8> = (0..written).flat_map(|lbn| content(lbn + 1, BLOCK)).collect();
        write(&volume, 0, &bytes).unwrap();
        flush(&volume).unwrap();
        assert_eq!(newest(&simulation).order, order, "{written} contents");
    }
}
