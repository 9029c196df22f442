//! Damaged contents: a borrowed one is healed at its own place, and a content whose bytes differ is
//! not borrowed.

use crate::disk::{damage, flip_byte, raw_block};
use crate::member::{Failure, LEASE_NS, Member, content, flush, read, trim, write};
use crate::proof::{expect_clean, expect_nothing_left, ledgers};
use crate::together::{BLOCKS, expect, fill};
use crate::{RETRY_INTERVAL_NS, domain, member};
use gemelo_base::{Clock, Silent, StopFlag};
use gemelo_device::DeviceError;
use gemelo_domain::MemberId;
use gemelo_format::{DedupMode, Pbn, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_volume::{ScrubOptions, ScrubReport, Tuning};

/// Two members with equal contents. The second one borrows them from the first one.
fn pair(world: &World, client: &Client, compares: bool) -> (Member, Member) {
    domain::create(client, 2);
    let start = |number| {
        member::format(client, MemberId(number), Policy::Compact, 300);
        Member::start(&world.client(), MemberId(number), compares).unwrap()
    };
    let (one, two) = (start(1), start(2));
    fill(&one, "vm", DedupMode::Inline, 1..=8);
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, 1..=8);
    (one, two)
}

/// Ends a process without notice, and lets another one take its member.
pub(crate) fn take_over(member: Member, world: &World) -> Member {
    let id = member.id();
    drop(member);
    world.sleep_until_ns(world.now_ns() + LEASE_NS);
    let started = Member::start(&world.client(), id, false);
    started.unwrap_or_else(|failure: Failure| panic!("{failure:?}"))
}

#[test]
fn a_borrowed_content_is_healed_at_its_own_place() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (one, two) = pair(&world, &client, false);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    let volume = two.pool.volume("vm").unwrap();
    let (home, lent) = ledgers(&client, &[&two])[0].blocks()[0].borrowed.unwrap();
    damage(&client, home, lent);
    let damaged = (0..8).find(|lbn| read(&volume, *lbn).is_err()).unwrap();
    assert!(matches!(read(&volume, damaged), Err(DeviceError::Damaged { .. })));

    // A heal is durable at once, even if the write that brought the content was not flushed.
    write(&volume, BLOCKS - 1, &content(damaged + 1)).unwrap();
    assert_eq!(read(&volume, damaged).unwrap(), content(damaged + 1));
    drop(volume);
    let two = take_over(two, &world);
    let volume = two.pool.volume("vm").unwrap();
    assert_eq!(read(&volume, damaged).unwrap(), content(damaged + 1));

    // It stays there, even if the process ends before the reference is released.
    write(&volume, BLOCKS - 1, &content(damaged + 1)).unwrap();
    flush(&volume).unwrap();
    drop(volume);
    let two = take_over(two, &world);
    expect(&two, "vm", 1..=8);
    two.drain().unwrap();
    expect(&two, "vm", 1..=8);
    let two = take_over(two, &world);
    expect(&two, "vm", 1..=8);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 7);
    expect_clean(&client, &[&one, &two]);
    for member in [&two, &one] {
        trim(&member.pool.volume("vm").unwrap(), 0, BLOCKS).unwrap();
        member.pool.flush().unwrap();
        member.drain().unwrap();
    }
    one.drain().unwrap();
    expect_nothing_left(&client, &[&one, &two]);
}

#[test]
fn a_content_whose_bytes_differ_is_not_borrowed() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (one, two) = pair(&world, &client, true);
    damage(&client, one.id(), ledgers(&client, &[&one])[0].blocks()[0].pbn);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 7);
    assert_eq!(two.sharing.figures().refused, 1);
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two]);
    let two = take_over(two, &world);
    two.drain().unwrap();
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two]);
}

