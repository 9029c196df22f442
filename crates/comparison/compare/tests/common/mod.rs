//! Campaigns and runs for the tests.

use gemelo_base::random::Random;
use gemelo_compare::{Groups, Place, Repetition};
use gemelo_record::Provenance;
use gemelo_record::{
    Better, CAMPAIGN_SCHEMA, CampaignRecord, Outcome, PlannedRun, RUN_SCHEMA, RunRecord, Stats,
    TargetRecord, WorkloadRecord,
};
use std::collections::BTreeMap;
use std::time::SystemTime;

pub(crate) fn target(name: &str, left_out: Option<&str>) -> TargetRecord {
    TargetRecord {
        name: name.to_owned(),
        kind: "directory".to_owned(),
        description: String::new(),
        is_baseline: false,
        capacity_bytes: None,
        left_out: left_out.map(str::to_owned),
    }
}

pub(crate) fn campaign(targets: Vec<TargetRecord>, workloads: &[&str]) -> CampaignRecord {
    let workload = |name: &&str| WorkloadRecord {
        name: (*name).to_owned(),
        kind: "bench".to_owned(),
        description: String::new(),
        data_bytes: None,
        main_figure: None,
        set: None,
        left_out: None,
    };
    CampaignRecord {
        schema: CAMPAIGN_SCHEMA.to_owned(),
        provenance: Provenance::of_this_process(SystemTime::UNIX_EPOCH),
        name: "test".to_owned(),
        title: "Test".to_owned(),
        plan_text: String::new(),
        paper: None,
        targets,
        workloads: workloads.iter().map(workload).collect(),
        runs: Vec::new(),
        repetitions: 3,
        max_repetitions: 3,
        margin_share: 0.1,
        confidence: 0.95,
        claims: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A run with one figure, operations a second.
pub(crate) fn figures(operations_per_s: f64) -> Stats {
    let mut figures = Stats::default();
    figures.push("write/operations_per_s", operations_per_s, Better::Higher);
    figures
}

pub(crate) fn repetition(number: u32, figures: Stats) -> Repetition {
    Repetition { number, figures, measured_ns: Some(5_000_000_000) }
}

/// Repetitions of [`figures`], numbered in their order.
pub(crate) fn repetitions(values: &[f64]) -> Vec<Repetition> {
    values.iter().zip(1..).map(|(value, number)| repetition(number, figures(*value))).collect()
}

pub(crate) fn groups(values: &[(&str, &str, &[f64])]) -> Groups {
    let mut groups = Groups::default();
    for (workload, target, values) in values {
        for repetition in repetitions(values) {
            groups.add(Place::new(workload, target), repetition);
        }
    }
    groups
}

/// Adds a run to a campaign, and returns its record.
pub(crate) fn run(
    campaign: &mut CampaignRecord,
    target: &str,
    number: u32,
    value: f64,
) -> RunRecord {
    let id = format!("{number:04}-load-{target}-r{number}");
    let (target, workload) = (target.to_owned(), "load".to_owned());
    campaign.runs.push(PlannedRun {
        id: id.clone(),
        target: target.clone(),
        workload: workload.clone(),
        repetition: number,
    });
    RunRecord {
        schema: RUN_SCHEMA.to_owned(),
        id,
        target,
        workload,
        repetition: number,
        started_at: "1970-01-01T00:00:00Z".to_owned(),
        elapsed_ns: 1,
        outcome: Outcome::Done,
        phases: Vec::new(),
        figures: figures(value),
        monitor: Stats::default(),
        space: BTreeMap::new(),
        files: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A factor of lognormal noise (Box and Muller).
pub(crate) fn noise(random: &mut Random, deviation: f64) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    (deviation * radius * (std::f64::consts::TAU * random.unit()).cos()).exp()
}
