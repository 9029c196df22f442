//! Commits that are damaged in both copies: they are mended, told from the end of the journal, or
//! given up by one of two repairs that never show a block the content of another one.

mod story;

use crate::common::repeat::Repeat;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{
    BLOCK, content, first_seed, flush, open, options_with, read, rounds, tuning, write,
};
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{
    Compression, DedupMode, FlushMarks, Policy, PoolSeed, StoreKind, find_roots, read_superblock,
};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, Pool, PoolOptions, RepairOptions, RepairPlan, Tuning, VolumeError, repair,
    repair_outlook,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use story::{Story, roll_back, skip};

const PAGE: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// Blocks of the pool of a story.
const STORY_BLOCKS: u64 = 72;
/// Room for all commits of a test.
const JOURNAL_BYTES: usize = 512 << 10;

/// The options of a small pool, so that commits wrap around.
fn options(policy: Policy, blocks: u64) -> PoolOptions {
    PoolOptions { journal_bytes: Some(JOURNAL_BYTES as u64), ..options_with(policy, blocks) }
}

fn check_data(disks: &PoolDisks) -> CheckReport {
    check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap()
}

/// Repairs a pool. Returns `None` if contents that have another copy could not be healed, because a
/// block of compressed contents has lost their places.
fn repair_with(disks: &PoolDisks, choice: LossChoice) -> Option<RepairPlan> {
    let outlook = repair_outlook(disks, false, &Silent, &StopFlag::new()).unwrap();
    let options = RepairOptions { data: false, choice };
    let expected = outlook.plan(choice).clone();
    match repair(disks, options, &Silent, &StopFlag::new()) {
        Ok(plan) => {
            assert_eq!(plan, expected, "what a repair gives up was known before");
            Some(plan)
        }
        Err(VolumeError::Unhealed { .. }) => {
            let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
            assert!(superblock.store != StoreKind::Plain, "each content has its own block");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The pages at which the copies of each commit begin, and its length in pages, by its number.
fn commits(metadata: &[u8]) -> BTreeMap<u64, (Vec<usize>, usize)> {
    let mut found: BTreeMap<u64, (Vec<usize>, usize)> = BTreeMap::new();
    let pages = 0..metadata.len() / PAGE;
    for page in pages.filter(|page| metadata[page * PAGE..].starts_with(b"GEMELOJC")) {
        let field = |at: usize| {
            u64::from_le_bytes(metadata[page * PAGE + at..page * PAGE + at + 8].try_into().unwrap())
        };
        let entry = found.entry(field(8)).or_default();
        entry.0.push(page);
        entry.1 = (field(24) as usize + 48).div_ceil(PAGE);
    }
    found
}

fn newest_commit(simulation: &Simulation) -> u64 {
    commits(&simulation.images()[1]).keys().last().copied().unwrap_or(0)
}

/// Damages both copies of a commit at the same byte, so that they cannot be mended.
fn lose(images: &mut [Vec<u8>; 2], number: u64) {
    let (copies, _) = commits(&images[1])[&number].clone();
    assert_eq!(copies.len(), 2);
    copies.iter().for_each(|page| images[1][page * PAGE + 48] ^= 1);
}

/// The number that the newest flush mark names.
fn marked(simulation: &Simulation) -> u64 {
    let metadata = &simulation.images()[1];
    let marks = FlushMarks::OFFSETS.map(|offset| {
        let page = &metadata[offset as usize..][..PAGE];
        let is_mark = page.starts_with(b"GEMELOFM");
        if is_mark { u64::from_le_bytes(page[24..32].try_into().unwrap()) } else { 0 }
    });
    marks[0].max(marks[1])
}

/// Settings with which hundreds of changes ask for no checkpoint.
fn tuned() -> Tuning {
    Tuning { cache_bytes: Some(4 << 20), ..tuning() }
}

/// A pool with a commit of some blocks after its checkpoint, long enough for several pages.
fn long_commit(policy: Policy) -> (Simulation, Vec<u8>) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(policy, 600)).unwrap();
    let pool = open(&simulation.disks(), tuned()).unwrap();
    pool.create_volume("a", 512 * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.checkpoint().unwrap();
    let bytes: Vec<u8> = (1..=400).flat_map(|id| content(id, BLOCK)).collect();
    let volume = pool.volume("a").unwrap();
    write(&volume, 0, &bytes).unwrap();
    flush(&volume).unwrap();
    (simulation, bytes)
}

#[test]
fn a_commit_whose_copies_are_damaged_at_different_pages_is_mended() {
    for policy in Policy::ALL {
        let (simulation, bytes) = long_commit(policy);
        let images = simulation.images();
        let (copies, pages) = commits(&images[1]).into_values().next_back().unwrap();
        assert!(pages > 2, "the commit has several pages");
        for (first, second) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
            let mut images = images.clone();
            images[1][(copies[0] + first) * PAGE + 60] ^= 1;
            images[1][(copies[1] + second) * PAGE + 60] ^= 4;
            let simulation = Simulation::of_images(1, images);
            assert!(check_data(&simulation.disks()).is_clean());
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let found = read(&pool.volume("a").unwrap(), 0, bytes.len()).unwrap();
            assert!(found == bytes, "{policy:?}: pages {first} and {second}");
        }
        // A header that is damaged is taken from the other copy.
        let mut images = images.clone();
        images[1][copies[0] * PAGE + 9] ^= 1;
        images[1][(copies[1] + 1) * PAGE + 60] ^= 4;
        let simulation = Simulation::of_images(1, images);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let found = read(&pool.volume("a").unwrap(), 0, bytes.len()).unwrap();
        assert!(found == bytes, "{policy:?}: a header and a page");
    }
}

#[test]
fn a_mended_commit_that_another_one_follows_is_reported_and_written_again() {
    let (simulation, bytes) = long_commit(Policy::Compact);
    let pool = open(&simulation.after_kill().disks(), tuned()).unwrap();
    drop(pool);
    let again = Simulation::of_images(1, simulation.images());
    let pool = open(&again.disks(), tuned()).unwrap();
    let volume = pool.volume("a").unwrap();
    write(&volume, 500 * BLOCK as u64, &content(900, BLOCK)).unwrap();
    flush(&volume).unwrap();
    let mut images = again.images();
    let all = commits(&images[1]);
    let (copies, _) = all.values().nth_back(1).unwrap().clone();
    images[1][(copies[0] + 1) * PAGE + 60] ^= 1;
    images[1][(copies[1] + 2) * PAGE + 60] ^= 4;
    let damaged = Simulation::of_images(1, images);
    let report = check_data(&damaged.disks());
    assert!(!report.is_clean() && report.problems.iter().all(|problem| !problem.loses_data));
    let plan = repair_with(&damaged.disks(), LossChoice::RollBack).unwrap();
    assert_eq!(plan, RepairPlan::default(), "a repair gives up nothing");
    assert!(check_data(&damaged.disks()).is_clean());
    let pool = open(&damaged.disks(), tuned()).unwrap();
    assert!(read(&pool.volume("a").unwrap(), 0, bytes.len()).unwrap() == bytes);
}

/// A pool whose last commit, which overwrote a block, was marked by the background while idle.
fn idle_pool(policy: Policy) -> Simulation {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(policy, 100)).unwrap();
    let tuning = Tuning {
        background: true,
        commit_interval: Duration::from_secs(3600),
        collect_bytes_per_s: 0,
        ..tuning()
    };
    let clock = Arc::new(ManualClock::new());
    let pool = Pool::open_disks(simulation.disks(), tuning, Arc::clone(&clock) as _).unwrap();
    pool.create_volume("a", 8 * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.checkpoint().unwrap();
    let volume = pool.volume("a").unwrap();
    for id in 1..=2 {
        write(&volume, 0, &content(id, BLOCK)).unwrap();
        flush(&volume).unwrap();
    }
    let last = newest_commit(&simulation);
    clock.advance_ns(SECOND_NS);
    let since = Instant::now();
    while marked(&simulation) < last {
        assert!(since.elapsed() < Duration::from_secs(60), "no mark: {}", marked(&simulation));
        std::thread::sleep(Duration::from_millis(5));
    }
    // The mark is written once and synced once.
    std::thread::sleep(Duration::from_millis(200));
    let syncs = simulation.syncs();
    clock.advance_ns(5 * SECOND_NS);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(simulation.syncs(), syncs, "an idle pool rests");
    let after = simulation.after_worst_crash();
    drop((volume, pool));
    after
}

#[test]
fn a_last_commit_that_is_damaged_after_an_idle_second_is_not_taken_for_the_end() {
    for policy in Policy::ALL {
        let simulation = idle_pool(policy);
        let mut images = simulation.images();
        lose(&mut images, newest_commit(&simulation));
        let damaged = Simulation::of_images(1, images.clone());
        let opened = open(&damaged.disks(), tuning());
        assert!(
            matches!(opened, Err(VolumeError::Damaged { .. })),
            "{policy:?}: older content was taken for the newest"
        );
        let report = check_data(&damaged.disks());
        assert!(report.problems.iter().any(|problem| problem.loses_data), "{policy:?}");
        let outlook = repair_outlook(&damaged.disks(), false, &Silent, &StopFlag::new()).unwrap();
        let lost = outlook.lost_history.unwrap();
        assert_eq!((lost.commits, lost.can_skip, outlook.skip), (1, false, None));
        assert!(lost.max_changes.is_some_and(|most| most > 0), "the header is there");
        repair_with(&damaged.disks(), LossChoice::Skip).unwrap();
        assert!(check_data(&damaged.disks()).is_clean());
        let pool = open(&damaged.disks(), tuning()).unwrap();
        let volume = pool.volume("a").unwrap();
        assert_eq!(read(&volume, 0, BLOCK).unwrap(), content(1, BLOCK), "{policy:?}");
        // The numbers of commits go on beyond the mark, so that it says nothing about new ones.
        write(&volume, 0, &content(3, BLOCK)).unwrap();
        flush(&volume).unwrap();
        drop((volume, pool));
        let pool = open(&damaged.disks(), tuning()).unwrap();
        assert_eq!(read(&pool.volume("a").unwrap(), 0, BLOCK).unwrap(), content(3, BLOCK));
        // A mark that is torn leaves the older one.
        let [data, mut metadata] = images;
        for offset in FlushMarks::OFFSETS {
            metadata[offset as usize + 4090] ^= 1;
        }
        let unmarked = Simulation::of_images(1, [data, metadata]);
        assert!(open(&unmarked.disks(), tuning()).is_ok(), "{policy:?}: no mark, no damage");
    }
}

#[test]
fn a_mark_goes_with_the_next_commit_once_a_second_and_takes_no_sync() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(Policy::Compact, 100)).unwrap();
    let clock = Arc::new(ManualClock::new());
    let pool = Pool::open_disks(simulation.disks(), tuning(), Arc::clone(&clock) as _).unwrap();
    pool.create_volume("a", 8 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut id = 0;
    let mut commit = || {
        id += 1;
        let syncs = simulation.syncs();
        write(&volume, 0, &content(id, BLOCK)).unwrap();
        flush(&volume).unwrap();
        assert_eq!(simulation.syncs() - syncs, 1, "one of the journal");
        newest_commit(&simulation)
    };
    let first = commit();
    assert_eq!(marked(&simulation), first - 1, "the first mark is written at once");
    let second = commit();
    assert_eq!(marked(&simulation), first - 1, "a second is not over");
    clock.advance_ns(SECOND_NS);
    commit();
    assert_eq!(marked(&simulation), second);
    clock.advance_ns(SECOND_NS);
    commit();
    let images = simulation.images();
    let [even, odd] = FlushMarks::OFFSETS.map(|offset| {
        let page = &images[1][offset as usize..];
        assert!(page.starts_with(b"GEMELOFM"));
        u64::from_le_bytes(page[24..32].try_into().unwrap())
    });
    assert!(even.min(odd) >= second, "marks take turns: {even} and {odd}");
}

