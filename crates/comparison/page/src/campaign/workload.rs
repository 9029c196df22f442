//! The section of one workload: its main figures, latencies, time series and resources.

use super::data::{Data, raw_file};
use super::judgement::CampaignStatistics;
use super::{doubts, hosts, over_time};
use crate::anchor;
use crate::chart::{Axis, AxisKind, Bar, Bars, Chart, Line, Lines};
use crate::document::{Cell, Column, Item, Picture, Section, Table, Text};
use crate::quantity::{Unit, figure_title};
use crate::thin::Percentiles;
use crate::{accesses, written};
use gemelo_figures::AnyResult;
use gemelo_record::{Better, WorkloadRecord};
use std::collections::BTreeSet;
use std::path::Path;

/// Pictures of one kind that a workload gets at most: a suite of eight jobs with reads and writes
/// has sixteen.
pub(super) const MAX_PICTURES: usize = 16;
/// Percentiles in the tables of latency curves.
pub(super) const PERCENTILES: [(f64, &str); 6] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (1.0, "maximum"),
];

/// Returns the section of a workload.
pub(super) fn section(
    data: &Data,
    judged: &CampaignStatistics,
    workload: &WorkloadRecord,
    directory: &Path,
) -> Section {
    let mut section = Section::new(anchor("workload", &workload.name), workload.name.clone());
    let items = &mut section.items;
    items.push(Item::Paragraph(workload.description.clone().into()));
    if let Some(reason) = &workload.left_out {
        items.push(Item::Paragraph(format!("Left out: {reason}").into()));
        return section;
    }
    let main = data.main_figures(workload);
    if data.of_workload(workload).next().is_none() {
        items.push(Item::Paragraph("No run of this workload was complete.".into()));
        return section;
    }
    let doubts = doubts::doubts(data, judged, workload);
    if !doubts.is_empty() {
        items.push(Item::Warnings(doubts));
    }
    let mut pictures: Vec<Picture> =
        main.iter().map(|figure| bars(data, judged, workload, figure)).collect();
    pictures.extend(latency_curves(data, workload));
    items.push(Item::Pictures(pictures));
    items.push(Item::Table(by_repetition(data, workload, &main)));
    let over_time = over_time::pictures(data, workload);
    if !over_time.is_empty() {
        items.push(Item::Heading("Over time".to_owned()));
        items.push(Item::Pictures(over_time));
    }
    items.extend(hosts::items(data, workload, directory));
    let contents = contents(data, workload, directory);
    if !contents.is_empty() {
        items.push(Item::Heading("Duplicates and hot spots of one run".to_owned()));
        items.push(Item::Pictures(contents));
    }
    items.push(Item::More(all_figures(data, judged, workload)));
    section
}

fn bars(
    data: &Data,
    judged: &CampaignStatistics,
    workload: &WorkloadRecord,
    (figure, better): &(String, Better),
) -> Picture {
    let unit = Unit::of_figure(figure);
    let title = figure_title(figure);
    let columns = vec![
        Column::text("target"),
        Column::number("mean"),
        Column::number("interval"),
        Column::number("repetitions"),
    ];
    let mut table = Table::new(format!("{title} of {}", workload.name), columns);
    let mut bars = Vec::new();
    for (number, target) in data.targets() {
        let Some(estimate) = judged.estimate(&workload.name, &target.name, figure) else {
            continue;
        };
        let interval = estimate.interval.map(|(low, high)| unit.show_range(low, high));
        table.push_of(
            Some(number),
            vec![
                Cell::new(target.name.clone()),
                Cell::new(unit.show(estimate.value)),
                interval.map_or_else(|| Cell::missing("none"), Cell::new),
                Cell::new(estimate.count.to_string()),
            ],
        );
        bars.push(Bar {
            label: target.name.clone(),
            value: unit.show(estimate.value),
            colour: number,
            parts: vec![estimate.value],
            interval: estimate.interval,
        });
    }
    let direction = match better {
        Better::Higher => "Longer bars are better. ",
        Better::Lower => "Shorter bars are better. ",
        Better::Neither => "",
    };
    Picture {
        id: anchor(&anchor("bars", &workload.name), figure),
        title: title.clone(),
        note: format!(
            "{direction}Bars are means over repetitions, and lines are {} intervals.",
            judged.level()
        ),
        chart: Chart::Bars(Bars { axis: Axis::new(title, unit, AxisKind::Linear), bars }),
        linear: None,
        table,
    }
}

/// Returns the duplicates and the accesses of the first run. The load is the same for every target,
/// so that one run shows them all.
fn contents(data: &Data, workload: &WorkloadRecord, directory: &Path) -> Vec<Picture> {
    let Some(run) = data.of_workload(workload).next() else { return Vec::new() };
    let place = gemelo_record::run_directory(directory, &run.id);
    let mut pictures = Vec::new();
    for (number, file) in run.files.iter().enumerate() {
        let id = anchor(&anchor("contents", &workload.name), &(number + 1).to_string());
        let file = place.join(file);
        match AnyResult::read(&file) {
            Ok(AnyResult::Bench(file)) => pictures.extend(written::pictures(&file.file, &id)),
            Ok(_) => (),
            Err(_) => pictures.extend(accesses::pictures(&file, &id)),
        }
    }
    pictures.truncate(MAX_PICTURES);
    pictures
}

