//! The compression of volumes, changed and applied to earlier contents, on idle and on served
//! pools, and predicted by a scan.

use crate::common::gemelo;
use crate::served::{TestPool, done, noise, refused};
use std::fs;
use std::path::{Path, PathBuf};

const BLOCKS: u64 = 256;

/// Blocks of which half can be compressed away.
fn half_compressible() -> Vec<u8> {
    let block = |number: u64| [noise(number + 1, 2048), vec![number as u8; 2048]].concat();
    (0..BLOCKS).flat_map(block).collect()
}

#[test]
fn the_compression_of_a_volume_is_changed_and_applied_to_earlier_contents() {
    for is_served in [false, true] {
        let pool = TestPool::new(&["--compression", "lz4"]);
        let (volume, raw, back) = (pool.volume("a"), pool.file("raw"), pool.file("back"));
        let contents = half_compressible();
        fs::write(&raw, &contents).unwrap();
        let served = is_served.then(|| pool.serve(&[]));
        done(&["volume", "create", &volume, "--size", "1m"]);
        assert_eq!(pool.stat("/pool/compression"), "lz4");
        assert_eq!(pool.stat("/volumes/0/compression"), "lz4");
        assert!(done(&["pool", "stat", &pool.path()]).contains("compressed with lz4"));
        let said = done(&["volume", "set", &volume, "--compression", "off"]);
        assert!(said.contains("compression off"), "{said}");
        done(&["volume", "import", &raw, &volume, "--force"]);
        assert_eq!(pool.stat("/volumes/0/compression"), "off");
        assert_eq!(pool.stat("/pool/used_blocks"), BLOCKS);
        let said = done(&["pool", "recompress", &pool.path()]);
        assert!(said.contains("256 blocks looked at: 0 stored again"), "{said}");
        let words = ["volume", "set", &volume, "--compression", "zstd:3", "--dedup", "off"];
        let said = done(&words);
        assert!(said.contains("compression zstd:3") && said.contains("dedup off"), "{said}");
        assert!(done(&["volume", "stat", &volume]).contains("zstd:3"));
        let said = done(&["pool", "recompress", &pool.path(), "--rate", "1g"]);
        assert!(
            said.contains("256 blocks looked at: 256 stored again, from 1.00 MiB to"),
            "{said}"
        );
        assert!(said.contains("0 cannot be moved"), "{said}");
        done(&["pool", "gc", &pool.path()]);
        let used = pool.stat("/pool/used_blocks").as_u64().unwrap();
        assert!((BLOCKS / 2..BLOCKS * 5 / 8).contains(&used), "{used} blocks are used");
        // All figures of space are those of the blocks, and not those of the contents.
        let listed = done(&["pool", "ls", &pool.path(), "--json", "-"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let bytes = listed.pointer("/result/0/figures/used_bytes").unwrap();
        assert_eq!(bytes.as_u64(), Some(used * 4096), "{listed}");
        let free = pool.stat("/pool/free_blocks").as_u64().unwrap();
        let share = pool.stat("/used_share").as_f64().unwrap();
        assert!((share - used as f64 / (used + free) as f64).abs() < 1e-9, "{share}");
        done(&["volume", "export", &volume, &back]);
        assert!(fs::read(&back).unwrap() == contents);
        drop(served);
        pool.assert_clean();
    }
}

#[test]
fn volumes_with_blocks_of_every_size_are_imported_and_exported() {
    let contents = [half_compressible(), half_compressible()].concat();
    for (bits, compression) in (9..=16).zip(["lz4", "zstd:3"].into_iter().cycle()) {
        let block_bytes = 1u64 << bits;
        let size = block_bytes.to_string();
        let pool = TestPool::new(&["--compression", compression, "--block-size", &size]);
        let (raw, back) = (pool.file("raw"), pool.file("back"));
        fs::write(&raw, &contents).unwrap();
        for (name, mode) in [("in", "inline"), ("off", "offline"), ("none", "off")] {
            let volume = pool.volume(name);
            done(&["volume", "create", &volume, "--size", "2m", "--dedup", mode]);
            done(&["volume", "import", &raw, &volume, "--force"]);
            done(&["pool", "dedup", &pool.path()]);
            done(&["volume", "export", &volume, &back, "--force"]);
            assert!(fs::read(&back).unwrap() == contents, "{size}, {mode}");
        }
        // Both halves of the volumes are equal, and one volume shares nothing.
        let blocks = contents.len() as u64 / block_bytes;
        let stored = pool.stat("/pool/physical_blocks").as_u64().unwrap();
        assert!(stored <= blocks / 2 + blocks, "{size}: {stored} of {blocks}");
        let used = pool.stat("/pool/used_blocks").as_u64().unwrap();
        assert!(used * 4 < stored * 3, "{size}: {stored} contents in {used} blocks");
        pool.assert_clean();
    }
}

#[test]
fn a_pool_without_compression_and_unknown_ones_are_refused() {
    let pool = TestPool::new(&[]);
    let volume = pool.volume("a");
    done(&["volume", "create", &volume, "--size", "1m"]);
    for words in [
        &["volume", "set", &volume, "--compression", "lz4"][..],
        &["pool", "recompress", &pool.path()],
    ] {
        let message = refused(words);
        assert!(message.contains("created with --compression"), "{words:?}: {message}");
    }
    for words in
        [&["volume", "set", &volume][..], &["volume", "set", &volume, "--compression", "zstd:20"]]
    {
        assert_eq!(gemelo(words).status, 2, "{words:?}");
    }
    assert_eq!(pool.stat("/volumes/0/compression"), "off");
    pool.assert_clean();
}

/// The Rust files of a directory and those below it.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(directory).unwrap().map(|one| one.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.is_symlink() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// An image with the source files of this project, each from a block of its own, as in a file
/// system.
fn image_of_sources() -> Vec<u8> {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut found);
    let mut image = Vec::new();
    for path in found {
        image.extend(fs::read(path).unwrap());
        image.resize(image.len().next_multiple_of(4096), 0);
    }
    image
}

/// Blocks that shrink to each eighth of their size in turn, in groups of the same kind.
fn image_of_all_kinds() -> Vec<u8> {
    let block = |number: u64| {
        let mut block = noise(number + 1, 512 * (1 + (number / 64) as usize % 8));
        block.resize(4096, number as u8);
        block
    };
    (0..4096).flat_map(block).collect()
}

#[test]
fn a_scan_predicts_the_space_in_a_pool() {
    const KINDS: [&str; 2] = ["lz4", "zstd:3"];
    for (name, image) in [("sources", image_of_sources()), ("kinds", image_of_all_kinds())] {
        let pools = KINDS.map(|kind| TestPool::new(&["--compression", kind]));
        let raw = pools[0].file("raw");
        fs::write(&raw, &image).unwrap();
        let said = done(&["scan", &raw, "--compression", &KINDS.join(","), "--json", "-"]);
        let result: serde_json::Value = serde_json::from_str(&said).unwrap();
        let predictions = result.pointer("/result/block_sizes/0/pools").unwrap();
        assert_eq!(predictions.as_array().unwrap().len(), KINDS.len());
        for ((kind, pool), predicted) in
            KINDS.iter().zip(&pools).zip(predictions.as_array().unwrap())
        {
            done(&["volume", "import", &raw, &pool.volume("a")]);
            let physical = pool.stat("/pool/physical_blocks").as_u64().unwrap();
            let used = pool.stat("/pool/used_blocks").as_u64().unwrap();
            assert_eq!(predicted["compression"], *kind);
            assert_eq!(predicted["physical_blocks"], physical, "{name}, {kind}");
            let (share, expected) =
                (used as f64 / physical as f64, predicted["stored_share"].as_f64().unwrap());
            eprintln!("{name}, {kind}: {share:.4} of {physical} blocks, predicted {expected:.4}");
            let is_near = (-0.02..0.02).contains(&(share - expected));
            assert!(is_near, "{name}, {kind}: {share}, not {expected}");
        }
        let text = done(&["scan", &raw, "--compression", "lz4"]);
        assert!(text.contains("Blocks in a pool, predicted from"), "{text}");
    }
}
