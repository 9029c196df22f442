//! The directories and files that share contents, as text.

use crate::table::Table;
use gemelo_base::units::{format_counted, format_line, format_percent, format_size};
use gemelo_scan::{DirectoryResult, FileGroup, SharingResult};

/// The most directories and groups that are printed. Result files have all.
const MAX_LINES: usize = 20;

/// The most files of a group that are printed.
const MAX_FILES: usize = 4;

/// Returns both tables.
pub(super) fn of_result(sharing: &SharingResult) -> String {
    let block = format_size(u64::from(sharing.block_bytes));
    let mut text = format!("\nSavings by directory, blocks of {block}\n");
    if sharing.sampled_share < 1.0 {
        let share = format_percent(sharing.sampled_share);
        text += &format!("  estimated from {share} of the distinct contents\n");
    }
    text += &directories(&sharing.directories);
    if !sharing.file_groups.is_empty() {
        text += &format!("\nFiles that share most, blocks of {block}\n");
        text += &groups(&sharing.file_groups);
    }
    text
}

fn directories(all: &[DirectoryResult]) -> String {
    let mut table = Table::new();
    table.row(["directory", "data", "saved", "of data", "saved alone", "only here"]);
    for one in all.iter().take(MAX_LINES) {
        table.row([
            one.path.clone(),
            format_size(one.data_bytes),
            format_size(one.saved_bytes),
            format_percent(one.saved_bytes as f64 / one.data_bytes.max(1) as f64),
            format_size(one.saved_alone_bytes),
            format_size(one.only_here_bytes),
        ]);
    }
    table.render(2) + &more(all.len(), "directory", "directories")
}

fn groups(all: &[FileGroup]) -> String {
    let mut text = String::new();
    for group in all.iter().take(MAX_LINES) {
        text += &format!(
            "  {} saved, {} in {}\n",
            format_size(group.saved_bytes),
            format_size(group.distinct_bytes),
            format_counted(group.files, "file")
        );
        let named = group.paths.iter().take(MAX_FILES);
        named.for_each(|path| text += &format!("    {}\n", format_line(path)));
        let shown = group.paths.len().min(MAX_FILES) as u64;
        if group.files > shown {
            text += &format!("    and {}\n", format_counted(group.files - shown, "more file"));
        }
    }
    text + &more(all.len(), "group", "groups")
}

fn more(all: usize, one: &str, several: &str) -> String {
    match all.saturating_sub(MAX_LINES) {
        0 => String::new(),
        1 => format!("  and 1 more {one}\n"),
        count => format!("  and {count} more {several}\n"),
    }
}
