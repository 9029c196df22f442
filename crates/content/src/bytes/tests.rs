//! What the bytes of contents have to be: pure, recognisable, of the nature asked for.

use super::*;
use crate::{Assignment, Distribution, Nature};
use proptest::prelude::*;

fn spec() -> ContentSpec {
    ContentSpec::new(Distribution::parse("0 100\n3 10\n").unwrap(), 4096, 7)
}

fn with_nature(entropy_bits: f64, compressible_share: f64) -> ContentSpec {
    ContentSpec { nature: Nature { entropy_bits, compressible_share }, ..spec() }
}

fn block(generator: &Generator, id: ContentId) -> Vec<u8> {
    let mut bytes = vec![0; generator.block_bytes()];
    generator.fill(id, &mut bytes);
    bytes
}

/// Unique contents one after another, `blocks` of them.
fn data(spec: &ContentSpec, blocks: u64) -> Vec<u8> {
    let generator = Generator::new(spec).unwrap();
    (0..blocks).flat_map(|serial| block(&generator, ContentId::unique(0, serial))).collect()
}

fn entropy_bits(bytes: &[u8]) -> f64 {
    let mut counts = [0u64; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let share = |count: &u64| *count as f64 / bytes.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

#[test]
fn shared_contents_depend_on_the_seed_alone_and_unique_ones_on_the_run_too() {
    let here = Generator::new(&spec()).unwrap();
    let other_run = Generator::new(&ContentSpec { run: 1, ..spec() }).unwrap();
    let other_seed = Generator::new(&ContentSpec { seed: 8, ..spec() }).unwrap();
    let (shared, unique) = (ContentId::shared(5), ContentId::unique(0, 5));
    assert_eq!(block(&here, shared), block(&other_run, shared));
    assert_ne!(block(&here, unique), block(&other_run, unique));
    assert_ne!(block(&here, shared), block(&other_seed, shared));
    assert_ne!(block(&here, unique), block(&here, ContentId::unique(1, 5)));
    assert_ne!(block(&here, unique), block(&here, shared));
}

#[test]
fn the_entropy_is_the_asked_one_on_a_mebibyte() {
    for block_bytes in [512, 4096, 65_536] {
        for half_bits in 1..=16 {
            let asked = f64::from(half_bits) / 2.0;
            let spec = ContentSpec { block_bytes, ..with_nature(asked, 0.0) };
            let found = entropy_bits(&data(&spec, (1 << 20) / block_bytes as u64));
            assert!((found - asked).abs() < 0.02, "{block_bytes}: asked {asked}, found {found}");
            assert!(Generator::new(&spec).unwrap().shortfalls().is_empty());
        }
    }
}

#[test]
fn an_entropy_without_room_for_contents_says_what_is_written() {
    let spec = with_nature(0.0, 0.0);
    let bytes = data(&spec, 256);
    let shortfalls = Generator::new(&spec).unwrap().shortfalls();
    assert_eq!(shortfalls.len(), 1);
    let said = format!("{:.3} bits a byte", entropy_bits(&bytes));
    assert!(shortfalls[0].contains(&said), "{} does not say {said}", shortfalls[0]);
    let distinct: std::collections::HashSet<_> = bytes.chunks(4096).collect();
    assert_eq!(distinct.len(), 256);
}

/// What LZ4 and zstd level 1 save on these blocks, one by one.
fn saved_shares(bytes: &[u8], block_bytes: usize) -> (f64, f64) {
    let total = bytes.len() as f64;
    let lz4: usize =
        bytes.chunks(block_bytes).map(|block| lz4_flex::block::compress(block).len()).sum();
    let zstd: usize =
        bytes.chunks(block_bytes).map(|block| zstd::bulk::compress(block, 1).unwrap().len()).sum();
    (1.0 - lz4 as f64 / total, 1.0 - zstd as f64 / total)
}

#[test]
fn compressors_save_what_was_asked() {
    for block_bytes in [4096, 16_384, 131_072] {
        for percent in [0, 1, 5, 10, 25, 33, 50, 66, 75, 90, 95, 97] {
            let asked = f64::from(percent) / 100.0;
            let spec = ContentSpec { block_bytes, ..with_nature(8.0, asked) };
            let (lz4, zstd) =
                saved_shares(&data(&spec, (1 << 19) / block_bytes as u64), block_bytes);
            assert!((lz4 - asked).abs() < 0.02, "{block_bytes}: asked {asked}, LZ4 saves {lz4}");
            assert!((zstd - asked).abs() < 0.02, "{block_bytes}: asked {asked}, zstd saves {zstd}");
        }
    }
}

#[test]
fn compressibility_leaves_the_entropy_alone() {
    for (entropy, compressible) in [(8.0, 0.5), (5.0, 0.3), (2.0, 0.7)] {
        let found = entropy_bits(&data(&with_nature(entropy, compressible), 256));
        assert!((found - entropy).abs() < 0.05, "asked {entropy}, found {found}");
    }
}

#[test]
fn each_class_has_the_nature_of_its_own() {
    let mut spec = with_nature(8.0, 0.0);
    spec.class_natures.push(crate::ClassNature {
        duplicates_from: 1,
        duplicates_to: 4,
        nature: Nature { entropy_bits: 3.0, compressible_share: 0.0 },
    });
    let generator = Generator::new(&spec).unwrap();
    let assignment = Assignment::new(&spec, 1400, 1).unwrap();
    let (mut shared, mut unique) = (Vec::new(), Vec::new());
    for id in (0..1400).map(|n| assignment.content(0, n)) {
        if id.is_unique() { &mut unique } else { &mut shared }.extend(block(&generator, id));
    }
    assert!((entropy_bits(&shared) - 3.0).abs() < 0.1);
    assert!(entropy_bits(&unique) > 7.9);
}

#[test]
fn similar_contents_differ_in_a_few_bytes_and_shifted_ones_are_moved() {
    let spec = ContentSpec { similar_share: 0.3, shifted_share: 0.2, ..spec() };
    let generator = Generator::new(&spec).unwrap();
    let (mut similar, mut shifted) = (0, 0);
    for serial in 0..6400 {
        let bytes = block(&generator, ContentId::unique(0, serial));
        let leader = block(&generator, ContentId::unique(0, serial / FAMILY * FAMILY));
        assert_eq!(generator.identify(&bytes), Some(ContentId::unique(0, serial)));
        if serial % FAMILY == 0 {
            continue;
        }
        let different = bytes.iter().zip(&leader).filter(|(one, other)| one != other).count();
        let moved =
            (1..=512).any(|shift| bytes[MARK_BYTES + shift..] == leader[MARK_BYTES..4096 - shift]);
        if different <= MARK_BYTES + EDITS as usize {
            similar += 1;
        } else if moved {
            shifted += 1;
        }
    }
    assert!((f64::from(similar) / 6400.0 - 0.3).abs() < 0.02, "{similar}");
    assert!((f64::from(shifted) / 6400.0 - 0.2).abs() < 0.02, "{shifted}");
}

#[test]
fn every_kind_of_damage_is_told_apart() {
    let generator = Generator::new(&spec()).unwrap();
    let (expected, other) = (ContentId::unique(0, 1), ContentId::shared(2));
    let right = block(&generator, expected);
    let wrong = block(&generator, other);
    let mut scratch = vec![0; 4096];
    let mut examine = |bytes: &[u8]| generator.examine(expected, bytes, &mut scratch);
    assert_eq!(examine(&right), Examination::Match);
    assert_eq!(examine(&[0; 4096]), Examination::Zeros);
    assert_eq!(examine(&wrong), Examination::Other(other));

    let mut new_head = right.clone();
    new_head[..1024].copy_from_slice(&wrong[..1024]);
    let torn = Examination::Torn { intact_sectors: 6, sectors: 8, other: Some(other) };
    assert_eq!(examine(&new_head), torn);
    let mut new_tail = right.clone();
    new_tail[512..].copy_from_slice(&wrong[512..]);
    let torn = Examination::Torn { intact_sectors: 1, sectors: 8, other: None };
    assert_eq!(examine(&new_tail), torn);
    let mut no_tail = right.clone();
    no_tail[3584..].fill(0);
    let torn = Examination::Torn { intact_sectors: 7, sectors: 8, other: None };
    assert_eq!(examine(&no_tail), torn);

    let mut flipped = right.clone();
    flipped[1000] ^= 1;
    let garbage = Examination::Garbage { first_difference: 1000, different_bytes: 1 };
    assert_eq!(examine(&flipped), garbage);
    let random: Vec<u8> =
        (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(matches!(examine(&random), Examination::Garbage { first_difference: 0, .. }));
}

proptest! {
    #[test]
    fn a_block_says_which_content_it_holds(
        bits: u64, seed: u64, run: u64, block_bytes in 64usize..9000, entropy in 0.0f64..8.0, share in 0.0f64..1.0
    ) {
        let nature = Nature { entropy_bits: entropy, compressible_share: share };
        let spec = ContentSpec { seed, run, block_bytes, nature, ..spec() };
        let generator = Generator::new(&spec).unwrap();
        let id = ContentId::from_bits(bits);
        let bytes = block(&generator, id);
        prop_assert_eq!(generator.identify(&bytes), Some(id));
        let mut scratch = vec![0; block_bytes];
        prop_assert_eq!(generator.examine(id, &bytes, &mut scratch), Examination::Match);
    }
}
