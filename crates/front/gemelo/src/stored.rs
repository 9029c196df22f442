//! The blocks that a pool stored during a run, as text, beside the prediction from the contents.

use crate::table::Table;
use gemelo_base::units::format_count;
use gemelo_load::Stored;
use gemelo_target::DedupPolicy;
use std::fmt::Write as _;

/// Returns the figures of the pool and the prediction from the contents as text.
pub(crate) fn stored_text(stored: &Stored) -> String {
    let Stored { before, after, predicted } = stored;
    let mut table = Table::new();
    table.row(["stored", "logical blocks", "physical blocks", "dedup ratio"]);
    let mut row = |name: &str, logical: u64, physical: u64, ratio: f64| {
        table.row([
            name.to_owned(),
            format_count(logical),
            format_count(physical),
            format!("{ratio:.4}"),
        ]);
    };
    if before.logical_blocks > 0 {
        row("  pool before", before.logical_blocks, before.physical_blocks, before.dedup_ratio());
    }
    row("  pool", after.logical_blocks, after.physical_blocks, after.dedup_ratio());
    if let Some(predicted) = predicted {
        row(
            "  by the contents",
            predicted.logical_blocks,
            predicted.distinct_blocks,
            predicted.dedup_ratio(),
        );
    }
    let mut text = table.render(2);
    if after.data_blocks != after.physical_blocks {
        let blocks = format_count(after.data_blocks);
        let _ = writeln!(text, "  (the pool has compressed its blocks to {blocks})");
    }
    let counts = [
        after.unique_blocks - before.unique_blocks,
        after.duplicate_blocks - before.duplicate_blocks,
        after.unchanged_blocks - before.unchanged_blocks,
        after.zero_blocks - before.zero_blocks,
    ];
    let [unique, duplicate, unchanged, zero] = counts.map(format_count);
    let _ = writeln!(
        text,
        "  (of the blocks written, {unique} were stored, {duplicate} shared, {unchanged} unchanged, \
         {zero} zeros)"
    );
    text += match after.mode {
        DedupPolicy::Off => "  (the volume does not look for duplicates)\n",
        DedupPolicy::Inline => "",
        DedupPolicy::Offline => "  (the finder looked for duplicates after the run)\n",
    };
    text
}
