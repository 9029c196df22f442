//! The metrics of volumes: of all together, and a page of each.
//!
//! Names that begin with `volumes_` are sums over all volumes, and those with `volume_` have the
//! label `volume`. The sums are on the page of the pool. A pool may have thousands of volumes, and
//! each has dozens of series, so those have a page of their own.

use super::page::{Page, seconds};
use crate::report::VolumeReport;
use gemelo_volume::{LoadStat, OperationStat, VolumeSummary, VolumesActivity};

/// Stats of all volumes together.
pub(super) fn activity_figures(page: &mut Page, volumes: &VolumesActivity) {
    for (name, value) in volumes.stat.named() {
        page.counter(&format!("volumes_{name}_total"), &help_of(name, "of all volumes, "), value);
    }
    let help = "Requests in progress, of all volumes.";
    page.gauge("volumes_requests_in_flight", help, volumes.load.requests_in_flight);
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
    gauges(&mut page, volumes);
    counters(&mut page, volumes);
    histograms(&mut page, volumes);
    page.text
}

/// A gauge of a volume.
struct Gauge {
    name: &'static str,
    help: &'static str,
    of: fn(&VolumeSummary) -> f64,
}

const GAUGES: [Gauge; 11] = [
    Gauge {
        name: "volume_size_bytes",
        help: "Size of the volume.",
        of: |volume| volume.record.size_bytes as f64,
    },
    Gauge {
        name: "volume_mapped_blocks",
        help: "Blocks of the volume that hold data.",
        of: |volume| volume.mapped_blocks as f64,
    },
    Gauge {
        name: "volume_backlog_blocks",
        help: "Blocks that wait for the finder.",
        of: |volume| volume.backlog_blocks as f64,
    },
    Gauge {
        name: "volume_oldest_seconds",
        help: "Time since the oldest group of these blocks was marked or looked at.",
        of: |volume| seconds(volume.oldest_ns),
    },
    Gauge {
        name: "volume_finder_delay_seconds",
        help: "Time that a block is left alone by the finder after a write.",
        of: |volume| seconds(volume.delay_ns),
    },
    Gauge {
        name: "volume_rewritten_blocks",
        help: "Blocks that were written again before the finder examined them, since the pool was \
               opened.",
        of: |volume| volume.rewritten_blocks as f64,
    },
    Gauge {
        name: "volume_layout_waiting_stretches",
        help: "Stretches written since the arranger looked at them.",
        of: |volume| volume.layout.waiting_stretches as f64,
    },
    Gauge {
        name: "volume_layout_swept",
        help: "1 if the arranger looks at the whole volume.",
        of: |volume| f64::from(u8::from(volume.layout.is_swept)),
    },
    Gauge {
        name: "volume_layout_sampled_pairs",
        help: "Pairs of neighbouring blocks in a sample of the volume.",
        of: |volume| volume.layout.sampled_pairs as f64,
    },
    Gauge {
        name: "volume_layout_sequential_pairs",
        help: "Pairs of the sample that are neighbours in the store.",
        of: |volume| volume.layout.sequential_pairs as f64,
    },
    Gauge {
        name: "volume_requests_in_flight",
        help: "Requests in progress.",
        of: |volume| volume.load.requests_in_flight as f64,
    },
];

fn gauges(page: &mut Page, volumes: &[VolumeReport]) {
    for Gauge { name, help, of } in GAUGES {
        page.head(name, "gauge", help);
        for VolumeReport { summary, .. } in volumes {
            page.value(name, &[("volume", &summary.record.name)], of(summary));
        }
    }
    page.head("volume_connections", "gauge", "Connected clients of the volume.");
    for VolumeReport { summary, connections } in volumes {
        if let Some(connections) = connections {
            page.value("volume_connections", &[("volume", &summary.record.name)], connections);
        }
    }
}

fn counters(page: &mut Page, volumes: &[VolumeReport]) {
    // The values of a metric have to follow each other, so volumes are the inner loop.
    let named: Vec<_> = volumes.iter().map(|volume| volume.summary.stat.named()).collect();
    let Some(first) = named.first() else { return };
    for (at, (name, _)) in first.iter().enumerate() {
        let metric = format!("volume_{name}_total");
        page.head(&metric, "counter", &help_of(name, ""));
        for (volume, named) in volumes.iter().zip(&named) {
            if let Some((_, value)) = named.get(at) {
                page.value(&metric, &[("volume", &volume.summary.record.name)], value);
            }
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

/// The help text of a counter; its name says everything.
fn help_of(name: &str, of: &str) -> String {
    format!("{}, {of}since the pool was opened.", name.replace('_', " "))
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