/// Loses each commit of stories in turn, and repairs the pools in both ways.
fn lose_commits(compression: Option<Compression>, count: u64) {
    let first = first_seed();
    let (mut skipped, mut exact, mut errors) = (0, 0, 0);
    for policy in Policy::ALL {
        let options = PoolOptions { compression, ..options(policy, STORY_BLOCKS) };
        for seed in first..first + rounds(count) {
            let _repeat = Repeat::of(seed);
            let story = Story::tell(&options, seed);
            for number in story.can_be_lost() {
                let what = format!("{policy:?}, seed {seed}, commit {number}");
                let mut images = story.simulation.images();
                lose(&mut images, number);
                let damaged = Simulation::of_images(1, images.clone());
                assert!(open(&damaged.disks(), tuning()).is_err(), "{what}");
                let outlook =
                    repair_outlook(&damaged.disks(), false, &Silent, &StopFlag::new()).unwrap();
                assert!(outlook.skip.is_some(), "{what}: there is a choice");
                assert!(damaged.images() == images, "{what}: a look writes nothing");
                skipped += 1;
                exact += u64::from(outlook.skip.is_some_and(|plan| plan.costs.is_empty()));
                errors += skip(&story, &images, number, &what);
                errors += roll_back(&story, &images, number, &what);
            }
        }
    }
    eprintln!("{skipped} lost commits, {exact} skipped without a known cost, {errors} errors");
    let is_short = rounds(count) < count;
    assert!(skipped > 100 && exact > 0 && (exact < skipped || is_short));
    assert!(errors < skipped, "less than one block is unreadable for each lost commit");
}

