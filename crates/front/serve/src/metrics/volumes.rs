//! The metrics of volumes: of all together, and a page of each.
//!
//! Names that begin with `volumes_` are sums over all volumes, and those with `volume_` have the
//! label `volume`. The sums are on the page of the pool. A pool may have thousands of volumes, and
//! each has dozens of series, so those have a page of their own.

use super::page::{Page, seconds};
use crate::report::VolumeReport;
use gemelo_base::{Stat, StatTable};
use gemelo_volume::{LoadStat, OperationStat, VolumeSummary, VolumesActivity};

/// Adds the figures of all volumes together.
pub(super) fn activity_stats(page: &mut Page, volumes: &VolumesActivity) {
    page.table("volumes", &volumes.stat);
    page.table("volumes", &volumes.load);
    batch_head(page, "volumes_batch_requests");
    batch_values(page, "volumes_batch_requests", &[], &volumes.load);
    latency_head(page, "volumes_latency_seconds");
    for operation in &volumes.load.operations {
        let labels = [("operation", operation.kind.name())];
        latency_values(page, "volumes_latency_seconds", &labels, operation);
    }
}

/// Renders the figures of each volume.
pub(crate) fn volumes_page(volumes: &[VolumeReport]) -> String {
    let mut page = Page::default();
    tables(&mut page, volumes);
    connections(&mut page, volumes);
    histograms(&mut page, volumes);
    page.text
}

/// Adds the figures of all volumes. The values of a metric have to follow each other, so volumes
/// are the inner loop.
fn tables(page: &mut Page, volumes: &[VolumeReport]) {
    let mut add = |prefix: &str, table: fn(&VolumeSummary) -> Vec<Stat>| {
        let of = |volume: &'_ VolumeReport| table(&volume.summary);
        let tables: Vec<_> =
            volumes.iter().map(|one| (one.summary.record.name.as_str(), of(one))).collect();
        page.tables(prefix, "volume", &tables);
    };
    add("volume", |volume| volume.record.table());
    add("volume", StatTable::table);
    add("volume", |volume| volume.load.table());
    add("volume", |volume| volume.stat.table());
    add("volume_layout", |volume| volume.layout.table());
}

fn connections(page: &mut Page, volumes: &[VolumeReport]) {
    page.head("volume_connections", "gauge", "Connected clients of the volume.");
    for VolumeReport { summary, connections } in volumes {
        if let Some(connections) = connections {
            page.value("volume_connections", &[("volume", &summary.record.name)], connections);
        }
    }
}

fn histograms(page: &mut Page, volumes: &[VolumeReport]) {
    batch_head(page, "volume_batch_requests");
    for VolumeReport { summary, .. } in volumes {
        let labels = [("volume", summary.record.name.as_str())];
        batch_values(page, "volume_batch_requests", &labels, &summary.load);
    }
    latency_head(page, "volume_latency_seconds");
    for VolumeReport { summary, .. } in volumes {
        // Most volumes of a large pool are idle, and a histogram has dozens of series.
        for operation in summary.load.operations.iter().filter(|one| one.requests > 0) {
            let name = summary.record.name.as_str();
            let labels = [("volume", name), ("operation", operation.kind.name())];
            latency_values(page, "volume_latency_seconds", &labels, operation);
        }
    }
}

fn batch_head(page: &mut Page, name: &str) {
    page.head(name, "histogram", "Requests that arrived together: the queue depth.");
}

fn batch_values(page: &mut Page, name: &str, labels: &[(&str, &str)], load: &LoadStat) {
    let last = load.batches_by_length.len().saturating_sub(1);
    let classes = load.batches_by_length.iter().enumerate().map(|(class, batches)| {
        let end = (class < last).then(|| (1u64 << class) as f64);
        (end, *batches)
    });
    let requests: u64 = load.operations.iter().map(|operation| operation.requests).sum();
    page.histogram(name, labels, classes, requests as f64);
}

fn latency_head(page: &mut Page, name: &str) {
    page.head(name, "histogram", "Latency of requests; each has the latency of its batch.");
}

fn latency_values(page: &mut Page, name: &str, labels: &[(&str, &str)], operation: &OperationStat) {
    let classes = operation.requests_by_latency.iter().enumerate();
    let classes = classes
        .map(|(class, requests)| (OperationStat::class_end_ns(class).map(seconds), *requests));
    page.histogram(name, labels, classes, seconds(operation.total_ns));
}
