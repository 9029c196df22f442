//! The figures of a pool as text.

use super::{finder_text, sharing_text};
use crate::dates;
use crate::table::Table;
use gemelo_base::units::{
    format_count, format_counted, format_counted_as, format_duration_ns, format_percent,
    format_size,
};
use gemelo_base::{Stat, StatTable};
use gemelo_format::{Compression, Policy};
use gemelo_serve::{StatReport, VolumeReport};
use gemelo_volume::{CacheStats, DamagedBlock, OperationKind, OperationStat, SnapshotSpace};

/// Returns the figures as text. `snapshots` is present if the space of snapshots was computed.
pub(crate) fn text(report: &StatReport, snapshots: Option<&SnapshotSpace>) -> String {
    let mut text = space(report);
    if let Some(snapshots) = snapshots {
        text += &snapshot_space(snapshots, u64::from(report.pool.block_bytes));
    }
    text += "\nMetadata\n";
    text += &metadata(report).render(2);
    text += &damaged(report);
    text += &scrub(report);
    if let Some(sharing) = &report.sharing {
        text += &sharing_text::text(sharing, &report.pool);
    }
    if let Some(process) = report.holder_process_id {
        text += &format!("\nIn use by process {process}\n");
    }
    if let Some(server) = &report.server {
        text += &format!(
            "\nServed by process {}, {}, {} so far\nRequests and replies of clients take {} of {}\n\
             The process has used {} of processor time and has {} of memory; \
             up to {} that were freed are kept for later\n",
            server.process_id,
            format_counted(server.connections, "client"),
            format_counted(server.accepted_connections, "connection"),
            format_size(server.memory_bytes),
            format_size(server.memory_limit_bytes),
            format_duration_ns(server.process_cpu_ns),
            format_size(server.process_memory_bytes),
            format_size(server.process_free_bytes)
        );
        text += "\nSince the pool was opened\n";
        text += &activity(&report.volumes).render(2);
        text += &latencies(&report.volumes).render(2);
        text += &buffer_and_cache(report).render(2);
        text += &finder_text::text(report);
        text += &layout(report).render(2);
    }
    text
}

/// Lists the damaged blocks. Blocks of a volume that follow one another take one line.
fn damaged(report: &StatReport) -> String {
    if report.damaged_blocks.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nDamaged\n");
    let is_next = |a: &DamagedBlock, b: &DamagedBlock| a.volume == b.volume && a.lbn + 1 == b.lbn;
    for run in report.damaged_blocks.chunk_by(is_next) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let volume = first.volume.escape_debug();
        text += &match run.len() {
            1 => format!("  block {} of {volume}\n", format_count(first.lbn)),
            _ => format!(
                "  blocks {} to {} of {volume}\n",
                format_count(first.lbn),
                format_count(last.lbn)
            ),
        };
    }
    text
}

/// Describes the scrub that runs and the last one.
fn scrub(report: &StatReport) -> String {
    let mut table = Table::new();
    if let Some(running) = report.scrub.running {
        let share = running.checked_contents as f64 / running.contents.max(1) as f64;
        let text = format!(
            "{} of {}, {}",
            format_count(running.checked_contents),
            format_counted(running.contents, "content"),
            format_percent(share.min(1.0))
        );
        table.row(["running".to_owned(), text]);
    }
    if let Some(last) = report.scrub.last {
        let text = format!(
            "{}, {} checked in {}, {} healed, {} damaged",
            dates::utc(Some(last.ended_utc_s)),
            format_counted(last.checked_contents, "content"),
            format_duration_ns(last.elapsed_ns),
            format_count(last.healed_contents),
            format_count(last.damaged_contents)
        );
        table.row(["last".to_owned(), text]);
    }
    let text = table.render(2);
    if text.is_empty() { text } else { format!("\nScrub\n{text}") }
}

