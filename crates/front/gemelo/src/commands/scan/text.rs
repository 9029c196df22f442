//! The result of a scan as text.

mod sharing;

use crate::table::Table;
use gemelo_base::units::{
    format_count, format_counted, format_counted_as, format_duration_ns, format_line,
    format_percent, format_rate, format_size,
};
use gemelo_scan::{
    BlockSizeResult, ConfidenceInterval, EstimateResult, FileCounts, LocalityResult, NatureResult,
    NatureStats, Repeated, ScanResult,
};

/// Singular and plural of the thing that a path names.
const FILE_OR_DIRECTORY: (&str, &str) = ("file or directory", "files or directories");

/// The widest bar of a histogram, in characters.
const BAR_WIDTH: f64 = 40.0;

/// Number of sampled contents below which means are unreliable.
const FEW_CONTENTS: u64 = 100;

/// Returns warnings that follow from the result.
pub(super) fn warnings(result: &ScanResult) -> Vec<String> {
    let mut warnings = Vec::new();
    if result.partial {
        warnings.push(
            "the scan did not complete: all figures cover only the data that was read".to_owned(),
        );
    }
    if result.files.unreadable > 0 {
        let count =
            format_counted_as(result.files.unreadable, FILE_OR_DIRECTORY.0, FILE_OR_DIRECTORY.1);
        warnings.push(format!("{count} could not be read: the figures do not include them"));
    }
    if result.files.changed > 0 {
        let count = format_counted(result.files.changed, "file");
        warnings.push(format!(
            "{count} changed during the scan: the figures mix old and new contents of them"
        ));
    }
    if result.block_sizes.iter().flat_map(|size| &size.pools).any(|pool| pool.used_blocks.is_none())
    {
        warnings.push(
            "the space in a pool is unknown: the scan ended before it compressed any content"
                .to_owned(),
        );
    }
    for size in &result.block_sizes {
        if let Some(nature) = &size.nature
            && nature.overall.sampled_contents < FEW_CONTENTS
            && size.distinct > FEW_CONTENTS
        {
            let block = format_size(u64::from(size.block_bytes));
            let count = format_counted(nature.overall.sampled_contents, "content");
            warnings
                .push(format!("compressibility and entropy at {block} are means of only {count}"));
        }
    }
    warnings
}

/// Returns the whole result.
pub(super) fn of_result(result: &ScanResult) -> String {
    let mut text = files(result);
    for size in &result.block_sizes {
        text.push('\n');
        text += &block_size(size);
    }
    if let Some(sharing) = &result.sharing {
        text += &sharing::of_result(sharing);
    }
    text
}

/// Returns a table with a line for each block size.
pub(super) fn brief(result: &ScanResult) -> String {
    let mut table = Table::new();
    table.row(["", "", "", "", "", "without zeros", "", "", "with zeros"]);
    let saved = ["dedup ratio", "saved", ""];
    let titles = ["block", "blocks", "zero", "unique", "duplicates"];
    table.row(titles.into_iter().chain(saved).chain(saved));
    for size in &result.block_sizes {
        let of_blocks =
            |count: u64| format_percent(count as f64 / size.counted_blocks.max(1) as f64);
        table.row([
            format_size(u64::from(size.block_bytes)),
            format_count(size.blocks),
            format_count(size.zero_blocks),
            of_blocks(size.unique),
            of_blocks(size.duplicates),
            format!("{:.4}", size.dedup_ratio),
            format_size(size.saved_bytes),
            format_percent(size.saved_share),
            format!("{:.4}", size.with_zeros.dedup_ratio),
            format_size(size.with_zeros.saved_bytes),
            format_percent(size.with_zeros.saved_share),
        ]);
    }
    table.render(0)
}

