//! Two members without faults: what they have in common is stored once.

use crate::member::{Member, content, flush, read, trim, write};
use crate::proof::{expect_clean, expect_nothing_left};
use crate::simulation::check_from_outside;
use crate::{domain, member};
use gemelo_base::{Silent, StopFlag};
use gemelo_domain::MemberId;
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_objects::simulated::{Faults, World};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Blocks of a volume.
pub(crate) const BLOCKS: u64 = 64;

pub(crate) fn fill(member: &Member, name: &str, mode: DedupMode, ids: impl Iterator<Item = u64>) {
    member.pool.create_volume(name, BLOCKS * crate::BLOCK as u64, mode).unwrap();
    let volume = member.pool.volume(name).unwrap();
    (0..).zip(ids).for_each(|(lbn, id)| write(&volume, lbn, &content(id)).unwrap());
    flush(&volume).unwrap();
    member.pool.find(&Silent, &StopFlag::new()).unwrap();
    member.pool.flush().unwrap();
}

pub(crate) fn expect(member: &Member, name: &str, ids: impl Iterator<Item = u64>) {
    let volume = member.pool.volume(name).unwrap();
    (0..).zip(ids).for_each(|(lbn, id)| assert_eq!(read(&volume, lbn).unwrap(), content(id)));
}

fn two_members(compares: bool, policy: Policy, compressions: [Option<Compression>; 2]) {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    domain::create(&client, 2);
    let start = |number: u32| {
        let compression = compressions[number as usize - 1];
        member::format_as(&client, MemberId(number), (policy, 300), compression);
        Member::start(&client, MemberId(number), compares).unwrap()
    };
    let (one, two) = (start(1), start(2));
    fill(&one, "vm", DedupMode::Inline, 1..=40);
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Offline, 21..=60);
    two.drain().unwrap();
    let (first, second) = (one.sharing.block_figures(), two.sharing.block_figures());
    assert_eq!((first.kept, first.borrowed), (40, 0));
    assert_eq!((second.kept, second.borrowed), (40, 20), "60 contents are stored once");
    expect(&one, "vm", 1..=40);
    expect(&two, "vm", 21..=60);
    expect_clean(&client, &[&one, &two]);
    [&one, &two].into_iter().for_each(check_from_outside);

    // The home gives its contents up, and the other member keeps them.
    trim(&one.pool.volume("vm").unwrap(), 0, BLOCKS).unwrap();
    one.pool.flush().unwrap();
    one.drain().unwrap();
    let first = one.sharing.block_figures();
    assert_eq!((first.kept, first.lent), (20, 20));
    assert_eq!(one.pool.held_blocks(), 20);
    expect(&two, "vm", 21..=60);
    expect_clean(&client, &[&one, &two]);
    check_from_outside(&two);

    // The last one gives them up, and the home hears of it.
    two.pool.remove_volume("vm").unwrap();
    two.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    two.drain().unwrap();
    one.drain().unwrap();
    expect_nothing_left(&client, &[&one, &two]);
}

#[test]
fn members_store_equal_contents_once_and_free_them_in_the_end() {
    for policy in Policy::ALL {
        two_members(true, policy, [None, None]);
        two_members(false, policy, [None, None]);
    }
}

#[test]
fn members_that_compress_share_with_each_other_and_with_others() {
    let (lz4, zstd) = (Some(Compression::Lz4), Some(Compression::Zstd(1)));
    for (number, policy) in Policy::ALL.into_iter().enumerate() {
        for compressions in [[lz4, zstd], [lz4, None], [None, lz4]] {
            two_members(number % 2 == 0, policy, compressions);
        }
    }
}

/// Places that the members' stores need for contents.
fn places(members: &[&Member]) -> u64 {
    let of = |member: &&Member| {
        let figures = member.sharing.block_figures();
        member.pool.stat().unwrap().physical_blocks - figures.borrowed + figures.lent
    };
    members.iter().map(of).sum()
}

#[test]
fn four_members_save_as_much_as_one_pool() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    domain::create(&client, 5);
    let start = |number| {
        member::format(&client, MemberId(number), Policy::Compact, 400);
        Member::start(&client, MemberId(number), false).unwrap()
    };
    // Images with equal blocks in themselves, in common with the others, and of their own.
    let image = |number: u64| {
        (0..BLOCKS).map(move |lbn| match lbn % 4 {
            0 => 1000 * number + lbn,
            1 => 7,
            _ => 5000 + lbn + number / 3,
        })
    };
    let big = start(5);
    for number in 1..=4 {
        fill(&big, &format!("vm{number}"), DedupMode::Offline, image(number));
    }
    let members: Vec<Member> = (1..=4).map(start).collect();
    for (number, member) in (1..).zip(&members) {
        fill(member, "vm", DedupMode::Inline, image(number));
    }
    let all: Vec<&Member> = members.iter().collect();
    assert!(places(&all) > places(&[&big]) * 3 / 2, "nothing is shared yet");
    all.iter().for_each(|member| member.drain().unwrap());
    assert_eq!(places(&all), places(&[&big]));
    (1..).zip(&members).for_each(|(number, member)| expect(member, "vm", image(number)));
}

/// A round lasts as long as the store needs, which can be minutes.
#[test]
fn figures_are_told_during_a_round() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    domain::create(&client, 2);
    let start = |number| {
        member::format(&client, MemberId(number), Policy::Compact, 300);
        Member::start(&client, MemberId(number), true).unwrap()
    };
    let (one, two) = (start(1), start(2));
    fill(&one, "vm", DedupMode::Inline, 1..=5);
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, 1..=5);
    let (sharing, (tell, told)) = (Arc::clone(&two.sharing), channel());
    two.others.watch(move || {
        let (asked, (answer, answered)) = (Arc::clone(&sharing), channel());
        // Nobody waits for the thread, so a round that it waits for can end.
        std::thread::spawn(move || answer.send(asked.figures()));
        tell.send(answered.recv_timeout(Duration::from_secs(5))).unwrap();
    });
    two.drain().unwrap();
    assert_eq!(told.try_iter().next().map(|figures| figures.is_ok()), Some(true));
    assert_eq!(two.sharing.figures().shared, 5);
}
