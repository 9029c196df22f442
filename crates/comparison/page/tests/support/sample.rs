//! A made-up campaign: targets, workloads, repetitions with noise, latencies, time series, space,
//! a failed run and things that were left out. It is written as the runner writes campaigns.

use gemelo_base::random::Random;
use gemelo_record::Provenance;
use gemelo_record::{
    Better, CAMPAIGN_FILE, CAMPAIGN_SCHEMA, CampaignRecord, ClaimRecord, Curve, LeastScale,
    Outcome, Paper, PlannedRun, RUN_FILE, RUN_SCHEMA, RunRecord, Series, Space, Stats,
    TargetRecord, WorkloadRecord,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Targets, their speed compared with the baseline when they write and read, and their share of
/// the space.
const TARGETS: [(&str, &str, f64, f64, f64); 4] = [
    ("ext4", "ext4 on a loop device", 1.0, 1.0, 1.0),
    ("volume-inline", "A gemelo volume, mode inline, in this process", 1.42, 1.01, 0.62),
    ("volume-offline", "A gemelo volume, mode offline, in this process", 1.21, 0.83, 0.64),
    ("btrfs", "btrfs on a loop device, duperemove afterwards", 0.71, 0.95, 0.70),
];
/// Workloads: name, kind of operation, operations a second of the baseline.
const WORKLOADS: [(&str, &str, f64); 5] = [
    ("sequential-write", "write", 82_000.0),
    ("nurand-write", "write", 31_000.0),
    ("uniform-read", "read", 54_000.0),
    ("load-50", "write", 16_000.0),
    ("load-90", "write", 27_000.0),
];

/// Writes a campaign with this many repetitions of 20 pairs of a target and a workload.
pub(crate) fn write_campaign(directory: &Path, repetitions: u32) {
    let mut random = Random::new(7);
    let mut planned = Vec::new();
    for repetition in 1..=repetitions {
        for (workload, kind, rate) in WORKLOADS {
            for (target, _, write, read, space) in TARGETS {
                let id = format!("{:04}-{workload}-{target}-r{repetition}", planned.len() + 1);
                let run = PlannedRun {
                    id,
                    target: target.to_owned(),
                    workload: workload.to_owned(),
                    repetition,
                };
                let speed = rate * if kind == "write" { write } else { read };
                // The last planned run was not started, and one run failed.
                if planned.len() + 1 < (repetitions as usize) * 20 {
                    write_run(directory, &run, kind, speed, space, &mut random);
                }
                planned.push(run);
            }
        }
    }
    let text = serde_json::to_string_pretty(&plan(planned, repetitions)).unwrap();
    std::fs::write(directory.join(CAMPAIGN_FILE), text).unwrap();
}

fn plan(runs: Vec<PlannedRun>, repetitions: u32) -> CampaignRecord {
    let mut targets: Vec<TargetRecord> = TARGETS
        .iter()
        .map(|(name, description, ..)| TargetRecord {
            name: (*name).to_owned(),
            kind: if name.starts_with("volume") { "volume" } else { "loop" }.to_owned(),
            description: (*description).to_owned(),
            capacity_bytes: None,
            is_baseline: *name == "ext4",
            left_out: None,
        })
        .collect();
    targets.push(TargetRecord {
        name: "zfs-dedup".to_owned(),
        kind: "zfs".to_owned(),
        description: "zfs-fuse with deduplication".to_owned(),
        capacity_bytes: None,
        is_baseline: false,
        left_out: Some("the program zfs-fuse is not installed".to_owned()),
    });
    let mut workloads: Vec<WorkloadRecord> = WORKLOADS
        .iter()
        .map(|(name, kind, _)| WorkloadRecord {
            name: (*name).to_owned(),
            kind: "bench".to_owned(),
            description: format!(
                "{kind}s of 4 KiB, contents personal, <b>not bold</b> & \"quoted\""
            ),
            data_bytes: None,
            main_figure: None,
            set: name.strip_prefix("load-").map(|share| ("load".to_owned(), format!("{share} %"))),
            left_out: None,
        })
        .collect();
    workloads.push(WorkloadRecord {
        name: "fio-randrw".to_owned(),
        kind: "fio".to_owned(),
        description: "Random reads and writes by fio".to_owned(),
        data_bytes: None,
        main_figure: None,
        set: None,
        left_out: Some("the program fio is not installed".to_owned()),
    });
    CampaignRecord {
        schema: CAMPAIGN_SCHEMA.to_owned(),
        provenance: provenance(),
        name: "sample".to_owned(),
        title: "Does in-line deduplication pay for writes?".to_owned(),
        plan_text: "name = \"sample\"\n[[target]]\nkind = \"loop\" # </pre><script>x</script>\n"
            .to_owned(),
        paper: Some(Paper {
            id: "dedis-2016".to_owned(),
            title: "Efficient deduplication in a distributed primary storage infrastructure"
                .to_owned(),
            authors: vec!["João Paulo".to_owned(), "José Pereira".to_owned()],
            venue: "ACM Transactions on Storage 12(4)".to_owned(),
            year: 2016,
        }),
        targets,
        workloads,
        runs,
        repetitions,
        max_repetitions: repetitions,
        margin_share: 0.1,
        confidence: 0.95,
        claims: claims(),
        warnings: vec![
            "other programs used 12 % of the processors before the first run".to_owned(),
        ],
    }
}

fn claims() -> Vec<ClaimRecord> {
    let claim = |id: &str, claim: &str, tests: &[&str]| ClaimRecord {
        id: id.to_owned(),
        claim: claim.to_owned(),
        published: Some("1.3 times".to_owned()),
        place: Some("section 5.2, table 3".to_owned()),
        not_testable: None,
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        least: LeastScale::default(),
    };
    let figure = "write/operations_per_s";
    let ratio = |workload: &str, of: &str, limit: &str| {
        format!("{figure}[{workload}, {of}] / {figure}[{workload}, ext4] {limit}")
    };
    vec![
        claim(
            "inline-writes-faster",
            "In-line deduplication makes random writes faster.",
            &[&ratio("nurand-write", "volume-inline", ">= 1.2")],
        ),
        claim(
            "offline-costs-little",
            "Off-line deduplication costs less than a tenth of the write rate.",
            &[&ratio("nurand-write", "btrfs", ">= 0.9")],
        ),
        claim(
            "offline-about-equal",
            "Sequential writes are a fifth faster off-line.",
            &[&ratio("sequential-write", "volume-offline", ">= 1.21")],
        ),
        ClaimRecord {
            not_testable: Some("this machine has one host".to_owned()),
            ..claim("scales-with-hosts", "Throughput grows with the number of hosts.", &[])
        },
        claim(
            "zfs-slower",
            "ZFS with deduplication is slower.",
            &[&ratio("nurand-write", "zfs-dedup", "<= 0.9")],
        ),
    ]
}

fn provenance() -> Provenance {
    Provenance {
        version: "0.1.0".to_owned(),
        command_line: ["gemelo", "campaign", "run", "plan.toml"].map(str::to_owned).to_vec(),
        host: "bench1".to_owned(),
        kernel: "Linux 6.12.0 x86_64".to_owned(),
        cpu: "AMD EPYC 7543".to_owned(),
        cpu_count: 8,
        memory_bytes: 32 << 30,
        started_at: "2026-11-20T09:00:00Z".to_owned(),
        target: None,
        seed: Some(1),
    }
}

fn write_run(
    directory: &Path,
    planned: &PlannedRun,
    kind: &str,
    speed: f64,
    space: f64,
    random: &mut Random,
) {
    let is_failed = planned.id.starts_with("0007");
    let figures = if is_failed { Stats::default() } else { figures(kind, speed, random) };
    let mut used = BTreeMap::new();
    if kind == "write" {
        let of = |share: f64| Space {
            data_bytes: (share * 1e9) as u64,
            metadata_bytes: planned.target.starts_with("volume").then_some((share * 2e7) as u64),
            logical_bytes: Some((share.max(0.001) / space * 1e9) as u64),
        };
        used.insert("before".to_owned(), of(0.001));
        used.insert("after".to_owned(), of(space));
    }
    let run = RunRecord {
        schema: RUN_SCHEMA.to_owned(),
        id: planned.id.clone(),
        target: planned.target.clone(),
        workload: planned.workload.clone(),
        repetition: planned.repetition,
        started_at: "2026-11-20T09:00:00Z".to_owned(),
        elapsed_ns: 31_000_000_000 + random.below(2_000_000_000),
        outcome: if is_failed {
            Outcome::Failed { reason: "gemelo bench ended with exit status 1: no space".to_owned() }
        } else {
            Outcome::Done
        },
        phases: Vec::new(),
        figures,
        monitor: monitor(&mut Random::new(u64::from(planned.repetition))),
        space: used,
        files: vec!["bench.json".to_owned()],
        warnings: if planned.target == "btrfs" {
            vec!["the spread between repetitions is 9 %".to_owned()]
        } else {
            Vec::new()
        },
    };
    let place = gemelo_record::run_directory(directory, &planned.id);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join(RUN_FILE), serde_json::to_string(&run).unwrap()).unwrap();
    std::fs::write(
        place.join("bench.json"),
        include_str!("../../../figures/tests/data/bench.json"),
    )
    .unwrap();
}