fn files(result: &ScanResult) -> String {
    let FileCounts { files, directories, data_bytes, hole_bytes, .. } = result.files;
    let elapsed_ns = result.effort.elapsed_ns;
    let mut text = format!(
        "{} in {}, {}",
        format_counted(files, "file"),
        format_counted_as(directories, "directory", "directories"),
        format_size(data_bytes)
    );
    if hole_bytes > 0 {
        text += &format!(" ({} of them holes)", format_size(hole_bytes));
    }
    let rate = data_bytes as f64 / (elapsed_ns.max(1) as f64 / 1e9);
    text += &format!(", in {}, {}\n", format_duration_ns(elapsed_ns), format_rate(rate));
    let counts = result.files;
    for (count, (one, several), what) in [
        (counts.hard_links_skipped, ("further hard link", "further hard links"), ", counted once"),
        (counts.symbolic_links_skipped, ("symbolic link", "symbolic links"), ", not followed"),
        (counts.special_skipped, ("special file", "special files"), ", skipped"),
        (counts.excluded, FILE_OR_DIRECTORY, ", excluded"),
        (counts.other_file_systems_skipped, FILE_OR_DIRECTORY, " on other file systems, skipped"),
        (
            counts.repeated_directories_skipped,
            ("directory", "directories"),
            " mounted at several places, counted once",
        ),
        (counts.changed, ("file", "files"), " changed during the scan"),
        (counts.unreadable, FILE_OR_DIRECTORY, " could not be read"),
    ] {
        if count > 0 {
            text += &format!("{}{what}\n", format_counted_as(count, one, several));
        }
    }
    if result.effort.spilled_bytes > 0 {
        text +=
            &format!("{} went through temporary files\n", format_size(result.effort.spilled_bytes));
    }
    text
}

fn block_size(size: &BlockSizeResult) -> String {
    let mut text = format!("Blocks of {}\n", format_size(u64::from(size.block_bytes)));
    text += &summary(size);
    text += &tails(size);
    if let Some(estimate) = &size.estimate {
        text += &sample_of(estimate);
    }
    if !size.ranges.is_empty() {
        text += &ranges(size);
    }
    if !size.max_repeated.is_empty() {
        text += &max_repeated(size);
    }
    if let Some(nature) = &size.nature {
        text += &of_nature(nature);
    }
    text += &of_pools(size);
    if let Some(locality) = &size.locality {
        text += &of_locality(locality);
    }
    text
}

fn between(interval: ConfidenceInterval, format: impl Fn(f64) -> String) -> String {
    format!("{} - {}", format(interval.low), format(interval.high))
}

fn rounded(value: f64) -> String {
    format_count(value.round() as u64)
}

fn summary(size: &BlockSizeResult) -> String {
    let mut table = Table::new();
    let estimate = size.estimate.as_ref().filter(|estimate| estimate.sampled_share < 1.0);
    let mut row = |name: &str, value: String, more: String, interval: Option<String>| {
        table.row([name.to_owned(), value, more, interval.unwrap_or_default()]);
    };
    if estimate.is_some() {
        row("", String::new(), String::new(), Some("95 % interval".to_owned()));
    }
    let of_blocks = |count: u64| format_percent(count as f64 / size.counted_blocks.max(1) as f64);
    let count =
        |interval: Option<ConfidenceInterval>| interval.map(|interval| between(interval, rounded));
    row("blocks", format_count(size.blocks), format_size(size.data_bytes), None);
    row("zero blocks", format_count(size.zero_blocks), format_size(size.zero_bytes), None);
    row("other blocks", format_count(size.counted_blocks), format_size(size.counted_bytes), None);
    row(
        "distinct",
        format_count(size.distinct),
        of_blocks(size.distinct),
        count(estimate.map(|estimate| estimate.distinct)),
    );
    row(
        "unique",
        format_count(size.unique),
        of_blocks(size.unique),
        count(estimate.map(|e| e.unique)),
    );
    row(
        "distinct with duplicates",
        format_count(size.distinct_with_duplicates),
        of_blocks(size.distinct_with_duplicates),
        count(estimate.map(|estimate| estimate.distinct_with_duplicates)),
    );
    row(
        "duplicates",
        format_count(size.duplicates),
        of_blocks(size.duplicates),
        count(estimate.map(|estimate| estimate.duplicates)),
    );
    savings(size, estimate, &mut row);
    table.render(2)
}

