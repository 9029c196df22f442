//! Tests that `gemelo scan` and an independent scanner find the requested distribution in generated
//! data.

use crate::common::gemelo;
use gemelo_content::{Distribution, built_in};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Small blocks, so that a hundred thousand of them are written fast.
const BLOCK_BYTES: u64 = 512;

fn words(words: &[&str]) -> crate::common::Ran {
    let ran = gemelo(words);
    assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
    ran
}

fn generate(path: &Path, blocks: u64, more: &[&str]) {
    let bytes = (blocks * BLOCK_BYTES).to_string();
    let path = path.to_str().unwrap();
    words(&[&["generate", path, "--bytes", &bytes, "--block-size", "512"], more].concat());
}

fn scanned(path: &Path) -> Distribution {
    let output = path.with_extension("found");
    words(&[
        "scan",
        path.to_str().unwrap(),
        "--block-size",
        "512",
        "--distribution",
        output.to_str().unwrap(),
    ]);
    Distribution::parse(&fs::read_to_string(output).unwrap()).unwrap()
}

/// The ranges of fewer than 50 duplicates.
const SMALL_RANGES: usize = 4;

/// The shares of the small ranges, and of all larger ones together: in few blocks, a content with
/// millions of copies has fewer, and is in another range.
fn range_shares(of: &Distribution) -> [f64; SMALL_RANGES + 1] {
    let mut shares = [0.0; SMALL_RANGES + 1];
    for row in of.ranges() {
        shares[row.index.min(SMALL_RANGES)] += row.share;
    }
    shares
}

/// Extents and unique extents, as `fio-dedupe` counts them; `None` where it is not installed.
fn fio_dedupe(path: &Path) -> Option<(u64, u64)> {
    let mut command = Command::new("fio-dedupe");
    let output =
        command.args(["-B", "0", "-b", &BLOCK_BYTES.to_string()]).arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |name: &str| {
        let rest = text.split(name).nth(1).expect("fio-dedupe prints its counts");
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap()
    };
    Some((number("\nExtents=").max(1), number("Unique extents=")))
}

#[test]
fn generated_data_has_the_distribution_at_every_size_from_100_000_blocks_on() {
    let directory = tempfile::tempdir().unwrap();
    for (name, blocks) in [("personal", 100_000), ("personal", 123_457), ("primary", 200_003)] {
        let path = directory.path().join(format!("{name}-{blocks}"));
        generate(&path, blocks, &["--distribution", name]);
        let (asked, found) =
            (built_in(name).unwrap().unwrap().to_distribution().unwrap(), scanned(&path));
        assert_eq!(found.blocks(), blocks);
        let (asked_shares, found_shares) = (range_shares(&asked), range_shares(&found));
        for (index, (asked, found)) in asked_shares.iter().zip(found_shares).enumerate() {
            let tolerance = if name == "personal" { 0.01 } else { 0.001 };
            assert!(
                (asked - found).abs() < tolerance,
                "{name}, {blocks} blocks, range {index}: {asked} {found}"
            );
        }
        let asked_ratio = asked.summary().dedup_ratio();
        let ratio = found.summary().dedup_ratio();
        let tolerance = if name == "personal" { 0.05 } else { 0.001 };
        assert!((ratio / asked_ratio - 1.0).abs() < tolerance, "{name}, {blocks} blocks: {ratio}");

        let Some((extents, unique)) = fio_dedupe(&path) else {
            gemelo_tools::missing("fio-dedupe");
            continue;
        };
        assert_eq!((extents, unique), (blocks, found.summary().distinct), "as fio-dedupe sees it");
    }
}

#[test]
fn several_processes_and_a_tree_of_files_carry_the_distribution_too() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    generate(&tree, 20_000, &["--files", "77", "--distribution", "personal"]);
    let target = directory.path().join("bench");
    fs::create_dir(&target).unwrap();
    words(&[
        "bench",
        "--target",
        target.to_str().unwrap(),
        "--processes",
        "4",
        "--file-size",
        "2560000",
        "--block-size",
        "512",
        "--keep",
    ]);
    let asked =
        words(&["distribution", "scale", "personal", "--blocks", "20000", "--output", "-"]).out;
    assert_eq!(scanned(&tree).to_text(), asked);
    assert_eq!(scanned(&target).to_text(), asked);
}

#[test]
fn runs_of_the_same_seed_share_duplicated_contents_and_no_unique_one() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("d"), "0 500\n1 250\n").unwrap();
    let distribution = directory.path().join("d");
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    for name in ["one", "two"] {
        generate(&data.join(name), 1000, &["--distribution", distribution.to_str().unwrap()]);
    }
    assert_eq!(scanned(&data).to_text(), "0 1000\n3 250\n");
}

/// `scan` must measure the requested properties of generated data.
#[test]
fn entropy_compressibility_and_distance_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("set");
    let name = path.to_str().unwrap();
    let make = |options: &[&str]| {
        let _ = fs::remove_file(&path);
        words(&[&["generate", name, "--bytes", "32m"], options].concat());
        let text = words(&["scan", name, "--json", "-"]).out;
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        result["result"]["block_sizes"][0].clone()
    };
    let close = |value: &serde_json::Value, asked: f64, within: f64| {
        let found = value.as_f64().unwrap_or(f64::NAN);
        assert!((found - asked).abs() < within, "asked {asked}, found {found}");
    };
    let made = make(&["--compressibility", "40"]);
    close(&made["nature"]["overall"]["lz4_saved_share"], 0.4, 0.02);
    close(&made["nature"]["overall"]["zstd_saved_share"], 0.4, 0.02);
    // The mean entropy of single blocks of 4 KiB: a little below that of all bytes together.
    close(&make(&["--entropy", "5"])["nature"]["overall"]["entropy_bits"], 5.0, 0.05);
    let made = make(&["--duplicate-distance", "500", "--distribution", "all-duplicates"]);
    assert_eq!(made["unique"], 0);
}
