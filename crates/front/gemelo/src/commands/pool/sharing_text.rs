//! The figures of what a member shares with its domain, as text.

use crate::table::Table;
use gemelo_base::units::{format_count, format_size};
use gemelo_place::{SharingStat, TrafficStat};
use gemelo_volume::PoolStat;

/// Returns the figures under a title. The physical blocks of the pool include those that other
/// members store.
pub(super) fn text(sharing: &SharingStat, pool: &PoolStat) -> String {
    let block_bytes = u64::from(pool.block_bytes);
    let SharingStat { counts, blocks, traffic, failure } = sharing;
    let mut table = Table::new();
    let mut row = |name: &str, count: u64, size: Option<u64>| {
        let size = size.map(format_size).unwrap_or_default();
        table.row([name.to_owned(), format_count(count), size]);
    };
    let bytes = |blocks: u64| Some(blocks * block_bytes);
    let own = pool.physical_blocks.saturating_sub(blocks.borrowed);
    row("stored by this member", own, bytes(own));
    row("known to the domain", blocks.kept, bytes(blocks.kept));
    row("stored by other members", blocks.borrowed, bytes(blocks.borrowed));
    row("kept for other members", blocks.lent, bytes(blocks.lent));
    row("to be published", blocks.waiting, None);
    row("to be released", blocks.due, None);
    row("published since the start", counts.published, None);
    row("shared since the start", counts.shared, None);
    row("released since the start", counts.released, None);
    let mut text = format!("\nShared with the domain, in blocks\n{}", table.render(2));
    if counts.lost > 0 {
        text += &format!(
            "  {} references were not in the index: run 'gemelo domain check'\n",
            format_count(counts.lost)
        );
    }
    if counts.healed > 0 {
        let blocks = format_count(counts.healed);
        text += &format!("  {blocks} damaged blocks were healed from copies of other members\n");
    }
    if counts.refused + counts.set_aside > 0 {
        text += &format!(
            "  {} contents are not shared, because their copies at other members are damaged\n",
            format_count(counts.refused + counts.set_aside)
        );
    }
    let mut table = Table::new();
    table.row(["", "operations", "sent", "received"].map(str::to_owned));
    for (kind, stat) in traffic.kinds() {
        let TrafficStat { operations, sent_bytes, received_bytes } = *stat;
        let [sent, received] = [sent_bytes, received_bytes].map(format_size);
        table.row([kind.to_owned(), format_count(operations), sent, received]);
    }
    text += &format!("\nTraffic with the shared store\n{}", table.render(2));
    if let Some(failure) = failure {
        text += &format!("  the last attempt failed: {failure}\n");
    }
    text
}