fn latency_curves(data: &Data, workload: &WorkloadRecord) -> Vec<Picture> {
    let mut known = BTreeSet::new();
    let names: Vec<&str> = data
        .of_workload(workload)
        .flat_map(|run| &run.figures.curves)
        .map(|curve| curve.name.as_str())
        .filter(|name| known.insert(*name))
        .take(MAX_PICTURES)
        .collect();
    names.into_iter().map(|name| latency_curve(data, workload, name)).collect()
}

fn latency_curve(data: &Data, workload: &WorkloadRecord, name: &str) -> Picture {
    let mut curves = Vec::new();
    for (number, target) in data.targets() {
        let of_run = data.of_pair(workload, target).flat_map(|run| &run.figures.curves);
        let counts = of_run.filter(|curve| curve.name == name).flat_map(|curve| &curve.counts);
        curves.push((number, target.name.clone(), Percentiles::new(counts)));
    }
    let id = anchor(&anchor("latency", &workload.name), name);
    latency_picture(id, &figure_title(name), &curves)
}

/// Returns the picture of latencies by percentile, for lines of a number of a colour and a name.
pub(crate) fn latency_picture(
    id: String,
    title: &str,
    curves: &[(usize, String, Percentiles)],
) -> Picture {
    let mut columns = vec![Column::text("operations")];
    let mut lines = Vec::new();
    for (number, name, percentiles) in curves {
        let points = percentiles.curve();
        if points.is_empty() {
            continue;
        }
        columns.push(Column::number(name.clone()).of(Some(*number)));
        lines.push(Line::new(name.clone(), *number, points));
    }
    let mut table = Table::new(format!("{title} by percentile"), columns);
    for (share, label) in PERCENTILES {
        let cells =
            curves.iter().filter(|(_, _, all)| !all.curve().is_empty()).map(|(_, _, all)| {
                all.at(share).map_or_else(
                    || Cell::missing("none"),
                    |ns| Unit::Nanoseconds.show(ns as f64).into(),
                )
            });
        table.push([Cell::new(label)].into_iter().chain(cells).collect());
    }
    let x = Axis::new("share of operations at most as slow", Unit::Share, AxisKind::Nines);
    let y = |kind| Axis::new("latency", Unit::Nanoseconds, kind);
    let chart = |kind| Chart::Lines(Lines { x: x.clone(), y: y(kind), lines: lines.clone() });
    Picture {
        id,
        title: format!("{title} by percentile"),
        note: "Lower is better. Each step to the right has ten times fewer operations beyond it."
            .to_owned(),
        chart: chart(AxisKind::Logarithmic),
        linear: Some(chart(AxisKind::Linear)),
        table,
    }
}

/// Returns the table in which every value of a main figure is a link to its raw result.
fn by_repetition(data: &Data, workload: &WorkloadRecord, main: &[(String, Better)]) -> Table {
    let repetitions: BTreeSet<u32> = data.of_workload(workload).map(|run| run.repetition).collect();
    let mut columns = vec![Column::text("target"), Column::text("figure")];
    columns.extend(repetitions.iter().map(|number| Column::number(format!("run {number}"))));
    let mut table =
        Table::new("Main figures by repetition. Each number leads to its raw result", columns);
    for (number, target) in data.targets() {
        for (figure, _) in main {
            let values = data.values(workload, target, figure);
            if values.is_empty() {
                continue;
            }
            let unit = Unit::of_figure(figure);
            let mut cells = vec![Cell::new(target.name.clone()), Cell::new(figure_title(figure))];
            cells.extend(repetitions.iter().map(|repetition| {
                let value = values.iter().find(|value| value.run.repetition == *repetition);
                value.map_or_else(
                    || Cell::missing("none"),
                    |value| {
                        Cell::new(Text::new().link(unit.show(value.value), raw_file(value.run)))
                    },
                )
            }));
            table.push_of(Some(number), cells);
        }
    }
    table
}

fn all_figures(data: &Data, judged: &CampaignStatistics, workload: &WorkloadRecord) -> Table {
    let mut columns = vec![Column::text("figure")];
    columns.extend(
        data.measured_targets()
            .map(|(number, target)| Column::number(target.name.clone()).of(Some(number))),
    );
    let mut table = Table::new(
        format!(
            "All figures of {}: means over repetitions and {} intervals",
            workload.name,
            judged.level()
        ),
        columns,
    );
    for (figure, _) in data.figure_names(workload) {
        let unit = Unit::of_figure(&figure);
        let mut cells = vec![Cell::new(figure_title(&figure))];
        for (_, target) in data.measured_targets() {
            let Some(estimate) = judged.estimate(&workload.name, &target.name, &figure) else {
                cells.push(Cell::missing("none"));
                continue;
            };
            let mut cell = Cell::new(unit.show(estimate.value));
            if let Some((low, high)) = estimate.interval {
                cell = cell.detail(unit.show_range(low, high));
            }
            cells.push(cell);
        }
        table.push(cells);
    }
    table
}
