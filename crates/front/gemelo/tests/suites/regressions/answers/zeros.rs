//! Blocks of zeros counted as the duplicates of one content, and load made of them that was not
//! zeros.

use crate::common::{Ran, gemelo};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: u64 = 4096;

fn done(words: &[&str]) -> Ran {
    let ran = gemelo(words);
    assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
    ran
}

/// Two equal images of `blocks` blocks, of which 64 are data and all others holes.
fn images(directory: &Path, blocks: u64) {
    fs::create_dir(directory).unwrap();
    let seeds = (0..64 * BLOCK / 8)
        .flat_map(|word: u64| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).to_le_bytes());
    let data: Vec<u8> = seeds.collect();
    for name in ["a.raw", "b.raw"] {
        let file = File::create(directory.join(name)).unwrap();
        file.set_len(blocks * BLOCK).unwrap();
        file.write_all_at(&data, 8 * BLOCK).unwrap();
    }
}

/// The figures of the only block size of a scan.
fn scanned(words: &[&str]) -> Value {
    let ran = done(&[&["scan", "--json", "-"], words].concat());
    let file: Value = serde_json::from_str(&ran.out).unwrap();
    file["result"]["block_sizes"][0].clone()
}

/// Blocks, blocks of zeros, distinct contents and the distribution.
fn figures(size: &Value) -> [Value; 4] {
    ["blocks", "zero_blocks", "distinct", "distribution"].map(|name| size[name].clone())
}

#[test]
fn both_ratios_and_both_savings_are_always_there() {
    let place = tempfile::tempdir().unwrap();
    let images_path = place.path().join("images");
    images(&images_path, 1024);
    let path = images_path.to_str().unwrap();
    let size = scanned(&[path]);
    assert_eq!(figures(&size), [2048.into(), 1920.into(), 64.into(), serde_json::json!([[1, 64]])]);
    assert_eq!(size["dedup_ratio"], 2.0);
    assert_eq!(size["saved_bytes"], 64 * BLOCK);
    let with_zeros = &size["with_zeros"];
    assert_eq!(
        (&with_zeros["distinct"], &with_zeros["saved_bytes"]),
        (&65.into(), &(1983 * BLOCK).into())
    );
    assert!((with_zeros["dedup_ratio"].as_f64().unwrap() - 2048.0 / 65.0).abs() < 1e-9);
    let text = done(&["scan", path]).out;
    for line in [
        "dedup ratio without zeros",
        "dedup ratio with zeros",
        "space saved without zeros",
        "space saved with zeros",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
    }
    let brief = done(&["scan", "--brief", path]).out;
    assert!(brief.contains("without zeros") && brief.contains("with zeros"), "{brief}");
}

#[test]
fn a_scan_a_distribution_load_and_a_scan_again_give_equal_figures() {
    let place = tempfile::tempdir().unwrap();
    let images_path = place.path().join("images");
    images(&images_path, 1024);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let found = path("found");
    let first = scanned(&[images_path.to_str().unwrap(), "--distribution", &found]);
    assert_eq!(fs::read_to_string(&found).unwrap(), "# zeros 1920\n1 64\n");
    let bytes = (2048 * BLOCK).to_string();
    for distribution in [found.clone(), format!("{found}.toml")] {
        let made = path("made");
        done(&["generate", &made, "--force", "--bytes", &bytes, "--distribution", &distribution]);
        assert_eq!(figures(&scanned(&[&made])), figures(&first), "{distribution}");
    }
    // Bench writes them as well, in two processes, and its check knows where they belong.
    let target = path("target");
    fs::create_dir(&target).unwrap();
    let each = (1024 * BLOCK).to_string();
    let bench = done(&[
        "bench",
        "--target",
        &target,
        "--processes",
        "2",
        "--file-size",
        &each,
        "--keep",
        "--distribution",
        &found,
        "--verify",
        "final",
        "--json",
        &path("bench.json"),
    ]);
    assert!(bench.out.contains("2,048 blocks, all as written"), "{}", bench.out);
    assert_eq!(figures(&scanned(&[&target])), figures(&first));
    let file: Value = serde_json::from_slice(&fs::read(path("bench.json")).unwrap()).unwrap();
    assert_eq!(file["result"][0]["written"]["zero_blocks"], 1920);
    done(&["verify", &path("bench.json")]);
    // A block of zeros that is damaged is found, and so is a content that became zeros.
    let kept = fs::read_dir(&target).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&kept).unwrap();
    let block_of = |zeros: bool| {
        let blocks = bytes.chunks(BLOCK as usize);
        blocks.clone().position(|block| block.iter().all(|byte| *byte == 0) == zeros).unwrap()
            as u64
    };
    let file = File::options().write(true).open(&kept).unwrap();
    file.write_all_at(&[7], block_of(true) * BLOCK).unwrap();
    file.write_all_at(&[0; BLOCK as usize], block_of(false) * BLOCK).unwrap();
    let ran = gemelo(&["verify", &path("bench.json")]);
    assert_ne!(ran.status, 0, "{}", ran.out);
    assert!(ran.out.contains("2 WRONG"), "{}", ran.out);
}

