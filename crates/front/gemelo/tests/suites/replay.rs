//! Tests of `gemelo replay`: the target holds the contents of the trace, written at the times of
//! the trace.

use crate::traces::{TestDirectory, fiu, json, ok, refused};
use std::fs;
use std::path::Path;

/// After a replay, the target holds what the trace wrote and what it was read from: equal hashes
/// are equal blocks.
#[test]
fn a_replay_leaves_the_contents_of_the_trace() {
    let directory = TestDirectory::new();
    let trace = directory.file("trace", fiu());
    let target = directory.name("disk");
    let words = ["replay", &trace, "--target", &target, "--speed", "max", "--verify", "--keep"];
    let ran = ok(&words);
    assert!(ran.out.contains("1 block to write first"), "{}", ran.out);
    assert!(ran.out.contains("2 blocks checked, 0 wrong"), "{}", ran.out);
    let bytes = fs::read(&target).unwrap();
    let block = |number: usize| &bytes[number * 4096..(number + 1) * 4096];
    assert_eq!(bytes.len(), 11 * 4096);
    assert_eq!(block(0), block(1), "both were written with the same hash");
    assert_ne!(block(0), block(10));
    assert!(block(2).iter().all(|byte| *byte == 0), "no record touches it");
    assert!(block(10).iter().any(|byte| *byte != 0), "it was populated");
    refused(&words, "exists");
    let dense = directory.name("dense");
    ok(&[
        "replay", &trace, "--target", &dense, "--speed", "max", "--map", "dense", "--keep",
        "--verify",
    ]);
    assert_eq!(fs::read(&dense).unwrap().len(), 3 * 4096);
    let fold = directory.name("fold");
    refused(
        &["replay", &trace, "--target", &fold, "--size", "16k"],
        "use --map fold or --map dense",
    );
    let ran = ok(&[
        "replay", &trace, "--target", &fold, "--size", "16k", "--map", "fold", "--speed", "max",
        "--keep",
    ]);
    assert!(ran.out.contains("1 place beyond the end moved inside"), "{}", ran.out);
    assert_eq!(fs::read(&fold).unwrap().len(), 4 * 4096);
}

/// The dedup ratio that the target ends up with is the one that `trace stat` predicts, whatever the
/// engine.
#[test]
fn stat_predicts_the_dedup_ratio_of_a_replay() {
    let directory = TestDirectory::new();
    let trace = directory.name("mail.fiu");
    ok(&["trace", "synthesize", "--preset", "mail", "--records", "20000", "--output", &trace]);
    let result = &json(&["trace", "stat", &trace])["result"];
    for (name, more) in [
        ("one", &["--queue-depth", "1"][..]),
        ("four", &["--processes", "4", "--queue-depth", "8"]),
    ] {
        let target = directory.name(name);
        let words = [
            &["replay", &trace, "--target", &target, "--speed", "max", "--verify", "--keep"][..],
            more,
        ]
        .concat();
        let replayed = json(&words);
        assert_eq!(replayed["result"]["verification"]["wrong"], 0, "{name}");
        assert!(replayed["result"]["verification"]["checked"].as_u64().unwrap() > 1000);
        let bytes = fs::read(&target).unwrap();
        let zeros = [0; 4096];
        let held: Vec<&[u8]> = bytes.chunks(4096).filter(|block| *block != zeros).collect();
        let distinct: std::collections::HashSet<&[u8]> = held.iter().copied().collect();
        assert_eq!(result["places_at_end"], held.len(), "{name}");
        assert_eq!(result["contents_at_end"], distinct.len(), "{name}");
    }
}

#[test]
fn traces_without_hashes_get_contents_from_a_distribution() {
    let directory = TestDirectory::new();
    let lines: String = (0..400u64)
        .map(|n| format!("1,{},{},4096,{n}\n", if n % 4 == 3 { 'R' } else { 'W' }, n / 2 * 4096))
        .collect();
    let trace = directory.file("trace.csv", lines);
    let target = directory.name("disk");
    let ran = ok(&[
        "replay",
        &trace,
        "--target",
        &target,
        "--speed",
        "max",
        "--verify",
        "--keep",
        "--distribution",
        "all-duplicates",
    ]);
    assert!(ran.out.contains("300 blocks with contents from the distribution"), "{}", ran.out);
    assert!(ran.out.contains("100 blocks checked, 0 wrong"), "{}", ran.out);
}

#[test]
fn recorded_gaps_are_kept_and_scaled() {
    let directory = TestDirectory::new();
    let trace = directory.file("trace", fiu());
    let target = directory.name("disk");
    let found = json(&["replay", &trace, "--target", &target, "--speed", "10"]);
    let took_ns = found["result"]["duration_ns"].as_u64().unwrap();
    assert!(
        (400_000_000..2_000_000_000).contains(&took_ns),
        "4 s at ten times the speed: {took_ns}"
    );
    assert!(found["result"]["lateness"]["late"].is_u64());
    assert!(!Path::new(&target).exists(), "the file is removed unless it is kept");
    let ran = ok(&["replay", &trace, "--target", "null:", "--dry-run"]);
    assert!(ran.out.contains("4 requests onto 44.00 KiB of null:"), "{}", ran.out);
    // A stretch of it, one device of two, and both as one.
    let ran =
        ok(&["replay", &trace, "--target", "null:", "--dry-run", "--skip", "1", "--limit", "2"]);
    assert!(ran.out.contains("2 requests onto 8.00 KiB of null:"), "{}", ran.out);
    let ran = ok(&["replay", &trace, "--target", "null:", "--dry-run", "--time", "2s"]);
    assert!(ran.out.contains("3 requests onto"), "{}", ran.out);
    let two = directory.file("two.csv", "1,W,0,4096,5\n2,W,4096,4096,9\n");
    for (rules, part) in [
        (&[][..], "2 requests onto 12.00 KiB"),
        (&["--device", "2"], "1 request onto 8.00 KiB"),
        (&["--device", "1", "--device", "2=1"], "2 requests onto 8.00 KiB"),
    ] {
        let ran = ok(&[&["replay", &two, "--target", "null:", "--dry-run"], rules].concat());
        assert!(ran.out.contains(part), "{rules:?}: {}", ran.out);
    }
    refused(&["replay", &trace, "--target", "null:", "--verify"], "--verify");
    refused(&["replay", &trace, "--target", "null:", "--speed", "0"], "not a speed");
    refused(&["replay", "-", "--target", "null:"], "standard input");
}
