//! Space that the targets use: data and metadata, before and after the load.

use super::data::{Data, run_file};
use crate::anchor;
use crate::chart::{Axis, AxisKind, Bar, Bars, Chart};
use crate::document::{Cell, Column, Item, Picture, Section, Table, Text};
use crate::quantity::{Unit, significant};
use gemelo_record::{RunRecord, Space, TargetRecord, WorkloadRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Most workloads with a picture in the section. The table has all of them.
const MAX_PICTURES: usize = 12;

/// Name of the time before the load.
const BEFORE: &str = "before";

/// Mean space of a target at one time of its runs.
struct Used<'a> {
    target: usize,
    data_bytes: f64,
    metadata_bytes: Option<f64>,
    logical_bytes: Option<f64>,
    run: &'a RunRecord,
}

impl Used<'_> {
    /// Returns whether the target holds nothing, as a new one does before its load.
    fn is_empty(&self) -> bool {
        self.data_bytes == 0.0 && self.logical_bytes == Some(0.0)
    }
}

/// Returns the section about space, if any target measures it.
pub(super) fn section(data: &Data) -> Option<Section> {
    let mut pictures = Vec::new();
    let mut table = Table::new(
        "Space used, means over repetitions",
        vec![
            Column::text("workload"),
            Column::text("target"),
            Column::text("time"),
            Column::number("data"),
            Column::number("metadata"),
            Column::number("stored by users"),
            Column::number("stored for a byte used"),
        ],
    );
    for workload in &data.plan.workloads {
        let times = times(data, workload);
        for time in &times {
            let used = used(data, workload, time);
            let told = used.iter().filter(|one| !one.is_empty());
            told.for_each(|one| add_row(&mut table, data, workload, time, one));
        }
        pictures.extend(picture(data, workload, &times));
    }
    if table.rows.is_empty() {
        return None;
    }
    pictures.truncate(MAX_PICTURES);
    let mut section = Section::new("space", "Space");
    section.items.push(Item::Pictures(pictures));
    section.items.push(Item::Table(table));
    Some(section)
}

/// Returns the names of the times at which space was measured, in order of time.
fn times(data: &Data, workload: &WorkloadRecord) -> Vec<String> {
    let names: BTreeSet<&String> =
        data.of_workload(workload).flat_map(|run| run.space.keys()).collect();
    let mut times: Vec<String> = names.into_iter().cloned().collect();
    // The names are those of the runner: before, after, and after off-line deduplication.
    times.sort_by_key(|time| (!time.starts_with(BEFORE), time.len()));
    times
}

fn used<'a>(data: &'a Data, workload: &'a WorkloadRecord, time: &str) -> Vec<Used<'a>> {
    let of_target = |(number, target): (usize, &'a TargetRecord)| {
        let measured: Vec<(&RunRecord, &Space)> = data
            .of_pair(workload, target)
            .filter_map(|run| Some((run, run.space.get(time)?)))
            .collect();
        let (run, _) = measured.first()?;
        let spaces = || measured.iter().map(|(_, space)| *space);
        Some(Used {
            target: number,
            data_bytes: mean(spaces().map(|space| Some(space.data_bytes)))?,
            metadata_bytes: mean(spaces().map(|space| space.metadata_bytes)),
            logical_bytes: mean(spaces().map(|space| space.logical_bytes)),
            run,
        })
    };
    data.targets().filter_map(of_target).collect()
}

/// Returns the mean if every value is known.
fn mean(values: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    let values: Vec<u64> = values.collect::<Option<_>>()?;
    (!values.is_empty())
        .then(|| values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64)
}

fn add_row(table: &mut Table, data: &Data, workload: &WorkloadRecord, time: &str, used: &Used<'_>) {
    let known = |bytes: Option<f64>| {
        bytes.map_or_else(|| Cell::missing("unknown"), |bytes| Unit::Bytes.show(bytes).into())
    };
    let all = used.data_bytes + used.metadata_bytes.unwrap_or(0.0);
    let ratio = used.logical_bytes.filter(|_| all > 0.0).map(|logical| significant(logical / all));
    let name = data.plan.targets.get(used.target).map_or(String::new(), |t| t.name.clone());
    let raw = Text::new()
        .link(Unit::Bytes.show(used.data_bytes), run_file(used.run, gemelo_record::RUN_FILE));
    table.push_of(
        Some(used.target),
        vec![
            Cell::new(workload.name.clone()),
            Cell::new(name),
            Cell::new(time),
            Cell::new(raw),
            known(used.metadata_bytes),
            known(used.logical_bytes),
            ratio.map_or_else(|| Cell::missing("unknown"), Cell::new),
        ],
    );
}

/// Returns the picture of the space that each target uses at its last time: a target with an
/// off-line pass is asked once more than the others.
fn picture(data: &Data, workload: &WorkloadRecord, times: &[String]) -> Option<Picture> {
    let mut last: BTreeMap<usize, (&str, Used<'_>)> = BTreeMap::new();
    for time in times.iter().filter(|time| !time.starts_with(BEFORE)) {
        last.extend(
            used(data, workload, time).into_iter().map(|one| (one.target, (time.as_str(), one))),
        );
    }
    if last.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("target"),
        Column::text("time"),
        Column::number("data"),
        Column::number("metadata"),
    ];
    let mut table = Table::new(format!("Space of {} at the end", workload.name), columns);
    let mut bars = Vec::new();
    for (time, used) in last.into_values() {
        let name = data.plan.targets.get(used.target).map_or("", |target| target.name.as_str());
        let metadata = used.metadata_bytes.unwrap_or(0.0);
        table.push_of(
            Some(used.target),
            vec![
                Cell::new(name),
                Cell::new(time),
                Cell::new(Unit::Bytes.show(used.data_bytes)),
                used.metadata_bytes.map_or_else(
                    || Cell::missing("not told apart"),
                    |bytes| Cell::new(Unit::Bytes.show(bytes)),
                ),
            ],
        );
        bars.push(Bar {
            label: name.to_owned(),
            value: Unit::Bytes.show(used.data_bytes + metadata),
            colour: used.target,
            parts: vec![used.data_bytes, metadata],
            interval: None,
        });
    }
    Some(Picture {
        id: anchor("space", &workload.name),
        title: format!("Space used by {} at the end", workload.name),
        note:
            "Shorter bars are better. The pale part is metadata, where the target tells it apart."
                .to_owned(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("space used", Unit::Bytes, AxisKind::Linear),
            bars,
        }),
        linear: None,
        table,
    })
}
