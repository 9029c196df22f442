//! Stats by directory, and groups of files with common contents.

use crate::data::{Data, blocks, request, scanned};
use gemelo_scan::{DirectoryResult, ScanRequest, SharingResult};

const BLOCK: usize = 4096;

fn sharing(request: ScanRequest) -> (SharingResult, u64) {
    let result = scanned(request);
    let saved_bytes = result.block_sizes[0].saved_bytes;
    (result.sharing.expect("it was asked for"), saved_bytes)
}

fn directory<'r>(result: &'r SharingResult, end: &str) -> &'r DirectoryResult {
    result.directories.iter().find(|one| one.path.ends_with(end)).expect(end)
}

/// Contents 1 to 8 are in a and b, 9 to 12 twice in a, 13 to 16 in c alone.
fn data() -> Data {
    let data = Data::new();
    data.file("a/x", &blocks((1..=8).chain(9..=12), BLOCK));
    data.file("a/deep/y", &blocks(9..=12, BLOCK));
    data.file("b/x", &blocks((1..=8).chain([0, 0, 0, 0]), BLOCK));
    data.file("c", &blocks(13..=16, BLOCK));
    data
}

#[test]
fn savings_by_directory_add_up_to_those_of_the_scan() {
    let data = data();
    let (found, saved_bytes) = sharing(ScanRequest { directory_depth: Some(1), ..data.request() });
    assert_eq!((found.block_bytes, found.sampled_share), (4096, 1.0));
    assert_eq!(found.directories.iter().map(|one| one.saved_bytes).sum::<u64>(), saved_bytes);
    assert_eq!(found.directories.len(), 3);
    let block = BLOCK as u64;
    let a = directory(&found, "/a");
    assert_eq!((a.blocks, a.data_bytes, a.zero_bytes), (16, 16 * block, 0));
    assert_eq!((a.saved_bytes, a.saved_alone_bytes), (8 * block, 4 * block));
    assert_eq!(a.only_here_bytes, 4 * block);
    let b = directory(&found, "/b");
    assert_eq!((b.blocks, b.zero_bytes), (12, 4 * block));
    assert_eq!((b.saved_bytes, b.saved_alone_bytes), (4 * block, 0));
    let root = directory(&found, data.root().to_str().unwrap());
    assert_eq!((root.blocks, root.saved_bytes, root.only_here_bytes), (4, 0, 4 * block));
}

#[test]
fn the_depth_decides_which_directories_are_listed() {
    let data = data();
    let paths = |depth| {
        let (found, _) = sharing(ScanRequest { directory_depth: Some(depth), ..data.request() });
        let root = format!("{}", data.root().display());
        let mut paths: Vec<String> =
            found.directories.iter().map(|one| one.path.replace(&root, ".")).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(0), ["."]);
    assert_eq!(paths(1), [".", "./a", "./b"]);
    assert_eq!(paths(2), [".", "./a", "./a/deep", "./b"]);
    let (a, b) = (data.path("a/x"), data.path("b/x"));
    let given = ScanRequest { directory_depth: Some(0), ..request(&[&a, &b]) };
    let (found, _) = sharing(given);
    assert_eq!(found.directories.len(), 2, "each path that was given has figures");
    assert_eq!(directory(&found, "b/x").blocks, 12);
    assert!(scanned(data.request()).sharing.is_none());
}

#[test]
fn files_with_common_contents_are_grouped() {
    let data = data();
    let repeated = blocks([20, 20, 20], BLOCK);
    data.file("repeated", &repeated);
    let (found, _) = sharing(ScanRequest { directory_depth: Some(1), ..data.request() });
    let name = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let groups: Vec<(u64, Vec<String>, u64, u64)> = found
        .file_groups
        .into_iter()
        .map(|group| (group.files, group.paths, group.distinct_bytes, group.saved_bytes))
        .collect();
    let block = BLOCK as u64;
    assert_eq!(
        groups,
        [
            (2, vec![name(&data.path("a/x")), name(&data.path("b/x"))], 8 * block, 8 * block),
            (2, vec![name(&data.path("a/deep/y")), name(&data.path("a/x"))], 4 * block, 4 * block),
            (1, vec![name(&data.path("repeated"))], block, 2 * block),
        ]
    );
}

/// A sample stands for more than itself: two directories of random contents, half of them in both.
#[test]
fn figures_from_a_sample_are_near_the_truth() {
    const SMALL: usize = 512;
    let data = Data::new();
    let count = 400_000u64;
    let numbers = |from: u64| (from..from + count).map(|n| n.wrapping_mul(0x9e37_79b9) | 1 << 40);
    let bytes = |from: u64| {
        let mut bytes = vec![0u8; count as usize * SMALL];
        for (block, number) in bytes.chunks_exact_mut(SMALL).zip(numbers(from)) {
            block[..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    };
    data.file("a/x", &bytes(0));
    data.file("b/x", &bytes(count / 2));
    let wanted =
        ScanRequest { directory_depth: Some(1), block_bytes: vec![SMALL as u32], ..data.request() };
    let (found, saved_bytes) = sharing(wanted);
    assert!(found.sampled_share < 1.0, "{}", found.sampled_share);
    let sum: u64 = found.directories.iter().map(|one| one.saved_bytes).sum();
    let error = sum as f64 / saved_bytes as f64 - 1.0;
    assert!(error.abs() < 0.02, "{error}");
    let near = |value: u64, truth: u64| (value as f64 / truth as f64 - 1.0).abs() < 0.02;
    let a = directory(&found, "/a");
    assert_eq!(a.data_bytes, count * SMALL as u64);
    assert!(near(a.only_here_bytes, count / 2 * SMALL as u64), "{}", a.only_here_bytes);
    assert_eq!(found.file_groups.len(), 1);
    assert!(near(found.file_groups[0].saved_bytes, saved_bytes));
}