#[test]
fn both_repairs_of_a_lost_commit_keep_their_promises() {
    lose_commits(None, 20);
}

/// Blocks have several contents, and a lost commit may have given some of a block away.
#[test]
fn both_repairs_of_a_lost_commit_keep_their_promises_where_contents_are_compressed() {
    lose_commits(Some(Compression::Lz4), 20);
}

#[test]
fn a_repair_that_is_cut_off_can_be_begun_again_with_the_other_choice() {
    for policy in Policy::ALL {
        let story = Story::tell(&options(policy, STORY_BLOCKS), 3);
        let number = *story.can_be_lost().last().unwrap();
        let mut images = story.simulation.images();
        lose(&mut images, number);
        for call in 1.. {
            let damaged = Simulation::of_images(call, images.clone());
            damaged.set_fault(crate::common::simulated::Fault::CrashAt(call));
            let options = RepairOptions { data: false, choice: LossChoice::RollBack };
            let is_done = repair(&damaged.disks(), options, &Silent, &StopFlag::new()).is_ok();
            let after = damaged.after_crash(call);
            let what = format!("{policy:?}, call {call}");
            let is_repaired = open(&after.disks(), tuning()).is_ok();
            if !is_repaired {
                skip(&story, &after.images(), number, &what);
            }
            assert!(is_repaired || !is_done, "{what}");
            if is_done {
                break;
            }
        }
    }
}