/// The bytes of a borrowed content are compared where they lie.
#[test]
fn contents_that_are_borrowed_are_compared_at_their_homes() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let (one, two) = pair(&world, &client, false);
    two.drain().unwrap();
    drop(two);
    world.sleep_until_ns(world.now_ns() + LEASE_NS);
    let tuning = Tuning { verify_bytes: true, ..member::tuning() };
    let two = Member::start_with(&world.client(), MemberId(2), (false, tuning)).unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    let volume = two.pool.volume("vm").unwrap();
    (1..=8).for_each(|id| write(&volume, 8 + id, &content(id)).unwrap());
    flush(&volume).unwrap();
    assert_eq!(two.pool.stat().unwrap().physical_blocks, 8, "no content is stored twice");
    expect_clean(&client, &[&one, &two]);
}

/// Three members. The first one is the home of eight contents, and the second one has them as well.
fn three(world: &World, client: &Client) -> [Member; 3] {
    domain::create(client, 3);
    let start = |number| {
        member::format(client, MemberId(number), Policy::Compact, 300);
        Member::start(&world.client(), MemberId(number), false).unwrap()
    };
    let members = [start(1), start(2), start(3)];
    fill(&members[0], "vm", DedupMode::Inline, 1..=8);
    members[0].drain().unwrap();
    fill(&members[1], "vm", DedupMode::Inline, 1..=8);
    members
}

/// Damages the content of a member's first block in the domain.
fn damage_first(client: &Client, home: &Member) {
    let pbn = ledgers(client, &[home])[0].blocks()[0].pbn;
    damage(client, home.id(), pbn);
}

pub(crate) fn scrub(member: &Member) -> ScrubReport {
    let options = ScrubOptions { max_bytes_per_s: None, heals: true };
    member.pool.scrub(options, &Silent, &StopFlag::new()).unwrap()
}

#[test]
fn a_good_block_is_not_given_up_for_a_damaged_one_and_heals_it() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, three] = three(&world, &client);
    damage_first(&client, &one);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 7);
    let figures = two.sharing.figures();
    assert_eq!((figures.checked, figures.refused), (8, 1));
    expect(&two, "vm", 1..=8);
    // The home was told, and takes the good content from there.
    assert!(!scrub(&one).is_clean());
    one.drain().unwrap();
    assert_eq!(one.sharing.figures().healed, 1);
    expect(&one, "vm", 1..=8);
    assert!(scrub(&one).is_clean());
    one.drain().unwrap();
    expect_clean(&client, &[&one, &two]);
    // Others share it again.
    fill(&three, "vm", DedupMode::Inline, 1..=8);
    three.drain().unwrap();
    assert_eq!(three.sharing.block_figures().borrowed, 8);
    expect(&three, "vm", 1..=8);
    drop(take_over(one, &world));
}

#[test]
fn what_a_home_knows_to_be_damaged_is_not_shared_until_it_is_healed() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, three] = three(&world, &client);
    damage_first(&client, &one);
    assert!(!scrub(&one).is_clean());
    one.drain().unwrap();
    // The index says so: nobody has to read it.
    two.drain().unwrap();
    let figures = two.sharing.figures();
    assert_eq!((figures.checked, figures.refused, figures.set_aside), (7, 0, 1));
    assert_eq!(two.sharing.block_figures().borrowed, 7);
    expect(&two, "vm", 1..=8);
    // The home takes the content from the member that was refused, and says that it is good.
    one.drain().unwrap();
    assert_eq!(one.sharing.figures().healed, 1);
    expect(&one, "vm", 1..=8);
    assert!(scrub(&one).is_clean());
    fill(&three, "vm", DedupMode::Inline, 1..=8);
    three.drain().unwrap();
    assert_eq!(three.sharing.block_figures().borrowed, 8);
    // The member that was refused tries again when it is opened.
    let two = take_over(two, &world);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two, &three]);
}

