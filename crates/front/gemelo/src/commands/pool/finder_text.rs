//! The figures of the finder as text.

use crate::table::Table;
use gemelo_base::units::{
    format_count, format_counted, format_duration_ns, format_percent, format_rate,
};
use gemelo_serve::StatReport;
use gemelo_volume::{FinderState, FinderStats, RememberedStats};

/// Volumes whose shares in the work are shown, so that the line fits a terminal.
const MAX_SHARES: usize = 4;

/// Returns the figures of the finder of a served pool; nothing for a pool that has never had work
/// for it.
pub(super) fn text(report: &StatReport) -> String {
    let finder = &report.pool.finder;
    let has_worked = report.pool.activity.examined_blocks > 0 || finder.held_back.total_ns() > 0;
    if !has_worked && finder.backlog_blocks == 0 && finder.state == FinderState::Idle {
        return String::new();
    }
    let mut table = Table::new();
    table.row(["state", state(finder.state)]);
    table.row(["waiting".to_owned(), waiting(finder)]);
    work(&mut table, report);
    if let Some(shares) = shares(report) {
        table.row(["shares of the volumes".to_owned(), shares]);
    }
    if finder.longest_delay_ns > 0 {
        hot_blocks(&mut table, finder);
    }
    if finder.remembered.taken > 0 {
        remembered(&mut table, &finder.remembered);
    }
    let held = finder.held_back.named().into_iter().filter(|(_, held_ns)| *held_ns > 0);
    let reasons: Vec<String> =
        held.map(|(reason, held_ns)| format!("{reason} {}", format_duration_ns(held_ns))).collect();
    if !reasons.is_empty() {
        table.row(["held back".to_owned(), reasons.join(", ")]);
    }
    format!("\nFinder\n{}", table.render(2))
}

/// Describes the blocks that were looked at, and the time that it took.
fn work(table: &mut Table, report: &StatReport) {
    let (activity, finder) = (&report.pool.activity, &report.pool.finder);
    table.row([
        "looked at".to_owned(),
        format!(
            "{}, {} shared, {} overwritten meanwhile",
            format_counted(activity.examined_blocks, "block"),
            format_count(activity.found_blocks),
            format_count(activity.aborted_blocks)
        ),
    ]);
    let block_bytes = f64::from(report.pool.block_bytes);
    let per_s = |blocks: u64, time_ns: u64| match time_ns {
        0 => "-".to_owned(),
        time_ns => format_rate(blocks as f64 * block_bytes * 1e9 / time_ns as f64),
    };
    table.row([
        "while it worked".to_owned(),
        format!(
            "{} looked at, {} shared",
            per_s(activity.examined_blocks, finder.working_ns),
            per_s(activity.found_blocks, finder.working_ns)
        ),
    ]);
    if let Some(mean) = activity.index_lookups.checked_div(activity.index_batches) {
        table.row([
            "index look-ups".to_owned(),
            format!("{}, {} in a list", format_count(activity.index_lookups), format_count(mean)),
        ]);
    }
    table.row([
        "processor time".to_owned(),
        format!(
            "{}, {} looked at for a core",
            format_duration_ns(finder.cpu_ns),
            per_s(activity.examined_blocks, finder.cpu_ns)
        ),
    ]);
}

/// Describes the shares of the volumes in the blocks that were looked at; [`None`] if it was one
/// volume alone.
fn shares(report: &StatReport) -> Option<String> {
    let mut volumes: Vec<(u64, &str)> = report
        .volumes
        .iter()
        .map(|volume| (volume.summary.stat.examined_blocks, volume.summary.record.name.as_str()))
        .filter(|(examined, _)| *examined > 0)
        .collect();
    let total: u64 = volumes.iter().map(|(examined, _)| examined).sum();
    volumes.sort_unstable_by(|a, b| b.cmp(a));
    let share = |(examined, name): &(u64, &str)| {
        format!("{name} {}", format_percent(*examined as f64 / total as f64))
    };
    let mut texts: Vec<String> = volumes.iter().take(MAX_SHARES).map(share).collect();
    if volumes.len() > MAX_SHARES {
        texts.push(format!("{} others", volumes.len() - MAX_SHARES));
    }
    (volumes.len() > 1).then(|| texts.join(", "))
}

/// Describes what the delay has avoided, and what it has not.
fn hot_blocks(table: &mut Table, finder: &FinderStats) {
    table.row([
        "left alone".to_owned(),
        format!(
            "{} that were written again, with a delay of {}",
            format_counted(finder.rewritten_blocks, "block"),
            format_duration_ns(finder.longest_delay_ns)
        ),
    ]);
    if finder.sampled_blocks > 0 {
        let share = finder.wasted_blocks as f64 / finder.sampled_blocks as f64;
        let text = format!("{} of the blocks looked at", format_percent(share));
        table.row(["overwritten soon after".to_owned(), text]);
    }
}

/// Describes the fingerprints that were taken at writes.
fn remembered(table: &mut Table, remembered: &RememberedStats) {
    table.row([
        "fingerprints taken at writes".to_owned(),
        format!(
            "{} in {}, {} without processor time",
            format_count(remembered.taken),
            format_duration_ns(remembered.cpu_ns),
            format_count(remembered.skipped)
        ),
    ]);
    table.row([
        "blocks not read".to_owned(),
        format!(
            "{}, {} read, {} fingerprints dropped",
            format_count(remembered.hits),
            format_count(remembered.misses),
            format_count(remembered.dropped)
        ),
    ]);
}

const fn state(state: FinderState) -> &'static str {
    match state {
        FinderState::Idle => "idle",
        FinderState::Working => "working",
        FinderState::Paused => "paused: 'gemelo pool dedup --resume' resumes it",
        FinderState::Window => "waits for its window of the day",
        FinderState::Interval => "waits for its next round",
        FinderState::Rate => "waits because of its rate",
        FinderState::Load => "waits because clients are busy",
    }
}

fn waiting(finder: &FinderStats) -> String {
    let blocks = format_counted(finder.backlog_blocks, "block");
    let age = match finder.oldest_ns {
        0 => String::new(),
        oldest_ns => format!(", the oldest for {}", format_duration_ns(oldest_ns)),
    };
    let volumes = match finder.swept_volumes {
        0 => String::new(),
        volumes => format!(", all of {}", format_counted(volumes, "volume")),
    };
    format!("{blocks}{age}{volumes}")
}