#[test]
fn the_system_clock_marks_an_idle_pool() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(Policy::Compact, 100)).unwrap();
    let tuning = Tuning { background: true, ..tuning() };
    let pool = Pool::open_disks(simulation.disks(), tuning, Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("a", 8 * BLOCK as u64, DedupMode::Inline).unwrap();
    let last = newest_commit(&simulation);
    let since = Instant::now();
    while marked(&simulation) < last {
        assert!(since.elapsed() < Duration::from_secs(60), "no mark");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens the pool of [`long_commit`] with pages of its metadata disk that cannot be read.
fn open_unreadable(
    images: &[Vec<u8>; 2],
    pages: &[usize],
) -> (Simulation, Result<Pool, VolumeError>) {
    let simulation = Simulation::of_images(1, images.clone());
    for page in pages {
        let start = (page * PAGE) as u64;
        simulation.make_unreadable(METADATA, start..start + PAGE as u64);
    }
    let pool = open(&simulation.disks(), tuning());
    (simulation, pool)
}

#[test]
fn a_commit_is_replayed_if_one_of_its_copies_can_be_read() {
    for policy in Policy::ALL {
        let (simulation, bytes) = long_commit(policy);
        let images = simulation.images();
        let (copies, pages) = commits(&images[1]).into_values().next_back().unwrap();
        let whole = |copy: usize| (copies[copy]..copies[copy] + pages).collect::<Vec<_>>();
        let mut cases = vec![whole(0), whole(1), vec![copies[0], copies[1] + 1]];
        cases.extend(whole(0).into_iter().chain(whole(1)).map(|page| vec![page]));
        // No commit was written there yet.
        cases.push(vec![copies[1] + pages]);
        for case in cases {
            let (simulation, pool) = open_unreadable(&images, &case);
            let what = format!("{policy:?}: pages {case:?} of {copies:?}");
            let pool = pool.unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = read(&pool.volume("a").unwrap(), 0, bytes.len()).unwrap();
            assert!(found == bytes, "{what}");
            assert!(pool.damage().iter().any(|line| line.contains("cannot read")), "{what}");
            let report = check_data(&simulation.disks());
            let problems: Vec<_> = report.problems.iter().map(|one| one.loses_data).collect();
            assert_eq!(problems, [false], "{what}: {:?}", report.problems);
        }
    }
}

#[test]
fn a_commit_that_may_be_in_unreadable_pages_is_not_taken_for_one_that_never_was() {
    for policy in Policy::ALL {
        let (simulation, _) = long_commit(policy);
        let images = simulation.images();
        let (copies, pages) = commits(&images[1]).into_values().next_back().unwrap();
        let mut rotten = images.clone();
        rotten[1][copies[1] * PAGE + PAGE + 9] ^= 1;
        let both = |page: usize| vec![copies[0] + page, copies[1] + page];
        let cases =
            [(&images, both(0)), (&images, both(pages - 1)), (&rotten, vec![copies[0] + 1])];
        for (images, case) in cases {
            let (_, pool) = open_unreadable(images, &case);
            let error = pool.err().unwrap_or_else(|| panic!("{policy:?}: {case:?} of {copies:?}"));
            assert!(matches!(error, VolumeError::Io { .. }), "{error}");
        }
    }
}