/// Adds the dedup ratio and the saved space, without zeros and with them, to a summary.
fn savings(
    size: &BlockSizeResult,
    estimate: Option<&EstimateResult>,
    row: &mut impl FnMut(&str, String, String, Option<String>),
) {
    let ratio = |ratio: f64| format!("{ratio:.4}");
    let of = |name: &str, zeros: &str| format!("{name} {zeros}");
    let all = &size.with_zeros;
    let thin = (size.dedup_ratio, size.saved_bytes, size.saved_share);
    let thin_intervals = estimate.map(|one| (one.dedup_ratio, one.saved_share));
    let whole = (all.dedup_ratio, all.saved_bytes, all.saved_share);
    let whole_intervals =
        estimate.map(|one| (one.dedup_ratio_with_zeros, one.saved_share_with_zeros));
    for (zeros, figures, intervals) in
        [("without zeros", thin, thin_intervals), ("with zeros", whole, whole_intervals)]
    {
        let (dedup_ratio, saved_bytes, saved_share) = figures;
        row(
            &of("dedup ratio", zeros),
            ratio(dedup_ratio),
            String::new(),
            intervals.map(|(interval, _)| between(interval, ratio)),
        );
        row(
            &of("space saved", zeros),
            format_size(saved_bytes),
            format_percent(saved_share),
            intervals.map(|(_, interval)| between(interval, format_percent)),
        );
    }
}

fn tails(size: &BlockSizeResult) -> String {
    if size.short_blocks > 0 {
        format!("  {} among the blocks\n", format_counted(size.short_blocks, "short last block"))
    } else if size.skipped_tails > 0 {
        let bytes = format_size(size.skipped_tail_bytes);
        format!("  {} ({bytes}) left out\n", format_counted(size.skipped_tails, "short last block"))
    } else if size.padding_bytes > 0 {
        format!("  {} of zeros fill up short last blocks\n", format_size(size.padding_bytes))
    } else {
        String::new()
    }
}

fn sample_of(estimate: &EstimateResult) -> String {
    if estimate.sampled_share >= 1.0 {
        return "  all contents fitted the memory: the figures are exact\n".to_owned();
    }
    let contents = format_counted(estimate.sampled_contents, "distinct content");
    let share = format_percent(estimate.sampled_share);
    format!("  estimated from {contents}, {share} of all\n")
}

fn ranges(size: &BlockSizeResult) -> String {
    let mut table = Table::new();
    let estimate = size.estimate.as_ref().filter(|estimate| estimate.sampled_share < 1.0);
    let titles = ["duplicates", "contents", "blocks", "of blocks"];
    let more = estimate.map(|_| "95 % interval of blocks");
    table.row(titles.into_iter().chain(more));
    for (index, row) in size.ranges.iter().enumerate() {
        let cells = [
            row.duplicates.clone(),
            format_count(row.contents),
            format_count(row.blocks),
            format_percent(row.share),
        ];
        let interval = estimate.and_then(|estimate| estimate.ranges.get(index));
        table.row(cells.into_iter().chain(interval.map(|row| between(row.blocks, rounded))));
    }
    format!("\n  Duplicates of each distinct content\n{}", table.render(2))
}

fn max_repeated(size: &BlockSizeResult) -> String {
    let of = if size.estimate.as_ref().is_some_and(|estimate| estimate.sampled_share < 1.0) {
        "of the sample"
    } else {
        "contents"
    };
    let mut text = format!("\n  The most repeated {of}\n");
    let width = size.max_repeated.first().map_or(0, |first| format_count(first.copies).len());
    for Repeated { fingerprint, copies, length_bytes, place } in &size.max_repeated {
        let mut notes = String::new();
        if *length_bytes != size.block_bytes {
            notes += &format!(" {}", format_counted(u64::from(*length_bytes), "byte"));
        }
        let place = place.as_ref().map_or_else(
            || " place not kept".to_owned(),
            |place| format!(" {} at {}", format_line(&place.path), place.offset_bytes),
        );
        text +=
            &format!("  {:>width$} copies  {fingerprint} {notes}{place}\n", format_count(*copies));
    }
    text
}

