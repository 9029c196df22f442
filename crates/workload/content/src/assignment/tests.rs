//! Properties of assignments: the distribution of data sets, epochs, hosts and drawings.

use super::*;
use crate::DuplicateClass;
use proptest::prelude::*;
use std::collections::HashMap;

fn distribution_of(contents: impl Iterator<Item = BlockContent>) -> Distribution {
    let mut copies: HashMap<ContentId, u64> = HashMap::new();
    let mut zero_blocks = 0;
    for content in contents {
        match content {
            BlockContent::Zeros => zero_blocks += 1,
            BlockContent::Id(id) => *copies.entry(id).or_default() += 1,
        }
    }
    let copies = copies.values();
    let class = |copies: &u64| DuplicateClass { duplicates: copies - 1, contents: 1 };
    Distribution::with_zeros(copies.map(class), zero_blocks).unwrap()
}

fn is_unique(content: BlockContent) -> bool {
    content.id().is_some_and(ContentId::is_unique)
}

fn spec(text: &str) -> ContentSpec {
    ContentSpec::new(Distribution::parse(text).unwrap(), 4096, 99)
}

#[test]
fn a_data_set_of_several_processes_carries_the_distribution() {
    let spec = spec("# zeros 333\n0 700\n1 100\n9 10\n");
    for (blocks, processes, distance) in [(1000, 1, None), (1000, 3, None), (5000, 7, Some(50))] {
        let spec = ContentSpec { duplicate_distance: distance, ..spec.clone() };
        let assignment = Assignment::new(&spec, blocks, processes).unwrap();
        let contents = (0..processes).flat_map(|process| {
            let start = |process| part_start(blocks, processes.into(), u64::from(process));
            let (first, end) = (start(process), start(process + 1));
            (0..end - first).map(move |sequence| (process, sequence))
        });
        let found = distribution_of(contents.map(|(process, n)| assignment.content(process, n)));
        assert_eq!(found, assignment.scaled().unwrap().to_distribution().unwrap());
    }
}

#[test]
fn a_second_epoch_repeats_shared_contents_and_no_unique_one() {
    let assignment = Assignment::new(&spec("0 70\n2 10\n"), 100, 1).unwrap();
    let found = distribution_of((0..200).map(|n| assignment.content(0, n)));
    assert_eq!(found.to_text(), "0 140\n5 10\n");
    let first: Vec<_> = (0..100).map(|n| is_unique(assignment.content(0, n))).collect();
    let second: Vec<_> = (100..200).map(|n| is_unique(assignment.content(0, n))).collect();
    assert_ne!(first, second, "each epoch has its own order");
}

/// All contents of one data set by the assignments of each host, `processes` on each.
fn of_hosts(spec: &ContentSpec, blocks: u64, hosts: u32, processes: u32) -> Vec<Vec<BlockContent>> {
    let all = hosts * processes;
    let host = |host| {
        let own = Processes { first: host * processes, of_host: processes, all };
        let assignment = Assignment::of_hosts(spec, blocks, own).unwrap();
        let writes = |process| (0..blocks / u64::from(all)).map(move |n| (process, n));
        (0..processes).flat_map(writes).map(|(p, n)| assignment.content(p, n)).collect()
    };
    (0..hosts).map(host).collect()
}

#[test]
fn hosts_write_the_parts_of_the_data_set_that_one_host_writes() {
    let spec = spec("0 700\n1 100\n9 10\n");
    let together = of_hosts(&spec, 6000, 1, 6);
    assert_eq!(of_hosts(&spec, 6000, 3, 2).concat(), together.concat());
}

#[test]
fn private_contents_are_of_one_host_and_keep_the_distribution() {
    use std::collections::HashSet;
    let whole = spec("0 700\n1 100\n9 10\n");
    for (share, private_blocks) in [(0.25, 15_000), (1.0, 60_000), (0.0, 0)] {
        let spec = ContentSpec { private_share: share, ..whole.clone() };
        let hosts = of_hosts(&spec, 60_000, 3, 2);
        let ids = |host: &Vec<BlockContent>| host.iter().filter_map(|one| one.id()).collect();
        let sets: Vec<HashSet<ContentId>> = hosts.iter().map(ids).collect();
        let elsewhere = |host: usize, id: &ContentId| {
            sets.iter().enumerate().any(|(other, set)| other != host && set.contains(id))
        };
        // A shared content of the common data set has 2 or 10 copies on 3 hosts, so it may be
        // on one host by chance; a private one has the number of its host.
        let is_private = |id: &ContentId| {
            if id.is_unique() {
                id.number() & PRIVATE_SERIAL != 0
            } else {
                (id.number() >> HOST_SHIFT) & ((1 << (CLASS_SHIFT - HOST_SHIFT)) - 1) != 0
            }
        };
        let mut found = 0;
        for (host, contents) in hosts.iter().enumerate() {
            for id in
                &contents.iter().filter_map(|one| one.id()).filter(is_private).collect::<Vec<_>>()
            {
                found += 1;
                assert!(!elsewhere(host, id), "{id} of host {host}");
                assert!(id.is_unique() || class_of(*id).unwrap() < 3);
            }
        }
        assert_eq!(found, private_blocks, "{share}");
        let all = distribution_of(hosts.concat().into_iter());
        let summary = all.summary();
        assert_eq!((summary.blocks, summary.unique), (60_000, 42_000), "{share}");
        assert!((summary.dedup_ratio() - whole.distribution.summary().dedup_ratio()).abs() < 1e-3);
    }
    let sampled = ContentSpec { private_share: 0.5, mode: AssignmentMode::Sampled, ..whole };
    let two = Processes { first: 0, of_host: 1, all: 2 };
    assert_eq!(Assignment::of_hosts(&sampled, 100, two).unwrap_err(), ContentError::PrivateShare);
}