#[test]
fn saved_sets_keep_zeros_apart() {
    let place = tempfile::tempdir().unwrap();
    let images_path = place.path().join("images");
    images(&images_path, 256);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let mut sets = Vec::new();
    for name in ["a.raw", "b.raw"] {
        let (image, set) = (images_path.join(name), path(&format!("{name}.set")));
        done(&["scan", image.to_str().unwrap(), "--save", &set]);
        sets.push(set);
    }
    let whole = scanned(&[images_path.to_str().unwrap()]);
    let ran = done(&["scan", "merge", &sets[0], &sets[1], "--json", "-"]);
    let merged: Value = serde_json::from_str(&ran.out).unwrap();
    let merged = &merged["result"]["block_sizes"][0];
    assert_eq!(figures(merged), figures(&whole));
    assert_eq!(merged["with_zeros"], whole["with_zeros"]);
}

/// Synthesised traces had one content in the place of zeros, which a replay wrote as bytes that
/// were not zeros.
#[test]
fn zeros_of_a_distribution_are_zeros_in_synthesised_traces_and_their_replays() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("counts"), "# zeros 600\n0 200\n1 100\n").unwrap();
    for (hash_bytes, hash) in
        [("4096", "620f0b67a91f7f74151bc5be745b7110"), ("512", "bf619eac0cdf3f68d496ea9344137e8b")]
    {
        let (trace, found) = (path(hash_bytes), path(&format!("{hash_bytes}.counts")));
        done(
            &[
                &["trace", "synthesize", "--distribution", &path("counts"), "--output", &trace][..],
                &["--records", "1000", "--read-share", "0", "--hash-size", hash_bytes],
                &["--pattern", "sequential", "--written-places", "4000k"],
            ]
            .concat(),
        );
        assert!(fs::read_to_string(&trace).unwrap().contains(hash), "the MD5 hash of zeros");
        let stat = ["trace", "stat", &trace, "--distribution", &found, "--json", "-"];
        let stat: Value = serde_json::from_str(&done(&stat).out).unwrap();
        assert_eq!(fs::read_to_string(&found).unwrap(), "# zeros 600\n0 200\n1 100\n");
        let stat = &stat["result"];
        assert_eq!(stat["written_zero_blocks"], 600);
        assert_eq!(stat["dedup_ratio_written"], 400.0 / 300.0);
        assert_eq!(stat["dedup_ratio_written_with_zeros"], 1000.0 / 301.0);
        assert_eq!(stat["zero_places_at_end"], 600);
        assert_eq!(stat["contents_at_end"], 300);
        let text = done(&["trace", "stat", &trace]).out;
        assert_eq!(text.matches("with them 3.32").count(), 2, "{text}");
        let target = path(&format!("{hash_bytes}.data"));
        done(&["replay", &trace, "--target", &target, "--speed", "max", "--verify", "--keep"]);
        let bytes = fs::read(&target).unwrap();
        let zeros =
            bytes.chunks(BLOCK as usize).filter(|block| block.iter().all(|byte| *byte == 0));
        assert_eq!((zeros.count(), bytes.len() as u64), (600, 1000 * BLOCK));
    }
}
