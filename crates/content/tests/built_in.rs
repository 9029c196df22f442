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

#[test]
fn personal_has_the_published_figures() {
    let personal = named("personal");
    let summary = personal.summary();
    assert_eq!(summary.blocks, (110 << 30) / 4096);
    let percent = |part| format!("{:.0}", 100.0 * share(part, &personal));
    assert_eq!(percent(summary.unique), "76");
    assert_eq!(percent(summary.duplicates), "18");
    assert_eq!(percent(summary.distinct_with_duplicates), "6");
    assert_eq!(format!("{:.2}", summary.duplicates_per_duplicated_content()), "2.76");
    assert!(summary.most_duplicates > 10_000);
}

#[test]
fn a_quarter_of_primary_is_duplicates() {
    let primary = named("primary");
    assert_eq!(primary.blocks(), (3 << 39) / 4096);
    assert_eq!(primary.summary().duplicates * 4, primary.blocks());
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

/// Returns the shares of blocks by duplicates and by range.
fn shares(of: &Distribution) -> (BTreeMap<u64, f64>, [f64; RANGE_COUNT]) {
    let mut ranges = [0.0; RANGE_COUNT];
    let mut classes = BTreeMap::new();
    for class in of.classes() {
        classes.insert(class.duplicates, share(class.blocks(), of));
        ranges[range_index(class.duplicates)] += share(class.blocks(), of);
    }
    (classes, ranges)
}

/// Exact content promises every class and range within 0.1 percentage points, and the dedup ratio
/// within 0.1 %.
#[test]
fn exact_content_keeps_the_shares_at_every_size_from_100_000_blocks_on() {
    let dense = 100_000..103_000;
    let sparse = (0..3000).map(|step| (100_000.0 * 1.003f64.powi(step)) as u64);
    let known = [123_457, 1_000_000, 1 << 21, 1 << 22, 1 << 23, 28_835_840, 1 << 30, 1 << 40];
    let sizes: Vec<u64> = dense.chain(sparse).chain(known).collect();
    for name in ["personal", "primary", "debian-usr"] {
        let source = named(name);
        let (asked_classes, asked_ranges) = shares(&source);
        for blocks in sizes.iter().copied() {
            let found =
                ScaledDistribution::new(&source, blocks).unwrap().to_distribution().unwrap();
            let (classes, ranges) = shares(&found);
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
            let ratio = found.summary().dedup_ratio() / source.summary().dedup_ratio();
            assert!((ratio - 1.0).abs() < 0.001, "{name}, {blocks} blocks: {ratio}");
        }
    }
}

/// The DEDISbench paper shows these figures for its own algorithm: at 8 GB of the 110 GB
/// distribution, about 90 % of blocks are unique and 7 % are duplicates; at 16 and 32 GB, the
/// figures approach those of the distribution.
#[test]
fn sampled_content_misses_the_figures_as_published() {
    let personal = named("personal");
    let real = personal.summary();
    let (real_unique, real_duplicates) =
        (share(real.unique, &personal), share(real.duplicates, &personal));
    let mut last = (1.0, 0.0);
    for gib in [8u64, 16, 32] {
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
        if gib == 8 {
            assert_eq!(format!("{:.0} {:.0}", 100.0 * found.0, 100.0 * found.1), "90 7");
        }
        assert!(found.0 < last.0 && found.0 > real_unique, "{gib} GiB: {found:?}");
        assert!(found.1 > last.1 && found.1 < real_duplicates, "{gib} GiB: {found:?}");
        last = found;
    }
}