fn space(report: &StatReport) -> String {
    let pool = &report.pool;
    let block_bytes = u64::from(pool.block_bytes);
    let mut table = Table::new();
    let mut row = |name: &str, blocks: u64| {
        table.row([name.to_owned(), format_count(blocks), format_size(blocks * block_bytes)]);
    };
    row("logical", pool.logical_blocks);
    row("physical", pool.physical_blocks);
    row("freed, not yet usable", pool.pending_blocks);
    if pool.used_blocks != pool.physical_blocks + pool.pending_blocks {
        row("compressed to", pool.used_blocks);
    }
    row("free", pool.free_blocks);
    row("reserved", pool.reserved_blocks);
    row("capacity", pool.capacity_blocks + pool.reserved_blocks);
    let compression = match pool.compression {
        Compression::Off => String::new(),
        other => format!(", compressed with {other}"),
    };
    format!(
        "Blocks of {}{compression}\n{}\ndedup ratio {:.4}, {} in use, {}\n",
        format_size(block_bytes),
        table.render(2),
        report.dedup_ratio,
        format_percent(report.used_share),
        format_counted(pool.volumes, "volume")
    )
}

fn snapshot_space(space: &SnapshotSpace, block_bytes: u64) -> String {
    let of_snapshots = space.used_blocks.saturating_sub(space.used_blocks_without_snapshots);
    format!(
        "dedup ratio without snapshots {:.4}, {} in blocks that only snapshots hold\n",
        space.dedup_ratio_without_snapshots(),
        format_size(of_snapshots * block_bytes)
    )
}

fn metadata(report: &StatReport) -> Table {
    let pool = &report.pool;
    let mut table = Table::new();
    table.row(["policy", pool.policy.name()]);
    // The index of an idle pool is not in memory if it is read in the background.
    let is_read = report.server.is_some() || pool.policy != Policy::Compact;
    let entries = match is_read {
        true => format_count(pool.index_entries),
        false => "known while the pool is served".to_owned(),
    };
    table.row(["fingerprints in the index".to_owned(), entries]);
    table.row(["memory".to_owned(), format_size(pool.metadata_memory_bytes)]);
    table.row(["of it the cache".to_owned(), cache_of_metadata(&pool.metadata_cache)]);
    let looked_up = pool.metadata_cache.hits + pool.metadata_cache.misses;
    if looked_up > 0 {
        let share = format_percent(pool.metadata_cache.hits as f64 / looked_up as f64);
        table.row(["cache hits".to_owned(), format!("{share} of {}", format_count(looked_up))]);
    }
    table.row(["disk".to_owned(), format_size(pool.metadata_disk_bytes)]);
    table.row([
        "journal in use".to_owned(),
        format!("{} of {}", format_size(pool.journal_used_bytes), format_size(pool.journal_bytes)),
    ]);
    table.row(["checkpoints".to_owned(), format_count(pool.generation)]);
    table
}

/// Describes the size of the cache of the metadata, which grows with them.
fn cache_of_metadata(cache: &CacheStats) -> String {
    let held = format_size(cache.held_bytes);
    let [now, most] = [cache.capacity_bytes, cache.max_capacity_bytes].map(format_size);
    match cache.max_capacity_bytes > cache.capacity_bytes {
        true => format!("{held} of {now}, and of {most} when the pool is full"),
        false => format!("{held} of {now}"),
    }
}

