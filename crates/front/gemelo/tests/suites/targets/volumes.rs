//! Tests of load on volumes, with the engine in the same process (`pool:DIRECTORY/VOLUME`).

use super::directory::{TestDirectory, in_use, json, open, refused, run};
use gemelo_format::DedupMode;

const MIB: u64 = 1 << 20;

#[test]
fn a_volume_stores_what_the_profile_predicts() {
    let directory = TestDirectory::new();
    let target = directory.volume("pool", 16 * MIB, DedupMode::Inline);
    let words = "bench --processes 2 --file-size 8m --queue-depth 8 --pattern uniform --bytes 16m --verify final";
    let found = json(words, &["--target", &target]);
    let result = &found["result"][0];
    assert_eq!(result["verification"]["wrong_blocks"], 0);
    assert_eq!(found["input"][0]["job"]["engine"], "native");
    let stored = &result["stored"];
    let (after, predicted) = (&stored["after"], &stored["predicted"]);
    assert_eq!(after["logical_blocks"], predicted["logical_blocks"]);
    assert_eq!(after["physical_blocks"], predicted["distinct_blocks"]);
    assert!(after["logical_blocks"].as_u64().unwrap() > 2000, "{stored}");
    assert!(after["physical_blocks"].as_u64() < after["logical_blocks"].as_u64(), "{stored}");
    let written: u64 = ["unique_blocks", "duplicate_blocks", "unchanged_blocks", "zero_blocks"]
        .map(|name| after[name].as_u64().unwrap())
        .iter()
        .sum();
    assert_eq!(written, 4096);
    assert!(open(&directory.path("pool")).prove(10).unwrap().is_empty());

    let text = run(
        "bench --operation mixed --pattern nurand --bytes 4m --verify both --force --target",
        &[&target],
    );
    assert_eq!(text.status, 0, "{}", text.err);
    assert!(
        text.out.contains("pool before") && text.out.contains("all as written"),
        "{}",
        text.out
    );
    assert!(text.out.contains("of the blocks written"), "{}", text.out);
}

#[test]
fn a_volume_that_does_not_look_for_duplicates_says_so() {
    let directory = TestDirectory::new();
    let target = directory.volume("pool", 4 * MIB, DedupMode::Off);
    let ran = run("bench --distribution all-duplicates --verify final --target", &[&target]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("does not look for duplicates"), "{}", ran.out);
    let found = json("bench --distribution all-duplicates --force --target", &[&target]);
    let stored = &found["result"][0]["stored"];
    assert_eq!(stored["after"]["physical_blocks"], 1024);
    assert!(stored["predicted"]["distinct_blocks"].as_u64().unwrap() < 100, "{stored}");
}

#[test]
fn what_does_not_fit_a_volume_is_refused() {
    let directory = TestDirectory::new();
    let target = directory.volume("pool", 4 * MIB, DedupMode::Inline);
    let target = ["--target", &*target];
    refused(
        "bench --file-size 3m --processes 2",
        &target,
        "has 4.00 MiB (4194304 bytes), but the job needs 6.00 MiB (6291456 bytes)",
    );
    refused("bench --sync direct", &target, "does not support direct I/O");
    refused("bench --engine io-uring", &target, "--engine is for files and devices");
    refused("bench --operation read --populate none --file-size 8m", &target, "(4194304 bytes)");
    let other = format!("pool:{}/other", directory.path("pool").display());
    refused("bench --target", &[&other], "has no volume 'other': it has disk");
    let nowhere = format!("pool:{}/disk", directory.path("nowhere").display());
    refused("bench --target", &[&nowhere], "cannot open the pool");
    refused("bench --target pool:disk", &[], "pool:DIRECTORY/VOLUME");
    assert_eq!(run("bench", &target).status, 0);
    refused("bench", &target, "use --force");
    let pool = open(&directory.path("pool"));
    pool.snapshot_volume("disk", "snapshot").unwrap();
    pool.close().unwrap();
    let snapshot = format!("pool:{}/snapshot", directory.path("pool").display());
    refused("bench --force --target", &[&snapshot], "is read-only");
    assert_eq!(run("bench --operation read --populate none --target", &[&snapshot]).status, 0);
}

#[test]
fn a_pool_that_another_process_has_is_refused_by_its_number() {
    let directory = TestDirectory::new();
    let target = directory.volume("pool", 4 * MIB, DedupMode::Inline);
    let held = open(&directory.path("pool"));
    let holder = format!("in use by process {}", std::process::id());
    in_use("bench --target", &[&target], &holder);
    in_use("bench --target", &[&target], "nbd+unix:///disk?socket=PATH");
    held.close().unwrap();
    assert_eq!(run("bench --target", &[&target]).status, 0);
}

#[test]
fn jobs_suites_and_verify_know_volumes() {
    let directory = TestDirectory::new();
    let target = directory.volume("pool", 4 * MIB, DedupMode::Inline);
    let ran = run("suite --verify both --queue-depth 4 --target", &[&target]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(!ran.out.contains("WRONG") && ran.out.contains("nurand-write"), "{}", ran.out);

    let jobs = directory.path("jobs.toml");
    let text = format!(
        "target = \"{target}\"\nforce = true\nkeep = true\n[[job]]\nname = \"fill\"\n[[job]]\nname = \"hot\"\n\
         operation = \"mixed\"\npattern = \"zipf:0.9\"\nbytes = \"2m\"\nverify = \"online\"\n"
    );
    std::fs::write(&jobs, text).unwrap();
    let result = directory.name("result.json");
    let ran = run("bench", &[jobs.to_str().unwrap(), "--json", &result]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let ran = run("verify", &[&result]);
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("1,024 blocks, all as written"), "{}", ran.out);
    assert_eq!(run("bench --force --bytes 4k --target", &[&target]).status, 0);
    assert_eq!(run("verify", &[&result]).status, 1, "a block was overwritten");
}
