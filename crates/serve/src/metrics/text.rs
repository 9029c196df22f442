//! The metrics page, in the text format of Prometheus.

use super::finder::finder_figures;
use super::page::Page;
use super::sharing::sharing_figures;
use crate::report::StatReport;
use crate::scrub::ScrubStat;
use gemelo_store::BufferFigures;
use gemelo_volume::{OperationStat, VolumeLayout, VolumeSummary};

/// Renders the figures of a report.
pub(crate) fn render(report: &StatReport) -> String {
    let mut page = Page::default();
    pool_figures(&mut page, report);
    buffer_figures(&mut page, &report.pool.write_buffer);
    finder_figures(&mut page, &report.pool.finder);
    scrub_figures(&mut page, &report.scrub);
    sharing_figures(&mut page, report.sharing.as_ref());
    volume_figures(&mut page, report);
    latency_figures(&mut page, &report.volumes);
    server_figures(&mut page, report);
    page.text
}

/// Figures of the scrub that runs and of the last one.
fn scrub_figures(page: &mut Page, scrub: &ScrubStat) {
    let running = scrub.running.unwrap_or_default();
    let is_running = u8::from(scrub.running.is_some());
    page.gauge("pool_scrub_running", "1 while a scrub runs.", is_running);
    page.gauge(
        "pool_scrub_checked_contents",
        "Contents that the present scrub has checked.",
        running.checked_contents,
    );
    page.gauge(
        "pool_scrub_contents",
        "Contents of the pool when the present scrub began.",
        running.contents,
    );
    let Some(last) = scrub.last else { return };
    for (name, help, value) in [
        (
            "pool_last_scrub_end_seconds",
            "Time of the end of the last scrub, in seconds since 1970.",
            last.ended_utc_s,
        ),
        (
            "pool_last_scrub_healed_contents",
            "Damaged contents that the last scrub wrote again from another copy.",
            last.healed_contents,
        ),
        (
            "pool_last_scrub_damaged_contents",
            "Contents that stayed damaged at the last scrub.",
            last.damaged_contents,
        ),
    ] {
        page.gauge(name, help, value);
    }
}

/// Figures of the write buffer.
fn buffer_figures(page: &mut Page, buffer: &BufferFigures) {
    for (name, help, value) in [
        (
            "pool_write_buffer_bytes",
            "Bytes of contents that are acknowledged and not written yet.",
            buffer.held_bytes,
        ),
        (
            "pool_write_buffer_kept_bytes",
            "Bytes of contents that were written out and are kept in the buffer for readers.",
            buffer.kept_bytes,
        ),
        (
            "pool_write_buffer_capacity_bytes",
            "Most bytes of contents in the buffer.",
            buffer.capacity_bytes,
        ),
        (
            "pool_longest_sync_nanoseconds",
            "Nanoseconds of the longest sync of the data store.",
            buffer.longest_sync_ns,
        ),
    ] {
        page.gauge(name, help, value);
    }
    for (name, help, value) in [
        ("pool_write_waits_total", "Writes that waited for room in the buffer.", buffer.waits),
        ("pool_write_wait_nanoseconds_total", "Nanoseconds of these waits.", buffer.wait_ns),
        ("pool_syncs_total", "Syncs of the data store.", buffer.syncs),
        ("pool_sync_nanoseconds_total", "Nanoseconds of these syncs.", buffer.sync_ns),
        ("pool_runs_total", "Runs of neighbouring contents that were written.", buffer.runs),
        ("pool_run_bytes_total", "Bytes of these runs.", buffer.run_bytes),
        (
            "pool_write_buffer_hits_total",
            "Contents that were written out and that readers found in the buffer.",
            buffer.kept_hits,
        ),
        (
            "pool_write_buffer_misses_total",
            "Contents that readers did not find in the buffer.",
            buffer.kept_misses,
        ),
    ] {
        page.counter(name, help, value);
    }
}