/// Describes the write buffer and the cache of a pool that takes changes.
fn buffer_and_cache(report: &StatReport) -> Table {
    let (buffer, cache) = (&report.pool.write_buffer, &report.pool.content_cache);
    let mut table = Table::new();
    let mean = |sum: u64, count: u64| sum.checked_div(count).unwrap_or_default();
    table.row([
        "write buffer".to_owned(),
        format!(
            "{} of {}, {} of memory",
            format_size(buffer.held_bytes),
            format_size(buffer.capacity_bytes),
            format_size(buffer.memory_bytes)
        ),
    ]);
    table.row([
        "cache".to_owned(),
        format!(
            "{} of {}, {} found, {} not",
            format_size(cache.held_bytes),
            format_size(cache.capacity_bytes),
            format_counted(cache.hits, "block"),
            format_count(cache.misses)
        ),
    ]);
    table.row([
        "waits for room".to_owned(),
        format!("{}, {}", format_count(buffer.waits), format_duration_ns(buffer.wait_ns)),
    ]);
    table.row([
        "syncs".to_owned(),
        format!(
            "{}, mean {}, longest {}",
            format_count(buffer.syncs),
            format_duration_ns(mean(buffer.sync_ns, buffer.syncs)),
            format_duration_ns(buffer.longest_sync_ns)
        ),
    ]);
    let activity = &report.pool.activity;
    table.row([
        "in the journal".to_owned(),
        format!(
            "{} without such a sync, {} of contents",
            format_counted(activity.journal_data_commits, "commit"),
            format_size(activity.journal_data_bytes)
        ),
    ]);
    table.row([
        "runs written".to_owned(),
        format!(
            "{}, mean {}",
            format_count(buffer.runs),
            format_size(mean(buffer.run_bytes, buffer.runs))
        ),
    ]);
    table
}

/// Describes the work of the arranger, the stretches of all volumes that wait for it, and the work
/// of the cleaner.
fn layout(report: &StatReport) -> Table {
    let activity = &report.pool.activity;
    let waiting = report.volumes.iter().map(|volume| volume.summary.layout.waiting_stretches).sum();
    let mut table = Table::new();
    table.row([
        "brought together".to_owned(),
        format!(
            "{}, {} overtaken, {} waiting",
            format_counted(activity.arranged_blocks, "block"),
            format_count(activity.arrange_overtaken_blocks),
            format_counted_as(waiting, "stretch", "stretches")
        ),
    ]);
    if activity.packed_bytes > 0 {
        table.row([
            "cleaned".to_owned(),
            format!(
                "{}, {} moved for {} of new contents",
                format_counted(activity.cleaned_blocks, "block"),
                format_size(activity.cleaner_moved_bytes),
                format_size(activity.packed_bytes)
            ),
        ]);
    }
    table
}

/// Sums up the counters of all volumes. Leaves out those that are zero.
fn activity(volumes: &[VolumeReport]) -> Table {
    let mut table = Table::new();
    let tables: Vec<Vec<Stat>> = volumes.iter().map(|volume| volume.summary.stat.table()).collect();
    for (at, Stat { name, .. }) in tables.first().into_iter().flatten().enumerate() {
        let sum: u64 = tables.iter().map(|table| table[at].value).sum();
        if sum == 0 {
            continue;
        }
        let value = if name.ends_with("_bytes") { format_size(sum) } else { format_count(sum) };
        table.row([name.trim_end_matches("_bytes").replace('_', " "), value]);
    }
    table
}

/// Sums up the latencies of all volumes, by kind of request.
fn latencies(volumes: &[VolumeReport]) -> Table {
    let mut table = Table::new();
    table.row(["latency", "requests", "mean", "median below", "99 % below"]);
    for kind in OperationKind::ALL {
        let Some(sum) = sum_of(volumes, kind).filter(|sum| sum.requests > 0) else { continue };
        let below = |share| sum.quantile_ns(share).map_or_else(String::new, format_duration_ns);
        table.row([
            kind.name().to_owned(),
            format_count(sum.requests),
            format_duration_ns(sum.total_ns / sum.requests),
            below(0.5),
            below(0.99),
        ]);
    }
    table
}

fn sum_of(volumes: &[VolumeReport], kind: OperationKind) -> Option<OperationStat> {
    let of_kind = volumes
        .iter()
        .flat_map(|volume| &volume.summary.load.operations)
        .filter(|one| one.kind == kind);
    of_kind.cloned().reduce(|mut sum, one| {
        sum.requests += one.requests;
        sum.total_ns += one.total_ns;
        let classes = sum.requests_by_latency.iter_mut().zip(&one.requests_by_latency);
        classes.for_each(|(sum, count)| *sum += count);
        sum
    })
}
