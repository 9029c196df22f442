//! A home that cannot be read for a while: what lies there is not called damaged, and is there
//! again later.

use crate::domain::{BLOCK, Domain, expect, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_device::{BlockDevice, Operation, Request};
use gemelo_place::PlacedPool;
use gemelo_volume::ScrubOptions;

/// Reads a block, and returns the error with its causes.
fn error_of(placed: &PlacedPool, lbn: u64) -> String {
    let volume = placed.pool().volume("vm").unwrap();
    let mut buffer = vec![0; BLOCK];
    let operation = Operation::Read { offset: lbn * BLOCK as u64, buffer: &mut buffer };
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    let [Request { outcome, .. }] = batch;
    gemelo_base::with_causes(&outcome.unwrap_err())
}

#[test]
fn contents_of_a_home_that_cannot_be_read_are_not_called_damaged() {
    let domain = Domain::new();
    let (first, second) = domain.two_with_the_same_contents();
    let two = second.serve("two");
    *second.store.lost_reads.lock() = Some("data.00000001".into());
    for lbn in 0..8 {
        let error = error_of(&two, lbn);
        assert!(!error.contains("damaged") && error.contains("data.00000001"), "{error}");
    }
    let options = ScrubOptions { heals: true, ..ScrubOptions::default() };
    let scrubbed = two.pool().scrub(options, &Silent, &StopFlag::new());
    assert!(scrubbed.is_err() || scrubbed.is_ok_and(|report| !report.is_clean()));
    // Another content, and a reference that is released meanwhile.
    write(&two, 0, 99);
    assert_eq!(two.pool().damaged_blocks(), []);
    *second.store.lost_reads.lock() = None;
    expect(&two, [99, 2, 3, 4, 5, 6, 7, 8].into_iter());
    let report = two.pool().scrub(options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    two.share(&StopFlag::new()).unwrap();
    two.close().unwrap();
    let one = first.serve("one");
    expect(&one, 1..=8);
    one.close().unwrap();
}
