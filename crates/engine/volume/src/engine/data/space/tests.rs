//! Properties of the free space, compared with sets.

use super::*;
use gemelo_base::random::Random;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn free_blocks_are_given_in_order_and_block_0_never() {
    let mut space = Space::new(200);
    assert_eq!(space.free(), 199);
    let mut taken = Vec::new();
    space.take(199, &mut taken);
    assert_eq!(
        taken.iter().map(|pbn| pbn.number()).collect::<Vec<_>>(),
        (1..200).collect::<Vec<_>>()
    );
    assert_eq!(space.free(), 0);
    space.grow(210);
    assert_eq!(space.take_unswept(4), None, "nothing was used before");
    space.note_used_before();
    assert_eq!(space.take_unswept(4).map(|(pbn, count)| (pbn.number(), count)), Some((200, 4)));
    assert_eq!(space.free(), 6);
}

#[test]
fn free_blocks_that_may_have_been_used_are_counted_until_all_are_swept() {
    let mut space = Space::new(20);
    assert_eq!(space.unswept(), 0);
    space.note_used_before();
    assert_eq!(space.unswept(), 19);
    let mut taken = Vec::new();
    space.take(7, &mut taken);
    taken.into_iter().take(3).for_each(|pbn| space.release(pbn));
    assert_eq!(space.unswept(), 12, "without those that are known to have been used");
    while space.take_unswept(4).is_some() {}
    assert_eq!(space.unswept(), 0);
}

#[test]
fn a_space_that_grows_has_the_new_blocks_and_keeps_the_used_ones() {
    for (before, after) in [(2, 3), (10, 500), (64, 128), (70, 64 * 64 * 3 + 5), (200, 200)] {
        let mut space = Space::new(before);
        assert!(space.claim(Pbn::FIRST));
        space.grow(after);
        assert_eq!((space.blocks(), space.free()), (after, after - 2), "{before} to {after}");
        let mut taken = Vec::new();
        space.take(after as usize - 2, &mut taken);
        assert!(taken.iter().map(|pbn| pbn.number()).eq(2..after));
        assert_eq!(space.free(), 0);
    }
}

#[test]
fn a_large_space_takes_memory_where_free_and_used_blocks_are_mixed() {
    const CHUNK_BLOCKS: u64 = CHUNK_WORDS as u64 * WORD_BLOCKS;
    let blocks = 1 << 36;
    let mut space = Space::new(blocks);
    assert_eq!((space.free(), space.used.mixed_chunks()), (blocks - 1, 1), "of block 0");
    let far = blocks - 3 * CHUNK_BLOCKS;
    let claimed: Result<(), ()> = space.claim_visited(|claim| {
        (far..blocks).filter_map(Pbn::new).for_each(claim);
        Ok(())
    });
    assert_eq!(claimed, Ok(()));
    assert_eq!((space.free(), space.used.mixed_chunks()), (far - 1, 1));
    let (hole, other) = (Pbn::new(blocks - 7).unwrap(), Pbn::new(far + 9).unwrap());
    [hole, other].into_iter().for_each(|pbn| space.release(pbn));
    assert_eq!((space.freed(), space.used.mixed_chunks()), (2, 3));
    assert_eq!(space.take_free_run(far + 10, 1, 9).0, Some((hole, 1)));
    assert_eq!(space.take_freed_run(far, 1, 9).0, Some((other, 1)));
    assert_eq!((space.free(), space.used.mixed_chunks()), (far - 1, 1));
    space.note_used_before();
    assert_eq!(space.take_unswept(5).unwrap().0, Pbn::FIRST);
}

fn pbn(number: u64) -> Pbn {
    Pbn::new(number).unwrap()
}

#[test]
fn what_is_visited_is_claimed_as_one_by_one() {
    let pbns: Vec<Pbn> = [1, 2, 63, 64, 65, 66, 190, 191, 192, 64, 3, 199].map(pbn).into();
    let [mut together, mut one_by_one] = [Space::new(200), Space::new(200)];
    let claimed = together.claim_visited(|claim| {
        pbns.iter().copied().for_each(claim);
        Err("it ends with an error")
    });
    assert!(claimed.is_err());
    for pbn in pbns {
        one_by_one.claim(pbn);
    }
    assert_eq!(together.free(), one_by_one.free());
    for number in (1..200).map(pbn) {
        assert_eq!(together.is_used(number), one_by_one.is_used(number), "{number:?}");
    }
}

