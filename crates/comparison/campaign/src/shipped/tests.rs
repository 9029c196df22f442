//! Tests of the plans that ship: each is complete, and judges every finding of its paper.

use super::*;
use gemelo_compare::{Condition, Term};

/// The findings of each paper, by the name of its plan.
const FINDINGS: [(&str, &[&str]); 5] = [
    (
        "dedisbench-2012",
        &[
            "dbench-bonnie-content",
            "dbench-iozone-content",
            "dbench-small-run-undershoots",
            "dbench-converges",
            "dbench-long-tail",
            "dbench-nurand-hot-spots",
            "dbench-byte-io",
            "dbench-byte-read-opendedup",
            "dbench-repeated-content-flatters",
            "dbench-cpu-of-duplicates",
            "dbench-iozone-ranking",
            "dbench-sequential-behind-ext4",
            "dbench-random-read-gain",
            "dbench-nurand-reads-cache",
            "dbench-random-write-cost",
            "dbench-opendedup-hangs",
            "dbench-same-content-misleads",
        ],
    ),
    (
        "entropy-2010",
        &[
            "entropy-write-bandwidth",
            "entropy-write-latency",
            "entropy-write-ops",
            "entropy-reads-follow-writes",
            "entropy-generator-bound",
            "entropy-lookup-latency-unexplained",
            "entropy-compression",
            "entropy-fill-cost",
            "entropy-contiguous-keeps-disk-busy",
            "entropy-lookup-best-homogeneous",
            "entropy-page-mixing",
            "entropy-two-symbols-suffice",
            "entropy-secant",
            "entropy-is-not-redundancy",
        ],
    ),
    (
        "dmdedup-2014",
        &[
            "dmdedup-inram-free",
            "dmdedup-dtb-cache",
            "dmdedup-dtb-full-cache-step",
            "dmdedup-cbt-below-dtb",
            "dmdedup-transaction-size",
            "dmdedup-cbt-1000-cache",
            "dmdedup-cbt-write-amplification",
            "dmdedup-random-becomes-sequential",
            "dmdedup-all-duplicates-sequential",
            "dmdedup-all-duplicates-random",
            "dmdedup-map-locality",
            "dmdedup-alignment",
            "dmdedup-kernels-sequential",
            "dmdedup-cbt-wins-small-random",
            "dmdedup-traces",
            "dmdedup-ext4",
            "dmdedup-lessfs",
            "dmdedup-fuse-cpu",
            "dmdedup-zfs-cache",
            "dmdedup-reads-randomised",
        ],
    ),
    (
        "dedis-2016",
        &[
            "dedis-overhead",
            "dedis-overhead-one-vm",
            "dedis-overhead-many-vms",
            "dedis-overhead-not-scale-dependent",
            "dedis-web-replay",
            "dedis-mail-replay",
            "dedis-concurrent-equals-isolated",
            "dedis-batching",
            "dedis-hot-spots-lower-sharing",
            "dedis-cow-avoided",
            "dedis-cow-share",
            "dedis-hash-cache",
            "dedis-byte-comparison",
            "dedis-scales",
            "dedis-more-servers-more-duplicates",
            "dedis-space",
            "dedis-metadata-pays",
            "dedis-cpu",
            "dedis-ram-per-vm",
            "dedis-ram-per-volume-size",
            "dedis-network",
            "dedis-random-reads",
            "dedis-eight-vms-saturate",
            "dedis-sequential-untested",
        ],
    ),
    (
        "vm-pool-2017",
        &[
            "vmpool-space",
            "vmpool-zfs-saves-most",
            "vmpool-ram",
            "vmpool-cpu-read",
            "vmpool-cpu-read-settles",
            "vmpool-cpu-write",
            "vmpool-sdfs-slower-everywhere",
            "vmpool-sdfs-latency",
            "vmpool-zfs-gains",
            "vmpool-zfs-latency",
            "vmpool-network-cost",
            "vmpool-sequential-write-noise",
            "vmpool-odd-pattern",
        ],
    ),
];

/// Figures that do not depend on the kind of a workload: those of the space and of the monitor.
const OF_EVERY_RUN: [&str; 8] = [
    "run/elapsed_ns",
    "space/data_bytes",
    "space/metadata_bytes",
    "space/logical_bytes",
    "space/dedup_ratio",
    "system/cpu_share",
    "target/cpu_share",
    "target/memory_bytes",
];

/// Figures of jobs, replays and Filebench scripts.
const OF_LOADS: [&str; 23] = [
    "pool/cow_shared_blocks",
    "write/bytes_per_s",
    "write/operations_per_s",
    "write/operations",
    "write/latency_mean_ns",
    "read/bytes_per_s",
    "read/operations_per_s",
    "read/latency_mean_ns",
    "all/operations_per_s",
    "usage/memory_bytes",
    "written/unique_share",
    "written/duplicates_share",
    "written/most_duplicates",
    "filebench/bytes_per_s",
    "filebench/bytes_per_io_s",
    "filebench/generated_bytes_per_s",
    "filebench/operations_per_s",
    "filebench/latency_mean_ns",
    "pool/journal_bytes",
    "pool/cow_blocks",
    "pool/written_bytes",
    "finder/examined_blocks",
    "finder/found_blocks",
];

