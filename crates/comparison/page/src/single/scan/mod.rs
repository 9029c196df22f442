//! The result of a scan: all block sizes side by side, savings, duplicates, entropy, distances.

mod pictures;
mod savings;
mod sharing;

use crate::document::{Answer, Cell, Column, Item, Section, Table, Text};
use crate::quantity::{percent, significant};
use gemelo_base::units::{format_count, format_line, format_size};
use gemelo_scan::{BlockSizeResult, ScanResult};
use savings::Saving as _;

/// Returns the section of a scan.
pub(super) fn section(scan: &ScanResult, name: Option<&str>, id: &str) -> Section {
    let title = name.map_or_else(|| "Scan".to_owned(), |name| format!("Scan {name}"));
    let mut section = Section::new(format!("{id}-scan"), title);
    let items = &mut section.items;
    items.push(Item::Answers(scan.block_sizes.iter().map(answer).collect()));
    items.push(Item::Table(savings_table(scan)));
    items.push(Item::Paragraph(
        "Compression is estimated from a uniform sample of distinct contents, each block \
         compressed alone by zstd at level 1. A store that compresses several blocks together \
         saves more."
            .into(),
    ));
    let mut drawn = vec![pictures::savings(scan, id), pictures::duplicates(scan, id)];
    drawn.extend(pictures::entropy(scan, id));
    drawn.extend(pictures::distances(scan, id));
    items.push(Item::Pictures(drawn));
    if let Some(sharing) = &scan.sharing {
        items.extend(sharing::items(sharing));
    }
    for size in &scan.block_sizes {
        if !size.max_repeated.is_empty() {
            items.push(Item::More(max_repeated(size)));
        }
    }
    section
}

/// Returns the saving of a block size. Zeros are left out, as a thin store leaves them out.
fn answer(size: &BlockSizeResult) -> Answer {
    let savings = size.savings(size.without_zeros());
    let zeros = if size.zero_blocks > 0 { " that are not zeros" } else { "" };
    let sentence = Text::new()
        .plain(format!("With blocks of {}, deduplication saves ", size.name()))
        .strong(percent(savings.deduplication))
        .plain(format!(" of {}{zeros}", format_size(size.counted_bytes)));
    let sentence = match (savings.compression, savings.both) {
        (Some(compression), Some(both)) => sentence
            .plain(format!(
                "; compression alone saves about {}, and both together about ",
                percent(compression)
            ))
            .strong(percent(both)),
        _ => sentence,
    };
    let mut details = vec![Text::from(format!("dedup ratio {}", significant(size.dedup_ratio)))];
    if size.zero_blocks > 0 {
        let all = size.savings(size.with_zeros());
        details.push(
            format!(
                "with {} of zeros: {}, dedup ratio {}",
                format_size(size.zero_bytes),
                percent(all.deduplication),
                significant(size.with_zeros.dedup_ratio)
            )
            .into(),
        );
    }
    Answer { sentence: sentence.plain("."), details }
}

fn savings_table(scan: &ScanResult) -> Table {
    let columns = vec![
        Column::text("block size"),
        Column::text("zeros"),
        Column::number("data"),
        Column::number("distinct"),
        Column::number("deduplication saves"),
        Column::number("compression saves"),
        Column::number("both save"),
        Column::number("sampled contents"),
    ];
    let mut table = Table::new("Savings by block size", columns);
    for size in &scan.block_sizes {
        let has_zeros = size.zero_blocks > 0;
        let rows = [("without", size.without_zeros()), ("with", size.with_zeros())];
        for (zeros, amounts) in rows.into_iter().take(if has_zeros { 2 } else { 1 }) {
            let zeros = if has_zeros { zeros } else { "none in the data" };
            let savings = size.savings(amounts);
            let share = |share: Option<f64>| {
                share.map_or_else(|| Cell::missing("not measured"), |share| percent(share).into())
            };
            let sampled = size.nature.as_ref().map(|nature| nature.overall.sampled_contents);
            table.push(vec![
                Cell::new(size.name()),
                Cell::new(zeros),
                Cell::new(format_size(amounts.data_bytes as u64)),
                Cell::new(format_size(amounts.distinct_bytes as u64)),
                share(Some(savings.deduplication)),
                share(savings.compression),
                share(savings.both),
                sampled.map_or_else(|| Cell::missing("none"), |count| format_count(count).into()),
            ]);
        }
    }
    table
}

fn max_repeated(size: &BlockSizeResult) -> Table {
    let columns = vec![
        Column::text("fingerprint"),
        Column::number("copies"),
        Column::number("length"),
        Column::text("one of the places"),
    ];
    let caption = format!("The most repeated contents, blocks of {}", size.name());
    let mut table = Table::new(caption, columns);
    for repeated in &size.max_repeated {
        let place = match &repeated.place {
            Some(place) => {
                Cell::new(format!("{} at {}", format_line(&place.path), place.offset_bytes))
            }
            None => Cell::missing("unknown"),
        };
        table.push(vec![
            Cell::new(repeated.fingerprint.to_string()),
            Cell::new(format_count(repeated.copies)),
            Cell::new(format_size(repeated.length_bytes.into())),
            place,
        ]);
    }
    table
}
