//! Tests of the set as a whole: memory, spilling, sampling and threads.

use super::*;
use gemelo_base::random::mix64;
use std::collections::BTreeMap;

fn fingerprint(number: u64) -> ScanFingerprint {
    ScanFingerprint { high: mix64(number), low: mix64(!number) }
}

fn insert(set: &CountingSet, number: u64) {
    let fingerprint = fingerprint(number);
    let record = Record::new(fingerprint, 4096, 0);
    set.insert(shard_of(fingerprint), &[record], &mut Vec::new()).unwrap();
}

fn contents(set: &CountingSet) -> Vec<(ScanFingerprint, u64)> {
    let mut all = Vec::new();
    set.for_each(|counted| -> io::Result<()> {
        all.push((counted.fingerprint, counted.copies));
        Ok(())
    })
    .unwrap();
    all
}

/// The promise is at most 32 bytes for each distinct block. Below about 60,000 blocks, the 0.6 MiB
/// of empty tables take more.
#[test]
fn a_set_takes_at_most_32_bytes_for_each_distinct_block_at_any_size() {
    let set = CountingSet::new(SetLimit::None);
    let mut worst: f64 = 0.0;
    for number in 1..1_200_000u64 {
        insert(&set, number);
        if number >= 100_000 && number % 1000 == 0 {
            let allocated: u64 =
                set.shards.iter().map(|shard| locked(shard).allocated_bytes()).sum();
            assert_eq!(allocated, set.allocated_bytes.load(Ordering::Relaxed));
            worst = worst.max(allocated as f64 / number as f64);
        }
    }
    assert!(worst <= 32.0, "{worst} bytes for each");
}

#[test]
fn a_set_that_spills_counts_like_one_that_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let limit = SetLimit::Spill { memory_bytes: 800_000, directory: directory.path().to_owned() };
    let (spilling, whole) = (CountingSet::new(limit), CountingSet::new(SetLimit::None));
    let mut expected = BTreeMap::new();
    for step in 0..200_000u64 {
        // A third of the blocks repeat a few contents, before and after tables are written out.
        let number = if step % 3 == 0 { step % 1000 } else { step };
        insert(&spilling, number);
        insert(&whole, number);
        *expected.entry(fingerprint(number)).or_insert(0) += 1;
    }
    assert!(spilling.spilled_bytes() > 1_000_000);
    assert!(spilling.peak_bytes() <= 800_000, "{}", spilling.peak_bytes());
    let expected: Vec<_> = expected.into_iter().collect();
    assert_eq!(contents(&spilling), expected);
    assert_eq!(contents(&whole), expected);
    // The temporary file has no name.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_set_that_cannot_spill_says_so_and_keeps_its_counts() {
    let directory = tempfile::tempdir().unwrap();
    let limit = SetLimit::Spill { memory_bytes: 0, directory: directory.path().join("missing") };
    let set = CountingSet::new(limit);
    let mut failures = 0;
    for number in 0..50_000 {
        let fingerprint = fingerprint(number);
        let record = Record::new(fingerprint, 4096, 0);
        failures +=
            u32::from(set.insert(shard_of(fingerprint), &[record], &mut Vec::new()).is_err());
    }
    assert!(failures > 0);
    assert_eq!(contents(&set).len(), 50_000);
}

#[test]
fn a_sample_has_fixed_memory_and_exact_copies_of_the_smallest_fingerprints() {
    let memory_bytes = MIN_SAMPLE_BYTES + (1 << 20);
    let set = CountingSet::new(SetLimit::Sample { memory_bytes });
    for round in 0..3u64 {
        for number in 0..300_000 {
            if number % 3 >= round {
                insert(&set, number);
            }
        }
    }
    let sample = set.sample.as_ref().unwrap();
    assert!(set.peak_bytes() <= memory_bytes, "{} of {memory_bytes}", set.peak_bytes());
    let mut lows: Vec<u64> = (0..300_000).map(|number| fingerprint(number).low).collect();
    lows.sort_unstable();
    let kept: BTreeMap<ScanFingerprint, u64> = contents(&set).into_iter().collect();
    assert!(kept.len() as u64 >= sample.contents() && sample.contents() > 15_000);
    let wanted = lows[sample.contents() as usize - 1];
    for number in (0..300_000).filter(|number| fingerprint(*number).low <= wanted) {
        assert_eq!(kept.get(&fingerprint(number)), Some(&(number % 3 + 1)));
    }
}

#[test]
fn the_tables_of_a_large_sample_stay_within_its_memory_and_use_most_of_it() {
    let memory_bytes = MIN_SAMPLE_BYTES + (16 << 20);
    let set = CountingSet::new(SetLimit::Sample { memory_bytes });
    (0..1_000_000).for_each(|number| insert(&set, number));
    let peak = set.peak_bytes();
    assert!((memory_bytes / 2..=memory_bytes).contains(&peak), "{peak} of {memory_bytes}");
}

/// Fingerprints are uniform, unless somebody chose the data so that they are not.
#[test]
fn a_sample_of_fingerprints_that_lie_close_together_is_cut_as_well() {
    let set = CountingSet::new(SetLimit::Sample { memory_bytes: MIN_SAMPLE_BYTES });
    let close = |number: u64| ScanFingerprint { high: mix64(number), low: u64::MAX - number };
    for number in 0..50_000 {
        let record = Record::new(close(number), 4096, 0);
        set.insert(shard_of(close(number)), &[record], &mut Vec::new()).unwrap();
    }
    assert!(set.peak_bytes() <= MIN_SAMPLE_BYTES, "{}", set.peak_bytes());
    let kept: BTreeMap<ScanFingerprint, u64> = contents(&set).into_iter().collect();
    let wanted = set.sample.as_ref().unwrap().contents();
    for number in (0..50_000).rev().take(wanted as usize) {
        assert_eq!(kept.get(&close(number)), Some(&1), "{number}");
    }
}

#[test]
fn many_threads_count_like_one() {
    let set = CountingSet::new(SetLimit::None);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let set = &set;
            scope.spawn(move || {
                (0..50_000).for_each(|step| insert(set, (step * 7 + thread) % 40_000));
            });
        }
    });
    let all = contents(&set);
    assert_eq!(all.len(), 40_000);
    assert_eq!(all.iter().map(|(_, copies)| copies).sum::<u64>(), 200_000);
    assert!(all.is_sorted());
}
