//! The hosts of a workload that ran on several of them, side by side.

use super::data::{Data, measured_file};
use crate::document::{Cell, Column, Item, Table};
use crate::quantity::{Unit, figure_title, percent};
use crate::single::host_label;
use gemelo_figures::{HostResult, name_parts, throughputs};
use gemelo_record::{RunRecord, TargetRecord, WorkloadRecord};
use std::collections::BTreeMap;
use std::path::Path;

/// The figure that only runs on several hosts have.
const OF_HOSTS: &str = "hosts/slowest_share";

/// The throughputs of hosts in a job.
#[derive(Default)]
struct Rates<'a> {
    /// Names of the hosts, by their numbers.
    labels: BTreeMap<u32, String>,
    targets: Vec<OnTarget<'a>>,
}

/// The throughputs of hosts on a target.
struct OnTarget<'a> {
    number: usize,
    target: &'a TargetRecord,
    /// The values of the repetitions, by the numbers of the hosts.
    of_hosts: BTreeMap<u32, Vec<f64>>,
}

/// Returns the hosts of each job of a workload; nothing if it ran on one.
pub(super) fn items(data: &Data, workload: &WorkloadRecord, directory: &Path) -> Vec<Item> {
    let mut jobs: BTreeMap<String, Rates<'_>> = BTreeMap::new();
    for (number, target) in data.targets() {
        for run in data.of_pair(workload, target).filter(|run| is_of_hosts(run)) {
            // A file that was removed since takes nothing from the rest of the page.
            let Some(file) = measured_file(run) else { continue };
            let path = gemelo_record::run_directory(directory, &run.id).join(file);
            let Ok(raw) = gemelo_figures::read(&path) else { continue };
            for throughput in throughputs(&raw.figures) {
                let rates = jobs.entry(throughput.to_owned()).or_default();
                rates.add((number, target), &raw.hosts, throughput);
            }
        }
    }
    let count = jobs.len();
    let mut items = Vec::new();
    for (throughput, rates) in &jobs {
        let job = name_parts(throughput).job.filter(|_| count > 1);
        items.push(Item::Heading(match job {
            Some(job) => format!("Hosts, {job}"),
            None => "Hosts".to_owned(),
        }));
        let slowest = |on: &OnTarget<'_>| rates.slowest(on, throughput);
        let slowest = rates.targets.iter().filter_map(slowest);
        items.extend(slowest.map(|text| Item::Paragraph(text.into())));
        items.push(Item::Table(rates.table(throughput)));
    }
    items
}

fn is_of_hosts(run: &RunRecord) -> bool {
    run.figures.figures.iter().any(|figure| name_parts(&figure.name).bare == OF_HOSTS)
}

impl<'a> Rates<'a> {
    /// Adds the hosts of a run.
    fn add(
        &mut self,
        (number, target): (usize, &'a TargetRecord),
        hosts: &[HostResult],
        throughput: &str,
    ) {
        if self.targets.last().is_none_or(|last| last.number != number) {
            self.targets.push(OnTarget { number, target, of_hosts: BTreeMap::new() });
        }
        let Some(OnTarget { of_hosts, .. }) = self.targets.last_mut() else { return };
        for host in hosts {
            self.labels.entry(host.index).or_insert_with(|| host_label(host));
            let rate = host.figures.as_ref().and_then(|figures| figures.value(throughput));
            of_hosts.entry(host.index).or_default().extend(rate);
        }
    }

    /// Names the slowest host on a target.
    fn slowest(&self, on: &OnTarget<'_>, throughput: &str) -> Option<String> {
        let of_hosts = on.of_hosts.iter();
        let means: Vec<(u32, f64)> =
            of_hosts.filter_map(|(index, rates)| Some((*index, mean(rates)?))).collect();
        let all = mean(&means.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())?;
        let slowest = means.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let (index, rate) = slowest.filter(|_| means.len() > 1)?;
        Some(format!(
            "The slowest host on {} is {}: {}, {} of the mean of all.",
            on.target.name,
            self.labels.get(index)?,
            Unit::of_figure(throughput).show(*rate),
            percent(rate / all)
        ))
    }

    fn table(&self, throughput: &str) -> Table {
        let mut columns = vec![Column::text("host")];
        let of_target = |on: &OnTarget<'_>| Column::number(&*on.target.name).of(Some(on.number));
        columns.extend(self.targets.iter().map(of_target));
        let title = figure_title(throughput);
        let mut table = Table::new(format!("{title} of each host, means of repetitions"), columns);
        for (index, label) in &self.labels {
            let cell = |on: &OnTarget<'_>| {
                let rate = on.of_hosts.get(index).and_then(|rates| mean(rates));
                let shown = rate.map(|rate| Unit::of_figure(throughput).show(rate));
                shown.map_or_else(|| Cell::missing("none"), Cell::new)
            };
            let cells = self.targets.iter().map(cell);
            table.push(std::iter::once(Cell::new(label.clone())).chain(cells).collect());
        }
        table
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
