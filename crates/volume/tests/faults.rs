//! An error at every call to a disk, and a disk that is full for a while.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, and says with which seed"
)]

mod common;

use common::driver::{Driver, Model, check_recovered};
use common::simulated::{Fault, Simulation};
use common::{first_seed, open, options, rounds, tuning};
use gemelo_base::random::Random;
use gemelo_volume::Pool;
use std::io::ErrorKind;

/// Works with a fault from the start, then without, then opens the pool anew after a crash.
fn live(seed: u64, fault: Fault) -> u64 {
    let mut random = Random::new(seed);
    let simulation = Simulation::new(seed);
    Pool::format(&simulation.disks(), &options(150)).unwrap();
    let mut model = Model::default();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    simulation.set_fault(fault);
    for is_healed in [false, true] {
        let mut driver = Driver::new(&simulation, &pool, &mut model, &mut random);
        driver.may_fail = true;
        if (0..100).any(|_| driver.step().is_err()) {
            break;
        }
        if !is_healed {
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
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

#[test]
fn an_error_at_any_call_costs_the_request_and_nothing_else() {
    for seed in first_seed()..first_seed() + rounds(3) {
        let calls = live(seed, Fault::Never);
        assert!(calls > 200, "{calls}");
        for call in 1..=calls {
            let result = std::panic::catch_unwind(|| live(seed, Fault::ErrorAt(call, ErrorKind::Other)));
            if let Err(panic) = result {
                eprintln!("seed {seed}, call {call}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_what_needs_space_until_there_is_some() {
    for seed in first_seed()..first_seed() + rounds(3) {
        for call in 1..150 {
            let result = std::panic::catch_unwind(|| live(seed, Fault::FullFrom(call)));
            if let Err(panic) = result {
                eprintln!("seed {seed}, call {call}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}