fn pool_figures(page: &mut Page, report: &StatReport) {
    let pool = &report.pool;
    for (name, help, value) in [
        ("pool_block_bytes", "Bytes of a block.", u64::from(pool.block_bytes)),
        ("pool_logical_blocks", "References of volumes to blocks.", pool.logical_blocks),
        ("pool_physical_blocks", "Blocks stored.", pool.physical_blocks),
        ("pool_capacity_blocks", "Blocks that the data store holds at most.", pool.capacity_blocks),
        ("pool_free_blocks", "Blocks that are free for use at once.", pool.free_blocks),
        ("pool_pending_blocks", "Blocks that are freed and not usable yet.", pool.pending_blocks),
        ("pool_index_entries", "Fingerprints in the index.", pool.index_entries),
        (
            "pool_metadata_memory_bytes",
            "Memory of map, records and index.",
            pool.metadata_memory_bytes,
        ),
        ("pool_metadata_disk_bytes", "Length of the metadata disk.", pool.metadata_disk_bytes),
        (
            "pool_journal_used_bytes",
            "Bytes of the journal since the newest checkpoint.",
            pool.journal_used_bytes,
        ),
        ("pool_journal_bytes", "Length of the journal.", pool.journal_bytes),
        ("pool_volumes", "Number of volumes.", pool.volumes),
        ("pool_read_only", "1 if the pool refuses changes.", u64::from(report.read_only)),
        (
            "pool_stopped",
            "1 if the pool takes no changes any more: after a failure, or because it was deleted.",
            u64::from(pool.stopped.is_some()),
        ),
        (
            "pool_damages",
            "Damaged places of the metadata found at opening, and damaged blocks found since then.",
            (report.damage.len() + report.damaged_blocks.len()) as u64,
        ),
        ("pool_warnings", "Warnings that hold now.", report.warnings.len() as u64),
    ] {
        page.gauge(name, help, value);
    }
    page.gauge(
        "pool_dedup_ratio",
        "Logical blocks divided by physical blocks.",
        report.dedup_ratio,
    );
    page.gauge(
        "pool_used_share",
        "Blocks in use as a share of the blocks that can be stored.",
        report.used_share,
    );
    if let Some(bytes) = report.file_system_free_bytes {
        page.gauge(
            "pool_file_system_free_bytes",
            "Free bytes of the file system that holds the data store.",
            bytes,
        );
    }
    page.counter(
        "pool_cache_hits_total",
        "Pages of metadata that were in the cache.",
        pool.cache.hits,
    );
    page.counter(
        "pool_cache_misses_total",
        "Pages of metadata that had to be read.",
        pool.cache.misses,
    );
    for (name, value) in pool.activity.named() {
        let help = format!("{}, since the pool was opened.", name.replace('_', " "));
        page.counter(&format!("pool_{name}_total"), &help, value);
    }
}

/// A figure of the order of a volume: name, help and value.
type LayoutFigure = (&'static str, &'static str, fn(&VolumeLayout) -> u64);

const LAYOUT_FIGURES: [LayoutFigure; 4] = [
    (
        "volume_layout_waiting_stretches",
        "Stretches written since the arranger looked at them.",
        |layout| layout.waiting_stretches,
    ),
    ("volume_layout_swept", "1 if the arranger looks at the whole volume.", |layout| {
        u64::from(layout.is_swept)
    }),
    (
        "volume_layout_sampled_pairs",
        "Pairs of neighbouring blocks in a sample of the volume.",
        |layout| layout.sampled_pairs,
    ),
    (
        "volume_layout_sequential_pairs",
        "Pairs of the sample that are neighbours in the store.",
        |layout| layout.sequential_pairs,
    ),
];

