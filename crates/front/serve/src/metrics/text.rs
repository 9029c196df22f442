//! The metrics of the pool, its server and all volumes together.

use super::finder::finder_stats;
use super::page::Page;
use super::sharing::sharing_stats;
use super::volumes::activity_stats;
use crate::report::StatReport;
use crate::scrub::ScrubStat;
use gemelo_base::background::TaskStat;
use gemelo_volume::VolumesActivity;

/// Renders the figures of a pool. Their number does not depend on that of the volumes.
pub(crate) fn pool_page(report: &StatReport<()>, volumes: &VolumesActivity) -> String {
    let mut page = Page::default();
    pool_stats(&mut page, report);
    page.table("pool_write_buffer", &report.pool.write_buffer);
    page.table("pool_content_cache", &report.pool.content_cache);
    finder_stats(&mut page, &report.pool.finder);
    scrub_stats(&mut page, &report.scrub);
    sharing_stats(&mut page, report.sharing.as_ref());
    activity_stats(&mut page, volumes);
    server_stats(&mut page, report);
    page.text
}

/// Figures of the scrub that runs and of the last one.
fn scrub_stats(page: &mut Page, scrub: &ScrubStat) {
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

fn pool_stats(page: &mut Page, report: &StatReport<()>) {
    let pool = &report.pool;
    page.table("pool", pool);
    for (name, help, value) in [
        ("pool_read_only", "1 if the pool refuses changes.", u64::from(report.read_only)),
        (
            "pool_stopped",
            "1 if the pool takes no changes any more: after a failure, or because it was deleted.",
            u64::from(pool.stopped.is_some()),
        ),
        (
            "pool_damages",
            "Damaged places of the metadata, and damaged blocks found since the opening.",
            (report.damage.len() + report.damaged_blocks.len()) as u64,
        ),
        ("pool_warnings", "Warnings that hold now.", report.warnings.len() as u64),
        (
            "pool_health",
            "0 if nobody has to act, 1 if space is low, 2 if a task in the background fails, 3 if \
             the pool takes no changes any more, 4 if something is damaged.",
            report.health.state as u64,
        ),
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
    task_stats(page, &report.tasks);
    page.table("pool_metadata_cache", &pool.metadata_cache);
    page.table("pool", &pool.activity);
}

/// Figures of the tasks in the background.
fn task_stats(page: &mut Page, tasks: &[TaskStat]) {
    type Figure = fn(&TaskStat) -> u64;
    let figures: [(&str, &str, &str, Figure); 3] = [
        (
            "pool_task_failing",
            "gauge",
            "1 while the task cannot do its work: it is tried again after pauses.",
            |task| u64::from(task.failure.is_some()),
        ),
        ("pool_task_failures_total", "counter", "Tries of the task that failed.", |task| {
            task.failures
        }),
        ("pool_task_outages_total", "counter", "How often the task began to fail.", |task| {
            task.outages
        }),
    ];
    for (name, kind, help, figure) in figures {
        page.head(name, kind, help);
        tasks.iter().for_each(|task| page.value(name, &[("task", &task.name)], figure(task)));
    }
}

fn server_stats(page: &mut Page, report: &StatReport<()>) {
    if let Some(server) = &report.server {
        page.table("server", server);
    }
}
