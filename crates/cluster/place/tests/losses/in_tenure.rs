//! Parts that were put back as they were earlier in the same tenure: their marks of tenure are
//! right, and the seals of the ledger, the versions of the index, the flush marks of the metadata
//! and the checksums of contents tell.

use crate::base::{Base, LONG_JOURNAL, Process, new_world, overwrite, share};
use crate::faults::Fault;
use crate::matrix::run_cases;
use crate::snapshot::{put, take};
use gemelo_base::{Silent, StopFlag};
use gemelo_domain::Client;
use gemelo_place::{PlacedPool, Use};
use std::sync::Arc;

/// Gives blocks back, so that their places are used again.
fn collect(one: &PlacedPool) {
    one.pool().gc(None, &Silent, &StopFlag::new()).unwrap();
    one.pool().checkpoint().unwrap();
}

/// The domain as a process leaves it that has served the first member for a while, and died.
fn base() -> Base {
    let Base { now, mut images, .. } = Base::in_memory(None, LONG_JOURNAL);
    let world = new_world();
    let connect = || -> Arc<dyn Client> { Arc::new(world.client()) };
    put(&*connect(), &now);
    let process = Process::new(connect()).unwrap();
    let one = process.open("one", Use::Hold, false).unwrap();
    overwrite(&mut images, &one, ("one", "vm"), (6..20).zip(601..));
    share(&one);
    collect(&one);
    let before = take(&*process.store);
    for first in [651, 701] {
        overwrite(&mut images, &one, ("one", "vm"), (6..24).zip(first..));
        overwrite(&mut images, &one, ("one", "many"), (500..520).zip(first + 20..));
        share(&one);
        collect(&one);
    }
    let now = take(&*process.store);
    Base { before, now, images }
}

#[test]
fn what_is_older_within_a_tenure_takes_nothing_else_with_it() {
    assert!(run_cases(&base(), Fault::Older, None, "") > 15);
}
