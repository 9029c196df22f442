//! The origin of the figures: machine, plan, targets, warnings, and every run with its files.

use super::data::{Data, run_file};
use crate::document::{Cell, Column, Item, Section, Table, Text, Tone};
use crate::origin;
use crate::quantity::Unit;
use gemelo_record::{Outcome, PlannedRun, RunRecord};
use std::collections::BTreeMap;

/// Returns the section with the warnings of the plan and of its runs, if there are any.
pub(super) fn warnings(data: &Data) -> Option<Section> {
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in &data.runs {
        for warning in &run.warnings {
            by_text.entry(warning).or_default().push(&run.id);
        }
    }
    let mut warnings: Vec<String> = data.plan.warnings.clone();
    warnings.extend(by_text.into_iter().map(|(text, runs)| match runs.as_slice() {
        [run] => format!("{text} (run {run})"),
        runs => {
            format!("{text} ({} runs, the first is {})", runs.len(), runs.first().unwrap_or(&""))
        }
    }));
    if warnings.is_empty() {
        return None;
    }
    let mut section = Section::new("warnings", "Warnings");
    section.items.push(Item::Warnings(warnings));
    Some(section)
}

/// Returns the section with the machine, the plan and the targets.
pub(super) fn origin(data: &Data) -> Section {
    let mut section = Section::new("origin", "Machine, plan and targets");
    let mut facts = origin::facts(&data.plan.provenance);
    facts.push((
        "Repetitions".to_owned(),
        match (data.plan.repetitions, data.plan.max_repetitions) {
            (fewest, most) if fewest < most => {
                format!("{fewest} to {most}, until comparisons and claims are decided").into()
            }
            (fewest, _) => fewest.to_string().into(),
        },
    ));
    section.items.push(Item::Facts(facts));
    let columns = vec![Column::text("target"), Column::text("kind"), Column::text("description")];
    let mut table = Table::new("Targets", columns);
    for (number, target) in data.targets() {
        let description = match &target.left_out {
            Some(reason) => Cell::new(target.description.clone())
                .detail(format!("Left out: {reason}"))
                .tone(Tone::Muted),
            None => Cell::new(target.description.clone()),
        };
        let name = Cell::new(target.name.clone());
        let name = if target.is_baseline { name.detail("baseline") } else { name };
        table.push_of(Some(number), vec![name, Cell::new(target.kind.clone()), description]);
    }
    section.items.push(Item::Table(table));
    section
        .items
        .push(Item::Code { title: "The plan".to_owned(), text: data.plan.plan_text.clone() });
    section
}

/// Returns the section with all runs, those first that were not complete.
pub(super) fn section(data: &Data) -> Section {
    let mut section = Section::new("runs", "Runs");
    let columns = || {
        vec![
            Column::text("run"),
            Column::text("outcome"),
            Column::number("time"),
            Column::text("files"),
        ]
    };
    let records: BTreeMap<&str, &RunRecord> =
        data.runs.iter().map(|run| (run.id.as_str(), run)).collect();
    let mut incomplete = Table::new("Runs that were not complete", columns());
    let mut complete = Table::new("Complete runs", columns());
    for planned in &data.plan.runs {
        let record = records.get(planned.id.as_str()).copied();
        let is_complete = record.is_some_and(|run| run.outcome == Outcome::Done);
        let table = if is_complete { &mut complete } else { &mut incomplete };
        table.push(row(planned, record));
    }
    let left_out = left_out(data);
    if !left_out.is_empty() {
        section.items.push(Item::Heading("Left out".to_owned()));
        section.items.push(Item::List(left_out));
    }
    for table in [incomplete, complete] {
        if !table.rows.is_empty() {
            section.items.push(Item::Table(table));
        }
    }
    section
}

fn left_out(data: &Data) -> Vec<Text> {
    let targets = data.plan.targets.iter().map(|target| (&target.name, &target.left_out));
    let workloads = data.plan.workloads.iter().map(|load| (&load.name, &load.left_out));
    targets
        .chain(workloads)
        .filter_map(|(name, reason)| {
            Some(Text::new().strong(name.clone()).plain(format!(": {}", reason.as_ref()?)))
        })
        .collect()
}

fn row(planned: &PlannedRun, record: Option<&RunRecord>) -> Vec<Cell> {
    let name = Cell::new(planned.id.clone());
    let Some(record) = record else {
        return vec![name, Cell::missing("not started"), Cell::missing(""), Cell::missing("")];
    };
    let outcome = match &record.outcome {
        Outcome::Done => Cell::new("complete"),
        Outcome::Failed { reason } => Cell::new("failed").detail(reason.clone()).tone(Tone::Care),
        Outcome::Interrupted => Cell::new("interrupted").tone(Tone::Care),
    };
    let own = [gemelo_record::RUN_FILE.to_owned()];
    let mut files = Text::new();
    for (place, file) in record.files.iter().chain(&own).enumerate() {
        if place > 0 {
            files = files.plain(", ");
        }
        files = files.link(file.clone(), run_file(record, file));
    }
    vec![
        name.detail(origin::readable_time(&record.started_at)),
        outcome,
        Cell::new(Unit::Nanoseconds.show(record.elapsed_ns as f64)),
        Cell::new(files),
    ]
}
