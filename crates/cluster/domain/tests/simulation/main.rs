//! Four members on a simulated store: hosts that die, stop beyond their lease, are cut off, fence
//! each other and take members over, while calls and answers are lost and arrive late.
//!
//! `GEMELO_TEST_ROUNDS` sets the number of seeds, `GEMELO_TEST_SEED` the first one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod disk;
mod host;
mod process;
#[path = "../../../../engine/volume/tests/common/repeat.rs"]
mod repeat;

use disk::{Disks, Records};
use gemelo_base::Clock;
use gemelo_domain::{Claims, DomainConfig, MemberId, Members, NewMember, check};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{Locks, Objects};
use process::Process;
use repeat::Repeat;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The members of the domain.
const MEMBERS: u32 = 4;
/// Hosts that serve them: one more, so that there is one on standby.
const HOSTS: usize = 5;
/// Simulated time with faults.
const FAULTS_UNTIL_NS: u64 = 2_000_000_000;
/// Seeds that are tried unless another number is set.
const SEEDS: u64 = 60;

/// Counts over all seeds, so that a run that does nothing is noticed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) published: AtomicU64,
    pub(crate) shared: AtomicU64,
    pub(crate) withdrawn: AtomicU64,
    pub(crate) void: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) taken_over: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) split: AtomicU64,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn references_and_counts_agree_after_any_faults() {
    let first = variable("GEMELO_TEST_SEED").unwrap_or(0);
    let rounds = variable("GEMELO_TEST_ROUNDS").unwrap_or(SEEDS);
    let tally = Tally::default();
    for seed in first..first + rounds {
        let _repeat = Repeat::of(seed);
        run(seed, &tally);
    }
    eprintln!("{tally:?}");
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Tally { published, shared, withdrawn, void, resumed, taken_over, fenced, split } = &tally;
    let counts = [published, shared, withdrawn, void, resumed, taken_over, fenced, split];
    assert!(rounds < SEEDS || counts.iter().all(|count| of(count) > 0), "{tally:?}");
}

fn run(seed: u64, tally: &Tally) {
    let world = World::new(seed, Faults::NONE);
    let admin = world.client();
    let config = DomainConfig {
        block_bytes: 4096,
        depth: 1,
        fingerprint_id: [7; 16],
        unknown: gemelo_format::Features::NONE,
    };
    config.create(&admin).unwrap();
    let members = Members::new(&admin);
    for number in 1..=MEMBERS {
        let name = format!("member{number}");
        let new = NewMember { name: &name, token: u64::from(number) };
        assert_eq!(members.add(&new).unwrap(), MemberId(number));
    }
    let disks = Arc::new(Disks::default());
    world.set_faults(Faults { timeout_ns: 40_000_000, ..Faults::FREQUENT });
    let clients: Vec<Client> = (0..HOSTS).map(|_| world.client()).collect();
    world.run(
        clients
            .into_iter()
            .map(|client| {
                let (world, disks) = (&world, &disks);
                let instance = client.instance();
                let run = move || host::run(world, client, disks, config, tally);
                (instance, Box::new(run) as Box<dyn FnOnce() + Send>)
            })
            .collect(),
    );
    world.set_faults(Faults::NONE);
    // All leases are over.
    world.sleep_until_ns(world.now_ns() + 60_000_000_000);
    finish(&world, &disks, config, tally);
}

/// Takes all members over, settles what is open, and checks; then gives everything up, and checks
/// that nothing remains.
fn finish(world: &World, disks: &Arc<Disks>, config: DomainConfig, tally: &Tally) {
    let client = world.client();
    let mut processes: Vec<Process<'_>> = (1..=MEMBERS)
        .map(|number| Process::start(&client, disks, config, MemberId(number), tally).unwrap())
        .collect();
    for process in &mut processes {
        process.take_and_give().unwrap();
        process.verify_all().unwrap();
    }
    expect_clean(&client, &processes);
    for process in &mut processes {
        process.overwrite_all().unwrap();
    }
    for _ in 0..2 {
        for process in &mut processes {
            process.take_and_give().unwrap();
            while process.collect(1000).unwrap() > 0 {}
            process.split().unwrap();
        }
    }
    expect_clean(&client, &processes);
    for process in &processes {
        let records = process.records();
        assert!(records.blocks.is_empty(), "blocks are never freed: {records:?}");
    }
    for shard in client.list("index.").unwrap() {
        let range = gemelo_objects::KeyRange { after: "", prefix: "f.", limit: 10 };
        assert!(client.list_keys(&shard, range).unwrap().entries.is_empty(), "{shard}");
    }
}

fn expect_clean(client: &Client, processes: &[Process<'_>]) {
    let mut claims: Vec<Records> = processes.iter().map(Process::records).collect();
    let mut claims: Vec<&mut dyn Claims> =
        claims.iter_mut().map(|records| -> &mut dyn Claims { records }).collect();
    let config = DomainConfig::open(client).unwrap();
    let findings = check(client, &config, &mut claims).unwrap();
    assert!(findings.are_none(), "{findings:?}");
}