fn figures(kind: &str, speed: f64, random: &mut Random) -> Stats {
    let speed = speed * noise(random, 0.02);
    let mut figures = Stats::default();
    figures.push(format!("{kind}/operations_per_s"), speed, Better::Higher);
    figures.push(format!("{kind}/bytes_per_s"), speed * 4096.0, Better::Higher);
    let mean = 2e9 / speed;
    let counts = latencies(mean, random);
    for (name, factor) in [("mean", 1.0), ("p50", 0.6), ("p99", 6.0), ("p99.9", 31.0)] {
        let value = mean * factor * noise(random, 0.05);
        figures.push(format!("{kind}/latency_{name}_ns"), value, Better::Lower);
    }
    figures.curves.push(Curve { name: format!("{kind}/latency_ns"), counts });
    let points = (0..600u64)
        .map(|tick| {
            let dip = if tick % 90 > 82 { 0.45 } else { 1.0 };
            (tick * 50_000_000, speed * 4096.0 * dip * noise(random, 0.06))
        })
        .collect();
    figures.series.push(Series { name: format!("{kind}/bytes_per_s"), points });
    figures
}

fn latencies(mean: f64, random: &mut Random) -> Vec<[u64; 2]> {
    let mut counts = BTreeMap::new();
    for _ in 0..20_000 {
        let tail = if random.unit() < 0.004 { 25.0 } else { 1.0 };
        let latency = mean * 0.4 * tail * (1.0 - (1.0 - random.unit()).ln());
        *counts.entry((latency / 100.0) as u64 * 100).or_insert(0) += 40;
    }
    counts.into_iter().map(|(latency, count)| [latency, count]).collect()
}

fn monitor(random: &mut Random) -> Stats {
    let mut monitor = Stats::default();
    for (name, level) in [
        ("system/cpu_share", 2.4),
        ("target/cpu_share", 0.9),
        ("usage/cpu_share", 0.1),
        ("system/disk_read_bytes_per_s", 1e4),
        ("system/memory_bytes", 3.1e9),
        ("system/disk_write_bytes_per_s", 2.1e8),
        ("system/network_bytes_per_s", 0.0),
    ] {
        let points: Vec<(u64, f64)> =
            (0..30).map(|s| (s * 1_000_000_000, level * noise(random, 0.1))).collect();
        monitor.push(name, level, Better::Neither);
        monitor.series.push(Series { name: name.to_owned(), points });
    }
    monitor
}

/// Returns a factor near 1 with about this deviation.
fn noise(random: &mut Random, deviation: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| random.unit()).sum();
    1.0 + deviation * (sum - 6.0)
}
