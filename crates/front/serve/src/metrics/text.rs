//! The metrics of the pool, its server and all volumes together.

use super::finder::finder_figures;
use super::page::{Page, seconds};
use super::sharing::sharing_figures;
use super::volumes::activity_figures;
use crate::report::StatReport;
use crate::scrub::ScrubStat;
use gemelo_store::BufferStats;
use gemelo_volume::VolumesActivity;

/// Renders the figures of a pool. Their number does not depend on that of the volumes.
pub(crate) fn pool_page(report: &StatReport<()>, volumes: &VolumesActivity) -> String {
    let mut page = Page::default();
    pool_figures(&mut page, report);
    buffer_figures(&mut page, &report.pool.write_buffer);
    finder_figures(&mut page, &report.pool.finder);
    scrub_figures(&mut page, &report.scrub);
    sharing_figures(&mut page, report.sharing.as_ref());
    activity_figures(&mut page, volumes);
    server_figures(&mut page, report);
    page.text
}

/// Stats of the scrub that runs and of the last one.
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
            "pool_last_scrub_end_timestamp_seconds",
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

/// Stats of the write buffer.
fn buffer_figures(page: &mut Page, buffer: &BufferStats) {
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
    ] {
        page.gauge(name, help, value);
    }
    let help = "Time of the longest sync of the data store.";
    page.gauge("pool_longest_sync_seconds", help, seconds(buffer.longest_sync_ns));
    let help = "Time for which writes waited for room in the buffer.";
    page.counter("pool_write_wait_seconds_total", help, seconds(buffer.wait_ns));
    let help = "Time of the syncs of the data store.";
    page.counter("pool_sync_seconds_total", help, seconds(buffer.sync_ns));
    for (name, help, value) in [
        ("pool_write_waits_total", "Writes that waited for room in the buffer.", buffer.waits),
        ("pool_syncs_total", "Syncs of the data store.", buffer.syncs),
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

fn pool_figures(page: &mut Page, report: &StatReport<()>) {
    let pool = &report.pool;
    for (name, help, value) in [
        ("pool_block_bytes", "Bytes of a block.", u64::from(pool.block_bytes)),
        ("pool_logical_blocks", "References of volumes to blocks.", pool.logical_blocks),
        ("pool_physical_blocks", "Blocks stored.", pool.physical_blocks),
        ("pool_capacity_blocks", "Blocks that the data store holds at most.", pool.capacity_blocks),
        ("pool_free_blocks", "Blocks that are free for use at once.", pool.free_blocks),
        ("pool_used_blocks", "Blocks that hold contents.", pool.used_blocks),
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

fn server_figures(page: &mut Page, report: &StatReport<()>) {
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
        "server_cpu_seconds_total",
        "Processor time that the process has used.",
        seconds(server.process_cpu_ns),
    );
    page.gauge(
        "server_process_memory_bytes",
        "Memory that the process has.",
        server.process_memory_bytes,
    );
}