#[test]
fn shared_contents_are_the_same_at_every_size_and_in_both_modes() {
    let text = "1 1000\n";
    let small = Assignment::new(&spec(text), 100, 1).unwrap();
    let large = Assignment::new(&spec(text), 2000, 1).unwrap();
    let sampled =
        Assignment::new(&ContentSpec { mode: AssignmentMode::Sampled, ..spec(text) }, 1, 1)
            .unwrap();
    let names = |assignment: &Assignment, writes| -> std::collections::HashSet<_> {
        (0..writes).map(|n| assignment.content(0, n)).collect()
    };
    assert!(names(&small, 100).is_subset(&names(&large, 2000)));
    assert!(names(&sampled, 5000).is_subset(&names(&large, 2000)));
}

#[test]
fn sampling_follows_the_cumulative_distribution() {
    // Half of the blocks are unique. The other half belong to 50 contents of 10 copies each.
    let spec = ContentSpec { mode: AssignmentMode::Sampled, ..spec("0 500\n9 50\n") };
    let assignment = Assignment::new(&spec, 1000, 2).unwrap();
    let draws: Vec<BlockContent> = (0..2)
        .flat_map(|process| (0..50_000).map(move |n| (process, n)))
        .map(|(process, n)| assignment.content(process, n))
        .collect();
    let unique = draws.iter().filter(|one| is_unique(**one)).count() as f64;
    assert!((unique / 100_000.0 - 0.5).abs() < 0.01, "{unique}");
    let found = distribution_of(draws.into_iter());
    assert_eq!(found.summary().distinct_with_duplicates, 50);
    assert_eq!(found.summary().unique as f64, unique);
}

#[test]
fn zeros_are_drawn_with_their_share_and_are_nobodys_own() {
    let text = "# zeros 750\n0 150\n9 10\n";
    let sampled = ContentSpec { mode: AssignmentMode::Sampled, ..spec(text) };
    let drawn = Assignment::new(&sampled, 1000, 1).unwrap();
    let zeros = (0..40_000).filter(|n| drawn.content(0, *n) == BlockContent::Zeros).count();
    assert!((zeros as f64 / 40_000.0 - 0.75).abs() < 0.01, "{zeros}");
    let private = ContentSpec { private_share: 0.5, ..spec(text) };
    let hosts = of_hosts(&private, 6000, 3, 2);
    assert_eq!(distribution_of(hosts.concat().into_iter()).zero_blocks(), 4500);
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let spec = spec("0 1\n");
    assert!(Assignment::new(&spec, 0, 1).is_err());
    assert!(Assignment::new(&spec, 10, 0).is_err());
    assert!(Assignment::new(&spec, 10, 11).is_err());
    assert!(Assignment::new(&spec, 1 << 20, ContentId::PROCESSES + 1).is_err());
    assert!(Assignment::new(&spec, 1_000_000_000_000, 2).is_ok());
    let many = (0..=1 << 20).map(|duplicates| DuplicateClass { duplicates, contents: 1 });
    let many = ContentSpec { distribution: Distribution::new(many).unwrap(), ..spec };
    assert!(Assignment::new(&many, 1 << 20, 1).is_err());
}

proptest! {
    #[test]
    fn parts_are_even_and_complete(blocks in 1u64..10_000, processes in 1u32..100) {
        let parts = u64::from(processes);
        prop_assert_eq!(part_start(blocks, parts, 0), 0);
        prop_assert_eq!(part_start(blocks, parts, parts), blocks);
        for part in 0..parts {
            let size = part_start(blocks, parts, part + 1) - part_start(blocks, parts, part);
            prop_assert!(size == blocks / parts || size == blocks / parts + 1);
        }
    }
}
