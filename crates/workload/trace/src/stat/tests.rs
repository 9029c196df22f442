//! Tests statistics of traces that are small enough to count by hand.

use super::*;
use crate::record::Names;
use gemelo_pattern::Pattern;

const BLOCK: u64 = 4096;
const NO_LIMIT: MemoryLimit = MemoryLimit(u64::MAX);

fn record(time_s: u64, operation: TraceOperation, block: u64, contents: &[u128]) -> Record {
    Record {
        time_ns: time_s * 1_000_000_000,
        operation,
        offset_bytes: block * BLOCK,
        length_bytes: contents.len() as u64 * BLOCK,
        hashes: contents.iter().copied().map(ContentHash).collect(),
        hash_bytes: 4096,
        ..Record::new()
    }
}

fn counted(records: &[Record]) -> Statistics {
    let mut statistics = Statistics::new(BLOCK, NO_LIMIT);
    for record in records {
        statistics.add(record).unwrap();
    }
    statistics
}

/// Checks a trace that is small enough to count by hand.
#[test]
fn the_table_of_the_papers() {
    use TraceOperation::{Flush, Read, Trim, Write};
    let statistics = counted(&[
        record(0, Write, 0, &[1, 2, 3]),
        record(1, Write, 1, &[1]),
        record(2, Read, 1, &[1]),
        record(3, Read, 10, &[9, 1]),
        record(4, Write, 10, &[4]),
        record(4, Flush, 0, &[]),
        record(8, Read, 11, &[5]),
        record(8, Trim, 2, &[0]),
    ]);
    let figures = statistics.figures(&Names::default());
    assert_eq!((figures.records, figures.reads, figures.writes), (8, 3, 3));
    assert_eq!((figures.trims, figures.flushes, figures.duration_ns), (1, 1, 8_000_000_000));
    assert_eq!(
        (figures.written_blocks, figures.written_places, figures.written_contents),
        (5, 4, Some(4))
    );
    assert_eq!((figures.read_blocks, figures.read_places, figures.read_contents), (4, 3, Some(3)));
    assert_eq!(figures.dedup_ratio_written, Some(5.0 / 4.0));
    // At the end, blocks 0 and 1 hold content 1, block 2 is trimmed, block 10 holds 4, and block 11
    // holds 1.
    assert_eq!((figures.places_at_end, figures.contents_at_end), (4, 2));
    assert_eq!(figures.dedup_ratio_at_end, Some(2.0));
    assert_eq!((figures.populated_places, figures.contradictions), (2, 1));
    assert_eq!((figures.touched_bytes, figures.range_bytes), (5 * BLOCK, 12 * BLOCK));
    assert_eq!(figures.rewrites_per_s, Some(1.0 / 8.0));
    assert_eq!(statistics.distribution(CopyCounting::Writes).unwrap().to_text(), "0 3\n1 1\n");
    assert_eq!(statistics.distribution(CopyCounting::AtEnd).unwrap().to_text(), "0 1\n2 1\n");
    assert_eq!(
        (figures.hottest[0].block, figures.hottest[0].reads, figures.hottest[0].writes),
        (1, 1, 2)
    );
}

/// A trim of a whole device costs no more than the places that are known.
#[test]
fn large_trims_forget_what_is_known() {
    let written = record(0, TraceOperation::Write, 7, &[1, 2]);
    let elsewhere = Record { device: 1, ..written.clone() };
    let trim = Record {
        length_bytes: 1 << 60,
        hashes: vec![],
        ..record(1, TraceOperation::Trim, 8, &[0])
    };
    let figures = counted(&[written, elsewhere, trim]).figures(&Names::default());
    assert_eq!((figures.places_at_end, figures.touched_bytes, figures.trims), (3, 4 * BLOCK, 1));
}

#[test]
fn traces_without_hashes_have_no_contents() {
    let bare =
        Record { hashes: vec![], hash_bytes: 0, ..record(0, TraceOperation::Write, 3, &[1, 1]) };
    let unaligned = Record { offset_bytes: 100, length_bytes: 50, ..bare.clone() };
    let statistics = counted(&[bare, unaligned]);
    let figures = statistics.figures(&Names::default());
    assert_eq!((figures.written_places, figures.written_contents), (3, None));
    assert_eq!((figures.dedup_ratio_written, figures.dedup_ratio_at_end), (None, None));
    assert!((figures.unaligned_share - 0.5).abs() < 1e-9);
    assert!(statistics.distribution(CopyCounting::Writes).is_err());
}

#[test]
fn hot_spots_are_found_where_they_are() {
    // Nine in ten writes go to 10 of 100 blocks.
    let mut records = Vec::new();
    for round in 0..90 {
        records.extend((0..10).map(|block| record(round, TraceOperation::Write, block * 3, &[1])));
    }
    records.extend((0..90).map(|block| record(90, TraceOperation::Write, 1000 + block * 3, &[1])));
    let statistics = counted(&records);
    let figures = statistics.figures(&Names::default());
    let ten = figures.hot_writes.iter().find(|hot| hot.places_share == 0.1).unwrap();
    assert!((ten.accesses_share - 900.0 / 990.0).abs() < 1e-9);
    assert!(figures.hot_reads.is_empty());
    let hot = Pattern::Hotspot { accesses_percent: 90.9, blocks_percent: 10.0 };
    assert_eq!(statistics.access_profile().pattern, hot);
}

#[test]
fn profiles_tell_sequential_from_even() {
    let sequential: Vec<_> =
        (0..100).map(|block| record(block, TraceOperation::Read, block, &[1])).collect();
    let profile = counted(&sequential).access_profile();
    assert_eq!((profile.pattern, profile.write_share), (Pattern::Sequential, 0.0));
    // A request of 32 blocks that was recorded block by block is not a sequential load.
    let place = |n: u64| n / 32 * 37 % 100 * 32 + n % 32;
    let requests: Vec<_> =
        (0..3200).map(|n| record(n, TraceOperation::Write, place(n), &[1])).collect();
    let requests = counted(&requests);
    assert!(requests.figures(&Names::default()).sequential_share > 0.9);
    assert_eq!(requests.access_profile().pattern, Pattern::Uniform);
    let even: Vec<_> =
        (0..100).map(|n| record(n, TraceOperation::Write, n * 37 % 100, &[1])).collect();
    assert_eq!(counted(&even).access_profile().pattern, Pattern::Uniform);
}

#[test]
fn bursts_show_in_the_dispersion() {
    let every_second: Vec<_> =
        (0..100).map(|second| record(second, TraceOperation::Read, 0, &[1])).collect();
    let even = counted(&every_second).figures(&Names::default());
    assert!(even.dispersion.unwrap().abs() < 1e-9);
    let burst: Vec<_> =
        (0..100).map(|n| record(n / 50 * 99, TraceOperation::Read, 0, &[1])).collect();
    assert!(counted(&burst).figures(&Names::default()).dispersion.unwrap() > 40.0);
}

#[test]
fn tables_stay_below_their_limit() {
    let mut statistics = Statistics::new(BLOCK, MemoryLimit(1 << 20));
    let outcome = (0..1_000_000)
        .try_for_each(|block| statistics.add(&record(0, TraceOperation::Write, block, &[7])));
    let Err(StatError::Memory { records, limit_bytes, .. }) = outcome else { panic!("no limit") };
    assert!(limit_bytes == 1 << 20 && records < 100_000, "{records}");
}
