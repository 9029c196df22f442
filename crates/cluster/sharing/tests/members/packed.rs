//! Members that compress: contents share blocks, whose space is given back once all of a block's
//! contents are borrowed.

use crate::disk::{damage, flip_byte, packed_bytes, raw_block};
use crate::member::{Member, content, flush, read, trim, write};
use crate::proof::{expect_clean, ledgers};
use crate::simulation::check_from_outside;
use crate::together::{BLOCKS, expect, fill};
use crate::{BLOCK, damage as damages, domain, member};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_domain::MemberId;
use gemelo_format::{Compression, DedupMode, PackedPlace, Pbn, Policy};
use gemelo_objects::simulated::{Client, Faults, World};
use gemelo_store::block_number;
use gemelo_volume::Tuning;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Members of a new domain, all of which compress.
fn start<const N: usize>(world: &World, client: &Client) -> [Member; N] {
    domain::create(client, N as u32);
    let start = |at: usize| {
        let number = MemberId(at as u32 + 1);
        let shape = (Policy::Dtb, 300);
        member::format_as(client, number, shape, Some(Compression::Lz4));
        Member::start(&world.client(), number, false).unwrap()
    };
    std::array::from_fn(start)
}

/// The blocks of a member's contents, by whether they are borrowed.
fn blocks_of(client: &Client, member: &Member, is_borrowed: bool) -> BTreeSet<Pbn> {
    let ledger = &ledgers(client, &[member])[0];
    let kept = ledger.blocks().iter().filter(|kept| kept.borrowed.is_some() == is_borrowed);
    let places = kept.map(|kept| PackedPlace::of(kept.pbn));
    let parts = places.flat_map(|at| at.block..=at.block + u32::from(at.is_spanning()));
    parts.filter_map(block_number).collect()
}

/// Returns whether the space of a block was given back.
fn is_discarded(client: &Client, member: &Member, block: Pbn) -> bool {
    raw_block(client, member.id(), block) == [0; BLOCK]
}

#[test]
fn blocks_of_borrowed_contents_are_given_back_when_no_other_content_is_left_in_them() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client);
    // Every other content of the second member is its own.
    fill(&one, "vm", DedupMode::Inline, (1..=40).map(|id| 2 * id));
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, 1..=40);
    fill(&two, "own", DedupMode::Inline, 201..=210);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 20);
    let own = blocks_of(&client, &two, false);
    let (mixed, alone): (Vec<Pbn>, Vec<Pbn>) =
        blocks_of(&client, &two, true).into_iter().partition(|block| own.contains(block));
    assert!(mixed.len() > 5, "{mixed:?} {alone:?}");
    assert!(mixed.iter().all(|block| !is_discarded(&client, &two, *block)));
    assert!(alone.iter().all(|block| is_discarded(&client, &two, *block)));
    expect(&two, "vm", 1..=40);
    // The contents of its own go, and with them what keeps the space of the others.
    let volume = two.pool.volume("vm").unwrap();
    (0..40).step_by(2).for_each(|lbn| trim(&volume, lbn, 1).unwrap());
    flush(&volume).unwrap();
    for _ in 0..2 {
        two.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        two.drain().unwrap();
    }
    assert!(mixed.iter().all(|block| is_discarded(&client, &two, *block)));
    expect(&two, "own", 201..=210);
    expect(&two, "vm", (1..=40).map(|id| if id % 2 == 0 { id } else { 0 }));
    expect_clean(&client, &[&one, &two]);
    check_from_outside(&two);
}

/// The domain does not know contents of a volume that shares nothing.
#[test]
fn contents_that_are_never_shared_keep_their_blocks_until_they_go() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client);
    fill(&one, "vm", DedupMode::Inline, 1..=20);
    one.drain().unwrap();
    for (name, mode) in [("vm", DedupMode::Offline), ("off", DedupMode::Off)] {
        two.pool.create_volume(name, BLOCKS * BLOCK as u64, mode).unwrap();
    }
    let [volume, off] = ["vm", "off"].map(|name| two.pool.volume(name).unwrap());
    for lbn in 0..20 {
        write(&volume, lbn, &content(lbn + 1)).unwrap();
        write(&off, lbn, &content(lbn + 301)).unwrap();
    }
    (20..24).for_each(|lbn| write(&volume, lbn, &content(lbn + 401)).unwrap());
    flush(&volume).unwrap();
    two.pool.find(&Silent, &StopFlag::new()).unwrap();
    two.pool.flush().unwrap();
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 20);
    expect(&two, "off", 301..=320);
    let own = blocks_of(&client, &two, false);
    let mut blocks = blocks_of(&client, &two, true);
    blocks.retain(|block| !own.contains(block));
    let kept = blocks.iter().filter(|block| !is_discarded(&client, &two, **block)).count();
    assert!(kept > 5, "{kept} of {}", blocks.len());
    trim(&off, 0, 20).unwrap();
    flush(&off).unwrap();
    two.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    two.drain().unwrap();
    assert!(blocks.iter().all(|block| is_discarded(&client, &two, *block)));
    expect(&two, "vm", 1..=20);
    expect_clean(&client, &[&one, &two]);
}

#[test]
fn a_block_that_gets_more_contents_is_given_back_later() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client);
    fill(&one, "vm", DedupMode::Inline, [1].into_iter());
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, [1].into_iter());
    two.drain().unwrap();
    let blocks = blocks_of(&client, &two, true);
    assert!(blocks.iter().all(|block| !is_discarded(&client, &two, *block)));
    fill(&two, "more", DedupMode::Inline, 11..=20);
    two.drain().unwrap();
    assert!(blocks.iter().all(|block| is_discarded(&client, &two, *block)));
    expect(&two, "vm", [1].into_iter());
}

