//! Volumes that are removed or resized while commands walk over all volumes: they are left out, and
//! everything else is done. It is no damage.

use crate::common::hold::Call;
use crate::common::simulated::{DATA, Simulation};
use crate::common::{BLOCK, content, open, options_with, rounds, tuning_on_disk, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{FinderTuning, Pool, ScrubOptions, Tuning, VolumeError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// LBNs between the stored blocks of a volume, so that its map is walked in several pieces.
const STRIDE: u64 = 3000;
/// Stored blocks of each volume.
const STORED: u64 = 4;
const SIZE: u64 = STRIDE * STORED * BLOCK as u64;
/// Contents of the volume that stays.
const STAYS: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Scrub,
    Check,
    Find,
    Arrange,
    Estimate,
    Space,
    EachSpace,
}

const COMMANDS: [Command; 7] = [
    Command::Scrub,
    Command::Check,
    Command::Find,
    Command::Arrange,
    Command::Estimate,
    Command::Space,
    Command::EachSpace,
];

impl Command {
    /// Runs the command. It must not fail, and has to do its work for the volume that stays.
    fn run(self, pool: &Pool, what: &str) {
        let stop = StopFlag::new();
        let done = match self {
            Self::Scrub | Self::Check => {
                let heals = self == Self::Scrub;
                pool.prove_served(10)
                    .map(|wrong| assert_eq!(wrong, Vec::<String>::new(), "{what}"))
                    .and_then(|()| {
                        pool.scrub(ScrubOptions { heals, max_bytes_per_s: None }, &Silent, &stop)
                    })
                    .map(|report| {
                        assert!(report.is_clean(), "{what}: {report:?}");
                        assert!(report.checked_contents >= STORED, "{what}: {report:?}");
                    })
            }
            Self::Find => pool.find(&Silent, &stop).map(drop),
            Self::Arrange => pool.arrange(None, &Silent, &stop).map(drop),
            Self::Estimate => pool.estimate_find((1 << 20, 1), &Silent, &stop).map(drop),
            Self::Space => pool.snapshot_space(&stop).map(drop),
            Self::EachSpace => pool.volumes().into_iter().try_for_each(|volume| {
                match pool.volume_space(&volume.record.name, &stop) {
                    // A command that names the volume says so; the server leaves it out.
                    Err(VolumeError::NoSuchVolume { .. }) => Ok(()),
                    other => other.map(drop),
                }
            }),
        };
        done.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

fn fill(pool: &Pool, name: &str, first: u64) {
    pool.create_volume(name, SIZE, DedupMode::Offline).unwrap();
    let volume = pool.volume(name).unwrap();
    for number in 0..STORED {
        write(&volume, number * STRIDE * BLOCK as u64, &content(first + number, BLOCK)).unwrap();
    }
}

fn pool(policy: Policy) -> (Simulation, Pool) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 1000)).unwrap();
    // The finder and the arranger read every block, so that their reads can be held.
    let finder = FinderTuning { memory_bytes: 0, ..FinderTuning::default() };
    let tuning = Tuning { finder, content_cache_bytes: Some(0), ..tuning_on_disk() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    fill(&pool, "a", 1);
    fill(&pool, "z", STAYS);
    pool.flush().unwrap();
    (simulation, pool)
}

/// The first read of a command is that of volume "a", and is held until the volume is gone or cut.
/// Commands that keep the volume while they read let it go on first.
#[test]
fn a_volume_that_goes_while_a_command_reads_it_is_left_out() {
    for policy in Policy::ALL {
        for command in COMMANDS {
            for removes in [true, false] {
                let what = format!("{policy:?}, {command:?}, removes {removes}");
                let (simulation, pool) = pool(policy);
                let hold = simulation.hold(DATA, Call::Read);
                thread::scope(|scope| {
                    let worker = scope.spawn(|| command.run(&pool, &what));
                    hold.is_held_within(std::time::Duration::from_millis(200));
                    let change = scope.spawn(|| match removes {
                        true => pool.remove_volume("a"),
                        false => pool.resize_volume("a", BLOCK as u64),
                    });
                    let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
                    while !change.is_finished() && std::time::Instant::now() < until {
                        thread::yield_now();
                    }
                    hold.release();
                    change.join().unwrap().unwrap();
                    worker.join().unwrap();
                });
                assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
                assert_eq!(pool.stat().unwrap().volumes, if removes { 1 } else { 2 }, "{what}");
            }
        }
    }
}

/// Volumes come and go, are cut and grow again, while all commands run.
#[test]
fn volumes_that_come_and_go_disturb_no_command() {
    for policy in Policy::ALL {
        let (_simulation, pool) = pool(policy);
        let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let comes_and_goes = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let number = changes.fetch_add(1, Ordering::Relaxed);
                    pool.snapshot_volume("a", "copy").unwrap();
                    pool.resize_volume("a", SIZE / 2).unwrap();
                    pool.remove_volume("copy").unwrap();
                    pool.resize_volume("a", SIZE).unwrap();
                    let volume = pool.volume("a").unwrap();
                    let offset = number % STORED * STRIDE * BLOCK as u64;
                    write(&volume, offset, &content(1000 + number, BLOCK)).unwrap();
                }
            });
            let mut round = 0;
            while round < rounds(30) || changes.load(Ordering::Relaxed) < rounds(30) {
                round += 1;
                for command in COMMANDS {
                    command.run(&pool, &format!("{policy:?}, {command:?}, round {round}"));
                }
            }
            stop.store(true, Ordering::Relaxed);
            comes_and_goes.join().unwrap();
        });
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
        pool.close().unwrap();
    }
}
