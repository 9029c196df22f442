//! Tests of the built-in profiles: they have the published figures, and keep them at every size.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_content::{
    Distribution, RANGE_COUNT, ScaledDistribution, built_in, built_in_names, range_index,
    range_label,
};
use std::collections::BTreeMap;

fn named(name: &str) -> Distribution {
    built_in(name).unwrap().unwrap().to_distribution().unwrap()
}

fn share(part: u64, of: &Distribution) -> f64 {
    part as f64 / of.blocks() as f64
}

#[test]
fn every_profile_is_readable_names_itself_and_tells_its_source() {
    for name in built_in_names() {
        let profile = built_in(name).unwrap().unwrap();
        assert_eq!(profile.name, name);
        assert!(!profile.source.is_empty() && profile.block_bytes.is_power_of_two(), "{name}");
    }
    assert!(built_in("nothing").is_none());
}

/// The figures of the distribution that DEDISbench publishes (`conf/dist_personalfiles` of its
/// repository).
#[test]
fn personal_has_the_published_figures() {
    let personal = named("personal");
    let summary = personal.summary();
    assert_eq!(summary.blocks, 29_530_586);
    assert_eq!(summary.unique, 22_610_369);
    assert_eq!((summary.distinct_with_duplicates, summary.duplicates), (1_839_041, 5_081_176));
    assert_eq!(format!("{:.2}", summary.duplicates_per_duplicated_content()), "2.76");
    assert_eq!(summary.max_duplicates, 225_165);
}

/// The figures of `conf/dist_highperf` of the same repository.
#[test]
fn primary_has_the_published_figures() {
    let primary = named("primary");
    let summary = primary.summary();
    assert_eq!(summary.blocks, 400_599_152);
    assert_eq!(summary.unique, 274_550_471);
    assert_eq!((summary.distinct_with_duplicates, summary.duplicates), (25_849_346, 100_199_335));
    assert_eq!(summary.max_duplicates, 64_309_767);
    let blocks: Vec<u64> = primary.ranges().iter().map(|range| range.blocks).collect();
    let published = [
        274_550_471,
        54_089_449,
        1_941_236,
        3_764_800,
        143_171,
        275_976,
        14_176,
        136_826,
        54_573,
        1_234_908,
        83_798,
        0,
        0,
        0,
        0,
        0,
        64_309_768,
    ];
    assert_eq!(blocks, published);
}

/// Counted by a program of its own, blocks drawn from the published file have these shares of
/// unique blocks and duplicates. The built-in distribution gives the same.
#[test]
fn primary_gives_the_duplicates_of_the_published_file_at_any_size() {
    const PUBLISHED: [(u64, f64, f64); 2] =
        [(64 << 20, 0.837_590, 0.161_557), (8 << 30, 0.832_343, 0.165_996)];
    let primary = named("primary");
    for (bytes, unique, duplicates) in PUBLISHED {
        let blocks = bytes / 4096;
        let expected = primary.expected_sample(blocks).unwrap();
        assert!((expected.unique / blocks as f64 - unique).abs() < 0.000_3, "{expected:?}");
        assert!((expected.duplicates / blocks as f64 - duplicates).abs() < 0.000_3, "{expected:?}");
        let drawn = primary.drawn_sample(blocks, 11).unwrap();
        assert!((share(drawn.summary().duplicates, &drawn) - duplicates).abs() < 0.01, "{bytes}");
        let exact = ScaledDistribution::new(&primary, blocks).unwrap().to_distribution().unwrap();
        assert!((share(exact.summary().duplicates, &exact) - 0.2501).abs() < 0.001, "{bytes}");
        let most = (exact.summary().max_duplicates + 1) as f64 / blocks as f64;
        assert!((most - 0.1605).abs() < 0.001, "{bytes}: {most}");
    }
}

#[test]
fn the_measured_profile_knows_the_nature_of_its_contents() {
    let profile = built_in("debian-usr").unwrap().unwrap();
    assert_eq!(profile.to_distribution().unwrap().blocks(), 802_097);
    assert_eq!(profile.class_of(0).map(|class| class.entropy_bits), Some(5.089));
}

#[test]
fn four_fifths_of_a_pool_of_virtual_machines_are_duplicates() {
    let profile = built_in("vm-pool").unwrap().unwrap();
    let summary = profile.to_distribution().unwrap().summary();
    assert_eq!((summary.blocks, summary.distinct), (1_751_290, 349_465));
    assert_eq!(profile.class_of(9).map(|class| class.entropy_bits), Some(4.3504));
}

#[test]
fn the_baselines_have_no_duplicates_and_nothing_else() {
    for blocks in [1, 1000, 1 << 40] {
        let unique =
            ScaledDistribution::new(&named("unique"), blocks).unwrap().to_distribution().unwrap();
        assert_eq!(unique.summary().distinct, blocks);
        let all = ScaledDistribution::new(&named("all-duplicates"), blocks).unwrap();
        assert_eq!(all.to_distribution().unwrap().summary().distinct, 1);
    }
}

