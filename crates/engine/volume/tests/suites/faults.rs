//! An error at every call to a disk, and a disk that is full for a while.

use crate::common::driver::{Driver, Model, check_recovered};
use crate::common::repeat::Repeat;
use crate::common::simulated::{Fault, Simulation};
use crate::common::{first_seed, open, options_with, rounds, tuning};
use gemelo_base::random::Random;
use gemelo_format::Policy;
use gemelo_volume::{Pool, StopReason};
use std::io::ErrorKind;

/// The calls to the disks in a life are more than these on average.
const MIN_CALLS: u64 = 100;

/// Runs a pool with a fault, then without one, and opens it again after a crash.
fn live(policy: Policy, seed: u64, fault: Fault) -> u64 {
    let mut random = Random::new(seed);
    let simulation = Simulation::new(seed);
    Pool::format(&simulation.disks(), &options_with(policy, 150)).unwrap();
    let mut model = Model::default();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    simulation.set_fault(fault);
    for is_healed in [false, true] {
        let mut driver = Driver::new(&simulation, &pool, &mut model, &mut random);
        driver.may_fail = true;
        if (0..100).any(|_| driver.step().is_err()) {
            break;
        }
        // Only a failed sync, or root, leaves it open what is durable. Everything else costs the
        // request that failed. Counts of a pool that has stopped may be half changed.
        let stopped = pool.stopped();
        let is_in_doubt = |reason: &StopReason| {
            let actions = ["sync", "write the root of"];
            matches!(reason, StopReason::Disk { action, .. } if actions.contains(action))
                || matches!(fault, Fault::ErrorAt(..))
                    && matches!(reason, StopReason::Disk { action: "write to", .. })
        };
        assert!(stopped.as_ref().is_none_or(is_in_doubt), "{stopped:?}");
        if !is_healed && stopped.is_none() {
            // The fault may hit this very call if the policy reads from the disk. It occurs once.
            let wrong = pool.prove(10).or_else(|_| pool.prove(10)).unwrap();
            assert_eq!(wrong, Vec::<String>::new());
        }
        if matches!(fault, Fault::FullFrom(_)) && !is_healed {
            simulation.set_fault(Fault::Never);
            pool.flush().expect("space has returned");
            pool.checkpoint().expect("space has returned");
        }
    }
    let calls = simulation.calls();
    let simulation = simulation.after_crash(seed);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    check_recovered(&pool, &mut model);
    calls
}

/// Every policy, with a few seeds each.
fn lives() -> impl Iterator<Item = (Policy, u64)> {
    let seeds = first_seed()..first_seed() + rounds(1);
    Policy::ALL.into_iter().flat_map(move |policy| seeds.clone().map(move |seed| (policy, seed)))
}

fn live_with(policy: Policy, seed: u64, fault: Fault) -> u64 {
    let _repeat = Repeat::of(seed);
    std::panic::catch_unwind(|| live(policy, seed, fault)).unwrap_or_else(|panic| {
        eprintln!("{policy:?}, {fault:?}");
        std::panic::resume_unwind(panic);
    })
}

#[test]
fn an_error_at_any_call_costs_the_request_and_nothing_else() {
    let mut all_calls = 0;
    for (policy, seed) in lives() {
        let calls = live_with(policy, seed, Fault::Never);
        all_calls += calls;
        for call in 1..=calls {
            live_with(policy, seed, Fault::ErrorAt(call, ErrorKind::Other));
        }
    }
    // A single seed may have few.
    let lives = lives().count() as u64;
    assert!(all_calls > MIN_CALLS * lives, "{all_calls} calls in {lives} lives");
}

#[test]
fn a_full_disk_refuses_what_needs_space_until_there_is_some() {
    for (policy, seed) in lives() {
        for call in 1..150 {
            live_with(policy, seed, Fault::FullFrom(call));
        }
    }
}
