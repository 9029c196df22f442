//! Pools of older format versions, kept in `tests/pools`. Each is distinguished from a damaged
//! pool, and converted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails and prints its seed"
)]

mod common;

use common::simulated::{Fault, Simulation};
use common::{BLOCK, content, open, read, rounds, tuning, write};
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{BackendKind, Birth, DedupMode, Origin, Version, VolumeId};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, Pool, RepairOptions, RepairOutlook, VolumeError, convert, repair, repair_outlook,
};
use std::path::PathBuf;

/// The backends of which pools of versions 1 and 2 are kept.
const KEPT: [BackendKind; 4] =
    [BackendKind::Log, BackendKind::Ram, BackendKind::Table, BackendKind::BTree];

/// The pages of the metadata disk that flush marks are written to.
const FLUSH_MARKS: std::ops::Range<usize> = 6 * 4096..8 * 4096;

/// The two disks of a pool that is kept for a version, data first.
fn kept(version: u32, backend: BackendKind) -> [Vec<u8>; 2] {
    ["data", "metadata"].map(|disk| {
        let name = format!("v{version}-{}.{disk}.zst", backend.name());
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pools").join(name);
        zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
    })
}

/// The contents of the volumes in all kept pools: block by block, as the ids of [`content`].
fn contents() -> Vec<(&'static str, DedupMode, bool, Vec<u64>)> {
    let written =
        |first: u64| (0..400).map(move |lbn| if lbn < 300 { first + lbn % 90 } else { 0 });
    let before: Vec<u64> = written(1).collect();
    let mut inline = before.clone();
    (0..50).for_each(|lbn| inline[lbn] = 1000 + lbn as u64);
    inline[60..70].fill(0);
    let mut offline: Vec<u64> = written(100).collect();
    (0..5).for_each(|lbn| offline[lbn] = 2000 + lbn as u64);
    vec![
        ("clone", DedupMode::Inline, false, inline.clone()),
        ("inline", DedupMode::Inline, false, inline),
        ("off", DedupMode::Off, false, before.clone()),
        ("offline", DedupMode::Offline, false, offline),
        ("snapshot", DedupMode::Inline, true, before),
    ]
}

fn compare(pool: &Pool, what: &str) {
    let found: Vec<_> = pool
        .volumes()
        .into_iter()
        .map(|volume| (volume.record.name, volume.record.mode, volume.record.read_only))
        .collect();
    let expected: Vec<_> = contents()
        .iter()
        .map(|(name, mode, read_only, _)| ((*name).to_owned(), *mode, *read_only))
        .collect();
    assert_eq!(found, expected, "{what}");
    for (name, _, _, ids) in contents() {
        let volume = pool.volume(name).unwrap();
        for (lbn, id) in ids.iter().enumerate() {
            let found = read(&volume, (lbn * BLOCK) as u64, BLOCK).unwrap();
            assert!(found == content(*id, BLOCK), "{what}: block {lbn} of {name}");
        }
    }
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
}

#[test]
fn every_older_version_has_a_pool_that_is_kept() {
    for version in 1..Version::V2.number() {
        for backend in KEPT {
            assert!(!kept(version, backend)[1].is_empty(), "version {version}, {backend:?}");
        }
    }
}