fn plan(name: &str) -> Plan {
    Plan::open(Path::new(name), &[]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_plan_that_ships_is_valid_and_says_what_it_needs() {
    for plan in shipped().unwrap() {
        assert!(!plan.known_time.is_zero() && plan.space_bytes.is_some(), "{}", plan.name);
        assert!(!plan.title.is_empty());
    }
}

#[test]
fn a_plan_whose_targets_need_root_says_so() {
    for shipped in shipped().unwrap() {
        let plan = plan(shipped.name);
        let mounts = plan.targets.iter().any(|target| {
            ["loop", "zfs"].contains(&target.kind) || target.description.contains("mounted as")
        });
        assert_eq!(shipped.needs_root, mounts, "{}", shipped.name);
    }
}

#[test]
fn every_finding_of_a_paper_has_a_claim_with_its_published_figures_and_place() {
    for (name, findings) in FINDINGS {
        let plan = plan(name);
        assert_eq!(plan.paper.as_ref().map(|paper| paper.id.as_str()), Some(name));
        for finding in findings {
            let claim = plan.claims.iter().find(|claim| claim.id == *finding);
            let claim = claim.unwrap_or_else(|| panic!("{name} has no claim '{finding}'"));
            assert!(claim.published.is_some() && claim.place.is_some(), "{finding}");
        }
    }
}

#[test]
fn the_comment_of_a_plan_says_how_to_reach_the_published_scale() {
    for (name, text) in PLANS.iter().filter(|(name, _)| *name != "quick") {
        let comment: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        for word in ["--set", "root", "published scale", "GB", " minutes"] {
            assert!(comment.contains(word), "{name} does not say '{word}'");
        }
        let plan = Plan::read(text, Path::new("."), &settings_of(&comment)).unwrap();
        assert!(!plan.workloads.is_empty());
    }
}

/// Returns the values that the comment of a plan sets for the published scale.
fn settings_of(comment: &str) -> Vec<SetValue> {
    let words: Vec<_> = comment.split_whitespace().collect();
    let set = words.windows(2).filter(|pair| pair[0] == "--set");
    set.map(|pair| pair[1].trim_end_matches('#').parse().unwrap()).collect()
}

#[test]
fn conditions_name_targets_workloads_and_figures_that_exist() {
    for (name, text) in PLANS {
        let plan = plan(name);
        let (loads, _) = text.split_once("[[claims]]").unwrap();
        for claim in &plan.claims {
            for test in &claim.tests {
                let condition: Condition = test.parse().unwrap_or_else(|error| {
                    panic!("{name}, {}: {error}", claim.id);
                });
                for term in condition.terms() {
                    check(&plan, loads, term).unwrap_or_else(|fault| {
                        panic!("{name}, {}: {fault} in '{test}'", claim.id);
                    });
                }
            }
        }
    }
}

/// Checks that a workload of the plan runs on the target and has the figure.
fn check(plan: &Plan, loads: &str, term: &Term) -> Result<(), String> {
    let target = plan.targets.iter().find(|target| target.name == term.target);
    let target = target.ok_or_else(|| format!("no target '{}'", term.target))?;
    let workload = plan.workloads.iter().find(|workload| workload.name == term.workload);
    let workload = workload.ok_or_else(|| format!("no workload '{}'", term.workload))?;
    if !workload.is_for(&target.name) {
        return Err(format!("'{}' does not run on '{}'", workload.name, target.name));
    }
    let figure = match (term.figure.rsplit_once('.'), workload.kind) {
        (Some((load, figure)), "suite") if SUITE.contains(&load) => figure,
        (Some((_, figure)), "command") => figure,
        (Some(_), _) => return Err(format!("no prefix of '{}'", term.figure)),
        (None, _) => term.figure.as_str(),
    };
    let (_, quantity) = figure.split_once('/').ok_or("a figure has a slash")?;
    // Commands print figures of their own as NAME=VALUE.
    let is_printed = workload.kind == "command"
        && (loads.contains(figure) || loads.contains(&format!("/{quantity}=")));
    let is_known = OF_EVERY_RUN.contains(&figure) || OF_LOADS.contains(&figure);
    if is_known || is_printed {
        Ok(())
    } else {
        Err(format!("'{}' has no figure '{}'", workload.kind, term.figure))
    }
}

/// Names of the jobs of a suite.
const SUITE: [&str; 8] = [
    "sequential-write",
    "sequential-rewrite",
    "sequential-read",
    "sequential-reread",
    "uniform-read",
    "uniform-write",
    "nurand-read",
    "nurand-write",
];