proptest! {
    #[test]
    fn it_does_what_a_set_does(
        steps in prop::collection::vec((0u8..6, 0u64..500), 1..200),
        blocks in 1u64..500,
    ) {
        let mut space = Space::new(blocks);
        space.note_used_before();
        let mut unswept = 0;
        let mut free: BTreeSet<u64> = (1..blocks).collect();
        let mut used: Vec<Pbn> = Vec::new();
        let mut freed: BTreeSet<u64> = BTreeSet::new();
        for (kind, number) in steps {
            match kind {
                5 => {
                    let (run, next) = space.take_free_run(number, 3, 70);
                    let is_start = |pbn: &u64| (*pbn..pbn + 3).all(|pbn| free.contains(&pbn));
                    let expected = free.range(number..).copied().find(is_start);
                    prop_assert_eq!(run.map(|(first, _)| first.number()), expected);
                    if let Some((first, count)) = run {
                        let end = first.number() + u64::from(count);
                        prop_assert!((3..=70).contains(&count));
                        prop_assert!(count == 70 || !free.contains(&end), "a longer run");
                        prop_assert_eq!(next, Some(end));
                        for pbn in first.number()..end {
                            prop_assert!(free.remove(&pbn));
                            used.extend(Pbn::new(pbn));
                        }
                    } else {
                        prop_assert_eq!(next, None);
                    }
                }
                4 => {
                    let (run, next) = space.take_freed_run(number, 2, 9);
                    let is_start = |pbn: &u64| (*pbn..pbn + 2).all(|pbn| freed.contains(&pbn));
                    let expected = freed.range(number..).copied().find(is_start);
                    prop_assert_eq!(run.map(|(first, _)| first.number()), expected);
                    let end = |(first, count): (Pbn, u32)| first.number() + u64::from(count);
                    prop_assert_eq!(next, run.map(end));
                    if let Some((first, count)) = run {
                        prop_assert!((2..=9).contains(&count));
                        prop_assert!(count == 9 || !freed.contains(&end((first, count))));
                        for pbn in first.number()..first.number() + u64::from(count) {
                            prop_assert!(free.contains(&pbn) && freed.remove(&pbn), "{}", pbn);
                        }
                        space.release_discarded(first, count);
                    }
                }
                0 => {
                    let mut taken = Vec::new();
                    space.take(free.len().min(number as usize % 70), &mut taken);
                    for pbn in taken {
                        prop_assert!(free.remove(&pbn.number()));
                        used.push(pbn);
                    }
                }
                1 if !used.is_empty() => {
                    let pbn = used.swap_remove(number as usize % used.len());
                    space.release(pbn);
                    free.insert(pbn.number());
                    freed.insert(pbn.number());
                }
                2 => {
                    if let Some((first, count)) = space.take_unswept(9) {
                        prop_assert_eq!(Some(&first.number()), free.range(unswept..).next());
                        unswept = first.number() + u64::from(count);
                        for pbn in first.number()..first.number() + u64::from(count) {
                            prop_assert!(free.remove(&pbn));
                            used.extend(Pbn::new(pbn));
                        }
                    } else {
                        prop_assert_eq!(free.range(unswept..).next(), None);
                        unswept = blocks;
                    }
                }
                _ => {
                    if let Some(pbn) = Pbn::new(number) {
                        let was_free = space.claim(pbn);
                        prop_assert_eq!(was_free, free.remove(&number));
                        if was_free {
                            used.push(pbn);
                        }
                    }
                }
            }
            prop_assert_eq!(space.free(), free.len() as u64);
            freed.retain(|pbn| free.contains(pbn));
            prop_assert_eq!(space.freed(), freed.len() as u64);
            prop_assert_eq!(space.blocks(), blocks);
            for pbn in (1..520).filter_map(Pbn::new) {
                prop_assert_eq!(space.is_used(pbn), !free.contains(&pbn.number()));
            }
        }
    }
}

/// Takes all blocks of a space. Returns the last one.
fn take_all(space: &mut Space) -> Pbn {
    let mut taken = Vec::new();
    space.take(space.free() as usize, &mut taken);
    taken.pop().unwrap()
}

#[test]
fn a_search_looks_at_a_bounded_part_and_says_where_to_go_on() {
    let blocks = 64 * (LOOKED_AT + 100);
    let mut space = Space::new(blocks);
    let last = take_all(&mut space);
    space.release(last);
    let far = 64 * LOOKED_AT;
    assert_eq!(space.take_freed_run(64, 1, 1), (None, Some(64 + far)));
    assert_eq!(space.take_freed_run(far, 2, 9), (None, None), "there is one block");
    assert_eq!(space.take_freed_run(far, 1, 9), (Some((last, 1)), Some(blocks)));
    space.release_discarded(last, 1);
    assert_eq!(space.freed(), 0, "what was discarded has nothing to give back");
    assert_eq!(space.take_free_run(64, 1, 9), (None, Some(64 + 64 * MIXED_LOOKED_AT)));
    assert_eq!(space.take_free_run(far, 1, 9), (Some((last, 1)), Some(blocks)));
    assert_eq!((space.free(), space.take_free_run(far, 1, 9)), (0, (None, None)));
}

fn numbers(space: &mut Space, count: usize) -> Vec<u64> {
    let mut taken = Vec::new();
    space.take(count, &mut taken);
    taken.into_iter().map(Pbn::number).collect()
}

