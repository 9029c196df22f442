//! Damaged contents: a borrowed one is healed at its own place, and a content whose bytes differ is
//! not borrowed.

use crate::disk::damage;
use crate::member::{Failure, Member, content, flush, read, trim, write};
use crate::proof::{expect_clean, expect_nothing_left, ledgers};
use crate::together::{BLOCKS, expect, fill};
use crate::{domain, member};
use gemelo_base::Clock;
use gemelo_device::DeviceError;
use gemelo_domain::{DomainConfig, MemberId};
use gemelo_format::{BackendKind, DedupMode};
use gemelo_objects::simulated::{Client, Faults, World};

/// Two members with equal contents. The second one borrows them from the first one.
fn pair(world: &World, client: &Client, compares: bool) -> (DomainConfig, Member, Member) {
    let config = domain::create(client, 2);
    let start = |number| {
        member::format(client, MemberId(number), BackendKind::Log, 300);
        Member::start(&world.client(), config, MemberId(number), compares).unwrap()
    };
    let (one, two) = (start(1), start(2));
    fill(&one, "vm", DedupMode::Inline, 1..=8);
    one.work_off().unwrap();
    fill(&two, "vm", DedupMode::Inline, 1..=8);
    (config, one, two)
}

/// Ends a process without notice, and lets another one take its member.
fn take_over(member: Member, world: &World, config: DomainConfig) -> Member {
    let (id, ends_ns) = (member.id(), member.tenure.ends_ns());
    drop(member);
    // The store counts the lease from the arrival of the request.
    world.sleep_until_ns(ends_ns + 1_000_000_000);
    let started = Member::start(&world.client(), config, id, false);
    started.unwrap_or_else(|failure: Failure| panic!("{failure:?}"))
}

#[test]
fn a_borrowed_content_is_healed_at_its_own_place() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (config, one, two) = pair(&world, &client, false);
    two.work_off().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    let volume = two.pool.volume("vm").unwrap();
    let (home, lent) = ledgers(&client, &[&two])[0].blocks()[0].borrowed.unwrap();
    damage(&client, home, lent);
    let damaged = (0..8).find(|lbn| read(&volume, *lbn).is_err()).unwrap();
    assert!(matches!(read(&volume, damaged), Err(DeviceError::Damaged { .. })));

    // A heal that was not flushed is lost in a crash, and no other content appears.
    write(&volume, BLOCKS - 1, &content(damaged + 1)).unwrap();
    assert_eq!(read(&volume, damaged).unwrap(), content(damaged + 1));
    drop(volume);
    let two = take_over(two, &world, config);
    let volume = two.pool.volume("vm").unwrap();
    assert!(read(&volume, damaged).is_err());

    // One that was flushed is not, even if the process ends before the reference is released.
    write(&volume, BLOCKS - 1, &content(damaged + 1)).unwrap();
    flush(&volume).unwrap();
    drop(volume);
    let two = take_over(two, &world, config);
    expect(&two, "vm", 1..=8);
    two.work_off().unwrap();
    expect(&two, "vm", 1..=8);
    let two = take_over(two, &world, config);
    expect(&two, "vm", 1..=8);
    two.work_off().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 7);
    expect_clean(&client, &[&one, &two]);
    for member in [&two, &one] {
        trim(&member.pool.volume("vm").unwrap(), 0, BLOCKS).unwrap();
        member.pool.flush().unwrap();
        member.work_off().unwrap();
    }
    one.work_off().unwrap();
    expect_nothing_left(&client, &[&one, &two]);
}

#[test]
fn a_content_whose_bytes_differ_is_not_borrowed() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (config, one, two) = pair(&world, &client, true);
    damage(&client, one.id(), ledgers(&client, &[&one])[0].blocks()[0].pbn);
    two.work_off().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 7);
    assert_eq!(two.sharing.figures().refused, 1);
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two]);
    let two = take_over(two, &world, config);
    two.work_off().unwrap();
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two]);
}
