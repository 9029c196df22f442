//! Tests of the plans that ship: each is complete, and judges every finding of its paper.

use super::*;
use crate::run::record_of;
use crate::selection::Selection;
use gemelo_base::random::Random;
use gemelo_compare::{
    Condition, Groups, Place, Repetition, Row, Standards, Term, Verdict, compare_targets,
};
use gemelo_record::{Better, CampaignRecord, ClaimRecord, Provenance, Stats};
use std::process::Command;
use std::time::SystemTime;

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
const OF_LOADS: [&str; 24] = [
    "pool/cow_shared_blocks",
    "write/bytes_per_s",
    "write/operations_per_s",
    "write/operations",
    "write/latency_mean_ns",
    "write/latency_p50_ns",
    "read/bytes_per_s",
    "read/operations_per_s",
    "read/latency_mean_ns",
    "all/operations_per_s",
    "usage/memory_bytes",
    "written/unique_share",
    "written/duplicates_share",
    "written/max_duplicates",
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

/// A pool has a cache of contents as well, which the findings do not mean.
#[test]
fn the_caches_of_the_paper_about_policies_are_those_of_metadata() {
    let plan = plan("dmdedup-2014");
    let sizes = [0, 25, 50, 75, 100, 135].map(|share| format!("-{share}"));
    let cached =
        plan.targets.iter().filter(|target| sizes.iter().any(|s| target.name.ends_with(s)));
    let mut seen = 0;
    for target in cached {
        let mut words = target.description.split(' ');
        assert!(words.any(|word| word.starts_with("metadata-cache=")), "{}", target.description);
        seen += 1;
    }
    assert_eq!(seen, 12);
}

/// The part of the script that solves for the shift needs no storage.
#[test]
fn the_secant_method_of_the_plan_about_entropy_ends() {
    let (_, text) = PLANS.into_iter().find(|(name, _)| *name == "entropy-2010").unwrap();
    let (_, solving) = text.split_once("\nawk '\nfunction term").unwrap();
    let (program, _) = solving.split_once("}'\n").unwrap();
    let awk = Command::new("awk").arg(format!("function term{program}}}")).output().unwrap();
    let printed = String::from_utf8(awk.stdout).unwrap();
    let count = printed.strip_prefix("entropy/most_secant_iterations=").unwrap().trim_end();
    assert!((5..=20).contains(&count.parse().unwrap()), "{printed}");
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

/// A claim about speed says from which length and number of measurements it means something. The
/// defaults of the plan reach the number.
#[test]
fn every_claim_about_speed_says_its_least_scale() {
    for (name, findings) in FINDINGS {
        let plan = plan(name);
        let of_paper = |claim: &&ClaimRecord| findings.contains(&claim.id.as_str());
        for claim in plan.claims.iter().filter(of_paper) {
            let terms = claim.tests.iter().map(|test| test.parse::<Condition>().unwrap());
            let is_speed = |term: &Term| {
                ["_per_s", "_ns", "cpu_share"].iter().any(|end| term.figure.ends_with(end))
            };
            if !terms.into_iter().any(|condition| condition.terms().any(is_speed)) {
                continue;
            }
            let least = &claim.least;
            assert!(least.time_ns.is_some(), "{name}, {}", claim.id);
            let repetitions = least.repetitions.unwrap();
            assert!((5..=plan.settings.repetitions).contains(&repetitions), "{name}, {}", claim.id);
        }
    }
}

#[test]
fn the_comment_of_a_plan_says_how_to_reach_the_published_scale() {
    for (name, text) in
        PLANS.iter().filter(|(name, _)| !["quick", "peers", "compression"].contains(name))
    {
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

/// A factor of lognormal noise (Box and Muller).
fn noise(random: &mut Random, deviation: f64) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    (deviation * radius * (std::f64::consts::TAU * random.unit()).cos()).exp()
}

/// Compares the targets of a campaign whose rounds drift, and whose targets all have this ratio to
/// the baseline.
fn simulated(
    (plan, record): (&Plan, &CampaignRecord),
    selection: &Selection,
    ratio: f64,
    random: &mut Random,
) -> Vec<Row> {
    // A ratio has the noise of two runs.
    let deviation = plan.settings.spread_share / std::f64::consts::SQRT_2;
    let mut groups = Groups::default();
    for number in 1..=plan.settings.repetitions {
        let drift = noise(random, 0.2);
        for pair in &selection.pairs {
            let (workload, target) = (&plan.workloads[pair.workload], &plan.targets[pair.target]);
            let Some(figure) = &workload.main_figure else { continue };
            let is_base = plan.settings.baseline.as_ref() == Some(&target.name);
            let value = drift * noise(random, deviation) * if is_base { 1.0 } else { ratio };
            let mut figures = Stats::default();
            figures.push(figure.as_str(), value, Better::Higher);
            let run = Repetition { number, figures, measured_ns: None };
            groups.add(Place::new(&workload.name, &target.name), run);
        }
    }
    compare_targets(record, &groups, Standards::of(record).unwrap())
}

/// A plan tells before it runs the share of differences that its campaigns find, and at most 5 % of
/// campaigns of equal targets find one.
#[test]
fn the_settings_of_the_plans_keep_their_level_and_find_what_they_tell() {
    const SEED: u64 = 17;
    const COMPARISONS: usize = 6000;
    let mut random = Random::new(SEED);
    for (name, _) in PLANS {
        let plan = plan(name);
        let selection = Selection::of(&plan);
        let Some(power) = plan.outlook().power else { continue };
        assert_eq!(plan.settings.repetitions, plan.settings.max_repetitions, "{name}");
        let provenance = Provenance::of_this_process(SystemTime::UNIX_EPOCH);
        let record = record_of(&plan, &selection, provenance);
        let campaigns = (COMPARISONS / power.comparisons).max(200);
        let (mut wrong, mut found, mut rows) = (0, 0, 0);
        for _ in 0..campaigns {
            let same = simulated((&plan, &record), &selection, 1.0, &mut random);
            let differs = |row: &Row| matches!(row.verdict, Verdict::Better | Verdict::Worse);
            wrong += u32::from(same.iter().any(differs));
            let ratio = 1.0 - power.difference_share;
            let slower = simulated((&plan, &record), &selection, ratio, &mut random);
            rows += slower.len();
            found += slower.iter().filter(|row| row.verdict == Verdict::Worse).count();
            assert_eq!(slower.len(), power.comparisons, "{name}");
        }
        let wrong = f64::from(wrong) / campaigns as f64;
        let found = found as f64 / rows as f64;
        let told = power.found_share;
        println!("{name}: {wrong} wrong, {found:.3} found, {told:.3} told");
        // Four deviations of a rate of 5 %, and of comparisons that share their baseline.
        let most = 0.05 + 4.0 * (0.05 * 0.95 / campaigns as f64).sqrt();
        assert!(wrong <= most, "{name}: {wrong}, seed {SEED}");
        assert!((found - told).abs() < 0.05, "{name}: {found} {told}, seed {SEED}");
    }
}
