//! Quantities over the time of a workload's runs: of the load and of the monitor.

use super::data::Data;
use super::workload::MAX_PICTURES;
use crate::anchor;
use crate::chart::{Axis, AxisKind, Chart, Line, Lines};
use crate::document::{Cell, Column, Picture, Table};
use crate::quantity::{Unit, figure_title};
use crate::thin;
use gemelo_record::{RunRecord, Series, WorkloadRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Pictures over time of a whole campaign, and of each workload at least. They are the largest part
/// of a page.
const MAX_OF_CAMPAIGN: usize = 96;
const FEWEST_OF_WORKLOAD: usize = 2;
/// Lines of one picture at most. More repetitions would hide each other.
const MAX_LINES: usize = 24;
/// Points of a line of means over repetitions.
const MEAN_POINTS: usize = 60;
/// Points from which a series shows a course. Runs that are shorter than a few steps of the monitor
/// have fewer.
const FEWEST_POINTS: usize = 5;
/// Rows of the table of a picture at most.
const MAX_ROWS: usize = 10;

/// Returns whether a series gets a picture. Series of few points, of zeros and of the monitor's own
/// cost get none, and neither does the throughput beside the operations of the same kind, which has
/// the same course.
pub(crate) fn is_drawn<'a>(series: &Series, mut others: impl Iterator<Item = &'a Series>) -> bool {
    let is_own = series.name.starts_with("monitor/");
    let is_telling = series.points.iter().any(|(_, value)| *value != 0.0);
    let operations =
        series.name.strip_suffix("/bytes_per_s").map(|kind| format!("{kind}/operations_per_s"));
    let repeats = operations.is_some_and(|name| others.any(|other| other.name == name));
    series.points.len() >= FEWEST_POINTS && is_telling && !repeats && !is_own
}

/// Returns the pictures of all series that show something.
pub(super) fn pictures(data: &Data, workload: &WorkloadRecord) -> Vec<Picture> {
    let mut known = BTreeSet::new();
    let names: Vec<&str> = data
        .of_workload(workload)
        .flat_map(|run| series_of(run).filter(|series| is_drawn(series, series_of(run))))
        .map(|series| series.name.as_str())
        .filter(|name| known.insert(*name))
        .take(share(data))
        .collect();
    names.into_iter().map(|name| picture(data, workload, name)).collect()
}

/// Returns the number of pictures that each workload gets at most.
fn share(data: &Data) -> usize {
    let of_each = MAX_OF_CAMPAIGN / data.plan.workloads.len().max(1);
    of_each.clamp(FEWEST_OF_WORKLOAD, MAX_PICTURES)
}

fn series_of(run: &RunRecord) -> impl Iterator<Item = &Series> {
    run.figures.series.iter().chain(&run.monitor.series)
}

fn picture(data: &Data, workload: &WorkloadRecord, name: &str) -> Picture {
    let targets = data.plan.targets.len().max(1);
    let repetitions = (MAX_LINES / targets).max(1);
    let mut lines: Vec<TimeLine<'_>> = Vec::new();
    for (number, target) in data.targets() {
        let series = data.of_pair(workload, target).flat_map(series_of);
        let drawn = series
            .filter(|series| series.name == name && series.points.len() >= FEWEST_POINTS)
            .take(repetitions);
        lines.extend(drawn.map(|series| TimeLine {
            colour: number,
            label: target.name.clone(),
            points: &series.points,
        }));
    }
    time_picture(anchor(&anchor("time", &workload.name), name), name, &lines)
}

/// A series of a run, and the target that it belongs to.
pub(crate) struct TimeLine<'a> {
    pub(crate) colour: usize,
    pub(crate) label: String,
    pub(crate) points: &'a [(u64, f64)],
}