/// The copy that a home is told of cannot be read while it looks. It is told again.
#[test]
fn a_home_whose_heal_failed_is_told_of_a_good_copy_again() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, _] = three(&world, &client);
    let damaged = ledgers(&client, &[&one])[0].blocks()[0].pbn;
    let bytes = raw_block(&client, one.id(), damaged);
    damage(&client, one.id(), damaged);
    assert!(!scrub(&one).is_clean());
    one.drain().unwrap();
    two.drain().unwrap();
    assert_eq!(two.sharing.figures().set_aside, 1);
    let copy =
        (1..300).filter_map(Pbn::new).find(|pbn| raw_block(&client, two.id(), *pbn) == bytes);
    let copy = (copy.unwrap(), 7);
    flip_byte(&client, two.id(), copy, 1);
    one.drain().unwrap();
    flip_byte(&client, two.id(), copy, 1);
    for is_time_over in [false, true] {
        if is_time_over {
            world.sleep_until_ns(client.clock().now_ns() + RETRY_INTERVAL_NS);
        }
        two.drain().unwrap();
        one.drain().unwrap();
        assert_eq!(one.sharing.figures().healed, u64::from(is_time_over));
    }
    // It is counted once, and shared now that the home is good.
    assert_eq!(two.sharing.figures().set_aside, 1);
    world.sleep_until_ns(client.clock().now_ns() + RETRY_INTERVAL_NS);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    expect(&one, "vm", 1..=8);
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two]);
}

#[test]
fn a_borrower_that_meets_damage_or_writes_the_content_again_helps_the_home() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, three] = three(&world, &client);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    damage_first(&client, &one);
    let volume = two.pool.volume("vm").unwrap();
    let damaged = (0..8).find(|lbn| read(&volume, *lbn).is_err()).unwrap();
    two.drain().unwrap();
    one.drain().unwrap();
    // The home has looked, and nobody shares the content any more.
    fill(&three, "vm", DedupMode::Inline, 1..=8);
    write(&three.pool.volume("vm").unwrap(), damaged, &content(100)).unwrap();
    three.pool.flush().unwrap();
    three.drain().unwrap();
    assert_eq!(three.sharing.figures().set_aside, 0);
    write(&volume, BLOCKS - 1, &content(damaged + 1)).unwrap();
    flush(&volume).unwrap();
    two.drain().unwrap();
    one.drain().unwrap();
    assert_eq!(one.sharing.figures().healed, 1);
    expect(&one, "vm", 1..=8);
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two, &three]);
}

#[test]
fn a_lent_content_is_healed_as_well() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, three] = three(&world, &client);
    two.drain().unwrap();
    trim(&one.pool.volume("vm").unwrap(), 0, BLOCKS).unwrap();
    one.pool.flush().unwrap();
    one.drain().unwrap();
    assert_eq!(one.sharing.block_figures().lent, 8);
    damage_first(&client, &one);
    fill(&three, "vm", DedupMode::Inline, 1..=8);
    three.drain().unwrap();
    assert_eq!(three.sharing.block_figures().borrowed, 7);
    expect(&three, "vm", 1..=8);
    one.drain().unwrap();
    assert_eq!(one.sharing.figures().healed, 1);
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two, &three]);
}

/// No map of the home has a lent block, and no member has the content in a block that it shares.
#[test]
fn a_scrub_heals_a_lent_content_from_another_block_of_the_home() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, _] = three(&world, &client);
    two.drain().unwrap();
    fill(&one, "off", DedupMode::Off, 1..=8);
    trim(&one.pool.volume("vm").unwrap(), 0, BLOCKS).unwrap();
    one.pool.flush().unwrap();
    one.drain().unwrap();
    assert_eq!(one.sharing.block_figures().lent, 8);
    assert!(scrub(&one).is_clean());
    damage_first(&client, &one);
    for heals in [false, true] {
        let options = ScrubOptions { max_bytes_per_s: None, heals };
        let report = one.pool.scrub(options, &Silent, &StopFlag::new()).unwrap();
        assert_eq!((report.problems.len(), report.can_be_healed()), (1, true), "{report:?}");
        one.drain().unwrap();
        assert_eq!(one.sharing.figures().healed, u64::from(heals));
    }
    assert!(scrub(&one).is_clean());
    expect(&two, "vm", 1..=8);
    expect_clean(&client, &[&one, &two]);
}