/// Flips a byte in the middle of a compressed content of a member, and returns its number among
/// those that were written from 1 on.
fn damage_content(client: &Client, home: &Member) -> u64 {
    let ledger = &ledgers(client, &[home])[0];
    let packed = |pbn: Pbn| (1..7).contains(&PackedPlace::of(pbn).slot);
    let kept = ledger.blocks().iter().find(|kept| packed(kept.pbn)).unwrap();
    let (block, bytes) = packed_bytes(client, home.id(), kept.pbn);
    flip_byte(client, home.id(), (block, bytes.start + 50), 1);
    let of = |id: u64| home.pool.fingerprinter().of(&content(id));
    (1..1000).find(|id| of(*id) == kept.fingerprint).unwrap()
}

#[test]
fn a_damaged_content_of_a_home_is_healed_from_another_member() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two, three] = start(&world, &client);
    fill(&one, "vm", DedupMode::Inline, 1..=8);
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, 1..=8);
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    let damaged = damage_content(&client, &one);
    assert!(!damages::scrub(&two).is_clean(), "it is read at its home");
    // A third member has the content as well, and does not give it up for the damaged one.
    fill(&three, "vm", DedupMode::Inline, 1..=8);
    three.drain().unwrap();
    assert_eq!(three.sharing.block_figures().borrowed, 7);
    one.drain().unwrap();
    assert_eq!(one.sharing.figures().healed, 1);
    assert!(damages::scrub(&two).is_clean());
    two.drain().unwrap();
    [&one, &two, &three].into_iter().for_each(|member| expect(member, "vm", 1..=8));
    let two = damages::take_over(two, &world);
    expect(&two, "vm", 1..=8);
    assert!((1..=8).contains(&damaged));
    expect_clean(&client, &[&one, &two, &three]);
}

/// The place of a borrowed content may be gone with its block, so the content is stored anew, from
/// where its home is healed.
#[test]
fn a_borrower_that_writes_a_damaged_content_again_stores_it_elsewhere() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client);
    fill(&one, "vm", DedupMode::Inline, 1..=8);
    one.drain().unwrap();
    // Contents of its own keep the blocks of the others.
    let ids = || (1..=8).flat_map(|id| [id, id + 100]);
    fill(&two, "vm", DedupMode::Inline, ids());
    two.drain().unwrap();
    assert_eq!(two.sharing.block_figures().borrowed, 8);
    let damaged = damage_content(&client, &one);
    assert!(!damages::scrub(&two).is_clean());
    let volume = two.pool.volume("vm").unwrap();
    write(&volume, 20, &content(damaged)).unwrap();
    flush(&volume).unwrap();
    assert_eq!(read(&volume, 20).unwrap(), content(damaged));
    assert!(read(&volume, 2 * (damaged - 1)).is_err(), "it is read at its home");
    for _ in 0..2 {
        two.drain().unwrap();
        one.drain().unwrap();
    }
    assert_eq!(one.sharing.figures().healed, 1);
    expect(&one, "vm", 1..=8);
    expect(&two, "vm", ids());
    assert!(damages::scrub(&two).is_clean());
    two.drain().unwrap();
    expect_clean(&client, &[&one, &two]);
}

#[test]
fn a_lost_block_of_a_home_damages_its_own_contents_alone() {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    let [one, two] = start(&world, &client);
    fill(&one, "vm", DedupMode::Inline, 1..=30);
    one.drain().unwrap();
    fill(&two, "vm", DedupMode::Inline, 1..=30);
    two.drain().unwrap();
    let block = *blocks_of(&client, &one, false).iter().nth(4).unwrap();
    damage(&client, one.id(), block);
    let volume = two.pool.volume("vm").unwrap();
    let lost = (0..30).filter(|lbn| read(&volume, *lbn).is_err()).count();
    assert!((1..=4).contains(&lost), "{lost}");
}

#[test]
fn borrowed_contents_are_cached_and_forgotten_when_their_numbers_get_others() {
    [None, Some(Compression::Lz4)].into_iter().for_each(expect_cached_and_forgotten);
}

fn expect_cached_and_forgotten(compression: Option<Compression>) {
    let world = World::new(1, Faults::NONE);
    let client = world.client();
    domain::create(&client, 2);
    let start = |number: u32, blocks: u64| {
        let number = MemberId(number);
        member::format_as(&client, number, (Policy::Dtb, blocks), compression);
        let tuning = Tuning { content_cache_bytes: Some(64 << 10), ..member::tuning() };
        Member::start_with(&world.client(), number, (false, tuning)).unwrap()
    };
    let (one, two) = (start(1, 300), start(2, 40));
    fill(&one, "vm", DedupMode::Inline, 1..=60);
    one.drain().unwrap();
    // In so few blocks, numbers are used again and again.
    let mut random = Random::new(1);
    two.pool.create_volume("vm", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = two.pool.volume("vm").unwrap();
    for _ in 0..40 {
        let ids: Vec<u64> = (0..20).map(|_| 1 + random.below(60)).collect();
        (0..).zip(&ids).for_each(|(lbn, id)| write(&volume, lbn, &content(*id)).unwrap());
        flush(&volume).unwrap();
        two.drain().unwrap();
        let reads = || two.others.reads.load(Ordering::Relaxed);
        let before = reads();
        expect(&two, "vm", ids.iter().copied());
        assert!(reads() > before, "all are borrowed");
        let once = reads();
        expect(&two, "vm", ids.iter().copied());
        assert_eq!(reads(), once, "the cache has them");
        trim(&volume, 0, 20).unwrap();
        flush(&volume).unwrap();
        two.drain().unwrap();
    }
    assert!(two.pool.stat().unwrap().content_cache.hits >= 40 * 20);
    assert_eq!(two.others.failures.load(Ordering::Relaxed), 0);
}
