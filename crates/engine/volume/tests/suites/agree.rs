//! The checker and the engine agree about commits with right checksums: what a check passes opens,
//! and what does not open is told by a check.

use crate::common::repeat::Repeat;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{BLOCK, content, first_seed, open, options_of, rounds, tuning, write};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{
    COMMIT_HEADER_BYTES, Change, Checksum, CommitOrder, Compression, DedupMode, Fingerprint, Lbn,
    NewCommit, Pbn, Policy, PoolSeed, Superblock, VolumeId, build_commit, find_roots,
    read_superblock,
};
use gemelo_volume::Pool;

/// Blocks of the data store.
const BLOCKS: u64 = 200;
/// Blocks of the volume.
const LBNS: u64 = 24;
/// Commits of each kind of pool.
const ROUNDS: u64 = 400;

/// A closed pool with a volume, number 1, and a snapshot of it.
fn pool(policy: Policy, compression: Option<Compression>) -> Simulation {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_of((policy, compression), BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", LBNS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    for lbn in 0..LBNS / 2 {
        write(&volume, lbn * BLOCK as u64, &content(1 + lbn % 9, BLOCK)).unwrap();
    }
    pool.flush().unwrap();
    pool.snapshot_volume("a", "b").unwrap();
    for lbn in 0..3 {
        write(&volume, lbn * BLOCK as u64, &content(50 + lbn, BLOCK)).unwrap();
    }
    pool.close().unwrap();
    simulation
}

/// A few changes, most of which make sense. Fresh blocks are above all that are in use.
fn changes(superblock: &Superblock, random: &mut Random) -> Vec<Change> {
    let mut fresh = 100;
    let used = |random: &mut Random| loop {
        if let Some(pbn) = superblock.pbn(1 + random.below(40)) {
            break pbn;
        }
    };
    let mut stored: Vec<Pbn> = Vec::new();
    let count = 1 + random.below(6);
    let change = |random: &mut Random| {
        let volume = VolumeId([1, 1, 1, 2, 9][random.below(5) as usize]);
        let lbn = Lbn(random.below(LBNS + 1));
        let range = 1 + random.below(LBNS);
        let checksum = Checksum(7);
        match random.below(14) {
            0..4 => {
                fresh += 1;
                let pbn = match random.below(20) {
                    0 => Pbn::new(1 << 34).unwrap(),
                    1 => used(random),
                    2 if !stored.is_empty() => stored[random.below(stored.len() as u64) as usize],
                    _ => Pbn::new(fresh).unwrap(),
                };
                stored.push(pbn);
                Change::Store { volume, lbn, pbn, fingerprint: Fingerprint::NONE, checksum }
            }
            4..8 => {
                let known = stored.get(random.below(stored.len() as u64 + 1) as usize).copied();
                let pbn = known.unwrap_or_else(|| used(random));
                Change::Share { volume, lbn, pbn, checksum }
            }
            8 => Change::Unmap { volume, first: lbn, count: range },
            9 => Change::Remove { volume },
            10 => Change::Suspect { pbn: used(random), is_suspect: true },
            11 => Change::Clone {
                source: volume,
                volume: VolumeId([0, 2, 3, 3, 4, 4, 5, u32::MAX][random.below(8) as usize]),
                name: "c".into(),
                read_only: false,
                created_s: None,
            },
            12 => Change::Resize { volume, size_bytes: range * BLOCK as u64, padding_bytes: 0 },
            _ => Change::Rename { volume, name: "d".into() },
        }
    };
    std::iter::repeat_with({
        let mut change = change;
        move || change(random)
    })
    .take(count as usize)
    .collect()
}

/// Appends a commit to the journal of a closed pool.
fn append(closed: &Simulation, changes: &[Change]) -> Simulation {
    let disks = closed.disks();
    let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
    let seed = PoolSeed::of(&superblock);
    let root = find_roots(&*disks.metadata, &superblock, seed).unwrap().newest;
    let mut commit = vec![0; COMMIT_HEADER_BYTES];
    changes.iter().for_each(|change| change.encode(&mut commit));
    let new = NewCommit {
        number: root.next_commit,
        generation: root.generation,
        order: CommitOrder::AfterContents,
    };
    build_commit(&mut commit, new, seed);
    let mut images = closed.images();
    for piece in superblock.regions().ring(root.journal_offset, commit.len()) {
        for offset in piece.offsets {
            let part = &commit[piece.bytes.clone()];
            images[METADATA][offset as usize..][..part.len()].copy_from_slice(part);
        }
    }
    Simulation::of_images(1, images)
}

