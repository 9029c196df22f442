//! Warnings about the measurements themselves, found in the figures: repetitions that disagree,
//! rates that still change, reads from a cache, other work on the machine.

use super::data::{Data, value_of};
use super::judgement::CampaignStatistics;
use crate::quantity::{Unit, figure_title, percent};
use gemelo_record::{RunRecord, Series, TargetRecord, WorkloadRecord};

/// Half width of an interval from which repetitions disagree, as a share of the mean.
const WIDE_SHARE: f64 = 0.1;
/// Processors that may be busy with other work than the target and the load before it is a warning.
/// Kernel threads of the target's disks count as other work.
const MAX_OTHER_PROCESSORS: f64 = 0.5;
/// Share of the bytes read that has to come from disks, or else a cache served the reads.
const MIN_DISK_SHARE: f64 = 0.05;
/// Points of a series that show whether it still changes.
const FEWEST_POINTS: usize = 20;
/// Change from the first tenth of a run to its second half from which the start was another state.
const MAX_CHANGE: f64 = 0.25;

/// Returns the warnings about the measurements of a workload, in the order of the targets.
pub(super) fn doubts(
    data: &Data,
    judged: &CampaignStatistics,
    workload: &WorkloadRecord,
) -> Vec<String> {
    let mut doubts = Vec::new();
    for (_, target) in data.targets() {
        let runs: Vec<&RunRecord> = data.of_pair(workload, target).collect();
        if runs.is_empty() {
            continue;
        }
        let found = [start(&runs), cached(&runs), other_work(&runs)];
        let found = found.into_iter().flatten();
        let all = spread(data, judged, workload, target).into_iter().chain(found);
        doubts.extend(all.map(|doubt| format!("{}: {doubt}", target.name)));
    }
    doubts
}

/// The intervals of the main figures are wide.
fn spread(
    data: &Data,
    judged: &CampaignStatistics,
    workload: &WorkloadRecord,
    target: &TargetRecord,
) -> Vec<String> {
    let of_figure = |(figure, _): (String, _)| {
        let estimate = judged.estimate(&workload.name, &target.name, &figure)?;
        let (low, high) = estimate.interval?;
        let share = (high - low) / 2.0 / estimate.value.abs();
        let unit = Unit::of_figure(&figure);
        (share > WIDE_SHARE).then(|| {
            format!(
                "the repetitions disagree, the {} interval of the {} is {} to {}",
                judged.level(),
                figure_title(&figure).to_lowercase(),
                unit.show(low),
                unit.show(high)
            )
        })
    };
    data.main_figures(workload).into_iter().filter_map(of_figure).collect()
}

/// The first tenth of every run is unlike its second half.
fn start(runs: &[&RunRecord]) -> Option<String> {
    let changes: Option<Vec<f64>> = runs.iter().map(|run| change(run)).collect();
    let changes = changes?;
    let same_direction = changes.iter().all(|change| *change > MAX_CHANGE)
        || changes.iter().all(|change| *change < -MAX_CHANGE);
    let mean = changes.iter().sum::<f64>() / changes.len() as f64;
    same_direction.then(|| {
        let direction = if mean > 0.0 { "above" } else { "below" };
        format!(
            "the ramp-up is too short, the rate of the first tenth is {} {direction} that of the \
             second half",
            percent(mean.abs())
        )
    })
}

/// Returns the change of the rate of a run from its second half to its first tenth.
fn change(run: &RunRecord) -> Option<f64> {
    let is_rate = |series: &&Series| series.name.ends_with("_per_s");
    let series = run.figures.series.iter().find(is_rate)?;
    let count = series.points.len();
    if count < FEWEST_POINTS {
        return None;
    }
    let mean = |points: &[(u64, f64)]| {
        points.iter().map(|(_, value)| value).sum::<f64>() / points.len() as f64
    };
    let (first, rest) = (series.points.get(..count / 10)?, series.points.get(count / 2..)?);
    let change = mean(first) / mean(rest) - 1.0;
    change.is_finite().then_some(change)
}

/// Far fewer bytes came from disks than were read.
fn cached(runs: &[&RunRecord]) -> Option<String> {
    let means = |figure: &str| mean_of(runs, figure);
    let (read, disk) = (means("read/bytes_per_s")?, means("system/disk_read_bytes_per_s")?);
    (read > 0.0 && disk < MIN_DISK_SHARE * read).then(|| {
        let unit = Unit::BytesPerSecond;
        format!("a cache served the reads, disks gave {} of {}", unit.show(disk), unit.show(read))
    })
}

/// The machine was busy with something else.
fn other_work(runs: &[&RunRecord]) -> Option<String> {
    let other = other_processors(runs)?;
    Some(format!(
        "the machine is noisy, {other:.1} processors were busy with other work than the target \
         and the load"
    ))
}

/// Returns how many processors were busy with other work than the target and the load, unless they
/// are few.
fn other_processors(runs: &[&RunRecord]) -> Option<f64> {
    let means = |figure: &str| mean_of(runs, figure);
    let known = means("target/cpu_share").unwrap_or(0.0) + means("usage/cpu_share")?;
    Some(means("system/cpu_share")? - known).filter(|other| *other > MAX_OTHER_PROCESSORS)
}

/// Returns how many processors were busy with other work while targets ran a workload, unless they
/// are few: the most of any target.
pub(super) fn busy_processors(
    data: &Data,
    workload: &WorkloadRecord,
    targets: [&TargetRecord; 2],
) -> Option<f64> {
    let of_target = |target: &TargetRecord| {
        other_processors(&data.of_pair(workload, target).collect::<Vec<_>>())
    };
    targets.into_iter().filter_map(of_target).max_by(f64::total_cmp)
}

/// Returns the mean of a figure if every run has it.
fn mean_of(runs: &[&RunRecord], figure: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| value_of(run, figure)).collect();
    let values = values?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
