//! The metrics of a member that shares contents with its domain.

use super::page::Page;
use gemelo_place::SharingStat;

/// Stats of the sharing. Pools that are no members have none.
pub(super) fn sharing_figures(page: &mut Page, sharing: Option<&SharingStat>) {
    let Some(SharingStat { counts, blocks, failure }) = sharing else { return };
    for (name, help, value) in [
        ("kept_blocks", "Blocks that the domain knows.", blocks.kept),
        ("borrowed_blocks", "Blocks whose contents other members store.", blocks.borrowed),
        ("lent_blocks", "Blocks that only other members use.", blocks.lent),
        ("waiting_blocks", "Blocks that wait for being published.", blocks.waiting),
        ("due_blocks", "Blocks whose references wait for being released.", blocks.due),
        ("memory_bytes", "Memory of the tables of these blocks.", blocks.memory_bytes),
        ("failing", "1 if the last attempt to share failed.", u64::from(failure.is_some())),
    ] {
        page.gauge(&format!("sharing_{name}"), help, value);
    }
    for (name, help, value) in [
        ("published", "Contents that this member has published first.", counts.published),
        ("shared", "Contents that the index had already.", counts.shared),
        (
            "refused",
            "Contents of the index that were not used, because their bytes differ or cannot be \
             read.",
            counts.refused,
        ),
        (
            "checked",
            "Contents of homes that were read before an own block was given up for them.",
            counts.checked,
        ),
        (
            "healed",
            "Own blocks that were damaged and were written again from another member's copy.",
            counts.healed,
        ),
        (
            "set_aside",
            "Contents that are not shared at present, because they or their entries are damaged.",
            counts.set_aside,
        ),
        ("released", "References that were given up.", counts.released),
        ("withdrawn", "Own contents that were taken out of the index.", counts.withdrawn),
        ("lost", "References that the index did not have, which is damage.", counts.lost),
        (
            "void_changes",
            "Changes of the index that met those of other members, and were planned again.",
            counts.void,
        ),
    ] {
        page.counter(&format!("sharing_{name}_total"), help, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_figures_of_its_sharing_and_another_pool_has_none() {
        let mut page = Page::default();
        sharing_figures(&mut page, None);
        assert_eq!(page.text, "");
        let mut stat =
            SharingStat { counts: Default::default(), blocks: Default::default(), failure: None };
        stat.blocks.borrowed = 7;
        stat.counts.shared = 8;
        stat.failure = Some("the store is away".to_owned());
        sharing_figures(&mut page, Some(&stat));
        let lines: Vec<&str> = page.text.lines().collect();
        for line in [
            "gemelo_sharing_borrowed_blocks 7",
            "gemelo_sharing_shared_total 8",
            "gemelo_sharing_failing 1",
        ] {
            assert!(lines.contains(&line), "{}", page.text);
        }
    }
}