fn volume_figures(page: &mut Page, report: &StatReport) {
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&VolumeSummary) -> u64| {
        page.head(name, "gauge", help);
        for volume in &report.volumes {
            page.value(name, &[("volume", &volume.record.name)], of(volume));
        }
    };
    gauge("volume_size_bytes", "Size of the volume.", &|volume| volume.record.size_bytes);
    gauge("volume_mapped_blocks", "Blocks of the volume that hold data.", &|volume| {
        volume.mapped_blocks
    });
    gauge("volume_backlog_blocks", "Blocks that wait for the finder.", &|volume| {
        volume.backlog_blocks
    });
    gauge(
        "volume_oldest_nanoseconds",
        "Nanoseconds since the oldest group of these blocks was marked or looked at.",
        &|volume| volume.oldest_ns,
    );
    gauge(
        "volume_finder_delay_nanoseconds",
        "Time that a block is left alone by the finder after a write.",
        &|volume| volume.delay_ns,
    );
    gauge(
        "volume_rewritten_blocks",
        "Blocks that were written again before the finder examined them, since the pool was opened.",
        &|volume| volume.rewritten_blocks,
    );
    for (name, help, of) in LAYOUT_FIGURES {
        gauge(name, help, &|volume| of(&volume.layout));
    }
    gauge("volume_requests_in_flight", "Requests in progress.", &|volume| {
        volume.load.requests_in_flight
    });
    let Some(first) = report.volumes.first() else { return };
    for (at, (name, _)) in first.stat.named().into_iter().enumerate() {
        let metric = format!("volume_{name}_total");
        page.head(
            &metric,
            "counter",
            &format!("{}, since the pool was opened.", name.replace('_', " ")),
        );
        for volume in &report.volumes {
            let value = volume.stat.named().get(at).map_or(0, |(_, value)| *value);
            page.value(&metric, &[("volume", &volume.record.name)], value);
        }
    }
    page.head(
        "volume_batch_requests",
        "histogram",
        "Requests that arrived together: the queue depth.",
    );
    for volume in &report.volumes {
        let name = volume.record.name.as_str();
        let mut sum = 0;
        for (class, batches) in volume.load.batches_by_length.iter().enumerate() {
            sum += batches;
            let is_last = class + 1 == volume.load.batches_by_length.len();
            let end = if is_last { "+Inf".to_owned() } else { (1u64 << class).to_string() };
            page.value("volume_batch_requests_bucket", &[("volume", name), ("le", &end)], sum);
        }
        let requests: u64 = volume.load.operations.iter().map(|operation| operation.requests).sum();
        page.value("volume_batch_requests_sum", &[("volume", name)], requests);
        page.value("volume_batch_requests_count", &[("volume", name)], sum);
    }
}

fn latency_figures(page: &mut Page, volumes: &[VolumeSummary]) {
    const NAME: &str = "volume_latency_seconds";
    page.head(NAME, "histogram", "Latency of requests; each has the latency of its batch.");
    for volume in volumes {
        for operation in &volume.load.operations {
            let labels =
                [("volume", volume.record.name.as_str()), ("operation", operation.kind.name())];
            let mut sum = 0;
            for (class, requests) in operation.requests_by_latency.iter().enumerate() {
                sum += requests;
                let end = match OperationStat::class_end_ns(class) {
                    Some(end_ns) => (end_ns as f64 / 1e9).to_string(),
                    None => "+Inf".to_owned(),
                };
                let [one, other] = labels;
                page.value(&format!("{NAME}_bucket"), &[one, other, ("le", &end)], sum);
            }
            page.value(&format!("{NAME}_sum"), &labels, operation.total_ns as f64 / 1e9);
            page.value(&format!("{NAME}_count"), &labels, sum);
        }
    }
}

fn server_figures(page: &mut Page, report: &StatReport) {
    let Some(server) = &report.server else { return };
    page.gauge("server_connections", "Connected clients.", server.connections);
    page.counter("server_accepted_total", "Connections accepted.", server.accepted_connections);
    page.counter(
        "server_refused_total",
        "Connections closed because there were too many.",
        server.refused_connections,
    );
    page.counter(
        "server_broken_total",
        "Connections that ended with an error.",
        server.broken_connections,
    );
    page.gauge(
        "server_memory_bytes",
        "Memory that requests and replies of clients take.",
        server.memory_bytes,
    );
    page.gauge(
        "server_memory_limit_bytes",
        "Most memory that requests and replies of clients may take.",
        server.memory_limit_bytes,
    );
    page.counter(
        "server_cpu_nanoseconds_total",
        "Nanoseconds of processor time that the process has used.",
        server.process_cpu_ns,
    );
    page.gauge(
        "server_process_memory_bytes",
        "Memory that the process has.",
        server.process_memory_bytes,
    );
    page.head("volume_connections", "gauge", "Connected clients of the volume.");
    for (volume, clients) in report.volumes.iter().zip(&server.volume_connections) {
        page.value("volume_connections", &[("volume", &volume.record.name)], clients);
    }
}
