//! The metrics of a member that shares contents with its domain.

use super::page::Page;
use gemelo_base::StatTable as _;
use gemelo_place::SharingStat;

/// Adds the figures of the sharing. Pools that are no members have none.
pub(super) fn sharing_stats(page: &mut Page, sharing: Option<&SharingStat>) {
    let Some(SharingStat { counts, blocks, traffic, failure }) = sharing else { return };
    let help = "1 if the last attempt to share failed.";
    page.gauge("sharing_failing", help, u64::from(failure.is_some()));
    page.table("sharing_blocks", blocks);
    page.table("sharing", counts);
    let kinds = traffic.kinds().map(|(kind, stat)| (kind, stat.table()));
    page.tables("store", "kind", &kinds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_figures_of_its_sharing_and_another_pool_has_none() {
        let mut page = Page::default();
        sharing_stats(&mut page, None);
        assert_eq!(page.text, "");
        let mut stat = SharingStat {
            counts: Default::default(),
            blocks: Default::default(),
            traffic: Default::default(),
            failure: None,
        };
        stat.traffic.ledger.sent_bytes = 9;
        stat.blocks.borrowed = 7;
        stat.counts.shared = 8;
        stat.failure = Some("the store is away".to_owned());
        sharing_stats(&mut page, Some(&stat));
        let lines: Vec<&str> = page.text.lines().collect();
        for line in [
            "gemelo_sharing_blocks_borrowed 7",
            "gemelo_sharing_shared_total 8",
            "gemelo_sharing_failing 1",
            "gemelo_store_sent_bytes_total{kind=\"ledger\"} 9",
        ] {
            assert!(lines.contains(&line), "{}", page.text);
        }
    }
}
