//! The hosts of a run on several hosts, side by side.

use super::load::{self, Source};
use crate::document::{Cell, Column, Item, Section, Table};
use crate::quantity::figure_title;
use gemelo_base::units::{format_duration_ns, format_line};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Figures of a host that the table shows.
const FIGURES: [&str; 8] = [
    "write/operations_per_s",
    "write/bytes_per_s",
    "write/latency_mean_ns",
    "write/latency_p99_ns",
    "read/operations_per_s",
    "read/bytes_per_s",
    "read/latency_mean_ns",
    "read/latency_p99_ns",
];

/// The members of a result file that are about hosts.
#[derive(Deserialize)]
struct View {
    #[serde(default)]
    hosts: Vec<HostView>,
    slowest_host: Option<String>,
}

#[derive(Deserialize)]
struct HostView {
    host: String,
    index: u32,
    round_trip_ns: u64,
    start_delays_ns: Vec<u64>,
    failure: Option<String>,
    file: Value,
}

/// Returns a section about the hosts of a result file; `None` if it is of one host alone.
pub(super) fn section(path: &Path, id: &str) -> Option<Section> {
    let text = std::fs::read_to_string(path).ok()?;
    let view: View = serde_json::from_str(&text).ok()?;
    if view.hosts.is_empty() {
        return None;
    }
    let mut section = Section::new(format!("{id}-hosts"), "Hosts");
    if let Some(slowest) = &view.slowest_host {
        let sentence = format!("The slowest host is {}.", format_line(slowest));
        section.items.push(Item::Paragraph(sentence.into()));
    }
    let failed = view.hosts.iter().filter_map(|host| Some((&host.host, host.failure.as_ref()?)));
    let warnings: Vec<String> =
        failed.map(|(host, failure)| format!("host {host}: {failure}")).collect();
    if !warnings.is_empty() {
        section.items.push(Item::Warnings(warnings));
    }
    let read = view.hosts.iter().filter_map(|host| {
        let raw = gemelo_figures::parse(&host.file.to_string(), path).ok()?;
        Some((PathBuf::from(label(host)), raw))
    });
    let loads: Vec<_> = read.collect();
    section.items.push(Item::Table(figures(&load::sources(&loads))));
    section.items.push(Item::More(starts(&view.hosts)));
    Some(section)
}

/// The name of a host with its number, because a host may be given several times.
fn label(host: &HostView) -> String {
    format!("{} {}", host.index, host.host.replace('/', "_"))
}

fn figures(sources: &[Source<'_>]) -> Table {
    let shown: Vec<&str> = FIGURES
        .into_iter()
        .filter(|figure| sources.iter().any(|source| source.shown(figure).is_some()))
        .collect();
    let mut columns = vec![Column::text("host")];
    columns.extend(shown.iter().map(|figure| Column::number(figure_title(figure))));
    let mut table = Table::new("Figures of each host", columns);
    for source in sources {
        let mut cells = vec![Cell::new(source.label.clone())];
        cells.extend(
            shown.iter().map(|figure| {
                source.shown(figure).map_or_else(|| Cell::missing("none"), Cell::new)
            }),
        );
        table.push(cells);
    }
    table
}

/// The moments at which the hosts started, after the common one.
fn starts(hosts: &[HostView]) -> Table {
    let columns =
        vec![Column::text("host"), Column::number("latest start"), Column::number("known within")];
    let mut table = Table::new("Starts of the runs, after the common moment", columns);
    for host in hosts {
        let latest = host.start_delays_ns.iter().max();
        let latest = latest.map(|delay_ns| Cell::new(format_duration_ns(*delay_ns)));
        table.push(vec![
            Cell::new(label(host)),
            latest.unwrap_or_else(|| Cell::missing("none")),
            Cell::new(format_duration_ns(host.round_trip_ns / 2)),
        ]);
    }
    table
}
