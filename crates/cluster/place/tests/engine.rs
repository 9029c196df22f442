//! The engine over a member's disks on the simulated store: random work compared with a model,
//! while hosts die, calls are lost or late, and other hosts take the member over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot continue fails and prints its seed"
)]

#[path = "../../../engine/volume/tests/common/mod.rs"]
#[expect(dead_code, reason = "the suites of the engine use the rest")]
mod common;
#[macro_use]
#[path = "support/locks.rs"]
mod locks;

use common::driver::{Driver, Model, check_recovered};
use common::repeat::Repeat;
use common::simulated::Simulation;
use common::{first_seed, open_ticking, options_with, rounds, tuning};
use gemelo_base::random::Random;
use gemelo_base::{Clock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{FingerprintKind, Policy};
use gemelo_member::{DomainClient, NewDomain, Service};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_objects::{
    Fenced, Holder, Instance, LockName, Locks, ObjectError, Objects, Operation, Request, Result,
};
use gemelo_volume::{Pool, Tuning};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(600);
/// Blocks of the data store, which is full now and then.
const POOL_BLOCKS: u64 = 150;
/// Hosts that serve the member one after another.
const HOSTS: u64 = 6;
/// The most steps of one host.
const MAX_STEPS: u64 = 300;

/// A client that tells the driver when its process has to end.
struct Told {
    client: Client,
    process: Simulation,
}

impl Objects for Told {
    fn execute(&self, requests: &mut [Request<'_>]) {
        self.client.execute(requests);
        for request in requests {
            let is_read = matches!(
                request.operation,
                Operation::Read { .. }
                    | Operation::ReadParts { .. }
                    | Operation::Stat { .. }
                    | Operation::GetKeys { .. }
            );
            let is_dead = matches!(request.outcome, Err(ObjectError::Io { .. }));
            let is_unknown = request.outcome.as_ref().is_err_and(ObjectError::is_unknown);
            if is_dead || is_unknown && !is_read {
                self.process.pull_plug();
            }
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.client.list(prefix)
    }
}

pass_on_locks!(Told);

struct Host {
    client: Client,
    process: Simulation,
    service: Service,
}

/// Connects a host that takes the member, after the lease of the one before it.
fn take(world: &World) -> Host {
    let lease_ns = u64::try_from(LEASE.as_nanos()).unwrap();
    world.set_faults(Faults::NONE);
    let (client, process) = (world.client(), Simulation::new(0));
    let told = Arc::new(Told { client: client.clone(), process: process.clone() });
    let domain = Arc::new(DomainClient::new(told.clone(), told).unwrap());
    domain.register("one").unwrap();
    world.sleep_until_ns(world.now_ns() + lease_ns + 1_000_000_000);
    let clock: Arc<dyn Clock> = Arc::new(client.clock());
    let service = Service::take(&domain, "one", &clock, LEASE).unwrap();
    Host { client, process, service }
}

/// Chooses the way in which a host's service ends. Returns whether the host dies at some moment.
fn choose_end(world: &World, host: &Host, random: &mut Random) -> bool {
    let soon_ns = world.now_ns() + random.below(1_500_000_000);
    let way = random.below(3);
    match way {
        0 => world.kill_at(&host.client.instance(), soon_ns),
        // A call in 500 has an unknown fate, and some of these take effect later.
        1 => world.set_faults(Faults {
            lost_replies: 1,
            lost_calls: 1,
            late_calls: 2,
            ..Faults::NONE
        }),
        _ => {}
    }
    way == 0
}

fn live(policy: Policy, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let world = World::new(random.next_u64(), Faults::NONE);
    let fingerprint = FingerprintKind::Blake3;
    let new = NewDomain { block_bytes: 512, depth: 0, fingerprint, data_pool: None };
    new.create_in(&world.client()).unwrap();
    let host = take(&world);
    Pool::format(&host.service.disks(), &options_with(policy, POOL_BLOCKS)).unwrap();
    host.service.release().unwrap();
    let (mut model, mut lost) = (Model::default(), 0);
    // Half of the members write all commits beside their contents.
    let tuning =
        Tuning { max_journal_data_bytes: [None, Some(0)][(seed % 2) as usize], ..tuning() };
    for _ in 0..HOSTS {
        let host = take(&world);
        let options = CheckOptions { data: true };
        let report = check(&host.service.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        let pool = open_ticking(&host.service.disks(), tuning).unwrap();
        check_recovered(&pool, &mut model);
        let is_doomed = choose_end(&world, &host, &mut random);
        let mut driver = Driver::new(&host.process, &pool, &mut model, &mut random);
        driver.may_fail = true;
        let steps = driver.random.below(MAX_STEPS);
        // A flush mark of unknown fate ends the lease, and the step that wrote it may succeed.
        let is_down = (0..steps).any(|_| driver.step().is_err()) || host.process.is_down();
        lost += u64::from(is_down);
        // One that dies could die while it closes the pool.
        if !is_down && !is_doomed && random.below(2) == 0 {
            world.set_faults(Faults::NONE);
            pool.close().unwrap();
            host.service.release().unwrap();
        } else {
            // A host that hangs gives nothing up.
            std::mem::forget(host.service);
        }
    }
    let host = take(&world);
    let pool = open_ticking(&host.service.disks(), tuning).unwrap();
    check_recovered(&pool, &mut model);
    pool.close().unwrap();
    lost
}

fn take_over_again_and_again(policy: Policy) {
    let first = first_seed();
    let mut lost = 0;
    for seed in first..first + rounds(40) {
        let _repeat = Repeat::of(seed);
        lost += live(policy, seed);
    }
    eprintln!("{policy:?}: {lost} hosts lost");
    assert!(lost > 0 || rounds(40) < 10, "no host was lost");
}

gemelo_format::test_each_policy!(
    what_was_flushed_survives_every_take_over,
    take_over_again_and_again
);