#[test]
fn long_runs_are_given_out_before_holes_and_in_one_piece_over_many_writes() {
    let mut space = Space::new(64 * 100);
    take_all(&mut space);
    let release = |space: &mut Space, numbers: Range<u64>| {
        numbers.filter_map(Pbn::new).for_each(|pbn| space.release(pbn));
    };
    for hole in (65..640).step_by(3) {
        release(&mut space, hole..hole + 1);
    }
    release(&mut space, 700..706);
    release(&mut space, 1000..1040);
    release(&mut space, 2000..2200);
    assert_eq!(numbers(&mut space, 1), [2000], "the longest run, from its first block");
    let singly: Vec<u64> = (0..199).flat_map(|_| numbers(&mut space, 1)).collect();
    assert!(singly.into_iter().eq(2001..2200));
    assert_eq!(numbers(&mut space, 46), (1000..1040).chain(700..706).collect::<Vec<_>>());
    assert_eq!(numbers(&mut space, 3), [65, 68, 71], "holes are left for the end");
}

#[test]
fn a_run_ends_at_a_block_that_others_have_claimed() {
    let mut space = Space::new(64 * 10);
    assert_eq!(numbers(&mut space, 2), [1, 2]);
    assert!(space.claim(Pbn::new(4).unwrap()));
    assert_eq!(numbers(&mut space, 2), [3, 5], "the next long run begins right behind it");
    assert_eq!(space.free(), 64 * 10 - 1 - 2 - 1 - 2);
}

/// Blocks of the store that is aged, and those that a checkpoint frees at a time.
const AGED_BLOCKS: u64 = 1 << 16;
const CHECKPOINT_BLOCKS: usize = 4096;

/// Fills a part of a store, and overwrites blocks at random with four times its size, in batches.
/// Opens it `openings` times meanwhile. Returns the mean length of the runs that the last quarter
/// of the batches got.
fn mean_run_of_aged(percent: usize, openings: usize) -> f64 {
    let mut random = Random::new(7);
    let mut space = Space::new(AGED_BLOCKS);
    let mut mapped = Vec::new();
    space.take(AGED_BLOCKS as usize * percent / 100, &mut mapped);
    let batches = 4 * AGED_BLOCKS as usize / 128;
    let (mut retired, mut blocks, mut runs) = (Vec::new(), 0, 0);
    for batch in 0..batches {
        let mut taken = Vec::new();
        space.take(128, &mut taken);
        if batch >= batches * 3 / 4 {
            blocks += taken.len();
            runs += taken.chunk_by(|one, next| one.number() + 1 == next.number()).count();
        }
        for fresh in taken {
            let lbn = random.below(mapped.len() as u64) as usize;
            retired.push(std::mem::replace(&mut mapped[lbn], fresh));
        }
        if retired.len() >= CHECKPOINT_BLOCKS {
            retired.drain(..).for_each(|pbn| space.release(pbn));
        }
        if openings > 0 && (batch + 1) % (batches / openings) == 0 {
            retired.clear();
            space = Space::new(AGED_BLOCKS);
            mapped.iter().for_each(|pbn| assert!(space.claim(*pbn)));
            space.begin_where_most_is_free();
        }
    }
    blocks as f64 / runs as f64
}

#[test]
fn openings_cost_an_aged_store_few_of_its_runs() {
    for (percent, least) in [(70, 2.2), (50, 5.0), (12, 80.0)] {
        let unbroken = mean_run_of_aged(percent, 0);
        let opened = mean_run_of_aged(percent, 64);
        println!("{percent} % in use: runs of {unbroken:.2}, with 64 openings of {opened:.2}");
        assert!(opened > 0.8 * unbroken && unbroken > least, "{percent} %: {unbroken} {opened}");
    }
}

#[test]
fn a_barred_pbn_is_parked_while_nobody_uses_it_and_free_again_later() {
    let pbn = |number| Pbn::new(number).unwrap();
    let mut space = Space::new(400);
    for number in [5, 205, 206, 399] {
        assert!(space.claim(pbn(number)));
    }
    space.bar(200..400);
    assert_eq!((space.free(), space.parked()), (198, 197));
    assert_eq!((space.free_in(&(0..400)), space.free_in(&(190..300))), (198, 10));
    let mut taken = Vec::new();
    space.take(198, &mut taken);
    assert!(taken.iter().all(|pbn| pbn.number() < 200), "no barred one");
    assert_eq!(space.take_free_run(0, 1, 9), (None, None));
    space.release(pbn(205));
    space.release(pbn(7));
    assert_eq!((space.free(), space.parked()), (1, 198));
    assert!(space.is_used(pbn(205)) && space.is_parked(205) && !space.is_parked(206));
    space.move_fixed(399, 200);
    assert!(space.is_parked(399) && !space.is_parked(200));
    space.unbar();
    assert_eq!((space.free(), space.parked()), (199, 0));
    assert!(space.is_used(pbn(200)) && space.is_used(pbn(206)) && !space.is_used(pbn(399)));
    space.bar(190..400);
    space.cut(201);
    assert_eq!((space.blocks(), space.free(), space.parked()), (201, 1, 0));
    space.grow(500);
    assert_eq!(space.free(), 300);
    assert!(!space.is_used(pbn(206)), "it was cut off");
}