/// Shows the space that the data would take in pools.
fn of_pools(size: &BlockSizeResult) -> String {
    let Some(first) = size.pools.first() else { return String::new() };
    let mut table = Table::new();
    table.row(["compression", "contents", "stored in", "", "of contents"]);
    let unknown = || "unknown".to_owned();
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(size.block_bytes));
    for pool in &size.pools {
        table.row([
            pool.compression.to_string(),
            format_count(pool.physical_blocks),
            pool.used_blocks.map_or_else(unknown, format_count),
            pool.used_blocks.map_or_else(String::new, |used| format_size(bytes(used))),
            pool.stored_share.map_or_else(String::new, format_percent),
        ]);
    }
    format!(
        "\n  Blocks in a pool, predicted from {}\n{}",
        format_counted(first.sampled_contents, "distinct content"),
        table.render(2)
    )
}

fn of_nature(nature: &NatureResult) -> String {
    let mut table = Table::new();
    table.row(["duplicates", "sampled", "LZ4 saves", "zstd-1 saves", "entropy"]);
    let mut row = |name: &str, figures: &NatureStats| {
        table.row([
            name.to_owned(),
            format_count(figures.sampled_contents),
            format_percent(figures.lz4_saved_share),
            format_percent(figures.zstd_saved_share),
            format!("{:.3}", figures.entropy_bits),
        ]);
    };
    row("all", &nature.overall);
    for class in &nature.classes {
        row(&class.duplicates, &class.figures);
    }
    let mut text = format!(
        "\n  Compressibility and byte entropy, of {}\n{}",
        format_counted(nature.overall.sampled_contents, "distinct content"),
        table.render(2)
    );
    text += "\n  Contents by entropy, bits a byte\n";
    let steps = nature.entropy_histogram.iter().enumerate().map(|(index, count)| {
        let from = index as f64 / 2.0;
        (format!("{from:.1}-{:.1}", from + 0.5), *count)
    });
    text + &histogram(steps)
}

/// Returns a line for each step, from the first to the last that is not empty.
fn histogram(steps: impl Iterator<Item = (String, u64)>) -> String {
    let steps: Vec<(String, u64)> = steps.collect();
    let all = steps.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
    let most = steps.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1) as f64;
    let first = steps.iter().position(|(_, count)| *count > 0).unwrap_or(0);
    let last = steps.iter().rposition(|(_, count)| *count > 0).map_or(0, |last| last + 1);
    let width = steps.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (label, count) in steps.get(first..last).unwrap_or_default() {
        let bar = "#".repeat((*count as f64 / most * BAR_WIDTH).round() as usize);
        let share = format_percent(*count as f64 / all);
        text += format!("  {label:>width$}  {share:>8}  {bar}").trim_end();
        text.push('\n');
    }
    text
}

fn of_locality(locality: &LocalityResult) -> String {
    let mut text = format!(
        "\n  Distance from copy to copy, of {}: mean {}, median {}\n",
        format_counted(locality.sampled_contents, "content"),
        format_size(locality.mean_bytes as u64),
        format_size(locality.median_bytes)
    );
    let steps = locality.histogram.iter().map(|[from, count]| (format_size(*from), *count));
    text += &histogram(steps);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_shows_what_lies_between_its_ends() {
        let steps = [("a", 0), ("b", 1), ("c", 0), ("d", 3), ("e", 0)];
        let text = histogram(steps.into_iter().map(|(label, count)| (label.to_owned(), count)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[2].starts_with("  d   75.00 %  ####"), "{text}");
    }
}
