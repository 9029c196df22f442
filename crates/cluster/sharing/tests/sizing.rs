//! The simulation that sizes a domain: it repeats, its counts agree, and it finds what was
//! published.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test fails by panicking, and does not use all of the program"
)]

#[path = "../examples/sizing/costs.rs"]
mod costs;
#[path = "../examples/sizing/load.rs"]
mod load;

use costs::{Gathering, MemberLoad, need};
use load::{Setup, run};

fn setup(members: u32) -> Setup {
    Setup { members, volume: 16_000, image: 4000, rounds: 8, writes: 1000, seed: 1 }
}

#[test]
fn it_repeats_and_its_counts_agree() {
    let outcome = run(&setup(4));
    assert_eq!(outcome, run(&setup(4)));
    assert_eq!(outcome.image.all, 4 * 4000);
    assert_eq!(outcome.image.eliminated, 3 * 4000, "all but the first member share the image");
    assert_eq!(outcome.published - outcome.withdrawn, outcome.entries);
    assert_eq!(outcome.published + outcome.shared - outcome.released, outcome.references);
    assert!(outcome.writes.all < outcome.written - outcome.image.all, "hot blocks are left alone");
}

#[test]
fn more_members_find_more_duplicates() {
    let [two, eight] = [2, 8].map(|members| run(&setup(members)));
    assert!(two.all().percent() < eight.all().percent());
    assert!(two.image.percent() < eight.image.percent());
}

fn load(rate: f64, pause_s: f64) -> MemberLoad {
    MemberLoad {
        written_bytes_per_s: rate,
        changes: [0.5, 0.2, 0.5, 0.4],
        stored_bytes: 1e12,
        entries_per_block: 0.5,
        gathering: Gathering { pause_s, batch: 1e6 },
    }
}

#[test]
fn more_load_saturates_the_index_and_more_shards_are_used_for_more_contents() {
    let (small, large) = (need(2, &load(1e5, 0.5)), need(1000, &load(1e7, 0.5)));
    assert!(small.busy < 0.1 && large.busy > 1.0, "{small:?} {large:?}");
    assert!(small.void < large.void);
    assert!(small.shards < large.shards);
    assert!(small.keys_per_shard <= 200_000.0 && large.keys_per_shard <= 200_000.0);
}

#[test]
fn gathering_for_longer_takes_less_of_the_store() {
    let [soon, late] = [0.5, 600.0].map(|pause_s| need(2, &load(1e6, pause_s)));
    assert!(late.busy < soon.busy / 10.0, "{soon:?} {late:?}");
}