#[test]
fn an_older_pool_is_checked_refused_and_converted() {
    for backend in KEPT {
        let old = Simulation::of_images(1, kept(1, backend));
        let before = old.images();
        let refused = open(&old.disks(), tuning()).err().unwrap();
        assert!(matches!(refused, VolumeError::OldFormat { version: 1 }), "{refused}");
        let report =
            check(&old.disks(), CheckOptions::default(), &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{backend:?}: {:?}", report.problems);
        let outlook = repair_outlook(&old.disks(), true, &Silent, &StopFlag::new()).unwrap();
        let none = RepairOutlook::default();
        assert_eq!(outlook, none, "a pool that has to be converted first cannot be repaired");
        let options = RepairOptions { data: true, choice: LossChoice::Skip };
        let refused = repair(&old.disks(), options, &Silent, &StopFlag::new());
        assert!(matches!(refused, Err(VolumeError::OldFormat { version: 1 })), "{refused:?}");
        let new = Simulation::new(1);
        let lost = convert(&old.disks(), new.disks().metadata, &Silent, &StopFlag::new()).unwrap();
        assert_eq!(lost, 0);
        assert!(old.images() == before, "nothing of the old pool was written");
        assert!(new.images()[1][FLUSH_MARKS].iter().all(|byte| *byte == 0), "{backend:?}: a mark");
        let disks = PoolDisks::new(old.disks().data, new.disks().metadata);
        let report = check(&disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{backend:?}: {:?}", report.problems);
        let pool = open(&disks, tuning()).unwrap();
        compare(&pool, &format!("{backend:?}"));
        let stat = pool.stat().unwrap();
        write(&pool.volume("inline").unwrap(), 300 * BLOCK as u64, &content(1000, BLOCK)).unwrap();
        assert_eq!(
            pool.stat().unwrap().physical_blocks,
            stat.physical_blocks,
            "its index is as before"
        );
    }
}

#[test]
fn a_conversion_can_be_stopped_at_any_point_and_begun_anew() {
    let old = Simulation::of_images(1, kept(1, BackendKind::Log));
    let before = old.images();
    for at in (1..).step_by(rounds(7).max(1) as usize) {
        let new = Simulation::new(at);
        new.set_fault(Fault::CrashAt(at));
        if convert(&old.disks(), new.disks().metadata, &Silent, &StopFlag::new()).is_ok() {
            break;
        }
        assert!(old.images() == before, "the old pool is there as it was");
    }
    let stop = StopFlag::new();
    stop.raise();
    let new = Simulation::new(1);
    let stopped = convert(&old.disks(), new.disks().metadata, &Silent, &stop);
    assert!(matches!(stopped, Err(VolumeError::Interrupted)));
    let new = Simulation::new(1);
    convert(&old.disks(), new.disks().metadata, &Silent, &StopFlag::new()).unwrap();
    let disks = PoolDisks::new(old.disks().data, new.disks().metadata);
    compare(&open(&disks, tuning()).unwrap(), "after all");
}

#[test]
fn a_content_that_rotted_before_the_conversion_is_said_to_be_lost() {
    let [mut data, metadata] = kept(1, BackendKind::Log);
    let mark = content(1007, BLOCK);
    let at = data.chunks(BLOCK).position(|block| block == mark).unwrap() * BLOCK;
    data[at] ^= 1;
    let old = Simulation::of_images(1, [data, metadata]);
    let new = Simulation::new(1);
    // The clone shares the lost block.
    assert_eq!(convert(&old.disks(), new.disks().metadata, &Silent, &StopFlag::new()).unwrap(), 2);
    let disks = PoolDisks::new(old.disks().data, new.disks().metadata);
    let pool = open(&disks, tuning()).unwrap();
    assert!(read(&pool.volume("inline").unwrap(), 7 * BLOCK as u64, BLOCK).is_err());
}

/// The pools `v2-*` were written before volumes had a creation time and an origin. Some of their
/// volumes are in the checkpoint, some in the journal. These files are never written anew.
#[test]
fn a_pool_from_before_volumes_had_a_birth_opens_and_gives_births_from_then_on() {
    for backend in KEPT {
        let disks = Simulation::of_images(1, kept(2, backend));
        let report =
            check(&disks.disks(), CheckOptions::default(), &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{backend:?}: {:?}", report.problems);
        let pool = open(&disks.disks(), tuning()).unwrap();
        let births = |pool: &Pool| -> Vec<_> {
            let volumes = pool.volumes().into_iter();
            volumes.map(|volume| (volume.record.name, volume.record.birth)).collect()
        };
        let of_first = |created_s| Birth {
            created_s,
            origin: Origin::Clone { volume: VolumeId(1), name: "first".into() },
        };
        let old = vec![
            // The journal has the source of the clone.
            ("clone".to_owned(), of_first(None)),
            ("first".to_owned(), Birth::default()),
            ("second".to_owned(), Birth::default()),
            ("snapshot".to_owned(), Birth::default()),
        ];
        assert_eq!(births(&pool), old, "{backend:?}");
        let first = pool.volume("first").unwrap();
        assert!(read(&first, 0, BLOCK).unwrap() == content(99, BLOCK));
        let snapshot = pool.volume("snapshot").unwrap();
        assert!(read(&snapshot, 29 * BLOCK as u64, BLOCK).unwrap() == content(5, BLOCK));

        pool.create_volume("fresh", BLOCK as u64, DedupMode::Inline).unwrap();
        pool.create_imported_volume("import", BLOCK as u64, DedupMode::Inline).unwrap();
        pool.snapshot_volume("first", "young").unwrap();
        pool.rename_volume("first", "renamed").unwrap();
        let now = Some(ManualClock::ORIGIN_S);
        let renamed = |created_s| Birth {
            created_s,
            origin: Origin::Clone { volume: VolumeId(1), name: "renamed".into() },
        };
        let expected = vec![
            ("clone".to_owned(), renamed(None)),
            ("fresh".to_owned(), Birth { created_s: now, origin: Origin::Empty }),
            ("import".to_owned(), Birth { created_s: now, origin: Origin::Imported }),
            ("renamed".to_owned(), Birth::default()),
            ("second".to_owned(), Birth::default()),
            ("snapshot".to_owned(), Birth::default()),
            ("young".to_owned(), renamed(now)),
        ];
        assert_eq!(births(&pool), expected, "{backend:?}");
        drop((first, snapshot, pool));
        // The births are read from the journal, and then from a checkpoint.
        let pool = open(&disks.disks(), tuning()).unwrap();
        assert_eq!(births(&pool), expected, "{backend:?}: from the journal");
        pool.close().unwrap();
        let pool = open(&disks.disks(), tuning()).unwrap();
        assert_eq!(births(&pool), expected, "{backend:?}: from a checkpoint");
        pool.remove_volume("renamed").unwrap();
        let young = births(&pool).into_iter().find(|(name, _)| name == "young").unwrap().1;
        assert_eq!(young, of_first(now), "the name that the source had then");
        pool.close().unwrap();
        let report =
            check(&disks.disks(), CheckOptions::default(), &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{backend:?}: {:?}", report.problems);
    }
}
