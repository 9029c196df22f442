//! The hosts of a run on several hosts, side by side, in each of their jobs.

use super::load::{self, MAX_SOURCES, Source};
use crate::document::{Cell, Column, Item, Section, Table};
use crate::quantity::{Unit, figure_title, percent};
use gemelo_base::units::{format_duration_ns, format_line};
use gemelo_figures::{HostResult, RawResult, name_parts, slowest_host, throughputs};

/// Figures of a host that the table shows.
const FIGURES: [&str; 15] = [
    "scan/files",
    "scan/data_bytes",
    "scan/elapsed_ns",
    "scan/bytes_per_s",
    "filebench/operations_per_s",
    "filebench/bytes_per_s",
    "filebench/latency_mean_ns",
    "write/operations_per_s",
    "write/bytes_per_s",
    "write/latency_mean_ns",
    "write/latency_p99_ns",
    "read/operations_per_s",
    "read/bytes_per_s",
    "read/latency_mean_ns",
    "read/latency_p99_ns",
];
/// Pictures of the hosts of one file at most: a suite of eight jobs has as many for each.
const MAX_PICTURES: usize = 48;

/// Returns a section about the hosts of a result file; `None` if it is of one host alone.
pub(super) fn section(raw: &RawResult, id: &str) -> Option<Section> {
    if raw.hosts.is_empty() {
        return None;
    }
    let mut section = Section::new(format!("{id}-hosts"), "Hosts");
    let failed = raw.hosts.iter().filter_map(|host| Some((&host.host, host.failure.as_ref()?)));
    let warnings: Vec<String> =
        failed.map(|(host, failure)| format!("host {host}: {failure}")).collect();
    if !warnings.is_empty() {
        section.items.push(Item::Warnings(warnings));
    }
    let jobs = throughputs(&raw.figures);
    let mut pictures = Vec::new();
    for (number, throughput) in jobs.iter().enumerate() {
        if let (Some(job), true) = (name_parts(throughput).job, jobs.len() > 1) {
            section.items.push(Item::Heading(job.to_owned()));
        }
        section
            .items
            .extend(slowest(&raw.hosts, throughput).map(|text| Item::Paragraph(text.into())));
        section.items.push(Item::Table(figures(&raw.hosts, throughput)));
        let drawn = drawn(&raw.hosts, throughput);
        pictures.extend(load::pictures_of(&format!("{id}-{number}"), &drawn));
    }
    pictures.truncate(MAX_PICTURES);
    if !pictures.is_empty() {
        section.items.push(Item::Pictures(pictures));
    }
    section.items.push(Item::More(starts(&raw.hosts)));
    Some(section)
}

/// Names the slowest host of a job.
fn slowest(hosts: &[HostResult], throughput: &str) -> Option<String> {
    let slowest = slowest_host(hosts, throughput)?;
    let rate = Unit::of_figure(throughput).show(slowest.per_s);
    let mut text = format!(
        "The slowest host is {}: {rate}, {} of the mean of all.",
        host_label(slowest.host),
        percent(slowest.share)
    );
    let count = hosts.iter().filter(|host| host.figures.is_some()).count();
    if count > MAX_SOURCES {
        text += &format!(" The pictures show the {MAX_SOURCES} slowest of {count} hosts.");
    }
    Some(text)
}

/// The name of a host after its number, because a host may be given several times.
pub(crate) fn host_label(host: &HostResult) -> String {
    format!("{} {}", host.index, format_line(&host.host))
}

/// Returns a job of a host; `None` if the host has no result.
fn source<'a>(host: &'a HostResult, job: Option<&str>) -> Option<Source<'a>> {
    Some(Source::new(host_label(host), host.figures.as_ref()?, job))
}

/// Returns the hosts of the pictures of a job. More hosts than a picture can show are the slowest.
fn drawn<'a>(hosts: &'a [HostResult], throughput: &str) -> Vec<Source<'a>> {
    let rate = |host: &HostResult| host.figures.as_ref()?.value(throughput);
    let mut shown: Vec<&HostResult> = hosts.iter().filter(|host| rate(host).is_some()).collect();
    let order = |one: &&HostResult, other: &&HostResult| {
        rate(one).unwrap_or(0.0).total_cmp(&rate(other).unwrap_or(0.0))
    };
    shown.sort_by(order);
    shown.truncate(MAX_SOURCES);
    shown.sort_by_key(|host| host.index);
    let job = name_parts(throughput).job;
    shown.into_iter().filter_map(|host| source(host, job)).collect()
}

/// Returns the figures of all hosts in a job.
fn figures(hosts: &[HostResult], throughput: &str) -> Table {
    let parts = name_parts(throughput);
    let sources: Vec<Option<Source<'_>>> =
        hosts.iter().map(|host| source(host, parts.job)).collect();
    let has = |figure: &&str| sources.iter().flatten().any(|one| one.shown(figure).is_some());
    let shown: Vec<&str> = FIGURES.into_iter().filter(has).collect();
    let rates: Vec<f64> =
        sources.iter().flatten().filter_map(|one| one.value(parts.bare)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let mut columns = vec![Column::text("host"), Column::number("throughput, of the mean")];
    columns.extend(shown.iter().map(|figure| Column::number(figure_title(figure))));
    let mut table = Table::new("Figures of each host", columns);
    for (host, source) in hosts.iter().zip(&sources) {
        let of_mean = source.as_ref().and_then(|one| one.value(parts.bare)).map(|rate| rate / mean);
        let of_mean = of_mean.filter(|share| share.is_finite()).map(percent);
        let of_host = |figure: &&str| source.as_ref().and_then(|one| one.shown(figure));
        let values = std::iter::once(of_mean).chain(shown.iter().map(of_host));
        let cells = values.map(|value| value.map_or_else(|| Cell::missing("none"), Cell::new));
        table.push(std::iter::once(Cell::new(host_label(host))).chain(cells).collect());
    }
    table
}

/// The moments at which the hosts started, after the common one.
fn starts(hosts: &[HostResult]) -> Table {
    let columns =
        vec![Column::text("host"), Column::number("latest start"), Column::number("known within")];
    let mut table = Table::new("Starts of the runs, after the common moment", columns);
    for host in hosts {
        let latest = host.start_delays_ns.iter().max();
        let latest = latest.map(|delay_ns| Cell::new(format_duration_ns(*delay_ns)));
        table.push(vec![
            Cell::new(host_label(host)),
            latest.unwrap_or_else(|| Cell::missing("none")),
            Cell::new(format_duration_ns(host.round_trip_ns / 2)),
        ]);
    }
    table
}
