//! Tests of traces on volumes: the pool has the dedup ratio that `gemelo trace stat` predicts.

use super::directory::{TestDirectory, json, open, refused, run};
use gemelo_format::DedupMode;

#[test]
fn a_pool_has_the_ratio_that_stat_predicts_of_a_trace_like_mail() {
    let directory = TestDirectory::new();
    let trace = directory.name("mail.fiu");
    let made = run("trace synthesize --preset mail --records 100000 --output", &[&trace]);
    assert_eq!(made.status, 0, "{}", made.err);
    let stat = &json("trace stat", &[&trace])["result"];
    for (pool, more, mode) in [
        ("one", "--queue-depth 1", DedupMode::Inline),
        ("four", "--processes 4 --queue-depth 32", DedupMode::Inline),
        ("offline", "--processes 2 --queue-depth 8", DedupMode::Offline),
    ] {
        let target = directory.volume(pool, 1 << 30, mode);
        let words = format!("replay {trace} --speed max --map dense --verify {more} --target");
        let result = &json(&words, &[&target])["result"];
        assert_eq!(result["verification"]["wrong"], 0, "{pool}");
        let (after, predicted) = (&result["stored"]["after"], &result["stored"]["predicted"]);
        assert_eq!(stat["places_at_end"], after["logical_blocks"], "{pool}");
        assert_eq!(stat["contents_at_end"], after["physical_blocks"], "{pool}");
        assert_eq!(stat["places_at_end"], predicted["logical_blocks"], "{pool}");
        assert_eq!(stat["contents_at_end"], predicted["distinct_blocks"], "{pool}");
        assert!(open(&directory.path(pool)).prove(10).unwrap().is_empty(), "{pool}");
    }
    let target = format!("pool:{}/disk", directory.path("one").display());
    let words = format!("replay {trace} --speed max --map dense --target");
    refused(&words, &[&target], "use --force");
    refused(&format!("{words} {target} --engine psync"), &[], "--engine is for files and devices");
}

#[test]
fn trims_of_a_trace_free_blocks() {
    let directory = TestDirectory::new();
    let trace = directory.name("trace");
    let line = |n: u64, kind: &str, block: u64, blocks: u64| {
        format!("  8,0 3 {n} {n}.0 697 Q {kind} {} + {} [x]\n", block * 8, blocks * 8)
    };
    let text = line(1, "W", 0, 8) + &line(2, "D", 2, 3) + &line(3, "W", 3, 1) + &line(4, "R", 0, 8);
    // A part of a block is not trimmed.
    std::fs::write(&trace, text + "  8,0 3 5 5.0 697 Q D 1 + 8 [x]\n").unwrap();
    let target = directory.volume("pool", 1 << 20, DedupMode::Inline);
    let words = [
        "replay",
        &*trace,
        "--speed",
        "max",
        "--verify",
        "--distribution",
        "unique",
        "--target",
        &*target,
    ];
    let result = &json("", &words)["result"];
    assert_eq!((&result["trims"], &result["verification"]["wrong"]), (&1.into(), &0.into()));
    assert_eq!(result["verification"]["checked"], 6, "two blocks are trimmed");
    assert_eq!(result["stored"]["after"]["logical_blocks"], 6);
    assert_eq!(result["stored"]["predicted"]["logical_blocks"], 6);

    let file = directory.name("file");
    let words =
        ["replay", &*trace, "--speed", "max", "--keep", "--queue-depth", "4", "--target", &*file];
    json("", &words);
    let bytes = std::fs::read(&file).unwrap();
    let zeros: Vec<usize> =
        (0..8).filter(|n| bytes[n * 4096..][..4096].iter().all(|byte| *byte == 0)).collect();
    assert_eq!(zeros, [2, 4]);
}
