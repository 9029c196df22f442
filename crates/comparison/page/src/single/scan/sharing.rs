//! The directories and files of a scan that share contents.

use crate::document::{Column, Item, Table};
use crate::quantity::percent;
use gemelo_base::units::{format_count, format_counted, format_line, format_size};
use gemelo_scan::{FileGroup, SharingResult};

/// The most directories that are shown. The result file has all.
const MAX_DIRECTORIES: usize = 100;

/// The most files of a group that are named.
const MAX_FILES: usize = 4;

/// Returns both tables, and how they are to be read.
pub(super) fn items(sharing: &SharingResult) -> Vec<Item> {
    let mut text = "Each copy of a content bears an equal part of the one that is stored, so \
                        the savings of all directories add up to those of the scan. The contents \
                        that only one directory has are freed with it."
        .to_owned();
    if sharing.sampled_share < 1.0 {
        text += &format!(
            " The figures are estimated from {} of the distinct contents.",
            percent(sharing.sampled_share)
        );
    }
    let mut items = vec![Item::Table(by_directory(sharing)), Item::Paragraph(text.into())];
    if !sharing.file_groups.is_empty() {
        items.push(Item::More(by_files(sharing)));
    }
    items
}

fn by_directory(sharing: &SharingResult) -> Table {
    let columns = vec![
        Column::text("directory"),
        Column::number("data"),
        Column::number("saved"),
        Column::number("of its data"),
        Column::number("saved alone"),
        Column::number("only here"),
    ];
    let block = format_size(sharing.block_bytes.into());
    let caption = match sharing.directories.len().saturating_sub(MAX_DIRECTORIES) {
        0 => format!("Savings by directory, blocks of {block}"),
        _ => format!(
            "Savings by directory, blocks of {block}: the first {MAX_DIRECTORIES} of {}",
            format_count(sharing.directories.len() as u64)
        ),
    };
    let mut table = Table::new(caption, columns);
    for one in sharing.directories.iter().take(MAX_DIRECTORIES) {
        table.push(vec![
            format_line(&one.path).into(),
            format_size(one.data_bytes).into(),
            format_size(one.saved_bytes).into(),
            percent(one.saved_bytes as f64 / one.data_bytes.max(1) as f64).into(),
            format_size(one.saved_alone_bytes).into(),
            format_size(one.only_here_bytes).into(),
        ]);
    }
    table
}

fn by_files(sharing: &SharingResult) -> Table {
    let columns = vec![
        Column::text("files"),
        Column::number("number"),
        Column::number("common contents"),
        Column::number("saved"),
    ];
    let caption =
        format!("Files that share most, blocks of {}", format_size(sharing.block_bytes.into()));
    let mut table = Table::new(caption, columns);
    for group in &sharing.file_groups {
        table.push(vec![
            named(group).into(),
            format_count(group.files).into(),
            format_size(group.distinct_bytes).into(),
            format_size(group.saved_bytes).into(),
        ]);
    }
    table
}

fn named(group: &FileGroup) -> String {
    let shown: Vec<String> =
        group.paths.iter().take(MAX_FILES).map(|path| format_line(path)).collect();
    let rest = group.files.saturating_sub(shown.len() as u64);
    let names = shown.join(", ");
    if rest == 0 { names } else { format!("{names} and {}", format_counted(rest, "more file")) }
}