/// Shares of blocks by the duplicates that a content has in the source, and by their range.
type Shares = (BTreeMap<u64, f64>, [f64; RANGE_COUNT]);

fn shares(classes: impl Iterator<Item = (u64, u64)>, blocks: u64) -> Shares {
    let mut ranges = [0.0; RANGE_COUNT];
    let mut of_classes = BTreeMap::new();
    for (duplicates, of_class) in classes {
        let share = of_class as f64 / blocks as f64;
        *of_classes.entry(duplicates).or_insert(0.0) += share;
        ranges[range_index(duplicates)] += share;
    }
    (of_classes, ranges)
}

/// Exact content promises every class and range within 0.1 percentage points, and the dedup ratio
/// within 0.1 %. A content that the data set has no room for keeps its share of the blocks, as one
/// content that is cut short.
#[test]
fn exact_content_keeps_the_shares_at_every_size_from_100_000_blocks_on() {
    let dense = 100_000..103_000;
    let sparse = (0..3000).map(|step| (100_000.0 * 1.003f64.powi(step)) as u64);
    let known = [123_457, 1_000_000, 1 << 21, 1 << 22, 1 << 23, 29_530_586, 1 << 30, 1 << 40];
    let sizes: Vec<u64> = dense.chain(sparse).chain(known).collect();
    for name in ["personal", "primary", "debian-usr"] {
        let source = named(name);
        let of_source = source.classes().iter().map(|class| (class.duplicates, class.blocks()));
        let (asked_classes, asked_ranges) = shares(of_source, source.blocks());
        for blocks in sizes.iter().copied() {
            let scaled = ScaledDistribution::new(&source, blocks).unwrap();
            let of_scaled = scaled
                .classes()
                .iter()
                .map(|class| (class.source_duplicates, class.copies * class.contents));
            let (classes, ranges) = shares(of_scaled, blocks);
            for duplicates in asked_classes.keys().chain(classes.keys()) {
                let of = |map: &BTreeMap<u64, f64>| map.get(duplicates).copied().unwrap_or(0.0);
                let difference = of(&classes) - of(&asked_classes);
                assert!(
                    difference.abs() < 0.001,
                    "{name}, {blocks} blocks, {duplicates}: {difference}"
                );
            }
            for (index, (asked, found)) in asked_ranges.iter().zip(ranges).enumerate() {
                let difference = found - asked;
                assert!(
                    difference.abs() < 0.001,
                    "{name}, {blocks}, {}: {difference}",
                    range_label(index)
                );
            }
            let found = scaled.to_distribution().unwrap();
            let ratio = found.summary().dedup_ratio() / source.summary().dedup_ratio();
            assert!((ratio - 1.0).abs() < 0.001, "{name}, {blocks} blocks: {ratio}");
        }
    }
}

/// The sampled algorithm of DEDISbench shows fewer duplicates than the distribution has in a
/// smaller data set. The published distribution gives these unique and duplicate shares by the
/// formula of `expected_sample`, and the built-in one is within half a percentage point.
#[test]
fn sampled_content_misses_the_figures_as_the_published_distribution_does() {
    const PUBLISHED: [(u64, f64, f64); 3] =
        [(8, 0.9111, 0.0597), (16, 0.8756, 0.0839), (32, 0.8354, 0.1153)];
    let personal = named("personal");
    let mut last = (1.0, 0.0);
    for (gib, unique, duplicates) in PUBLISHED {
        let blocks = (gib << 30) / 4096;
        let drawn = personal.drawn_sample(blocks, gib).unwrap();
        let found =
            (share(drawn.summary().unique, &drawn), share(drawn.summary().duplicates, &drawn));
        let expected = personal.expected_sample(blocks).unwrap();
        assert!((expected.unique / blocks as f64 - found.0).abs() < 0.001, "{gib} GiB: {found:?}");
        assert!(
            (expected.duplicates / blocks as f64 - found.1).abs() < 0.001,
            "{gib} GiB: {found:?}"
        );
        assert!((found.0 - unique).abs() < 0.005, "{gib} GiB: {found:?}");
        assert!((found.1 - duplicates).abs() < 0.005, "{gib} GiB: {found:?}");
        // 225,166 copies in the distribution: 15,990 are expected in 8 GiB; the paper has 15,665.
        let copies = 225_166.0 * blocks as f64 / personal.blocks() as f64;
        let most = drawn.summary().max_duplicates as f64;
        assert!((most / copies - 1.0).abs() < 0.05, "{gib} GiB: {most} of {copies}");
        assert!(found.0 < last.0 && found.1 > last.1, "{gib} GiB: {found:?}");
        last = found;
    }
}
