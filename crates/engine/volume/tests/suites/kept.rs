//! The format on disk: a pool of each policy is kept in `tests/pools`, and must be read as it was
//! written. A change of the format replaces these pools:
//! `GEMELO_TEST_KEEP=1 cargo nextest run -p gemelo-volume kept::`.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options_with, read, tuning, write};
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{Birth, DedupMode, Origin, Policy, VolumeId};
use gemelo_volume::{LossChoice, Pool, RepairOptions, repair};
use std::path::PathBuf;

/// Compression of the kept pools, which are mostly zeros.
const LEVEL: i32 = 19;

fn pools() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pools")
}

fn path(policy: Policy, disk: &str) -> PathBuf {
    pools().join(format!("{}.{disk}.zst", policy.name()))
}

fn blocks(ids: impl IntoIterator<Item = u64>) -> Vec<u8> {
    ids.into_iter().flat_map(|id| content(id, BLOCK)).collect()
}

/// Makes a pool with volumes of every mode. A part is in the checkpoint, and a part in the journal.
fn write_pool(policy: Policy) -> [Vec<u8>; 2] {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 500)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let names = [("inline", DedupMode::Inline), ("off", DedupMode::Off)];
    for (name, mode) in names {
        pool.create_volume(name, 64 * BLOCK as u64, mode).unwrap();
        write(&pool.volume(name).unwrap(), 0, &blocks((0..40).map(|lbn| 1 + lbn % 30))).unwrap();
    }
    pool.snapshot_volume("inline", "snapshot").unwrap();
    pool.checkpoint().unwrap();
    pool.create_imported_volume("offline", 64 * BLOCK as u64, DedupMode::Offline).unwrap();
    write(&pool.volume("offline").unwrap(), 0, &blocks(100..110)).unwrap();
    let inline = pool.volume("inline").unwrap();
    write(&inline, 0, &blocks([200])).unwrap();
    flush(&inline).unwrap();
    pool.clone_volume("inline", "clone").unwrap();
    pool.flush().unwrap();
    simulation.images()
}

/// The volumes of the kept pools, with the contents of their first blocks.
fn expected() -> Vec<(&'static str, DedupMode, Origin, Vec<u8>)> {
    let written = || (0..40).map(|lbn| 1 + lbn % 30);
    let changed = || blocks(std::iter::once(200).chain(written().skip(1)));
    let inline = || Origin::Clone { volume: VolumeId(1), name: "inline".into() };
    vec![
        ("clone", DedupMode::Inline, inline(), changed()),
        ("inline", DedupMode::Inline, Origin::Empty, changed()),
        ("off", DedupMode::Off, Origin::Empty, blocks(written())),
        ("offline", DedupMode::Offline, Origin::Imported, blocks(100..110)),
        ("snapshot", DedupMode::Inline, inline(), blocks(written())),
    ]
}

/// Replaces the kept pools.
fn keep_anew() {
    for policy in Policy::ALL {
        for (disk, bytes) in ["data", "metadata"].into_iter().zip(write_pool(policy)) {
            let packed = zstd::encode_all(bytes.as_slice(), LEVEL).unwrap();
            std::fs::write(path(policy, disk), packed).unwrap();
        }
    }
}

#[test]
fn a_kept_pool_of_each_policy_is_read_as_it_was_written() {
    if std::env::var_os("GEMELO_TEST_KEEP").is_some() {
        keep_anew();
    }
    for policy in Policy::ALL {
        let images = ["data", "metadata"].map(|disk| {
            let file = std::fs::File::open(path(policy, disk)).unwrap();
            zstd::decode_all(file).unwrap()
        });
        let simulation = Simulation::of_images(1, images);
        let options = CheckOptions { data: true };
        let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{policy:?}: {:?}", report.problems);
        assert!(report.commits > 0, "{policy:?}: a part is in the journal");
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert!(pool.damage().is_empty(), "{policy:?}: {:?}", pool.damage());
        let found = pool.volumes();
        let expected = expected();
        assert_eq!(found.len(), expected.len(), "{policy:?}");
        for (found, (name, mode, origin, bytes)) in found.into_iter().zip(expected) {
            let created_s = Some(ManualClock::ORIGIN_S);
            let record = found.record;
            assert_eq!((record.name.as_str(), record.mode), (name, mode), "{policy:?}");
            assert_eq!(record.birth, Birth { created_s, origin }, "{policy:?}, {name}");
            assert_eq!(record.read_only, name == "snapshot");
            let volume = pool.volume(name).unwrap();
            assert!(read(&volume, 0, bytes.len()).unwrap() == bytes, "{policy:?}, {name}");
        }
        assert_eq!(pool.prove(5).unwrap(), Vec::<String>::new(), "{policy:?}");
    }
}

/// Nothing is done to a pool whose metadata this program cannot read.
#[test]
fn a_pool_of_an_earlier_program_is_refused_by_the_name_of_its_backend() {
    for backend in ["log", "ram", "btree"] {
        let images = ["data", "metadata"].map(|disk| {
            let path = pools().join(format!("earlier-{backend}.{disk}.zst"));
            zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
        });
        let simulation = Simulation::of_images(1, images.clone());
        let disks = simulation.disks();
        let options = RepairOptions { data: false, choice: LossChoice::RollBack };
        let checked = check(&disks, CheckOptions::default(), &Silent, &StopFlag::new());
        let refusals = [
            checked.unwrap_err().to_string(),
            open(&disks, tuning()).err().unwrap().to_string(),
            repair(&disks, options, &Silent, &StopFlag::new()).unwrap_err().to_string(),
        ];
        let wanted = format!("backend '{backend}'");
        for said in refusals {
            assert!(said.contains(&wanted) && said.contains("does not know"), "{said}");
        }
        assert!(simulation.images() == images, "{backend}: the disks stay as they are");
    }
}
