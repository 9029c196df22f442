//! Contents that the domain knows and that the pool wants to move: those that no other member uses
//! leave the index, are moved, and are published again.

use crate::member::{Member, content, flush, read, write};
use crate::proof::{expect_clean, expect_nothing_left};
use crate::simulation::check_from_outside;
use crate::together::{expect, fill};
use crate::{BLOCK, RETRY_INTERVAL_NS, domain, member};
use gemelo_base::random::Random;
use gemelo_base::{Clock, Silent, StopFlag};
use gemelo_device::DeviceError;
use gemelo_domain::MemberId;
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_volume::Volume;

fn start<const N: usize>(world: &World, client: &Client, policy: Policy) -> [Member; N] {
    domain::create(client, N as u32);
    std::array::from_fn(|at| {
        let number = MemberId(at as u32 + 1);
        member::format_as(client, number, (policy, 300), Some(Compression::Lz4));
        Member::start(&world.client(), number, false).unwrap()
    })
}

/// LBNs of the volume that is overwritten. Their contents take some 230 of 300 blocks.
const LBNS: u64 = 340;
const STEPS: u64 = 3000;
/// Contents that both members have.
const COMMON: u64 = 30;

/// Writes a content, after the member's rounds if there is no space before.
fn store(member: &Member, volume: &Volume, lbn: u64, id: u64) {
    for _ in 0..4 {
        match write(volume, lbn, &content(id)) {
            Err(DeviceError::NoSpace) => {
                flush(volume).unwrap();
                member.drain().unwrap();
            }
            other => return other.unwrap(),
        }
    }
    panic!("there is no space for content {id}");
}

#[test]
fn the_space_of_overwritten_contents_that_the_domain_knew_is_used_again() {
    for (seed, policy) in (1..).zip(Policy::ALL) {
        let world = World::new(seed, Faults::NONE);
        let client = world.client();
        let [one, two] = start(&world, &client, policy);
        one.pool.create_volume("vm", LBNS * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = one.pool.volume("vm").unwrap();
        let mut ids: Vec<u64> = (1..=LBNS).collect();
        (0..LBNS).for_each(|lbn| store(&one, &volume, lbn, lbn + 1));
        flush(&volume).unwrap();
        one.drain().unwrap();
        fill(&two, "vm", DedupMode::Inline, 1..=COMMON);
        two.drain().unwrap();
        let mut random = Random::new(seed);
        for step in 0..STEPS {
            let (lbn, id) = (random.below(LBNS), LBNS + 1 + step);
            store(&one, &volume, lbn, id);
            ids[lbn as usize] = id;
            if step % 16 == 0 {
                flush(&volume).unwrap();
                one.sharing.work(&one.pool).unwrap();
            }
        }
        flush(&volume).unwrap();
        one.drain().unwrap();
        let (figures, moved) = (one.sharing.figures(), one.pool.stat().unwrap().activity);
        assert!(figures.withdrawn > 0 && moved.cleaner_moved_blocks > 0, "{figures:?} {moved:?}");
        for (lbn, id) in (0..).zip(&ids) {
            assert_eq!(read(&volume, lbn).unwrap(), content(*id), "{policy:?}: block {lbn}");
        }
        expect(&two, "vm", 1..=COMMON);
        expect_clean(&client, &[&one, &two]);
        check_from_outside(&one);
        // What was withdrawn and was not moved is published again later.
        world.sleep_until_ns(client.clock().now_ns() + RETRY_INTERVAL_NS);
        one.drain().unwrap();
        assert_eq!(one.sharing.block_figures().kept, LBNS + lent(&one));
        for member in [&one, &two] {
            member.pool.remove_volume("vm").unwrap();
            member.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        }
        [&two, &one, &two].into_iter().for_each(|member| member.drain().unwrap());
        expect_nothing_left(&client, &[&one, &two]);
    }
}

/// Contents that only the other member uses.
fn lent(member: &Member) -> u64 {
    member.sharing.block_figures().lent
}

#[test]
fn contents_that_the_domain_knew_are_compressed_again_unless_others_use_them() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client, Policy::Dtb);
    one.pool.create_volume("vm", LBNS * BLOCK as u64, DedupMode::Inline).unwrap();
    one.pool.set_compression("vm", Compression::Off).unwrap();
    let volume = one.pool.volume("vm").unwrap();
    (0..60).for_each(|lbn| write(&volume, lbn, &content(4 * lbn + 1)).unwrap());
    flush(&volume).unwrap();
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, (0..10).map(|lbn| 4 * lbn + 1));
    two.drain().unwrap();
    one.pool.set_compression("vm", Compression::Lz4).unwrap();
    let recompress = || one.pool.recompress(None, &Silent, &StopFlag::new()).unwrap();
    assert_eq!(recompress().moved_blocks, 0, "no round has come between");
    one.drain().unwrap();
    let report = recompress();
    assert_eq!((report.moved_blocks, report.fixed_blocks), (50, 10));
    one.pool.flush().unwrap();
    one.drain().unwrap();
    assert_eq!(one.sharing.block_figures().kept, 60, "they are published again");
    expect(&one, "vm", (0..60).map(|lbn| 4 * lbn + 1));
    expect(&two, "vm", (0..10).map(|lbn| 4 * lbn + 1));
    expect_clean(&client, &[&one, &two]);
    check_from_outside(&one);
    // The other member gives them up.
    two.pool.remove_volume("vm").unwrap();
    two.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    two.drain().unwrap();
    world.sleep_until_ns(client.clock().now_ns() + RETRY_INTERVAL_NS);
    one.drain().unwrap();
    recompress();
    one.drain().unwrap();
    assert_eq!(recompress().moved_blocks, 10);
}

/// Contents with several references move by their blocks, and the domain learns of the new places.
#[test]
fn contents_that_a_snapshot_has_as_well_are_published_again() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client, Policy::Compact);
    one.pool.create_volume("vm", LBNS * BLOCK as u64, DedupMode::Inline).unwrap();
    one.pool.set_compression("vm", Compression::Off).unwrap();
    let volume = one.pool.volume("vm").unwrap();
    (0..60).for_each(|lbn| write(&volume, lbn, &content(4 * lbn + 1)).unwrap());
    one.pool.snapshot_volume("vm", "before").unwrap();
    one.drain().unwrap();
    assert_eq!(one.sharing.block_figures().kept, 60);
    one.pool.set_compression("vm", Compression::Lz4).unwrap();
    let recompress = || one.pool.recompress(None, &Silent, &StopFlag::new()).unwrap();
    assert_eq!(recompress().moved_blocks, 0, "no round has come between");
    one.drain().unwrap();
    assert_eq!(recompress().moved_blocks, 60);
    one.pool.flush().unwrap();
    one.drain().unwrap();
    assert_eq!(one.sharing.block_figures().kept, 60, "they are published again");
    fill(&two, "vm", DedupMode::Inline, (0..10).map(|lbn| 4 * lbn + 1));
    two.drain().unwrap();
    let found = two.sharing.block_figures().borrowed;
    assert_eq!(found, 10, "the other member finds them");
    for name in ["vm", "before"] {
        expect(&one, name, (0..60).map(|lbn| 4 * lbn + 1));
    }
    expect(&two, "vm", (0..10).map(|lbn| 4 * lbn + 1));
    expect_clean(&client, &[&one, &two]);
    check_from_outside(&one);
}