/// Returns the picture of a quantity over time. Several lines of one label are repetitions.
pub(crate) fn time_picture(id: String, name: &str, lines: &[TimeLine<'_>]) -> Picture {
    let unit = Unit::of_figure(name);
    let title = figure_title(name);
    let labels: BTreeSet<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    let is_thin = labels.len() < lines.len();
    let mut drawn: Vec<Line> = lines
        .iter()
        .map(|line| {
            let points = thin::over_time(line.points);
            Line { is_thin, ..Line::new(line.label.clone(), line.colour, points) }
        })
        .collect();
    let mut note = "Points are means of short intervals.";
    if is_thin {
        note = "Thin lines are repetitions, and thick lines are their means.";
        drawn.extend(means(lines));
    }
    Picture {
        id,
        title: format!("{title} over time"),
        note: note.to_owned(),
        chart: Chart::Lines(Lines {
            x: Axis::new("time", Unit::Nanoseconds, AxisKind::Linear),
            y: Axis::new(title.clone(), unit, AxisKind::Linear),
            lines: drawn,
        }),
        linear: None,
        table: table(&title, unit, lines),
    }
}

/// Returns a line for each label: the mean of its repetitions in equal intervals of time. It ends
/// where the first repetition ends, because the mean of the others would jump there.
fn means(lines: &[TimeLine<'_>]) -> Vec<Line> {
    let mut grouped: BTreeMap<(usize, &str), Vec<&TimeLine<'_>>> = BTreeMap::new();
    for line in lines {
        grouped.entry((line.colour, &line.label)).or_default().push(line);
    }
    grouped
        .into_iter()
        .map(|((colour, label), repetitions)| {
            let end = common_end(&repetitions);
            let all = repetitions.iter().flat_map(|line| line.points).copied();
            let mut points: Vec<(u64, f64)> = all.filter(|(time, _)| *time <= end).collect();
            points.sort_by_key(|(time, _)| *time);
            let longest = repetitions.iter().map(|line| line.points.len()).max().unwrap_or(0);
            let groups = longest.clamp(1, MEAN_POINTS);
            Line::new(label.to_owned(), colour, thin::group_means(&points, groups))
        })
        .collect()
}

/// Returns the time of the last point that every repetition reaches.
fn common_end(repetitions: &[&TimeLine<'_>]) -> u64 {
    let ends = repetitions.iter().filter_map(|line| line.points.last());
    ends.map(|(time, _)| *time).min().unwrap_or(u64::MAX)
}

/// Returns the means of equal intervals, over all repetitions.
fn table(title: &str, unit: Unit, lines: &[TimeLine<'_>]) -> Table {
    let mut targets: Vec<(usize, &str)> = Vec::new();
    for line in lines {
        if !targets.contains(&(line.colour, line.label.as_str())) {
            targets.push((line.colour, &line.label));
        }
    }
    let mut columns = vec![Column::text("time")];
    columns.extend(targets.iter().map(|(n, label)| Column::number(*label).of(Some(*n))));
    let mut table = Table::new(format!("{title}, means of equal intervals of time"), columns);
    let end = lines.iter().filter_map(|line| line.points.last()).map(|(time, _)| *time).max();
    let longest = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let rows = longest.clamp(1, MAX_ROWS) as u64;
    let length = (end.unwrap_or(0) / rows).max(1);
    for row in 0..rows {
        let (from, to) =
            (row * length, if row + 1 == rows { u64::MAX } else { (row + 1) * length });
        let shown_to = ((row + 1) * length) as f64;
        let label = Unit::Nanoseconds.show_range((row * length) as f64, shown_to);
        let mut cells = vec![Cell::new(label)];
        for (number, label) in &targets {
            let of_target = lines.iter().filter(|l| l.colour == *number && l.label == *label);
            let (mut count, mut sum) = (0u32, 0.0);
            for (_, value) in
                of_target.flat_map(|line| line.points).filter(|(time, _)| (from..to).contains(time))
            {
                count += 1;
                sum += value;
            }
            cells.push(match count {
                0 => Cell::missing("none"),
                _ => Cell::new(unit.show(sum / f64::from(count))),
            });
        }
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_few_points_is_no_course() {
        let series = |count: u64| Series {
            name: "system/cpu_share".to_owned(),
            points: (0..count).map(|at| (at, 1.0)).collect(),
        };
        for (count, shown) in [(4, false), (5, true)] {
            let series = series(count);
            assert_eq!(is_drawn(&series, std::iter::once(&series)), shown, "{count} points");
        }
    }
}
