//! Scans compared with a plain map of whole contents, on random data.

use crate::data::{Data, comparable, scanned};
use gemelo_scan::{BlockSizeResult, ScanRequest, TailPolicy};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Distribution, distinct bytes, blocks and zero blocks, then distinct contents and their bytes
/// with zeros.
type Figures = (Vec<[u64; 2]>, u64, u64, u64, u64, u64);

fn expected(files: &[Vec<u8>], block_bytes: usize, tail: TailPolicy) -> Figures {
    let mut contents: HashMap<Vec<u8>, u64> = HashMap::new();
    for file in files {
        for block in file.chunks(block_bytes) {
            let mut block = block.to_vec();
            match tail {
                TailPolicy::Skip if block.len() < block_bytes => continue,
                TailPolicy::Pad => block.resize(block_bytes, 0),
                _ => {}
            }
            *contents.entry(block).or_default() += 1;
        }
    }
    let is_zero = |content: &[u8]| content.iter().all(|byte| *byte == 0);
    let blocks = contents.values().sum();
    let zero_blocks =
        contents.iter().filter(|(content, _)| is_zero(content)).map(|(_, copies)| copies).sum();
    let bytes = |contents: &HashMap<Vec<u8>, u64>| {
        contents.keys().map(|content| content.len() as u64).sum::<u64>()
    };
    let with_zeros = (contents.len() as u64, bytes(&contents));
    contents.retain(|content, _| !is_zero(content));
    let mut classes: BTreeMap<u64, u64> = BTreeMap::new();
    for copies in contents.values() {
        *classes.entry(copies - 1).or_default() += 1;
    }
    (
        classes.into_iter().map(|(duplicates, count)| [duplicates, count]).collect(),
        bytes(&contents),
        blocks,
        zero_blocks,
        with_zeros.0,
        with_zeros.1,
    )
}

fn found(size: &BlockSizeResult) -> Figures {
    let zeros = size.with_zeros;
    let (distribution, all) = (size.distribution.clone(), (size.blocks, size.zero_blocks));
    (distribution, size.distinct_bytes, all.0, all.1, zeros.distinct, zeros.distinct_bytes)
}

/// Few contents in pieces of 256 bytes, so that blocks of all sizes have duplicates and zeros, and
/// files have any length.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![4 => 0u8..3, 1 => 0u8..20];
    (proptest::collection::vec((piece, 1usize..12), 0..30), 0usize..256).prop_map(
        |(pieces, cut)| {
            let repeated = pieces
                .into_iter()
                .flat_map(|(value, count)| std::iter::repeat_n(value, count * 256));
            let mut bytes: Vec<u8> = repeated.collect();
            bytes.truncate(bytes.len().saturating_sub(cut));
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_scan_finds_what_a_plain_map_finds(
        files in proptest::collection::vec((file(), any::<bool>()), 0..12),
        tail in prop_oneof![Just(TailPolicy::Skip), Just(TailPolicy::Pad), Just(TailPolicy::Keep)],
        threads in 1usize..5,
    ) {
        let data = Data::new();
        for (index, (bytes, is_sparse)) in files.iter().enumerate() {
            let name = format!("file{index}");
            if *is_sparse {
                let runs: Vec<(u64, &[u8])> = (0u64..)
                    .step_by(4096)
                    .zip(bytes.chunks(4096))
                    .filter(|(_, run)| run.iter().any(|byte| *byte != 0))
                    .collect();
                data.sparse(&name, bytes.len() as u64, &runs);
            } else {
                data.file(&name, bytes);
            }
        }
        let files: Vec<Vec<u8>> = files.into_iter().map(|(bytes, _)| bytes).collect();
        let block_bytes = vec![512, 1024, 1536];
        let result =
            scanned(ScanRequest {
                block_bytes: block_bytes.clone(), tail, threads, ..data.request()
            });
        for (size, block_bytes) in result.block_sizes.iter().zip(block_bytes) {
            prop_assert_eq!(found(size), expected(&files, block_bytes as usize, tail));
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let data = Data::new();
    // Files large enough for several readers, with holes, and many small files.
    let mut large = crate::data::blocks((0..4000).map(|n| n % 1500), 4096);
    large.extend([1; 77]);
    data.file("large", &large);
    data.sparse("sparse", 64 << 20, &[(9 << 20, &large), (50 << 20, &large[..100_000])]);
    for index in 0..700u64 {
        data.file(
            &format!("{}/{index}", index % 7),
            &crate::data::blocks([index % 50, index], 1000),
        );
    }
    let one = comparable(&scanned(ScanRequest { threads: 1, ..data.request() }));
    assert!(one.block_sizes[0].locality.is_some() && one.block_sizes[0].duplicates > 1000);
    for threads in [2, 7] {
        let many = comparable(&scanned(ScanRequest { threads, ..data.request() }));
        assert_eq!(one, many, "{threads} threads");
    }
}