/// Returns what a check finds that loses data, and the error of an opening.
fn judge(crafted: &Simulation) -> (Vec<String>, Option<String>) {
    let report =
        check(&crafted.disks(), CheckOptions::default(), &Silent, &StopFlag::new()).unwrap();
    let lost = report.problems.into_iter().filter(|problem| problem.loses_data);
    let opened = open(&crafted.disks(), tuning());
    let refused = match &opened {
        Ok(pool) if pool.is_read_only() => Some(format!("{:?}", pool.damage())),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    if let Some(pool) = opened.ok().filter(|pool| !pool.is_read_only()) {
        pool.close().unwrap();
        let report = check(&crafted.disks(), CheckOptions::default(), &Silent, &StopFlag::new());
        let report = report.unwrap();
        assert!(report.is_clean(), "after a checkpoint: {:?}", report.problems);
    }
    (lost.map(|problem| problem.what).collect(), refused)
}

#[test]
fn a_check_passes_what_opens_and_nothing_else() {
    let (mut passed, mut refused) = (0, 0);
    for policy in Policy::ALL {
        for compression in [None, Some(Compression::Lz4)] {
            let closed = pool(policy, compression);
            let superblock = read_superblock(&*closed.disks().metadata, &mut Vec::new()).unwrap();
            let first = first_seed();
            for seed in first..first + rounds(ROUNDS) {
                let _repeat = Repeat::of(seed);
                let changes = changes(&superblock, &mut Random::new(seed));
                let crafted = append(&closed, &changes);
                let (told, error) = judge(&Simulation::of_images(1, crafted.images()));
                assert_eq!(
                    told.is_empty(),
                    error.is_none(),
                    "{policy:?}, {compression:?}, seed {seed}, {changes:?}: {told:?}, {error:?}"
                );
                passed += u64::from(told.is_empty());
                refused += u64::from(!told.is_empty());
            }
        }
    }
    eprintln!("{passed} passed, {refused} refused");
    assert!(passed > 0 && refused > 0);
}

/// A block that is shared before anything is stored there, in the same commit or at all.
#[test]
fn a_share_of_a_block_without_references_is_told_by_a_check() {
    let at = |lbn| (VolumeId(1), Lbn(lbn));
    let pbn = Pbn::new(120).unwrap();
    let share = |(volume, lbn)| Change::Share { volume, lbn, pbn, checksum: Checksum(7) };
    let store = |(volume, lbn)| Change::Store {
        volume,
        lbn,
        pbn,
        fingerprint: Fingerprint::NONE,
        checksum: Checksum(7),
    };
    let unmap = |(volume, first)| Change::Unmap { volume, first, count: 1 };
    for policy in Policy::ALL {
        let closed = pool(policy, None);
        for (changes, is_good) in [
            (vec![share(at(5))], false),
            (vec![share(at(5)), store(at(6))], false),
            (vec![store(at(5)), share(at(6))], true),
            (vec![store(at(5)), unmap(at(5)), share(at(6))], false),
            (vec![store(at(5)), share(at(6)), unmap(at(5)), share(at(7))], true),
        ] {
            let (told, error) = judge(&append(&closed, &changes));
            assert_eq!((told.is_empty(), error.is_none()), (is_good, is_good), "{changes:?}");
            assert!(is_good || told[0].contains("block 120"), "{told:?}");
        }
    }
}

/// A block that gets a content while something refers to it, in the checkpoint or since.
#[test]
fn a_store_to_a_block_in_use_is_told_by_a_check() {
    let store = |lbn, pbn| Change::Store {
        volume: VolumeId(1),
        lbn: Lbn(lbn),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint: Fingerprint::NONE,
        checksum: Checksum(7),
    };
    let unmap = |lbn| Change::Unmap { volume: VolumeId(1), first: Lbn(lbn), count: 1 };
    for policy in Policy::ALL {
        let closed = pool(policy, None);
        for (changes, is_good) in [
            (vec![store(20, 1)], false),
            (vec![store(20, 120), store(21, 120)], false),
            (vec![store(20, 120), store(20, 120)], false),
            (vec![store(20, 120), unmap(20), store(21, 120)], true),
            (vec![store(20, 120), store(20, 121), store(21, 120)], true),
        ] {
            let (told, error) = judge(&append(&closed, &changes));
            assert_eq!((told.is_empty(), error.is_none()), (is_good, is_good), "{changes:?}");
            assert!(is_good || told[0].contains("which is in use"), "{told:?}");
        }
    }
}

/// 0 stands for no volume, and no volume can follow the last number.
#[test]
fn a_volume_with_an_impossible_id_is_told_by_a_check() {
    for policy in Policy::ALL {
        let closed = pool(policy, None);
        for (id, is_good) in [(0, false), (7, true), (u32::MAX - 1, true), (u32::MAX, false)] {
            let clone = Change::Clone {
                source: VolumeId(1),
                volume: VolumeId(id),
                name: "c".into(),
                read_only: false,
                created_s: None,
            };
            let (told, error) = judge(&append(&closed, &[clone]));
            assert_eq!((told.is_empty(), error.is_none()), (is_good, is_good), "{id}: {told:?}");
        }
    }
}
