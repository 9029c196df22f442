//! Memory limits, estimates, plans, and progress reports.

use crate::data::{Data, blocks, comparable, request, scanned, scanned_with};
use gemelo_base::{Recorder, Silent, StopFlag};
use gemelo_scan::{Counting, ScanOptions, ScanRequest, plan, scan};

/// Returns blocks of 512 bytes that all differ, except that every eighth is one of eight contents.
fn many_blocks(count: u64) -> Vec<u8> {
    let one = |n: u64| {
        let mut block = [0; 512];
        let number = if n.is_multiple_of(8) { n % 64 } else { n };
        block[..8].copy_from_slice(&(number + 1).to_le_bytes());
        block
    };
    (0..count).flat_map(one).collect()
}

#[test]
fn a_limit_of_memory_changes_no_figure() {
    let data = Data::new();
    data.file("many", &many_blocks(260_000));
    let exact = ScanRequest { block_bytes: vec![512, 1024], ..data.request() };
    let spill = tempfile::tempdir().unwrap();
    let bounded = ScanRequest {
        counting: Counting::Bounded { memory_bytes: min_memory(&exact) },
        spill_directory: Some(spill.path().to_owned()),
        ..exact.clone()
    };
    let (exact, bounded) = (scanned(exact), scanned(bounded));
    assert!(exact.effort.table_bytes > 10_000_000 && exact.effort.spilled_bytes == 0);
    assert!(bounded.effort.spilled_bytes > 3_000_000, "{:?}", bounded.effort);
    assert!(bounded.effort.table_bytes < 2 * (4 << 20) + (1 << 20), "{:?}", bounded.effort);
    assert_eq!(comparable(&exact), comparable(&bounded));
}

/// Returns the lowest memory limit that a scan accepts, in bytes.
fn min_memory(request: &ScanRequest) -> u64 {
    let counting = Counting::Bounded { memory_bytes: 0 };
    match ScanOptions::new(ScanRequest { counting, ..request.clone() }) {
        Err(gemelo_scan::OptionsError::Memory { least, .. }) => least,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_scan_that_cannot_write_its_temporary_file_keeps_what_it_counted() {
    let data = Data::new();
    data.file("many", &many_blocks(260_000));
    let request = ScanRequest { block_bytes: vec![512], ..data.request() };
    let monitor = Recorder::new();
    let counting = Counting::Bounded { memory_bytes: min_memory(&request) };
    let spill_directory = Some(data.path("missing"));
    let result = scanned_with(ScanRequest { counting, spill_directory, ..request }, &monitor);
    let size = &result.block_sizes[0];
    assert!(result.partial && size.distinct > 10_000 && size.blocks < 260_000);
    assert_eq!(size.distinct + size.duplicates, size.blocks);
    assert!(
        monitor.warnings()[0].contains("cannot write a temporary file"),
        "{:?}",
        monitor.warnings()
    );
}

#[test]
fn an_estimate_of_little_data_is_exact_and_one_of_much_is_near() {
    let data = Data::new();
    data.file("many", &many_blocks(260_000));
    let exact = scanned(ScanRequest { block_bytes: vec![512], ..data.request() });
    let estimate = |memory_bytes| {
        let counting = Counting::Estimate { memory_bytes };
        scanned(ScanRequest { block_bytes: vec![512], counting, ..data.request() })
    };
    let all = &estimate(gemelo_scan::ESTIMATE_BYTES).block_sizes[0];
    assert_eq!(all.estimate.as_ref().unwrap().sampled_share, 1.0);
    assert_eq!(all.distribution, exact.block_sizes[0].distribution);
    let some = estimate(20 << 20);
    assert!(some.effort.table_bytes < 4 << 20);
    let (some, exact) = (&some.block_sizes[0], &exact.block_sizes[0]);
    let found = some.estimate.as_ref().unwrap();
    assert!(found.sampled_share < 0.5, "{}", found.sampled_share);
    assert_eq!(
        (some.blocks, some.data_bytes, some.zero_blocks),
        (exact.blocks, exact.data_bytes, 0)
    );
    // The tolerance is three times the 95 % interval, which fails once in 10^8.
    let middle = (found.distinct.low + found.distinct.high) / 2.0;
    let reach = 1.5 * (found.distinct.high - found.distinct.low);
    assert!((middle - exact.distinct as f64).abs() < reach);
    assert!((some.dedup_ratio / exact.dedup_ratio - 1.0).abs() < 0.1);
}

#[test]
fn an_estimate_works_on_many_processors_in_its_usual_memory() {
    let data = Data::new();
    data.file("some", &blocks(1..=50, 4096));
    let counting = Counting::Estimate { memory_bytes: gemelo_scan::ESTIMATE_BYTES };
    let result = scanned(ScanRequest { threads: 1024, counting, ..data.request() });
    assert_eq!(result.block_sizes[0].distinct, 50);
}

#[test]
fn a_plan_counts_without_reading_and_its_memory_is_a_bound() {
    let data = Data::new();
    data.file("a/many", &blocks(1..=500, 4096));
    data.file("b", &[7; 100]);
    data.sparse("c", 10 << 20, &[]);
    std::fs::hard_link(data.path("b"), data.path("a/b")).unwrap();
    let request = ScanRequest { block_bytes: vec![4096, 8192], ..data.request() };
    let options = ScanOptions::new(request.clone()).unwrap();
    let planned = plan(&options, &Silent, &StopFlag::new()).unwrap();
    let result = scanned(request);
    assert_eq!(
        (planned.files, planned.directories),
        (result.files.files, result.files.directories)
    );
    assert_eq!(planned.data_bytes, result.files.data_bytes);
    assert!(planned.read_bytes <= planned.data_bytes - (10 << 20) + 4096);
    for (planned, found) in planned.block_sizes.iter().zip(&result.block_sizes) {
        assert_eq!(planned.blocks, found.blocks);
    }
    assert!(planned.memory_bytes > result.effort.table_bytes);
    assert!(planned.sampled_bytes > 0 && planned.estimate_ns.is_some());
    let limited = Counting::Bounded { memory_bytes: 64 << 20 };
    let options = ScanOptions::new(ScanRequest { counting: limited, ..data.request() }).unwrap();
    assert!(plan(&options, &Silent, &StopFlag::new()).unwrap().memory_bytes <= 64 << 20);
}

#[test]
fn a_stop_leaves_a_result_that_says_so() {
    let data = Data::new();
    data.file("a", &blocks(1..100, 4096));
    let stop = StopFlag::new();
    stop.raise();
    let options = ScanOptions::new(data.request()).unwrap();
    let result = scan(&options, &Silent, &stop).unwrap();
    assert!(result.partial && result.block_sizes[0].blocks == 0);
}

#[test]
fn the_monitor_hears_of_every_byte() {
    let data = Data::new();
    let a = data.file("a", &blocks(1..3000, 4096));
    let b = data.sparse("b", 100 << 20, &[(1 << 20, &[1])]);
    let monitor = Recorder::new();
    let result = scanned_with(request(&[&a, &b]), &monitor);
    assert_eq!(monitor.advanced(), result.files.data_bytes);
    assert_eq!(monitor.phases(), ["reading", "adding up"]);
    let monitor = Recorder::new();
    let result = scanned_with(ScanRequest { find_total: true, ..data.request() }, &monitor);
    assert_eq!(monitor.advanced(), result.files.data_bytes);
}
